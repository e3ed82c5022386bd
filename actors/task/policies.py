"""The task's part for an agent's own policy: asked off the dispatcher, then obeyed.

    ask -> executor: view, policy, check -> DecisionMade, one for each call

A policy is asked before what it looks at is flushed. Its answer stands behind that in
the log, and a tool starts only once its registration is flushed, so nothing of it is
seen outside that could be lost. This holds since it has no side effects of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...supervision.faults import hit
from ..events import CallTool, DecisionMade, FinishStep, PauseTask, PolicyFailed
from ..executor.executor import Outcome, Work
from ..ledger.entry import Entry
from ..policy import Chosen, Done, PolicyStep, PolicyView, read_action
from ..protocol import Replied
from .commands import AskPolicy, StopFor
from .state import Op, TaskState
from .values import parsed

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Policies", "PolicyAnswered"]

RECENT = 16  # calls that a view shows beside those of the newest decision
LEARNED = 200  # characters of what the newest calls taught


class PolicyAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """A policy decided about the state at `version`, or did not."""

    version: int
    outcome: Outcome


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """An ended call, as the record has it; each view gets its own copy."""

    op: int
    tool: str
    arguments: str
    status: Any
    result: str
    error: str
    by: str


class Policies:
    """Asks the policy, and keeps what its newest calls brought."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._ended: dict[int, _Call] = {}
        self._asked = 0  # the version of the state that an answer is awaited for

    def ask(self) -> None:
        """Ask for one decision about the running step."""
        task, state = self._task, self._task.state
        policy, tools = task.agent.policy, task.agent.tools
        assert policy is not None
        calls = self._newest()
        self._ended = {one.op: one for one in calls}  # nobody looks at the others
        version = self._asked = state.version
        address = task.address

        def deliver(outcome: Outcome) -> None:
            address.tell(PolicyAnswered(version=version, outcome=outcome))

        def decide() -> Chosen:
            return read_action(policy(view_of(task.id, state, calls)), tools)

        async def decide_async() -> Chosen:
            return read_action(await policy(view_of(task.id, state, calls)), tools)  # type: ignore[misc]  # it is async

        timeout = task.house.baseline.policy_timeout
        work = Work(
            key=(task.id, f"policy {version}"),
            name="policy",
            effect="read",
            call=decide_async if task.agent.policy_is_async else decide,
            coroutine=task.agent.policy_is_async,
            timeout=timeout,
            not_after=task.house.now() + timeout,
            deliver=deliver,
        )
        task.house.executor.run(work)

    def answered(self, message: PolicyAnswered) -> None:
        """Write the decision down; one about a state that is over is asked for anew."""
        task, outcome = self._task, message.outcome
        if message.version != self._asked:
            return
        self._asked = 0
        for command in [one for one in task.under_way if isinstance(one, AskPolicy)]:
            task.under_way.discard(command)
        # As with acceptance: nobody was asked, or the task went on meanwhile.
        if outcome.refused or outcome.late or message.version != task.state.version:
            return
        step = task.state.step
        assert step is not None
        if outcome.status != "completed":
            self._failed(step.id, outcome.error)
            return
        assert isinstance(outcome.value, Chosen)
        task.append(*self._decided(step.id, outcome.value))
        hit("task.decided", "policy")

    def _decided(self, step: str, chosen: Chosen) -> Iterable[DecisionMade]:
        first = self._task.state.next_op
        actions: list[CallTool | FinishStep | PauseTask] = [
            CallTool(
                tool=tool, arguments=arguments, call_id="", parent=first, index=place
            )
            for place, (tool, arguments, _) in enumerate(chosen.calls)
        ]
        whys = [why for _, _, why in chosen.calls]
        if chosen.result is not None:
            actions, whys = [FinishStep(result=chosen.result)], [""]
        elif not actions:
            actions, whys = [PauseTask()], [""]
        learned = self._learned()
        for place, action in enumerate(actions):
            yield DecisionMade(
                op=first + place,
                step=step,
                action=action,
                why=whys[place] or chosen.why,
                learned=learned,
                memo=chosen.memo if place == 0 else None,
            )

    def _failed(self, step: str, why: str) -> None:
        task = self._task
        task.append(PolicyFailed(step=step, why=why))
        if task.state.choice.failures > task.house.baseline.policy_retries:
            task.parting.stop_for(StopFor("policy_error", why, "resume"))

    # ── what its calls brought ───────────────────────────────────────────────────

    def observed(self, op: Op, action: CallTool, outcome: Replied) -> None:
        """Keep how a call ended."""
        self._keep(op.op, action.tool, outcome)

    def recall(self, entries: Sequence[Entry]) -> None:
        """Learn again from the record what the step's newest calls brought."""
        self._ended.clear()
        for entry in entries:
            mine = entry.kind == "tool" and entry.undoes is None
            if mine and entry.status != "pending":
                self._keep(entry.op, entry.name, entry)

    def _keep(self, op: int, tool: str, outcome: Replied | Entry) -> None:
        assert outcome.status != "pending"
        self._ended[op] = _Call(
            op=op,
            tool=tool,
            arguments=outcome.arguments,
            status=outcome.status,
            result=outcome.result,
            error=outcome.error,
            by=outcome.by,
        )

    def _newest(self) -> tuple[_Call, ...]:
        """The newest calls of the step's attempt that have ended, in order."""
        choice = self._task.state.choice
        mine = [self._ended[op] for op in sorted(self._ended) if op >= choice.since]
        last = sum(one.op >= choice.exchange for one in mine)
        return tuple(mine[-max(RECENT, last) :])

    def _learned(self) -> str:
        exchange = self._task.state.choice.exchange
        last = [one for op, one in sorted(self._ended.items()) if op >= exchange > 0]
        failed = [one for one in last if one.status != "completed"]
        said = "; ".join(f"{one.tool}: {one.error or one.status}" for one in failed)
        return said[:LEARNED]


def view_of(task: str, state: TaskState, calls: Sequence[_Call]) -> PolicyView:
    """What a policy is shown: made of JSON anew, so that it is the policy's to harm."""
    submitted, choice = state.task, state.choice
    texts = {one.id: one for one in state.plan}
    steps = tuple(
        PolicyStep(
            id=one.id,
            goal=texts[one.id].goal,
            done=texts[one.id].done,
            status=one.status,
            attempt=one.attempt,
            iteration=one.iterations,
        )
        for one in state.steps
    )
    ended = [(one.op, _done(one)) for one in calls]
    people = [one for _, one in sorted(state.steering.items())]
    said = [f"{one.by} says: {one.text}" for one in people]
    return PolicyView(
        task=task,
        goal=submitted.goal,
        constraints=submitted.constraints,
        inputs=msgspec.json.decode(msgspec.json.encode(submitted.inputs)),
        step=next(one for one in steps if one.status == "running"),
        steps=steps,
        facts={
            one.id: parsed(one.result)
            for one in state.steps
            if one.status == "completed"
        },
        last=tuple(done for op, done in ended if op >= choice.exchange > 0),
        recent=tuple(done for _, done in ended[-RECENT:]),
        count=choice.finished,
        notes=(*state.notes, *said),
        memo=msgspec.json.decode(choice.memo),
    )


def _done(call: _Call) -> Done:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:  # a person's word in place of the policy's
        arguments = {}
    return Done(
        tool=call.tool,
        arguments=arguments if isinstance(arguments, dict) else {},
        status=call.status,
        result=call.result,
        error=call.error,
        by=call.by,
    )
