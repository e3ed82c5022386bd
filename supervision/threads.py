"""The daemonic threads beside the actors' pool: timers and backgrounds."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

from .lifecycle import crash_of

__all__ = [
    "BackgroundThread",
    "Job",
    "TimerThread",
    "log_job_failed",
    "run_guarded",
    "run_job",
]

# User code; what it returns is left to do once it has ended, and never blocks.
Job: TypeAlias = Callable[[], Callable[[], None] | None]


SWEEP_AT = 64  # cancelled timers in the heap, at least, before they are swept out


class TimerThread:
    """Callbacks at their times, on one thread that starts with the first."""

    def __init__(self, log: Callable[..., None]) -> None:
        self._log = log
        self._wakeup = threading.Condition()
        self._heap: list[tuple[float, int, PendingTimer]] = []
        self._order = count()
        self._cancelled = 0
        self._open = True
        self.thread = threading.Thread(
            target=self._run, name="perdure-timers", daemon=True
        )
        self.thread.start()

    def call_later(self, delay: float, callback: Callable[[], None]) -> PendingTimer:
        """Call back in `delay` seconds; once closed, never."""
        timer = PendingTimer(self, callback)
        due = time.monotonic() + delay
        with self._wakeup:
            if self._open:
                heapq.heappush(self._heap, (due, next(self._order), timer))
                if self._heap[0][2] is timer:
                    self._wakeup.notify()
        return timer

    def count_cancelled(self) -> None:
        """Sweep the heap once most of it is cancelled: long timeouts rarely fire."""
        with self._wakeup:
            self._cancelled += 1
            if self._cancelled >= SWEEP_AT and self._cancelled * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if entry[2].callback]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def close(self) -> None:
        """Drop what is pending and end the thread."""
        with self._wakeup:
            self._open = False
            self._heap.clear()
            self._wakeup.notify()

    def _run(self) -> None:
        while True:
            with self._wakeup:
                while self._open and not (wait := self._wait()) <= 0:
                    self._wakeup.wait(min(wait, threading.TIMEOUT_MAX))
                if not self._open:
                    return
                callback = heapq.heappop(self._heap)[2].take()
                if callback is None:
                    self._cancelled = max(0, self._cancelled - 1)
                    continue
            run_guarded("timer", callback, self._log)

    def _wait(self) -> float:
        if not self._heap:
            return threading.TIMEOUT_MAX
        return self._heap[0][0] - time.monotonic()


class PendingTimer:
    """A callback in the heap; cancelled by taking the callback out."""

    __slots__ = ("_timers", "callback")

    def __init__(self, timers: TimerThread, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.callback: Callable[[], None] | None = callback

    def take(self) -> Callable[[], None] | None:
        """The callback, the first time."""
        callback, self.callback = self.callback, None
        return callback

    def cancel(self) -> None:
        """Make it not happen; nothing if it has."""
        if self.take() is not None:
            self._timers.count_cancelled()


class BackgroundThread:
    """Runs `step` until it returns False, each time it is woken."""

    def __init__(
        self, name: str, step: Callable[[], bool], log: Callable[..., None]
    ) -> None:
        self._name = name
        self._step = step
        self._log = log
        # Locks, not an Event: its `set` costs the waker a hand-over of the interpreter.
        self._gate = threading.Lock()  # released to let the thread go on
        self._gate.acquire()
        self._woken = threading.Lock()  # held while it is to go on, as an atomic flag
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run, name=f"perdure-{name}", daemon=True
        )
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether its thread has not ended yet."""
        return self._thread.is_alive()

    def wake(self) -> None:
        """Have the step run again."""
        if self._woken.acquire(False):
            self._gate.release()

    def stop(self, timeout: float) -> bool:
        """Let the step run dry, then end; False if it takes over `timeout` seconds."""
        self._stopping = True
        self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._gate.acquire()
            self._woken.release()
            stopping = self._stopping
            run_guarded(f"background {self._name}", self._drain, self._log)
            if stopping:
                return

    def _drain(self) -> None:
        while self._step():
            pass


def run_job(job: Job) -> None:
    """Run a job, and what is left to do after it."""
    then = job()
    if then is not None:
        then()


def log_job_failed(log: Callable[..., None], name: str, error: BaseException) -> None:
    """Log what a job raised as `job.failed`."""
    crash = crash_of(error)
    log("job.failed", name=name, error=crash.error, traceback=crash.traceback)


def run_guarded(
    where: str, callback: Callable[[], None], log: Callable[..., None]
) -> None:
    """Call back; log whatever it raises as `callback.failed`."""
    try:
        callback()
    except BaseException as error:
        crash = crash_of(error)
        log(
            "callback.failed",
            where=where,
            error=crash.error,
            traceback=crash.traceback,
        )
