"""A caller's hold on one task; any number of them may exist, none keeps it alive."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .actors.budget.account import Budget
from .result import Result, ending

if TYPE_CHECKING:
    from .actors.plan.result import PlanResult
    from .calls import TaskCalls
    from .following import AsyncEvents, Events
    from .stands import FollowUntil
    from .views_why import Why

__all__ = ["Handle"]


class Handle:
    """One task of a runtime. Blocking calls refuse to run inside an event loop.

    Every call but `wait` returns when what it did is durable.
    """

    def __init__(self, runtime: TaskCalls, task: str) -> None:
        self._runtime = runtime
        self.id = task

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    @property
    def status(self) -> str:
        """The task's status now; reads the store."""
        return self._runtime.status(self.id)

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the next stop: completed, failed, cancelled, paused or parked.

        Raises TimeoutError after `timeout` seconds, RuntimeFailed or RuntimeClosed when
        nothing can move the task any more, UseAsync inside an event loop.
        """
        return self._runtime.wait(self.id, timeout)

    def __await__(self) -> Generator[Any, None, Result]:
        """Wait for the next stop without holding a thread."""
        return self._runtime.await_stop(self.id).__await__()

    def result(self) -> Result | None:
        """The result if the task stands at a stop, else None."""
        return self._runtime.result(self.id)

    def events(
        self,
        after: int = 0,
        *,
        until: FollowUntil = "ended",
        subtasks: bool = False,
        partial: bool = False,
        timeout: float | None = None,
    ) -> Events:
        """Iterate over the task's events: those in the log, then those that come.

        Each comes once, in the order of the log, when it is durable. The loop ends
        behind the last event of a task that has ended. Leaving it early frees all that
        it held; `close()` does so from anywhere.

        Args:
            after: go on behind this `seq`, that of the last event seen.
            until: ``stopped`` ends it at the next stop, too: paused or parked.
            subtasks: the events of its sub-tasks as well.
            partial: also what a model that can stream has said so far, in pieces
                marked `provisional`. They are of this process only, never come again,
                and are left out where a reader is too slow for them.
            timeout: seconds to wait for each event.

        Raises:
            Misuse: naming the argument, the value and the fix.
            UseAsync: inside an event loop.

        In the loop: TimeoutError, after which it can go on; RuntimeClosed or
        RuntimeFailed where nothing more will come, and `after` goes on elsewhere.
        """
        return self._runtime.events(
            self.id,
            after,
            until=until,
            subtasks=subtasks,
            partial=partial,
            timeout=timeout,
        )

    def aevents(
        self,
        after: int = 0,
        *,
        until: FollowUntil = "ended",
        subtasks: bool = False,
        partial: bool = False,
    ) -> AsyncEvents:
        """`events` for event loops, for `async for`; holds no thread while it waits."""
        return self._runtime.aevents(
            self.id, after, until=until, subtasks=subtasks, partial=partial
        )

    def why(self, step: str | None = None, last: int | None = None) -> Why:
        """The task's story: each iteration with its why, feedback and verdict.

        See `Runtime.why`; what recovered, paused and ended it stands between them.
        """
        return self._runtime.why(self.id, step=step, last=last)

    async def awhy(self, step: str | None = None, last: int | None = None) -> Why:
        """`why` for event loops."""
        return await self._runtime.awhy(self.id, step=step, last=last)

    def plan(self) -> PlanResult:
        """The task's plan and how far it is, with its attempts and revisions."""
        return self._runtime.plan(self.id)

    async def aplan(self) -> PlanResult:
        """`plan` for event loops."""
        return await self._runtime.aplan(self.id)

    def pause(self, by: str = "operator") -> bool:
        """Stop the task and its sub-tasks until somebody resumes it.

        What runs stops after its operations in flight, over every crash; what is queued
        or waits does not begin. True as well where it is paused already; False where it
        has ended or is to end. A task that runs may end before it pauses: `wait` says.
        """
        return self._runtime.pause(self.id, by)

    async def apause(self, by: str = "operator") -> bool:
        """`pause` for event loops."""
        return await asyncio.to_thread(self._runtime.pause, self.id, by)

    def resume(self, by: str = "operator") -> bool:
        """Let a paused or parked task go on; False where none waited.

        Sub-tasks that were paused with it go on, too. Raises TaskNotFound.
        """
        return self._runtime.resume(self.id, by)

    async def aresume(self, by: str = "operator") -> bool:
        """`resume` for event loops."""
        return await asyncio.to_thread(self._runtime.resume, self.id, by)

    def retry(self, step: str = "", by: str = "operator") -> None:
        """Have a step of a task that rests done again, and those that need it.

        The task goes on from there: their results are no facts any more, their attempts
        count on, retries begin anew, and what is open of them is let go of (approvals
        are dropped, sub-tasks cancelled). What they did stays done: the same call of a
        ``once`` or ``idempotent`` tool is answered from the record.

        Args:
            step: its id; by default the one where the task stopped.
            by: who says so; the model is told.

        Raises Misuse where the task runs, is queued or has ended, where there is no
        such step or it has not begun, and where an effect of it is in doubt.
        """
        self._runtime.retry(self.id, step, by)

    async def aretry(self, step: str = "", by: str = "operator") -> None:
        """`retry` for event loops."""
        await asyncio.to_thread(self._runtime.retry, self.id, step, by)

    def fork(
        self,
        *,
        at: int | None = None,
        budget: Budget | None = None,
        goal: str | None = None,
        key: str | None = None,
        by: str = "operator",
    ) -> Handle:
        """Make a task that begins where this one stood, and return its handle.

        It has its completed steps with their results, its variables in view, findings,
        notes and failures, and its constraints and rules. The step that ran begins
        anew; what was open is not taken along, nor are sub-tasks. What had happened in
        that step the model is told. The fork has an id, a budget and a ledger of its
        own: it has no right to the effects of this task, and the same call is another
        effect, also where a completed step is done again there. Agent, its rules and
        baseline are those of now; a deadline that has passed is dropped.

        Args:
            at: a `seq` of the log; the task is forked as it was then. Now by default.
            budget: the fork's limits; None takes those this task was submitted with.
            goal: another goal, in place of this task's.
            key: forking with the same key again gives the same fork.
            by: who makes it; kept.

        Raises Misuse where the task was erased, had not begun at `at`, or its agent is
        not registered.
        """
        made = self._runtime.make_fork(
            self.id, at=at, budget=budget, goal=goal, key=key, by=by
        )
        return Handle(self._runtime, made)

    async def afork(self, **options: Any) -> Handle:
        """`fork` for event loops; the same arguments."""
        return await asyncio.to_thread(lambda: self.fork(**options))

    def cancel(
        self,
        by: str = "operator",
        timeout: float | None = None,
        *,
        compensate: bool = False,
    ) -> Result:
        """End the task after the operations in flight; returns how it ended.

        With `compensate` its completed effects are taken back first, the newest first,
        by what their tools declare as `undo`. Where one of these fails, or nobody can
        say whether it happened, the task pauses and says which: `resume` tries it
        again, `cancel` without `compensate` leaves the rest as it is.

        A task that had ended before keeps its result, one that is parked on its way
        says so: the answer is the truth, not the wish.

        Raises TimeoutError after `timeout` seconds; the wish stands all the same.
        """
        return self._runtime.cancel(self.id, by, timeout, compensate=compensate)

    async def acancel(
        self, by: str = "operator", *, compensate: bool = False
    ) -> Result:
        """`cancel` for event loops."""
        await asyncio.to_thread(
            self._runtime.ask_cancel, self.id, by, compensate=compensate
        )
        until = ending(compensate)
        return await self._runtime.await_stop(self.id, until=until)

    def approve(
        self,
        approval: str,
        by: str = "operator",
        *,
        arguments: dict[str, Any] | None = None,
        tool: str | None = None,
    ) -> bool:
        """Let a call run that waits for it, with exactly these arguments.

        Args:
            approval: its id, from `runtime.approvals()`.
            by: who says so.
            arguments: have it called with these instead, all of them. That is another
                call: it is judged by the rules of its tool, and asked for anew where
                they say so. The model is told who changed it, and to what.
            tool: the other tool that is to be called with `arguments`.

        False where it was answered before, expired, or is no longer wanted. Raises
        Misuse where the task has no such approval, and where `arguments` are wrong.
        """
        return self._runtime.answer(
            self.id, approval, by, "", approved=True, arguments=arguments, tool=tool
        )

    async def aapprove(
        self,
        approval: str,
        by: str = "operator",
        *,
        arguments: dict[str, Any] | None = None,
        tool: str | None = None,
    ) -> bool:
        """`approve` for event loops."""
        return await asyncio.to_thread(
            self.approve, approval, by, arguments=arguments, tool=tool
        )

    def reject(self, approval: str, by: str = "operator", why: str = "") -> bool:
        """Refuse a call that waits; the model is told by whom and why.

        An approval is taken back by this until its call is made; an attempt that has
        begun is not touched, and no further one is made. Returns and raises as
        `approve` does.
        """
        return self._runtime.answer(self.id, approval, by, why, approved=False)

    async def areject(self, approval: str, by: str = "operator", why: str = "") -> bool:
        """`reject` for event loops."""
        return await asyncio.to_thread(self.reject, approval, by, why)

    def answer(self, question: str, text: str, by: str = "operator") -> bool:
        """Answer a question of the task; the text is the result of the call that asks.

        Args:
            question: its id, from `runtime.questions()`.
            text: the answer; one of the choices, word for word, where it has some.
            by: who says so; the model is told.

        False where it was answered before, expired, or is no longer wanted. Raises
        Misuse where the task has no such question, and for what is none of its choices.
        """
        return self._runtime.reply(self.id, question, text, by)

    async def aanswer(self, question: str, text: str, by: str = "operator") -> bool:
        """`answer` for event loops."""
        return await asyncio.to_thread(self._runtime.reply, self.id, question, text, by)

    def steer(self, text: str, by: str = "operator", *, replace: int = 0) -> int:
        """Give the task a note, which stands in each of its requests until it ends.

        A running task has it in its next request. One that is paused, waits or is
        queued is not woken for it: it has it once it goes on.

        Args:
            text: up to 500 characters.
            by: who says so; the model is told.
            replace: the number of the note that this one takes the place of.

        Returns:
            The note's number. A task has room for eight; none is dropped for another.

        Raises:
            Misuse: the task has ended or is to end, has no room, or no such note.
            TaskNotFound: there is no such task.
        """
        return self._runtime.steer(self.id, text, by, replace)

    async def asteer(self, text: str, by: str = "operator", *, replace: int = 0) -> int:
        """`steer` for event loops."""
        return await asyncio.to_thread(self._runtime.steer, self.id, text, by, replace)

    def extend(self, budget: Budget) -> None:
        """Add to the limits of the task's budget; a task paused for money goes on.

        Raises Misuse where the pool has not so much, or the task does not limit it.
        """
        self._runtime.extend(self.id, budget)

    async def aextend(self, budget: Budget) -> None:
        """`extend` for event loops."""
        await asyncio.to_thread(self._runtime.extend, self.id, budget)

    def limit(self, budget: Budget) -> None:
        """Lower the limits that `budget` names to its amounts.

        Below what is used, the task pauses before its next operation, until `extend`.
        Raises Misuse where a limit is not above that, or there is none.
        """
        self._runtime.limit(self.id, budget)

    async def alimit(self, budget: Budget) -> None:
        """`limit` for event loops."""
        await asyncio.to_thread(self._runtime.limit, self.id, budget)
