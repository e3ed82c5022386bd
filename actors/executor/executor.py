"""Where user code runs: threads and one event loop, outside the tree.

The executor belongs to the process. It keeps a running operation until its worker
ends, and an outcome until its record is flushed, through every restart of actors.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from ...supervision.dispatch import Dispatcher, Timer
from ...supervision.faults import hit
from ..outcomes import classify, surely_not_sent
from ..tool import EffectClass
from .loop import Loop, run_inline

__all__ = ["Executor", "Key", "Outcome", "Work"]

Key: TypeAlias = tuple[str, str]
ERROR_LIMIT = 2_000  # characters

# What closed executors of this process left running: a runtime that opens the same
# store after them must not take their store's free lock for the workers' end.
_left_behind: dict[Key, _Run] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a piece of work ended.

    `status` is ``unknown`` where the deadline passed or a connection was lost.
    `seconds` is how long it ran; `started` False means that it surely did not run,
    `refused` that this runtime did not let it.
    """

    key: Key
    status: Literal["completed", "failed", "unknown"]
    value: Any = None
    error: str = ""
    started: bool = True
    seconds: float = 0.0
    refused: bool = False


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """User code to run once.

    Args:
        key: whose work it is, and which; one of a key runs at a time.
        name: subject of its fault points.
        effect: decides what an exception of no known kind means.
        call: runs on a thread; with `coroutine` it returns an awaitable for the loop.
        timeout: seconds after which its outcome is unknown.
        not_after: wall-clock second after which it must not start any more.
        allowed: asked just before the call; False means that its owner lost the task.
        deliver: told of the outcome, once, on any thread; must be short.
        kept: keep the outcome until `forget` (operations), or not (probes).
    """

    key: Key
    name: str
    effect: EffectClass
    call: Callable[[], Any]
    timeout: float
    not_after: float
    deliver: Callable[[Outcome], None]
    coroutine: bool = False
    allowed: Callable[[], bool] | None = None
    kept: bool = False


