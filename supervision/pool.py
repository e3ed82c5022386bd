"""Who runs the turns: a small pool of threads, that runs jobs as well."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .clock import Clock, SystemClock
from .dispatch import Background, Job, Mailbox, Timer
from .ending import main_thread_over
from .idle import IdleStep, is_overdue
from .threads import BackgroundThread, TimerThread, log_job_failed
from .turn import current
from .worker import Trust, Worker

if TYPE_CHECKING:
    from .cell import Cell
    from .promise import Promise

__all__ = ["PoolDispatcher"]

TURN_MESSAGES = 64
SLOW_TURN = 0.1  # seconds
LOST_TURN = 1.0  # seconds that a killed actor's turn may still take its thread
WATCH_PERIOD = 0.01  # seconds
QUIET_LOOKS = 3  # of the watchdog at a pool that rests, until it rests as well
TURNS_BEFORE_JOB = 32  # that a job may wait for, on each thread
IDLE_THREAD = 10.0  # seconds that a thread beyond those wanted waits for work


class PoolDispatcher:
    """Actors multiplexed over `threads` daemonic threads, and jobs on more of them.

    A cell with work stands in one queue; a turn takes up to 64 messages. A turn that
    takes over 0.1 s is logged with its stack (`turn.slow`). A thread that a killed
    actor keeps busy is replaced.

    One thread at a time does the work: a second would only wait for the interpreter.
    It runs jobs, too, so that a short one costs no hand-over. To a job that may be long
    it is lent: another takes its place at once, and `threads` of them are always there.
    Jobs of a name are trusted to be short while hardly any is not; a thread that such a
    job or a turn takes for 10 ms is lent then. One with neither runs idle steps.
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
        self._trust = Trust()
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
        self._see_to_it()

    def _see_to_it(self) -> None:
        """Wake a thread for what was queued, unless one will look by itself."""
        own = current.worker
        if own is not None and own.pool is self and not (own.lent and own.job):
            return
        if not self._awake():
            self._wake_one()

    def _awake(self) -> int:
        """How many threads will look for work before they rest.

        One is enough, and others rest once they see it. The watchdog wakes a second
        where the first is held up.
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
        current.worker = worker
        queue, jobs, idle = self._queue, self._jobs, self._idle
        monotonic = time.monotonic
        turns = 0
        while self._open and not worker.lost:
            if turns >= TURNS_BEFORE_JOB or not queue:
                turns = 0
                if self._awake() > 1:
                    if not self._park(worker):
                        return
                    continue
                if idle and is_overdue(idle):
                    self._run_idle(worker)
                try:
                    name, job = jobs.popleft()
                except IndexError:
                    pass
                else:
                    self._run_job(worker, name, job)
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
            if worker.lent:  # it took long
                self._take_back(worker)
            if again:
                queue.append(cell)
            del cell
        if worker.lost:
            self._wake_one()

    def _run_job(self, worker: Worker, name: str, job: Job) -> None:
        worker.since = time.monotonic()
        worker.job = name
        if not self._trust.has(name):
            self._lend(worker, name)
        try:
            try:
                then = job()
            finally:
                self._job_ended(worker, name)
            if then is not None:
                then()
        except BaseException as error:
            log_job_failed(self.log, name, error)

    def _job_ended(self, worker: Worker, name: str) -> None:
        worker.job = None
        self._trust.learn(name, time.monotonic() - worker.since)
        if worker.lent:
            self._take_back(worker)

    def _lend(self, worker: Worker, name: str) -> None:
        """Leave the thread to its job, and enough others for everything else."""
        worker.thread.name = f"perdure-job-{name}"
        self._leave(worker)

    def _leave(self, worker: Worker) -> None:
        """Count on the thread no more, and leave to another what is queued."""
        with self._lock:
            if not worker.lent:
                worker.lent = True
                self._lent += 1
        if self._is_short():
            self._add_worker()
        if self._has_work() and not self._awake():
            self._wake_one()

    def _take_back(self, worker: Worker) -> None:
        with self._lock:
            if worker.lent:
                worker.lent = False
                self._lent -= 1
                worker.thread.name = worker.name

    def _has_work(self) -> bool:
        return bool(self._queue or self._jobs or self._idle)

    def lend_late(self, worker: Worker) -> None:
        """Lend a thread to the job that it runs for longer than was thought."""
        name = worker.job
        if name is not None and not worker.lent:
            self._lend(worker, name)
            if worker.job is None:  # it ended just now, maybe before it saw that
                self._take_back(worker)

    def _run_idle(self, worker: Worker) -> None:
        """Run an idle step here; it may block, so that others are there meanwhile.

        What it tells is told by a turn: this thread goes on with it.
        """
        try:
            step = self._idle.popleft()
        except IndexError:
            return
        self._leave(worker)
        worker.since = time.monotonic()
        step.run()
        self._take_back(worker)

    def _park(self, worker: Worker) -> bool:
        """Wait for work; False where there was none for long and others wait too."""
        self._parked.append(worker)
        if not self._open or (self._has_work() and not self._awake()):
            self._unpark(worker)  # it came in between, and nobody else sees to it
        elif not worker.gate.acquire(timeout=IDLE_THREAD if self._is_rich() else -1):
            with self._lock:
                leaves = self._unpark(worker) and self._is_rich()
                if leaves:
                    self._workers.remove(worker)
            if leaves:
                if self._has_work():
                    self._wake_one()  # who queued it took this one for awake
                return False
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
        quiet, begun = 0, 0.0
        while self._open:
            self._busy.wait()
            time.sleep(WATCH_PERIOD)
            quiet = quiet + 1 if self._is_idle() else 0
            if quiet >= QUIET_LOOKS:
                quiet = 0
                self._busy.clear()
                if not self._is_idle():
                    self._busy.set()
                continue
            before, begun = begun, max([one.since for one in self._workers], default=0)
            if begun == before and self._has_work():
                self._wake_one()  # whoever is awake is held up
            if self._is_short():
                self._add_worker()
            for worker in list(self._workers):
                self._look_at(worker)

    def _is_idle(self) -> bool:
        resting = len(self._parked) + self._lent >= len(self._workers)
        turns = any(one.cell is not None for one in self._workers)  # slow ones, lent to
        return resting and not (turns or self._has_work() or self._is_short())

    def _look_at(self, worker: Worker) -> None:
        """Give what is not short the thread for itself; log a turn that is slow."""
        cell, job, since = worker.cell, worker.job, worker.since
        seconds = time.monotonic() - since
        if seconds < SLOW_TURN:
            worker.reported = False
        if seconds < WATCH_PERIOD or (cell is None and job is None):
            return
        if cell is None:
            self.lend_late(worker)
            return
        self._leave(worker)
        if worker.cell is not cell or worker.since != since:
            self._take_back(worker)  # it ended just now, maybe before it saw that
        elif seconds >= SLOW_TURN and not worker.reported:
            worker.report(cell, seconds)
        if cell.closed and seconds > LOST_TURN:
            worker.lost = True
            self._take_back(worker)
            self._workers.remove(worker)
            self._add_worker()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back on the timers' thread."""
        self._check_pid()
        return self._timers.call_later(delay, callback)

    def background(self, name: str, step: Callable[[], bool]) -> Background:
        """A daemonic thread for `step`; raises RuntimeError once closed."""
        self._check_open()
        return self._keep(BackgroundThread(name, step, self._log))

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
        self._see_to_it()

    def start_job(self, name: str, job: Job) -> None:
        """Run `job` on the next thread that has no turn to take, one of them this."""
        self._check_open()
        if main_thread_over():
            msg = f"job {name!r} not started: the main thread has ended"
            raise RuntimeError(msg)
        self._jobs.append((name, job))
        self._see_to_it()

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
        with self._lock:  # what runs a job is not waited for
            idle = [one.thread for one in self._workers if one.job is None]
        for thread in (*idle, self._watchdog, self._timers.thread):
            if thread is not threading.current_thread():
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
