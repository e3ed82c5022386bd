"""Who runs the turns: a small pool of threads, that runs jobs as well."""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .clock import Clock, SystemClock
from .dispatch import Background, Job, Mailbox, Timer
from .lifecycle import crash_of
from .threads import BackgroundThread, TimerThread
from .turn import current

if TYPE_CHECKING:
    from .cell import Cell
    from .promise import Promise

__all__ = ["PoolDispatcher"]

TURN_MESSAGES = 64
SLOW_TURN = 0.1  # seconds
LOST_TURN = 1.0  # seconds that a killed actor's turn may still take its thread
WATCH_PERIOD = 0.02  # seconds
TURNS_BEFORE_JOB = 32  # that a job may wait for, on each thread
IDLE_THREAD = 10.0  # seconds that a thread beyond those wanted waits for work


class _Worker:
    """One thread of the pool; `gate` is held while it runs and released to wake it."""

    def __init__(self, pool: PoolDispatcher, number: int) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.cell: Cell | None = None
        self.since = 0.0  # monotonic seconds at the start of the turn
        self.reported = False
        self.lost = False
        self.lent = False  # to a job
        self.name = f"perdure-turns-{number}"
        self.thread = threading.Thread(
            target=pool.work, args=(self,), name=self.name, daemon=True
        )


