"""What callers ask about a task by its id; handles are thin over this."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from .actors import names
from .actors.agent import Agent
from .actors.budget.account import Budget, limits_of, why_not_extended
from .actors.events import TaskSubmitted
from .actors.house import House
from .actors.protocol import (
    Answer,
    Cancel,
    Enlarge,
    Pause,
    Resolve,
    Resume,
    WakeAgain,
)
from .actors.task.rows import TaskRow
from .errors import (
    Misuse,
    RuntimeClosed,
    RuntimeFailed,
    StoreRefused,
    TaskNotFound,
    UseAsync,
)
from .handle import Handle
from .reading import Reading
from .result import ENDED, STOPPED, Result, result_of
from .storage.reader import Reader
from .supervision.dispatch import Dispatcher
from .supervision.lifecycle import ActorStopped
from .supervision.promise import Promise
from .supervision.system import System
from .waiters import Waiters
from .watch import Openings

if TYPE_CHECKING:
    from .views import TaskLine
    from .views_approvals import Approval
    from .views_effects import EffectLine

__all__ = ["TaskCalls"]

LOOK_AGAIN = 1.0  # seconds until a waiter looks again at a store that did not answer
ASK_AGAIN = 0.01  # seconds
ASK_TIMEOUT = 30.0  # seconds for a call that only has to become durable
LONGEST = 2_000  # characters of who answers an approval, and why
CANCELLED = ENDED | {"parked"}  # where a cancelled task ends, or can get no further


class TaskCalls:
    """The half of a `Runtime` that answers callers, on any thread or loop."""

    _agents: Mapping[str, Agent]
    _closed: bool
    _dispatcher: Dispatcher
    _failed: RuntimeFailed | None
    _house: House
    _openings: Openings
    _pid: int
    _reading: Reading
    _system: System
    _waiters: Waiters

    def task(self, task: str) -> Handle:
        """The handle of a task in the store. Raises TaskNotFound."""
        self.row(task)
        return Handle(self, task)

    def tasks(self) -> list[TaskLine]:
        """All tasks of the store with their status, in order of submission."""
        from . import views

        self._refuse_if_forked()
        return self._reading.read(views.tasks)

    def status(self, task: str) -> str:
        """The status of a task now. Raises TaskNotFound."""
        from . import views

        self.row(task)
        return self._reading.read(lambda reader: views.task_line(reader, task)).status

    def row(self, task: str) -> TaskRow:
        """The row of a task. Raises TaskNotFound."""
        self._refuse_if_forked()
        found = self._reading.read(lambda reader: reader.row(names.TASK_ROWS, task))
        if found is None:
            raise TaskNotFound(f"no task {task!r} in the store; see `perdure ps`")
        return msgspec.json.decode(found, type=TaskRow)

    def result(self, task: str) -> Result | None:
        """The result of a task that stands at a stop, else None."""
        row = self.row(task)
        if row.status not in STOPPED:
            return None
        return result_of(row, self._agents.get(row.agent))

    def wait(
        self, task: str, timeout: float | None = None, *, ended: bool = False
    ) -> Result:
        """See `Handle.wait`; with `ended` only an end counts as a stop."""
        self.refuse_in_loop("wait", "`await handle`")
        clock = self._dispatcher.clock
        until = None if timeout is None else clock.monotonic() + timeout
        while True:
            self._refuse_if_forked()
            promise = self._waiters.next_stop(task)
            try:
                found, sure = self._look(task)
                if found is not None and (not ended or found.status in CANCELLED):
                    return found
                self._refuse_if_over()
                left = None if until is None else max(0.0, until - clock.monotonic())
                if not sure:
                    left = LOOK_AGAIN if left is None else min(left, LOOK_AGAIN)
                promise.result(left)
            except TimeoutError:
                if sure or (until is not None and clock.monotonic() >= until):
                    raise TimeoutError(
                        f"task {task} has not stopped within {timeout} s; it goes on"
                    ) from None
            finally:
                self._waiters.drop(task, promise)

    async def await_stop(self, task: str, *, ended: bool = False) -> Result:
        """`wait` for event loops: holds no thread."""
        loop = asyncio.get_running_loop()
        while True:
            self._refuse_if_forked()
            promise = self._waiters.next_stop(task)
            try:
                found, sure = await asyncio.to_thread(self._look, task)
                if found is not None and (not ended or found.status in CANCELLED):
                    return found
                self._refuse_if_over()
                stop = _as_future(promise, loop)
                if sure:
                    await stop
                else:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop, LOOK_AGAIN)
            finally:
                self._waiters.drop(task, promise)

    def _look(self, task: str) -> tuple[Result | None, bool]:
        """The result, if there is one, and whether the store could say so."""
        try:
            return self.result(task), True
        except StoreRefused:  # its journal has just failed and is opened again
            return None, False

    def pause(self, task: str, by: str) -> bool:
        """See `Handle.pause`."""
        self.refuse_in_loop("pause", "`await handle.apause()`")
        self.row(task)
        done: bool = self._ask(lambda p: Pause(task=task, by=by, promise=p))
        return done

    def resume(self, task: str, by: str) -> bool:
        """See `Handle.resume`."""
        self.refuse_in_loop("resume", "`await handle.aresume()`")
        self.row(task)
        done: bool = self._ask(lambda p: Resume(task=task, by=by, promise=p))
        return done

    def ask_cancel(self, task: str, by: str) -> bool:
        """Write down that a task is to end; True where it had not ended."""
        self.row(task)
        done: bool = self._ask(lambda p: Cancel(task=task, by=by, promise=p))
        return done

    def cancel(self, task: str, by: str, timeout: float | None) -> Result:
        """See `Handle.cancel`."""
        self.refuse_in_loop("cancel", "`await handle.acancel()`")
        self.ask_cancel(task, by)
        return self.wait(task, timeout, ended=True)

    def extend(self, task: str, budget: Budget) -> None:
        """See `Handle.extend`."""
        self.refuse_in_loop("extend", "`await handle.aextend(...)`")
        row = self.row(task)
        if row.status in ENDED:
            raise Misuse(f"task {task} has ended ({row.status}); nothing to extend")
        if not isinstance(budget, Budget):
            raise Misuse(f"budget={budget!r} is no Budget; give Budget(tokens=…)")
        amounts = limits_of(budget)
        first = self._reading.read(lambda r: r.records(0, 1, f"task/{task}"))[0]
        submitted = self._house.event_of(first)
        assert isinstance(submitted, TaskSubmitted)
        if wrong := why_not_extended(task, submitted.budget, amounts):
            raise Misuse(wrong)
        grant = f"{task}/{self._house.new_id()}"
        refusal = self._ask(
            lambda p: Enlarge(task=task, grant=grant, amounts=amounts, promise=p),
            to=names.POOL,
        )
        if refusal is not None:
            raise Misuse(f"task {task} cannot be extended: {refusal}")
        self._ask(lambda p: WakeAgain(task=task, by="extend", promise=p))

    # ── approvals ────────────────────────────────────────────────────────────────

    def approvals(self) -> list[Approval]:
        """The calls that wait for somebody's approval, oldest first."""
        from . import views_approvals

        self._refuse_if_forked()
        return self._reading.read(views_approvals.approvals)

    def answer(
        self, task: str, approval: str, by: str, why: str, *, approved: bool
    ) -> bool:
        """See `Handle.approve` and `Handle.reject`."""
        call = "approve" if approved else "reject"
        self.refuse_in_loop(call, f"`await handle.a{call}(...)`")
        _check_words(call, by=by, why=why)
        self.row(task)
        done: bool = self._ask(
            lambda p: Answer(
                approval=approval,
                task=task,
                approved=approved,
                by=by,
                why=why,
                promise=p,
            )
        )
        return done

    # ── effects in doubt ─────────────────────────────────────────────────────────

    def unknown(self) -> list[EffectLine]:
        """The effects that may have happened and wait for somebody's word."""
        from . import views_effects

        self._refuse_if_forked()
        return self._reading.read(views_effects.unknown)

    def resolve(
        self, effect: str, *, happened: bool, result: Any = None, by: str = "operator"
    ) -> bool:
        """Say whether an effect happened whose outcome is unknown; its task goes on.

        Where it happened, the call is complete and gave `result`, a JSON value. Where
        it did not, it has failed, cost nothing, and may be made again.

        Args:
            effect: its id, as `unknown`, `Result.ends_with` and `perdure effects` have
                it.
            happened: what the world says.
            result: what the call would have given, where it happened.
            by: who says so; the model is told.

        Returns:
            True where it was open, False where it had been resolved the same way.

        Raises:
            Misuse: there is no such effect, it is not unknown, or somebody said the
            opposite before.
            UseAsync: inside an event loop.
        """
        from . import views_effects

        self.refuse_in_loop("resolve", "`await runtime.aresolve(...)`")
        _check_words("resolve", by=by)
        if not isinstance(happened, bool):
            raise Misuse(f"resolve: happened={happened!r} must be True or False")
        if result is not None and not happened:
            raise Misuse("resolve: result= is of an effect that happened=True; drop it")
        text = views_effects.result_text(result)
        self._refuse_if_forked()

        def look(reader: Reader) -> tuple[str, EffectLine]:
            task, line = views_effects.find_effect(reader, effect)
            views_effects.check_unknown(reader, line)
            return task, line

        task, line = self._reading.read(look)
        done: bool = self._ask(
            lambda p: Resolve(
                task=task,
                op=line.op,
                attempt=line.attempt,
                happened=happened,
                result=text,
                by=by,
                promise=p,
            )
        )
        return done

    async def aresolve(self, effect: str, **options: Any) -> bool:
        """`resolve` for event loops; the same arguments."""
        return await asyncio.to_thread(self.resolve, effect, **options)

    # ── asking ───────────────────────────────────────────────────────────────────

    def _ask(self, make: Callable[[Promise], Any], *, to: str = names.ADMISSION) -> Any:
        """Ask a service; a restart of it in between only makes the answer later."""
        clock = self._dispatcher.clock
        until = clock.monotonic() + ASK_TIMEOUT
        while True:
            self._refuse_if_over()
            left = max(0.0, until - clock.monotonic())
            self._openings.wait_for().result(left)
            try:
                return self._system.address(to).ask(make, left)
            except ActorStopped:
                if clock.monotonic() >= until:
                    raise
                # Its end is known here before those hear of it who see to its restart.
                with suppress(TimeoutError):
                    Promise(self._dispatcher).result(ASK_AGAIN)

    def _refuse_if_over(self) -> None:
        self._refuse_if_forked()
        if self._closed:
            raise RuntimeClosed
        if self._failed is not None:
            raise self._failed

    def _refuse_if_forked(self) -> None:
        # First of all: a lock that another thread held at the fork stays held here.
        if os.getpid() != self._pid:
            raise RuntimeClosed(
                "this process was forked from the runtime's: open a Runtime here"
            )

    @staticmethod
    def refuse_in_loop(call: str, twin: str) -> None:
        """Raise UseAsync where a blocking call would block an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise UseAsync(call, twin)


def _check_words(call: str, **words: object) -> None:
    for name, value in words.items():
        if not isinstance(value, str) or len(value) > LONGEST or not _storable(value):
            raise Misuse(f"{call}: {name} must be text of at most {LONGEST} characters")


def _storable(text: str) -> bool:
    """Tell whether text can be stored: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_future(
    promise: Promise, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[None]:
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if future.done():
            return
        try:
            future.set_result(promise.get(0.0))
        except BaseException as error:
            future.set_exception(error)

    promise.add_done_callback(lambda _: loop.call_soon_threadsafe(settle))
    return future
