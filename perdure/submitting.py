"""How tasks are handed to a runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from .actors.baseline import Baseline
from .actors.budget.account import Budget
from .actors.protocol import Submit
from .actors.rules import Rule
from .actors.submission import make_submission
from .calls import TaskCalls
from .errors import Misuse
from .handle import Handle
from .storage.codec import Codec
from .submission import unpriced

__all__ = ["Submitting"]


class Submitting(TaskCalls):
    """The part of a `Runtime` that takes tasks."""

    baseline: Baseline
    _codec: Codec

    def submit(
        self,
        agent: str,
        goal: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        constraints: Sequence[str] = (),
        rules: Sequence[Rule] = (),
        budget: Budget | None = None,
        group: str = "",
        priority: int = 0,
        key: str | None = None,
        deadline: float | None = None,
        not_before: float | None = None,
    ) -> Handle:
        """Queue a task and return its handle once it is durable.

        Args:
            agent: name of a registered agent.
            goal: what is wanted, kept verbatim and shown in every request.
            inputs: parameters, JSON values.
            constraints: what must hold throughout, in words for the model.
            rules: what must hold because the door keeps it, beside its agent's.
            budget: the task's limits; None limits nothing but the pool.
            group, priority: its place in the queue; higher goes first.
            key: submitting with the same key again gives the same task.
            deadline: second since the epoch after which no new operation begins.
            not_before: second since the epoch before which the task gets no slot.

        Raises:
            Misuse: naming the argument, the value and the fix.
            RuntimeClosed, RuntimeFailed, TimeoutError: it was not queued, or nobody can
            tell; submitting with a `key` again is safe.
            UseAsync: inside an event loop.
        """
        self.refuse_in_loop("submit", "`await runtime.asubmit(...)`")
        found = self._agents.get(agent)
        if found is None:
            known = ", ".join(sorted(self._agents)) or "none"
            raise Misuse(f"no agent {agent!r} is registered (there are: {known})")
        if doubt := unpriced(found, budget, self._house.pool):
            if self._house.unknown_price == "refuse":
                raise Misuse(doubt)
            self._log("price.unknown", agent=agent, model=found.model.name, said=doubt)
        task = make_submission(
            found,
            goal,
            task_id=self._house.new_id(),
            rules=self.baseline,
            codec=self._codec,
            inputs=inputs,
            constraints=constraints,
            bound_by=rules,
            budget=budget,
            group=group,
            priority=priority,
            key=key,
            deadline=deadline,
            not_before=not_before,
        )
        return Handle(self, self._ask(lambda p: Submit(task=task, promise=p)))

    async def asubmit(self, agent: str, goal: str, **options: Any) -> Handle:
        """`submit` for event loops; the same arguments."""
        return await asyncio.to_thread(self.submit, agent, goal, **options)

    def fork(self, task: str, **options: Any) -> Handle:
        """Make a task that begins where another stood; see `Handle.fork`."""
        return Handle(self, task).fork(**options)

    async def afork(self, task: str, **options: Any) -> Handle:
        """`fork` for event loops; the same arguments."""
        return await Handle(self, task).afork(**options)