class PoolDispatcher:
    """Actors multiplexed over `threads` daemonic threads, and jobs on more of them.

    A cell with work stands in one queue; a turn takes up to 64 messages. A turn that
    takes over 0.1 s is logged with its stack (`turn.slow`). A thread that a killed
    actor keeps busy is replaced.

    A thread without a turn to take runs a job itself, so that a short one costs no
    hand-over. It is lent to the job until that ends: `threads` others are always there
    for turns and for jobs that come meanwhile.
    """

    def __init__(self, threads: int = 2) -> None:
        if threads < 1:
            msg = f"PoolDispatcher(threads={threads}): it takes at least one"
            raise ValueError(msg)
        self.clock: Clock = SystemClock()
        self.log: Callable[..., None] = _no_log
        self._threads = threads
        self._queue: deque[Cell] = deque()
        self._jobs: deque[tuple[str, Job]] = deque()
        self._lent = 0
        self._parked: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._started = 0
        self._open = True
        self._forked = False
        self._busy = threading.Event()
        self._lock = threading.Lock()
        self._backgrounds: list[BackgroundThread] = []
        self._timers = TimerThread(self._log)
        for _ in range(threads):
            self._add_worker()
        self._watchdog = threading.Thread(
            target=self._watch, name="perdure-watchdog", daemon=True
        )
        self._busy.set()
        self._watchdog.start()
        _pools.add(self)

    def mailbox(self) -> Mailbox:
        """A deque: its append and popleft are atomic."""
        self._check_pid()
        return deque()

    def schedule(self, cell: Cell) -> None:
        """Queue the cell, and wake a thread unless one comes by for it."""
        self._queue.append(cell)
        if current.pool is not self and not self._awake():
            self._wake_one()

    def _awake(self) -> int:
        """How many threads will look for work before they rest.

        One is enough: a second would have to wait for the interpreter. The watchdog
        wakes it where the first is held up.
        """
        return len(self._workers) - len(self._parked) - self._lent

    def _wake_one(self) -> None:
        try:
            worker = self._parked.pop()
        except IndexError:
            return
        worker.gate.release()

    def work(self, worker: _Worker) -> None:
        """Take turns, and jobs between them, until the pool closes; a thread's body."""
        current.pool = self
        queue, jobs, monotonic = self._queue, self._jobs, time.monotonic
        turns = 0
        while self._open and not worker.lost:
            if turns >= TURNS_BEFORE_JOB or not queue:
                turns = 0
                try:
                    name, job = jobs.popleft()
                except IndexError:
                    pass
                else:
                    self._lend(worker, name, job)
                    del job
                    continue
            try:
                cell = queue.popleft()
            except IndexError:
                if not self._park(worker):
                    return
                continue
            turns += 1
            worker.since = monotonic()
            worker.cell = cell
            again = cell.run(TURN_MESSAGES)
            worker.cell = None
            if again:
                queue.append(cell)
            del cell
        if worker.lost:
            self._wake_one()

    def _lend(self, worker: _Worker, name: str, job: Job) -> None:
        """Run a job here, and leave enough threads for everything else."""
        with self._lock:
            self._lent += 1
            worker.lent = True
        if self._is_short():
            self._add_worker()
        elif (self._queue or self._jobs) and not self._awake():
            self._wake_one()
        worker.thread.name = f"perdure-job-{name}"
        current.pool = None  # who is told something by the job is not told by a turn
        try:
            then = job()
            current.pool = self
            if then is not None:
                then()
        except BaseException as error:
            crash = crash_of(error)
            self.log(
                "job.failed",
                name=name,
                error=crash.error,
                traceback=crash.traceback,
            )
        current.pool = self
        worker.thread.name = worker.name
        with self._lock:
            self._lent -= 1
            worker.lent = False

    def _park(self, worker: _Worker) -> bool:
        """Wait for work; False where there was none for long and others wait too."""
        self._parked.append(worker)
        if self._queue or self._jobs or not self._open:
            self._unpark(worker)  # it came in between
            return True
        if not worker.gate.acquire(timeout=IDLE_THREAD if self._is_rich() else -1):
            with self._lock:
                if self._unpark(worker) and self._is_rich():
                    self._workers.remove(worker)
                    return False
            return True
        if not self._busy.is_set():
            self._busy.set()
        return True

    def _is_short(self) -> bool:
        return len(self._workers) - self._lent < self._threads

    def _is_rich(self) -> bool:
        return len(self._workers) - self._lent > self._threads + 1

    def _unpark(self, worker: _Worker) -> bool:
        """Take the place back; or the wake-up that comes with it, if it is taken."""
        try:
            self._parked.remove(worker)
        except ValueError:
            worker.gate.acquire()
            return False
        return True

    def _add_worker(self) -> None:
        """Add a thread; where none can be had, the watchdog tries again."""
        with self._lock:
            if not self._open:
                return
            self._started += 1
            worker = _Worker(self, self._started)
            self._workers.append(worker)
            try:
                worker.thread.start()
            except RuntimeError:
                self._workers.remove(worker)

    def _watch(self) -> None:
        while self._open:
            self._busy.wait()
            time.sleep(WATCH_PERIOD)
            if self._is_idle():
                self._busy.clear()
                if not self._is_idle():
                    self._busy.set()
                continue
            if self._queue or self._jobs:
                self._wake_one()
            if self._is_short():
                self._add_worker()
            for worker in list(self._workers):
                self._look_at(worker)

    def _is_idle(self) -> bool:
        resting = len(self._parked) + self._lent >= len(self._workers)
        return resting and not (self._queue or self._jobs or self._is_short())

    def _look_at(self, worker: _Worker) -> None:
        cell, since = worker.cell, worker.since
        if cell is None:
            worker.reported = False
            return
        seconds = time.monotonic() - since
        if seconds < SLOW_TURN:
            worker.reported = False
            return
        if not worker.reported:
            worker.reported = True
            frame = sys._current_frames().get(worker.thread.ident or 0)  # noqa: SLF001 -- its API
            cell.system.log(
                "turn.slow",
                name=cell.name,
                incarnation=cell.incarnation,
                seconds=round(seconds, 3),
                stack="".join(traceback.format_stack(frame)) if frame else "",
            )
        if cell.closed and seconds > LOST_TURN:
            worker.lost = True
            self._workers.remove(worker)
            self._add_worker()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back on the timers' thread."""
        self._check_pid()
        return self._timers.call_later(delay, callback)

    def background(self, name: str, step: Callable[[], bool]) -> Background:
        """A daemonic thread for `step`; raises RuntimeError once closed."""
        self._check_open()
        background = BackgroundThread(name, step, self._log, self._timers)
        with self._lock:
            self._backgrounds = [one for one in self._backgrounds if one.is_alive()]
            self._backgrounds.append(background)
        return background

    def start_job(self, name: str, job: Job) -> None:
        """Run `job` on the next thread that has no turn to take, one of them this."""
        self._check_open()
        if not threading.main_thread().is_alive():
            msg = f"job {name!r} not started: the main thread has ended"
            raise RuntimeError(msg)
        self._jobs.append((name, job))
        if current.pool is not self and not self._awake():
            self._wake_one()

    def wait(self, promise: Promise, timeout: float | None) -> Any:
        """Wait on the calling thread."""
        return promise.get(timeout)

    def random(self) -> float:
        """A number in [0, 1)."""
        return random.random()  # noqa: S311 -- for jitter

    def token(self) -> str:
        """Twelve hexadecimal digits that no one had before."""
        return secrets.token_hex(6)

    def close(self, timeout: float) -> None:
        """End the backgrounds, then turns and timers; running jobs are left alone."""
        if self._forked or not self._open:
            return
        deadline = time.monotonic() + timeout
        for background in self._backgrounds:
            background.stop(max(0.0, deadline - time.monotonic()))
        self._open = False
        self._busy.set()
        while self._parked:
            self._wake_one()
        self._timers.close()
        own = threading.current_thread()
        with self._lock:  # what runs a job is not waited for
            idle = [worker.thread for worker in self._workers if not worker.lent]
        for thread in (
            *idle,
            self._watchdog,
            self._timers.thread,
        ):
            if thread is not own:
                thread.join(max(0.0, deadline - time.monotonic()))

    def leave_to_parent(self) -> None:
        """After a fork, in the child: its threads do not exist here."""
        self._forked = True
        self._open = False

    def _check_pid(self) -> None:
        if self._forked:
            msg = (
                f"this process ({os.getpid()}) was forked from the one that runs the "
                "actors: start a runtime of its own, after the fork"
            )
            raise RuntimeError(msg)

    def _check_open(self) -> None:
        self._check_pid()
        if not self._open:
            msg = "the dispatcher is closed: make a new one"
            raise RuntimeError(msg)

    def _log(self, event: str, **fields: Any) -> None:
        self.log(event, **fields)


def _no_log(event: str, **fields: Any) -> None:
    """Stand in until a System gives its log."""


_pools: weakref.WeakSet[PoolDispatcher] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
