"""The task's part for an agent's own policy: asked off the dispatcher, then obeyed.

    ask -> executor: view, policy, check -> DecisionMade, one for each call

A policy is asked before what it looks at is flushed. Its answer stands behind that in
the log, and a tool starts only once its registration is flushed, so nothing of it is
seen outside that could be lost. This holds since it has no side effects of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
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
SCALARS = frozenset((str, int, float, bool, type(None)))  # of JSON

decoded = msgspec.json.Decoder().decode


class PolicyAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """A policy decided about the state at `version`, or did not."""

    version: int
    outcome: Outcome


class _Call(msgspec.Struct, kw_only=True):
    """An ended call, as the record has it; each view gets its own copy.

    `done` is without its arguments; `flat` is what these are where there is nothing in
    them to change.
    """

    op: int
    arguments: str
    done: Done
    flat: dict[str, Any] | None = None

    def shown(self) -> Done:
        """As a policy sees it."""
        flat = self.flat
        values = self._decoded() if flat is None else flat.copy()
        return msgspec.structs.replace(self.done, arguments=values)

    def _decoded(self) -> dict[str, Any]:
        try:
            found = decoded(self.arguments)
        except msgspec.DecodeError:  # a person's word in place of the policy's
            found = {}
        values: dict[str, Any] = found if isinstance(found, dict) else {}
        if SCALARS.issuperset(map(type, values.values())):
            self.flat = values.copy()
        return values


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
        if len(calls) < len(self._ended):  # nobody looks at the others
            self._ended = {one.op: one for one in calls}
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
        for command in [one for one in task.under_way if type(one) is AskPolicy]:
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

    def _decided(self, step: str, chosen: Chosen) -> list[DecisionMade]:
        first, learned = self._task.state.next_op, self._learned()
        if not chosen.calls:
            result = chosen.result
            ends = PauseTask() if result is None else FinishStep(result=result)
            return [
                DecisionMade(
                    op=first,
                    step=step,
                    action=ends,
                    why=chosen.why,
                    learned=learned,
                    memo=chosen.memo,
                )
            ]
        return [
            DecisionMade(
                op=first + place,
                step=step,
                action=CallTool(
                    tool=tool,
                    arguments=arguments,
                    call_id="",
                    parent=first,
                    index=place,
                ),
                why=why or chosen.why,
                learned=learned,
                memo=None if place else chosen.memo,
            )
            for place, (tool, arguments, why) in enumerate(chosen.calls)
        ]

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
            arguments=outcome.arguments,
            done=Done(
                tool=tool,
                arguments={},
                status=outcome.status,
                result=outcome.result,
                error=outcome.error,
                by=outcome.by,
            ),
        )

    def _newest(self) -> list[_Call]:
        """The newest calls of the step's attempt that have ended, in order."""
        choice, ended = self._task.state.choice, self._ended
        mine = [ended[op] for op in sorted(ended) if op >= choice.since]
        return mine[-max(RECENT, _last(mine, choice.exchange)) :]

    def _learned(self) -> str:
        exchange, ended = self._task.state.choice.exchange, self._ended
        failed = [
            op
            for op, one in ended.items()
            if op >= exchange > 0 and one.done.status != "completed"
        ]
        if not failed:
            return ""
        calls = [ended[op].done for op in sorted(failed)]
        said = "; ".join(f"{one.tool}: {one.error or one.status}" for one in calls)
        return said[:LEARNED]


def _last(calls: list[_Call], exchange: int) -> int:
    """How many of the calls, that are in order, belong to the newest decision."""
    count = 0
    if exchange > 0:
        while count < len(calls) and calls[-1 - count].op >= exchange:
            count += 1
    return count


def view_of(task: str, state: TaskState, calls: list[_Call]) -> PolicyView:
    """What a policy is shown: made of JSON anew, so that it is the policy's to harm."""
    submitted, choice = state.task, state.choice
    texts = {one.id: one for one in state.plan}
    steps: list[PolicyStep] = []
    facts: dict[str, Any] = {}
    running: PolicyStep | None = None
    for one in state.steps:
        text = texts[one.id]
        step = PolicyStep(
            id=one.id,
            goal=text.goal,
            done=text.done,
            status=one.status,
            attempt=one.attempt,
            iteration=one.iterations,
        )
        steps.append(step)
        if one.status == "completed":
            facts[one.id] = parsed(one.result)
        elif one.status == "running" and running is None:
            running = step
    assert running is not None
    ended = [one.shown() for one in calls]
    notes = tuple(state.notes)
    if state.steering:
        people = [one for _, one in sorted(state.steering.items())]
        notes += tuple([f"{one.by} says: {one.text}" for one in people])
    return PolicyView(
        task=task,
        goal=submitted.goal,
        constraints=submitted.constraints,
        inputs=decoded(msgspec.json.encode(submitted.inputs)),
        step=running,
        steps=tuple(steps),
        facts=facts,
        last=tuple(ended[len(ended) - _last(calls, choice.exchange) :]),
        recent=tuple(ended[-RECENT:]),
        count=choice.finished,
        notes=notes,
        memo=decoded(choice.memo),
    )