class _Run:
    __slots__ = ("alive", "began", "cancel", "outcome", "timer", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.alive = True
        self.began: float | None = None
        self.outcome: Outcome | None = None
        self.timer: Timer | None = None
        self.cancel: Callable[[], None] | None = None


class Executor:
    """Runs work on at most `threads` threads at once; more waits in order.

    Args:
        dispatcher: lends threads and timers (a simulation lends steps instead).
        loop: runs coroutines; None runs each to its end on a thread of its own.
        log: told of late outcomes, which move nothing.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        threads: int,
        loop: Loop | None,
        log: Callable[..., None],
    ) -> None:
        self._dispatcher = dispatcher
        self._threads = threads
        self._loop = loop
        self._log = log
        self._lock = threading.Lock()
        self._runs: dict[Key, _Run] = {}
        self._queue: deque[_Run] = deque()
        self._busy = 0
        self._draining = False
        self._closed = False

    def run(self, work: Work) -> None:
        """Run `work` as soon as a thread is free; a key that runs is left alone.

        Once the main thread has ended, work is only kept: `drain` refuses it.
        """
        with self._lock:
            if work.key in self._runs:
                return
            run = self._runs[work.key] = _Run(work)
            refused = self._draining and not self._closed
            threaded = not (work.coroutine and self._loop is not None)
            if not refused:
                full = threaded and self._busy >= self._threads
                if self._closed or full or _main_thread_over():
                    self._queue.append(run)
                    return
                self._busy += threaded
        if refused:
            self._finish(run, self._refused(run, "the runtime is closing"))
        elif not self._start(run) and threaded:
            self._next()

    def status(self, key: Key) -> Literal["running", "ended", "absent"]:
        """Tell whether the worker of `key` lives, has left an outcome, or neither."""
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                return "absent"
            return "running" if run.outcome is None else "ended"

    def worker_lives(self, key: Key) -> bool:
        """Tell whether the worker of `key` still runs, past its deadline included.

        A worker of an earlier runtime of this process counts, though its outcome is
        lost.
        """
        with self._lock:
            run = self._runs.get(key)
        if run is not None:
            return run.alive
        left = _left_behind.get(key)
        return left is not None and left.alive

    def outcome(self, key: Key) -> Outcome | None:
        """The outcome of `key` that no flushed record holds yet."""
        with self._lock:
            run = self._runs.get(key)
            return None if run is None else run.outcome

    def forget(self, key: Key) -> None:
        """The record of `key` is flushed; let go of its outcome."""
        with self._lock:
            run = self._runs.get(key)
            if run is not None and not run.alive:
                del self._runs[key]
            elif run is not None:
                run.work = msgspec.structs.replace(run.work, kept=False)

    def running(self) -> int:
        """How many workers run or wait to."""
        with self._lock:
            return sum(run.alive for run in self._runs.values())

    def drain(self) -> None:
        """Refuse what waits and what is still to come; what runs goes on."""
        with self._lock:
            self._draining = True
            waiting, self._queue = list(self._queue), deque()
        for run in waiting:
            self._finish(run, self._refused(run, "the runtime is closing"))

    def close(self) -> None:
        """Drain, and abandon what the event loop still runs; nothing more is told."""
        self.drain()
        with self._lock:
            self._closed = True
            alive = {key: run for key, run in self._runs.items() if run.alive}
            _left_behind.update(alive)
        if self._loop is not None:
            self._loop.close()

    def _start(self, run: _Run) -> bool:
        """Hand it out; False, with the run refused, where no thread can be had."""
        work = run.work
        try:
            if work.coroutine and self._loop is not None:
                run.cancel = self._loop.submit(lambda: self._on_loop(run))
            else:
                self._dispatcher.start_job(work.name, lambda: self._on_thread(run))
        except Exception as error:  # no more threads, or the process is ending
            self._finish(run, self._refused(run, _told(error)))
            return False
        return True

    def _on_thread(self, run: _Run) -> None:
        outcome = self._may_start(run)
        if outcome is None:
            try:
                hit("effect.executing", run.work.name)
                value = run.work.call()
                if run.work.coroutine:
                    value = run_inline(value)
                hit("effect.executed", run.work.name)
            except BaseException as error:
                outcome = self._failed(run, error)
            else:
                outcome = self._completed(run, value)
        self._finish(run, outcome)
        self._next()

    async def _on_loop(self, run: _Run) -> None:
        outcome = self._may_start(run)
        if outcome is None:
            try:
                hit("effect.executing", run.work.name)
                awaitable: Awaitable[Any] = run.work.call()
                value = await awaitable
                hit("effect.executed", run.work.name)
            except BaseException as error:
                outcome = self._failed(run, error)
            else:
                outcome = self._completed(run, value)
        self._finish(run, outcome)

    def _may_start(self, run: _Run) -> Outcome | None:
        clock = self._dispatcher.clock
        if _main_thread_over():
            return self._refused(run, "the process is ending")
        if clock.time() > run.work.not_after:
            late = self._refused(run, "its time was over before it started")
            return msgspec.structs.replace(late, refused=False)
        if run.work.allowed is not None and not run.work.allowed():
            return self._refused(run, "the task has another owner")
        run.began = clock.monotonic()
        run.timer = self._dispatcher.call_later(
            run.work.timeout, lambda: self._overdue(run)
        )
        return None

    def _overdue(self, run: _Run) -> None:
        error = f"no answer within {run.work.timeout:g} s"
        late = Outcome(
            key=run.work.key,
            status="unknown",
            error=error,
            seconds=run.work.timeout,
        )
        with self._lock:
            if run.outcome is not None:
                return
            run.outcome = late
        run.work.deliver(late)
        if run.cancel is not None:
            run.cancel()

    def _finish(self, run: _Run, outcome: Outcome) -> None:
        if run.timer is not None:
            run.timer.cancel()
        with self._lock:
            run.alive = False
            _left_behind.pop(run.work.key, None)
            first = run.outcome is None
            if first:
                run.outcome = outcome
            if not run.work.kept:
                self._runs.pop(run.work.key, None)
        if first:
            run.work.deliver(outcome)
            return
        task, work = run.work.key
        self._log(
            "effect.late",
            task=task,
            work=work,
            name=run.work.name,
            status=outcome.status,
        )

    def _next(self) -> None:
        """Give this thread's place to the next that waits, or give it back."""
        while True:
            with self._lock:
                if self._closed or not self._queue or _main_thread_over():
                    self._busy -= 1
                    return
                run = self._queue.popleft()
            if self._start(run):
                return

    def _seconds(self, run: _Run) -> float:
        assert run.began is not None
        return self._dispatcher.clock.monotonic() - run.began

    def _completed(self, run: _Run, value: Any) -> Outcome:
        seconds = self._seconds(run)
        return Outcome(
            key=run.work.key, status="completed", value=value, seconds=seconds
        )

    def _failed(self, run: _Run, error: BaseException) -> Outcome:
        # An interpreter that shuts down fails calls that did nothing wrong (no new
        # threads, modules half gone): what they raise is as much in doubt as a kill.
        ending = _main_thread_over()
        return Outcome(
            key=run.work.key,
            status="unknown" if ending else classify(error, run.work.effect),
            error=_told(error),
            started=ending or not surely_not_sent(error),
            seconds=self._seconds(run),
        )

    @staticmethod
    def _refused(run: _Run, error: str) -> Outcome:
        return Outcome(
            key=run.work.key,
            status="failed",
            error=error,
            started=False,
            refused=True,
        )


def _main_thread_over() -> bool:
    return not threading.main_thread().is_alive()


def _told(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text could not be made)"
    return f"{type(error).__name__}: {text}"[:ERROR_LIMIT]
