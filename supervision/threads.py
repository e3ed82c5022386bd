"""The daemonic threads beside the actors' pool: timers, jobs, backgrounds."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count

from .lifecycle import crash_of

__all__ = ["BackgroundThread", "JobThreads", "TimerThread"]

IDLE_JOB_THREAD = 10.0  # seconds an unused thread waits for its next job
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
        self._woken = threading.Event()
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
        if not self._woken.is_set():
            self._woken.set()

    def stop(self, timeout: float) -> bool:
        """Let the step run dry, then end; False if it takes over `timeout` seconds."""
        self._stopping = True
        self._woken.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            stopping = self._stopping
            run_guarded(f"background {self._name}", self._drain, self._log)
            if stopping:
                return

    def _drain(self) -> None:
        while self._step():
            pass


class JobThreads:
    """A thread for each job at hand; an idle one takes the next job or ends."""

    def __init__(self, log: Callable[..., None]) -> None:
        self._log = log
        self._wakeup = threading.Condition()
        self._waiting: list[tuple[str, Callable[[], None]]] = []
        self._idle = 0
        self._open = True

    def start(self, name: str, job: Callable[[], None]) -> None:
        """Start `job` at once, however many run already."""
        with self._wakeup:
            self._waiting.append((name, job))
            if self._idle >= len(self._waiting):
                self._wakeup.notify()
                return
            thread = threading.Thread(
                target=self._run, name=f"perdure-job-{name}", daemon=True
            )
            try:
                thread.start()
            except BaseException:
                self._waiting.remove((name, job))
                raise

    def close(self) -> None:
        """End the idle threads; the others end with their jobs."""
        with self._wakeup:
            self._open = False
            self._wakeup.notify_all()

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            name, job = entry
            threading.current_thread().name = f"perdure-job-{name}"
            try:
                job()
            except BaseException as error:
                crash = crash_of(error)
                self._log(
                    "job.failed",
                    name=name,
                    error=crash.error,
                    traceback=crash.traceback,
                )
            del entry, job

    def _next(self) -> tuple[str, Callable[[], None]] | None:
        with self._wakeup:
            if not self._waiting and self._open:
                self._idle += 1
                self._wakeup.wait_for(
                    lambda: self._waiting or not self._open, IDLE_JOB_THREAD
                )
                self._idle -= 1
            return self._waiting.pop(0) if self._waiting else None


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
