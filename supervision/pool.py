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
from .idle import IdleStep
from .lifecycle import crash_of
from .threads import BackgroundThread, TimerThread
from .turn import current
from .worker import Worker

if TYPE_CHECKING:
    from .cell import Cell
    from .promise import Promise

__all__ = ["PoolDispatcher"]

TURN_MESSAGES = 64
SLOW_TURN = 0.1  # seconds
LOST_TURN = 1.0  # seconds that a killed actor's turn may still take its thread
WATCH_PERIOD = 0.01  # seconds
TURNS_BEFORE_JOB = 32  # that a job may wait for, on each thread
BRIEF = 0.001  # seconds of a job that another thread need not be woken for
NAMES_KEPT = 1_024  # of brief jobs
IDLE_WAIT = 0.005  # seconds that an idle step waits where there is always a turn
IDLE_THREAD = 10.0  # seconds that a thread beyond those wanted waits for work


class PoolDispatcher:
    """Actors multiplexed over `threads` daemonic threads, and jobs on more of them.

    A cell with work stands in one queue; a turn takes up to 64 messages. A turn that
    takes over 0.1 s is logged with its stack (`turn.slow`). A thread that a killed
    actor keeps busy is replaced.

    A thread without a turn to take runs a job itself, so that a short one costs no
    hand-over. It is lent to the job until that ends: `threads` others are always there
    for turns and for jobs that come meanwhile. They are woken at once, unless the job
    was a brief one the last time: the watchdog sees to it where it is not any more. A
    thread that has neither turn nor job runs an idle step.
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
        self._idle: deque[IdleStep] = deque()
        self._rounds = 0  # of all threads; the watchdog sees by it whether they move
        self._brief: set[str] = set()  # names of jobs that took no time when last run
        self._lent = 0
        self._parked: list[Worker] = []
        self._workers: list[Worker] = []
        self._started = 0
        self._open = True
        self._forked = False
        self._busy = threading.Event()
        self._lock = threading.Lock()
        self._backgrounds: list[BackgroundThread | IdleStep] = []
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

    def work(self, worker: Worker) -> None:
        """Take turns, and jobs between them, until the pool closes; a thread's body."""
        current.pool = self
        queue, jobs, idle = self._queue, self._jobs, self._idle
        monotonic = time.monotonic
        turns = 0
        while self._open and not worker.lost:
            self._rounds += 1
            if turns >= TURNS_BEFORE_JOB or not queue:
                turns = 0
                if idle and self._is_overdue(idle):
                    self._run_idle(worker)
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
                if idle:
                    self._run_idle(worker)
                elif not self._park(worker):
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

    def _lend(self, worker: Worker, name: str, job: Job) -> None:
        """Run a job here, and leave enough threads for everything else."""
        with self._lock:
            self._lent += 1
            worker.lent = True
        if self._is_short():
            self._add_worker()
        elif name not in self._brief and self._is_awaited():
            self._wake_one()
        began = time.monotonic()
        worker.thread.name = f"perdure-job-{name}"
        current.pool = None  # who is told something by the job is not told by a turn
        try:
            then = job()
            self._note(name, time.monotonic() - began)
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

    def _is_awaited(self) -> bool:
        return bool(self._queue or self._jobs) and not self._awake()

    def _note(self, name: str, seconds: float) -> None:
        """Keep whether a job of this name was brief."""
        if seconds > BRIEF:
            self._brief.discard(name)
        elif name not in self._brief and len(self._brief) < NAMES_KEPT:
            self._brief.add(name)

    def _is_overdue(self, idle: deque[IdleStep]) -> bool:
        try:
            return time.monotonic() - idle[0].since > IDLE_WAIT
        except IndexError:
            return False  # another thread took it

    def _run_idle(self, worker: Worker) -> None:
        """Run an idle step here; it may block, so that others are there meanwhile.

        What it tells is told by a turn: this thread goes on with it.
        """
        try:
            step = self._idle.popleft()
        except IndexError:
            return
        with self._lock:
            self._lent += 1
            worker.lent = True
        if self._is_short():
            self._add_worker()
        step.run()
        with self._lock:
            self._lent -= 1
            worker.lent = False

    def _park(self, worker: Worker) -> bool:
        """Wait for work; False where there was none for long and others wait too."""
        self._parked.append(worker)
        if self._queue or self._jobs or self._idle or not self._open:
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

    def _unpark(self, worker: Worker) -> bool:
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
            worker = Worker(self, self._started)
            self._workers.append(worker)
            try:
                worker.thread.start()
            except RuntimeError:
                self._workers.remove(worker)

    def _watch(self) -> None:
        rounds = 0
        while self._open:
            self._busy.wait()
            time.sleep(WATCH_PERIOD)
            if self._is_idle():
                self._busy.clear()
                if not self._is_idle():
                    self._busy.set()
                continue
            before, rounds = rounds, self._rounds
            if rounds == before and (self._queue or self._jobs or self._idle):
                self._wake_one()
            if self._is_short():
                self._add_worker()
            for worker in list(self._workers):
                self._look_at(worker)

    def _is_idle(self) -> bool:
        resting = len(self._parked) + self._lent >= len(self._workers)
        waiting = self._queue or self._jobs or self._idle
        return resting and not (waiting or self._is_short())

    def _look_at(self, worker: Worker) -> None:
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
        return self._keep(BackgroundThread(name, step, self._log, self._timers))

    def when_idle(self, name: str, step: Callable[[], bool]) -> Background:
        """A step for the pool's own threads; raises RuntimeError once closed."""
        self._check_open()
        return self._keep(IdleStep(name, step, self._log, self._queue_idle))

    def _keep(self, background: BackgroundThread | IdleStep) -> Background:
        with self._lock:
            self._backgrounds = [one for one in self._backgrounds if one.is_alive()]
            self._backgrounds.append(background)
        return background

    def _queue_idle(self, step: IdleStep) -> None:
        self._idle.append(step)
        if current.pool is not self and not self._awake():
            self._wake_one()

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
