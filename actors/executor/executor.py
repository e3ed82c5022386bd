"""Where user code runs: threads and one event loop, outside the tree.

The executor belongs to the process. It keeps a running operation until its worker
ends, and an outcome until its record is flushed, through every restart of actors.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from ...supervision.dispatch import Dispatcher
from ...supervision.ending import main_thread_over
from ...supervision.faults import hit
from ..outcomes import classify, rest_of, surely_not_sent, turned_away
from .beat import BEAT_PERIOD, BEATS_MISSED, Beat
from .deadlines import Deadlines
from .loop import Loop, run_inline
from .work import NEVER, Key, Outcome, Run, Work, evidence, refused, told

__all__ = ["ABANDONED_LIMIT", "Executor", "Key", "Outcome", "Work"]

ABANDONED_LIMIT = 32  # threads; above it, what hung before is not run here any more
KILL_GRACE = 5.0  # seconds until a killed worker that has not ended is given up

# What closed executors of this process left running: a runtime that opens the same
# store after them must not take their store's free lock for the workers' end.
_left_behind: dict[Key, Run] = {}


class Executor:
    """Runs work on at most `threads` threads at once; more waits in order.

    A thread whose work is past its deadline is abandoned: it cannot be ended, but it
    holds up nobody else. So is an event loop that takes no turns for 5 s, and what ran
    on it is then in doubt. Where more than 32 threads are abandoned, what has hung
    before fails without being run: in a process of its own it could be killed.

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
        self._runs: dict[Key, Run] = {}
        self._queue: deque[Run] = deque()
        self._busy = 0
        self._abandoned = 0
        self._hung: set[tuple[str, bool]] = set()
        self._loop_number = 1
        self._beat: Beat | None = None
        if loop is not None:
            self._beat = Beat(
                dispatcher,
                ask=loop.ask,
                busy=self._on_loop_now,
                missed=self._abandon_loop,
            )
        self._deadlines = Deadlines(dispatcher, runs=self._now, rung=self._at_deadline)
        self._draining = False
        self._closed = False

    def run(self, work: Work) -> None:
        """Run `work` as soon as a thread is free; a key that runs is left alone.

        Once the main thread has ended, work is only kept: `drain` refuses it.
        """
        with self._lock:
            if work.key in self._runs:
                return
            run = self._runs[work.key] = Run(work)
            turned_down = self._draining and not self._closed
            threaded = not (work.coroutine and self._loop is not None)
            if not turned_down:
                full = threaded and self._busy >= self._threads
                if self._closed or full or main_thread_over():
                    self._queue.append(run)
                    return
                self._busy += threaded
                run.place = threaded
        if turned_down:
            self._finish(run, refused(run.work.key, "the runtime is closing"))
        elif not self._start(run):
            self._next(run)

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

    def _now(self) -> list[Run]:
        with self._lock:
            return list(self._runs.values())

    def running(self) -> int:
        """How many workers run or wait to."""
        with self._lock:
            return sum(run.alive for run in self._runs.values())

    def names_of(self, owner: str) -> list[str]:
        """What works of one owner, by the first part of its keys, runs or waits to."""
        with self._lock:
            runs = [one for key, one in self._runs.items() if key[0] == owner]
            return [one.work.name for one in runs if one.outcome is None]

    def drain(self) -> None:
        """Refuse what waits and what is still to come; what runs goes on."""
        with self._lock:
            self._draining = True
            waiting, self._queue = list(self._queue), deque()
        for run in waiting:
            self._finish(run, refused(run.work.key, "the runtime is closing"))

    def close(self) -> None:
        """Drain, and abandon what the event loop still runs; nothing more is told."""
        self.drain()
        with self._lock:
            self._closed = True
            alive = {key: run for key, run in self._runs.items() if run.alive}
            _left_behind.update(alive)
        if self._loop is not None:
            self._loop.close()

    def _start(self, run: Run) -> bool:
        """Hand it out; False, with the run refused, where no thread can be had."""
        work = run.work
        try:
            if work.coroutine and self._loop is not None:
                self._start_on_loop(run, self._loop)
            else:
                self._dispatcher.start_job(work.name, lambda: self._on_thread(run))
        except Exception as error:  # no more threads, or the process is ending
            self._finish(run, refused(run.work.key, told(error)))
            return False
        return True

    def _start_on_loop(self, run: Run, loop: Loop) -> None:
        with self._lock:
            number = run.loop = self._loop_number
        label = "/".join(run.work.key)
        cancel = loop.submit(lambda: self._on_loop(run, number), label)
        with self._lock:
            run.cancel = cancel
            overdue = run.outcome is not None
        if overdue:  # already; nobody could cancel it yet
            cancel()
        assert self._beat is not None
        self._beat.watch()

    def _on_thread(self, run: Run) -> Callable[[], None]:
        """Run it to its end; what is returned tells of it."""
        run.began = self._dispatcher.clock.monotonic()
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
        ended = outcome

        def tell() -> None:
            self._finish(run, ended)
            if run.place:
                self._next(run)

        return tell

    async def _on_loop(self, run: Run, number: int) -> None:
        if not self._claim(run, number):
            return  # its loop was abandoned before it began; another one has it
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

    def _claim(self, run: Run, loop: int) -> bool:
        with self._lock:
            if run.loop != loop or run.began is not None or run.outcome is not None:
                return False
            run.began = self._dispatcher.clock.monotonic()
            return True

    def _may_start(self, run: Run) -> Outcome | None:
        clock = self._dispatcher.clock
        change = msgspec.structs.replace
        if main_thread_over():
            return refused(run.work.key, "the process is ending")
        if clock.time() > run.work.not_after:
            late = refused(run.work.key, "its time was over before it started")
            return change(late, refused=False, late=True)
        if run.work.forbidden is not None and (why := run.work.forbidden()):
            return refused(run.work.key, why)
        if run.work.kill is None and (why := self._hung_before(run.work)):
            return change(refused(run.work.key, why), refused=False)
        if run.work.until is not None:
            left = max(run.work.until - clock.time(), 0.0)
            run.allowed = min(run.work.timeout, left)
        assert run.began is not None
        self._deadlines.watch(run, run.began + run.allowed)
        return None

    def _hung_before(self, work: Work) -> str:
        abandoned = self._abandoned
        if abandoned <= ABANDONED_LIMIT:
            return ""
        with self._lock:
            if (work.name, work.kept) not in self._hung:
                return ""
        return (
            f"{work.name} was not run: it hung before, and {abandoned} threads that "
            "cannot be ended still run; a tool with isolate='process' can be killed"
        )

    # ── what hangs ───────────────────────────────────────────────────────────────

    def _at_deadline(self, run: Run) -> None:
        if run.work.kill is None or run.killed:
            self._overdue(run)
        elif run.alive:
            # Its end is its outcome, and then nothing of it lives any more.
            run.killed = True
            self._deadlines.watch(run, self._dispatcher.clock.monotonic() + KILL_GRACE)
            run.work.kill()

    def _overdue(self, run: Run, error: str = "") -> None:
        late = Outcome(
            key=run.work.key,
            status="unknown",
            error=error or f"no answer within {run.allowed:g} s",
            hung=True,
            seconds=self._seconds(run) if error else run.allowed,
        )
        with self._lock:
            if run.outcome is not None:
                return
            run.outcome = late
            run.abandoned = run.place
            if run.place:
                self._abandoned += 1
                self._hung.add((run.work.name, run.work.kept))
            cancel = run.cancel
        run.work.deliver(late)
        if cancel is not None:
            cancel()
        self._next(run)

    def _on_loop_now(self) -> bool:
        with self._lock:
            return not self._closed and bool(self._of_loop(self._loop_number))

    def _of_loop(self, number: int) -> list[Run]:
        return [run for run in self._runs.values() if run.alive and run.loop == number]

    def _abandon_loop(self) -> None:
        """The event loop takes no turns: what began on it is in doubt."""
        loop = self._loop
        assert loop is not None
        blocker = loop.blocked_by()
        with self._lock:
            number = self._loop_number
            self._loop_number += 1
            mine = self._of_loop(number)
            begun = [run for run in mine if run.began is not None]
            waiting = [run for run in mine if run.began is None]
            for run in waiting:  # should the loop go on just now: not there any more
                run.loop = self._loop_number
            labels = {"/".join(run.work.key): run for run in begun}
            guilty = [labels[blocker]] if blocker in labels else begun
            self._hung.update((run.work.name, run.work.kept) for run in guilty)
            self._abandoned += 1
        loop.abandon(lambda: self._loop_ended(number))
        names = sorted({run.work.name for run in guilty})
        self._log("loop.abandoned", names=names, running=len(begun))
        seconds = BEAT_PERIOD * BEATS_MISSED
        for run in begun:
            who = "it" if run in guilty else "another call"
            self._overdue(run, f"{who} blocked its event loop for {seconds:g} s")
        for run in waiting:
            self._start(run)

    def _loop_ended(self, number: int) -> None:
        with self._lock:
            self._abandoned -= 1
            lost = self._of_loop(number)
        for run in lost:  # what a cancel did not end can take no turn any more
            self._finish(run, refused(run.work.key, "its event loop has ended"))

    def _finish(self, run: Run, outcome: Outcome) -> None:
        run.due = NEVER
        with self._lock:
            run.alive = False
            if run.abandoned:
                self._abandoned -= 1
                run.abandoned = False
            if _left_behind:
                _left_behind.pop(run.work.key, None)
            if run.place and not self._queue:
                run.place = False
                self._busy -= 1
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
            detail=evidence(outcome),
        )

    def _next(self, run: Run) -> None:
        """Give a run's place to the next that waits, or give it back; once."""
        while True:
            with self._lock:
                if not run.place:
                    return
                run.place = False
                if self._closed or not self._queue or main_thread_over():
                    self._busy -= 1
                    return
                run = self._queue.popleft()
                run.place = True
            if self._start(run):
                return

    def _seconds(self, run: Run) -> float:
        assert run.began is not None
        return self._dispatcher.clock.monotonic() - run.began

    def _completed(self, run: Run, value: Any) -> Outcome:
        seconds = self._seconds(run)
        return Outcome(
            key=run.work.key, status="completed", value=value, seconds=seconds
        )

    def _failed(self, run: Run, error: BaseException) -> Outcome:
        # An interpreter that shuts down fails calls that did nothing wrong (no new
        # threads, modules half gone): what they raise is as much in doubt as a kill.
        ending = main_thread_over()
        return Outcome(
            key=run.work.key,
            status="unknown" if ending else classify(error, run.work.effect),
            error=told(error),
            started=ending or not surely_not_sent(error),
            turned_away=turned_away(error),
            rest=rest_of(error),
            seconds=self._seconds(run),
        )
