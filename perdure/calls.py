"""What callers ask about a task by its id; handles are thin over this."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .actors import names
from .actors.agent import Agent
from .actors.budget.account import Budget, limits_of, why_not_extended
from .actors.events import Amounts, TaskSubmitted
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
from .again import Again
from .errors import Misuse, StoreRefused
from .explaining import Explaining
from .following import Following
from .handle import Handle
from .memory import Memory
from .people import PeopleCalls, check_words
from .reading import Reading, row_of
from .result import ENDED, STOPPED, Result, Until, ending, result_of
from .stands import is_asked
from .storage.reader import Reader
from .waiters import LOOK_AGAIN, Waiters, as_future

if TYPE_CHECKING:
    from .views import TaskLine
    from .views_approvals import Approval
    from .views_effects import EffectLine

__all__ = ["TaskCalls"]

CANCELLED = ENDED | {"parked"}  # where a cancelled task ends, or can get no further


class TaskCalls(PeopleCalls, Again, Following, Explaining):
    """The half of a `Runtime` that answers callers, on any thread or loop."""

    _agents: Mapping[str, Agent]
    _house: House
    _reading: Reading
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
        return self._reading.read(lambda reader: row_of(reader, task))

    def result(self, task: str) -> Result | None:
        """The result of a task that stands at a stop, else None."""
        row = self.row(task)
        if row.status not in STOPPED:
            return None
        return result_of(row, self._agents.get(row.agent))

    def wait(
        self, task: str, timeout: float | None = None, *, until: Until = "stopped"
    ) -> Result:
        """See `Handle.wait`; `until` says which stops count."""
        self.refuse_in_loop("wait", "`await handle`")
        clock = self._dispatcher.clock
        over = None if timeout is None else clock.monotonic() + timeout
        while True:
            self._refuse_if_forked()
            promise = self._waiters.next_stop(task)
            try:
                found, sure = self._look(task)
                if found is not None and self._counts(task, found, until):
                    return found
                self._refuse_if_over()
                left = None if over is None else max(0.0, over - clock.monotonic())
                if not sure:
                    left = LOOK_AGAIN if left is None else min(left, LOOK_AGAIN)
                promise.result(left)
            except TimeoutError:
                if sure or (over is not None and clock.monotonic() >= over):
                    raise TimeoutError(
                        f"task {task} has not stopped within {timeout} s; it goes on"
                    ) from None
            finally:
                self._waiters.drop(task, promise)

    async def await_stop(self, task: str, *, until: Until = "stopped") -> Result:
        """`wait` for event loops: holds no thread."""
        loop = asyncio.get_running_loop()
        while True:
            self._refuse_if_forked()
            promise = self._waiters.next_stop(task)
            try:
                found, sure = await asyncio.to_thread(self._look, task)
                if found is not None and self._counts(task, found, until):
                    return found
                self._refuse_if_over()
                stop = as_future(promise, loop)
                if sure:
                    await stop
                else:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop, LOOK_AGAIN)
            finally:
                self._waiters.drop(task, promise)

    def _counts(self, task: str, found: Result, until: Until) -> bool:
        """Whether a stop is one that somebody waits for.

        One who had effects taken back hears of what holds that up, too.
        """
        if until == "stopped" or found.status in CANCELLED:
            return True
        return until == "compensated" and self.row(task).compensates

    def _look(self, task: str) -> tuple[Result | None, bool]:
        """The result, if there is one, and whether the store could say so.

        It cannot of a task that is about to go on: it was woken while it stopped, or
        somebody has asked something that the owner has yet to do.
        """
        from . import views

        def goes_on(reader: Reader) -> bool:
            return is_asked(reader, task) or views.goes_on(reader, task)

        try:
            found = self.result(task)
            if found is None or found.status in ENDED:
                return found, True
            if self._reading.read(goes_on):
                return None, False
            return self.result(task), True
        except StoreRefused:  # its journal has just failed and is opened again
            return None, False

    def pause(self, task: str, by: str) -> bool:
        """See `Handle.pause`."""
        self.refuse_in_loop("pause", "`await handle.apause()`")
        check_words("pause", by=by)
        self.row(task)
        done: bool = self._ask(lambda p: Pause(task=task, by=by, promise=p))
        return done

    def resume(self, task: str, by: str) -> bool:
        """See `Handle.resume`."""
        self.refuse_in_loop("resume", "`await handle.aresume()`")
        check_words("resume", by=by)
        self.row(task)
        done: bool = self._ask(lambda p: Resume(task=task, by=by, promise=p))
        return done

    def ask_cancel(self, task: str, by: str, *, compensate: bool = False) -> bool:
        """Write down that a task is to end; True where it had not ended."""
        if not isinstance(compensate, bool):
            raise Misuse(f"cancel: compensate={compensate!r} must be True or False")
        check_words("cancel", by=by)
        self.row(task)
        done: bool = self._ask(
            lambda p: Cancel(task=task, by=by, compensate=compensate, promise=p)
        )
        return done

    def cancel(
        self, task: str, by: str, timeout: float | None, *, compensate: bool = False
    ) -> Result:
        """See `Handle.cancel`."""
        self.refuse_in_loop("cancel", "`await handle.acancel()`")
        self.ask_cancel(task, by, compensate=compensate)
        return self.wait(task, timeout, until=ending(compensate))

    def extend(self, task: str, budget: Budget) -> None:
        """See `Handle.extend`."""
        amounts = self._amounts(task, "extend", budget)
        first = self._reading.read(lambda r: r.records(0, 1, f"task/{task}"))[0]
        submitted = self._house.event_of(first)
        assert isinstance(submitted, TaskSubmitted)
        pool = self._house.pool
        if wrong := why_not_extended(task, submitted.budget, pool, amounts):
            raise Misuse(wrong)
        if refusal := self._grant(task, amounts, lower=False):
            raise Misuse(f"task {task} cannot be extended: {refusal}")
        self._ask(lambda p: WakeAgain(task=task, by="extend", promise=p))

    def limit(self, task: str, budget: Budget) -> None:
        """See `Handle.limit`."""
        amounts = self._amounts(task, "limit", budget)
        if refusal := self._grant(task, amounts, lower=True):
            raise Misuse(f"the limits of task {task} cannot be lowered: {refusal}")

    def _amounts(self, task: str, call: str, budget: Budget) -> Amounts:
        self.refuse_in_loop(call, f"`await handle.a{call}(...)`")
        row = self.row(task)
        if row.status in ENDED:
            raise Misuse(f"task {task} has ended ({row.status}); nothing to {call}")
        if not isinstance(budget, Budget):
            raise Misuse(f"budget={budget!r} is no Budget; give Budget(tokens=…)")
        return limits_of(budget)

    def _grant(self, task: str, amounts: Amounts, *, lower: bool) -> str | None:
        """Change a task's limits, once; why not, where the pool refuses."""
        grant = f"{task}/{self._house.new_id()}"
        refusal: str | None = self._ask(
            lambda p: Enlarge(
                task=task, grant=grant, amounts=amounts, lower=lower, promise=p
            ),
            to=names.POOL,
        )
        return refusal

    # ── facts ────────────────────────────────────────────────────────────────────

    @property
    def memory(self) -> Memory:
        """What is known beyond one task: facts by scope, key and subject."""

        def read(run: Callable[[Reader], Any]) -> Any:
            self._refuse_if_forked()
            return self._reading.read(run)

        return Memory(
            ask=self._ask, read=read, now=self._house.now, new_id=self._house.new_id
        )

    # ── approvals ────────────────────────────────────────────────────────────────

    def approvals(self) -> list[Approval]:
        """The calls that wait for somebody's approval, oldest first."""
        from . import views_approvals

        self._refuse_if_forked()
        return self._reading.read(views_approvals.approvals)

    def answer(
        self,
        task: str,
        approval: str,
        by: str,
        why: str,
        *,
        approved: bool,
        arguments: dict[str, Any] | None = None,
        tool: str | None = None,
    ) -> bool:
        """See `Handle.approve` and `Handle.reject`."""
        from . import views_approvals

        call = "approve" if approved else "reject"
        self.refuse_in_loop(call, f"`await handle.a{call}(...)`")
        check_words(call, by=by, why=why, tool=tool or "")
        instead = views_approvals.call_instead(arguments, tool)
        self.row(task)
        done: bool = self._ask(
            lambda p: Answer(
                approval=approval,
                task=task,
                approved=approved and not instead,
                by=by,
                why=why,
                tool=tool or "",
                arguments=instead,
                promise=p,
            )
        )
        return done

    # ── effects in doubt ─────────────────────────────────────────────────────────

    def unknown(self) -> list[EffectLine]:
        """The effects that may have happened and that nobody has decided yet.

        Those of a task that is paused for it wait for somebody's word; those of a
        running one may yet be decided by its probe or by a repetition.
        """
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
        check_words("resolve", by=by)
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
