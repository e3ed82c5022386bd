"""Why a task did what it did: its story, iteration by iteration, from the log (B58).

Nothing is kept for it that does not stand in the streams anyway: the state before a
decision is folded, the outcomes are those of the ledger. So it can be read from any
process, of a running task as of one whose process was killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from .actors import events, names
from .actors.events import (
    CallModel,
    CallTool,
    DecisionMade,
    Event,
    FinishStep,
    PauseTask,
)
from .actors.guard.tried import Tried
from .actors.task import state as task_state
from .actors.task.conditions import CONDITIONS
from .actors.task.state import TaskState
from .actors.task.trimmed import why_gone
from .errors import Misuse
from .folds import event_of, family
from .storage.reader import Reader
from .storage.records import Record
from .turns import Turn, turn_of

__all__ = ["Call", "Declared", "Iteration", "Recovered", "Turn", "Why", "why"]

SHOWN = 300  # characters of arguments, of a result, of what somebody said
TWICE = 2  # failures from which a call is told of as tried in vain


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asked for, and what came of it.

    `by` says whose word the outcome is: ``run``, ``record``, ``door``, ``person`` …
    """

    op: int
    tool: str
    arguments: str
    outcome: str = "open"
    by: str = ""
    feedback: str = ""


class Iteration(msgspec.Struct, frozen=True, kw_only=True, tag="iteration"):
    """One decision about a step's work, with all that came of it.

    Args:
        op: the model call; its request is `perdure request ID`, round `round`. Of a
            policy the first operation that it decided on.
        by: who decided: the ``model``, or the agent's own ``policy``.
        iteration, limit: which one of how many of the step's `attempt`; 0 is no limit.
        why, learned: as the decision log has them.
        said: the model's words beside its calls, or its answer.
        ruled_out: what it was not free to do, known before it was asked; calls that
            were refused in it are among `calls`.
        verdict: what acceptance said of its answer; empty where it gave none.
    """

    seq: int
    at: float
    op: int
    by: str
    round: int
    step: str
    attempt: int
    iteration: int
    limit: int
    why: str
    learned: str
    outcome: str = "open"
    said: str = ""
    calls: tuple[Call, ...] = ()
    ruled_out: tuple[str, ...] = ()
    verdict: str = ""


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What was declared, by whom, and what the rules said of it."""

    accepted: bool
    by: str
    who: str
    declaration: str
    why: str


class Recovered(msgspec.Struct, frozen=True, kw_only=True, tag="recovery"):
    """A pass through recovery: what was found, asked, answered, and ruled.

    `asked` are the model calls that asked for a declaration, as operations.
    """

    seq: int
    at: float
    number: int
    step: str
    cause: str
    facts: tuple[str, ...] = ()
    next: str = ""
    decided: dict[str, str] = {}
    asked: tuple[int, ...] = ()
    declared: tuple[Declared, ...] = ()


Part: TypeAlias = Iteration | Recovered | Turn


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The story of a task, oldest first; how it stands is that of the newest record.

    `conditions` are asked, in this order, before every iteration: none of them held
    where there was one. The one that stopped the loop stands in its turn.
    """

    task: str
    agent: str
    goal: str
    status: str
    reason: str
    ends_with: str
    conditions: tuple[str, ...]
    story: tuple[Part, ...]


def why(
    reader: Reader, task: str, step: str | None = None, last: int | None = None
) -> Why:
    """The story of a task, by its id; of one step, or from its last iterations on.

    Raises Misuse where the task was erased, its scratch was let go, it has no such
    step, or `last` is no number of at least 1.
    """
    if last is not None and last < 1:
        raise Misuse(f"last={last} must be at least 1: so many iterations are shown")
    story = _Story()
    for record in family(reader, names.family(task), reader.durable_seq):
        story.hear(task, record, event_of(record))
    state = story.state
    if step is not None and step not in {one.id for one in state.steps}:
        known = ", ".join(one.id for one in state.steps)
        raise Misuse(f"task {task} has no step {step!r}; its steps are {known}")
    pause, outcome = state.pause, state.outcome
    return Why(
        task=task,
        agent=state.task.agent,
        goal=state.task.goal,
        status=state.status,
        reason=pause.reason if pause else outcome.reason if outcome else "",
        ends_with=pause.ends_with if pause else "",
        conditions=tuple(one.name for one in CONDITIONS),
        story=tuple(_chosen(story.parts, step, last)),
    )


def _chosen(parts: list[Part], step: str | None, last: int | None) -> Iterator[Part]:
    """The parts of a step, from the iteration on that so many follow."""
    mine = [one for one in parts if step is None or one.step == step]
    turns = [n for n, one in enumerate(mine) if isinstance(one, Iteration)]
    begin = 0 if last is None or last >= len(turns) else turns[-last]
    yield from mine[begin:]


class _Story:
    """The parts so far, while the streams of a task are gone through in order."""

    def __init__(self) -> None:
        self.state = TaskState()
        self.parts: list[Part] = []
        self._places: dict[int, int] = {}  # of iterations, by operation
        self._calls: dict[int, tuple[int, int]] = {}  # place, and place of the call
        self._rounds: set[int] = set()  # model calls that a request was built for
        self._cause = ""
        self._recovery: int | None = None  # place of the one that goes on

    def hear(self, task: str, record: Record, event: Event) -> None:
        """Go on with one more record, of whichever stream of the task."""
        if record.stream == names.family(task):
            self._of_task(record, event)
        elif isinstance(event, events.EffectRecorded):
            self._recorded(event)
        elif isinstance(event, events.RecoveryBegan):
            self._cause = f"{event.cause} {event.actor}".strip()
        elif turn := turn_of(record, event, self._step):
            self.parts.append(turn)

    @property
    def _step(self) -> str:
        return self.state.step.id if self.state.step else ""

    def _of_task(self, record: Record, event: Event) -> None:
        before, self.state = self.state, task_state.apply(self.state, event)
        match event:
            case events.TaskErased(by=by):
                raise Misuse(f"the task was erased by {by}: nothing is left to explain")
            case events.TaskTrimmed(trimmed_at=at):
                task = events.task_of(record.stream)
                raise Misuse(why_gone(task, at, "no decision is left to explain"))
            case DecisionMade(action=CallModel(purpose="work")):
                self._iteration(record, event, before, "model")
            case DecisionMade(action=FinishStep(result=said)):
                self._iteration(record, event, before, "policy", said)
            case DecisionMade(action=PauseTask(), why=said):
                self._iteration(record, event, before, "policy", said)
            case DecisionMade(action=CallModel(purpose="declare"), op=op):
                self._recover(asked=op)
            case DecisionMade(action=CallTool(undoes=None) as call):
                if call.parent == event.op:  # a policy's first: no model asked for it
                    self._iteration(record, event, before, "policy")
                self._call(event, call)
            case events.RequestBuilt(op=op):
                self._rounds.add(op)
                self._change(op, round=len(self._rounds))
            case events.ActionObserved(op=op, again=False) if op not in self._calls:
                self._change(op, outcome=event.status)
            case events.AnswerRefused(op=op, why=why):
                self._change(op, verdict=f"refused: {why}")
            case events.StepEnded(status="completed", op=op):
                self._change(op, verdict="accepted")
            case events.RecoveryLoaded(number=number):
                self._recovery = len(self.parts)
                cause = self._cause or "the step was interrupted"
                self._cause = ""
                self.parts.append(
                    Recovered(
                        seq=record.seq,
                        at=record.at,
                        number=number,
                        step=self._step,
                        cause=cause,
                    )
                )
            case events.ContextRebuilt():
                self._recover(facts=event.facts, next=event.next)
            case events.EffectsVerified(decided=decided):
                self._recover(decided=decided)
            case events.RecoveryDeclared():
                self._recover(
                    declared=Declared(
                        accepted=event.accepted,
                        by=event.by,
                        who=event.who,
                        declaration=event.declaration,
                        why=event.why,
                    )
                )
                if event.accepted:
                    self._recovery = None
        if turn := turn_of(record, event, self._step or _step_of(before)):
            self.parts.append(turn)

    def _iteration(
        self,
        record: Record,
        event: DecisionMade,
        before: TaskState,
        by: str,
        said: str = "",
    ) -> None:
        step = next(one for one in before.steps if one.id == event.step)
        plan = next(one for one in before.plan if one.id == event.step)
        self._places[event.op] = len(self.parts)
        self.parts.append(
            Iteration(
                seq=record.seq,
                at=record.at,
                op=event.op,
                by=by,
                round=0,
                step=event.step,
                attempt=step.attempt,
                iteration=step.iterations + 1,
                limit=plan.max_iterations,
                why=event.why,
                learned=event.learned,
                outcome="open" if by == "model" else "decided",
                said=_short(said, SHOWN),
                ruled_out=tuple(_ruled_out(before)),
            )
        )

    def _call(self, event: DecisionMade, call: CallTool) -> None:
        place = self._places.get(call.parent)
        if place is None:
            return
        parent = self.parts[place]
        assert isinstance(parent, Iteration)
        self._calls[event.op] = place, len(parent.calls)
        one = Call(op=event.op, tool=call.tool, arguments=_short(call.arguments, SHOWN))
        said = parent.said or ("" if parent.why == event.why else event.why)
        self._change(call.parent, calls=(*parent.calls, one), said=_short(said, SHOWN))

    def _recorded(self, event: events.EffectRecorded) -> None:
        if event.op not in self._calls:
            if event.op in self._places and event.status == "completed":
                self._change(event.op, said=_said(event.result))
            return
        place, number = self._calls[event.op]
        parent = self.parts[place]
        assert isinstance(parent, Iteration)
        text = event.result if event.status == "completed" else event.error
        done = msgspec.structs.replace(
            parent.calls[number],
            outcome=event.status,
            by=event.by,
            feedback=_short(text, SHOWN),
        )
        calls = (*parent.calls[:number], done, *parent.calls[number + 1 :])
        self._change(parent.op, calls=calls)

    def _change(self, op: int, **fields: Any) -> None:
        place = self._places.get(op)
        if place is not None:
            self.parts[place] = msgspec.structs.replace(self.parts[place], **fields)

    def _recover(self, **fields: Any) -> None:
        """Say more of the recovery that goes on; a clean wake is none."""
        if self._recovery is None:
            return
        found = self.parts[self._recovery]
        assert isinstance(found, Recovered)
        for name in ("asked", "declared"):
            if name in fields:
                fields[name] = (*getattr(found, name), fields[name])
        self.parts[self._recovery] = msgspec.structs.replace(found, **fields)


def _step_of(state: TaskState) -> str:
    return state.step.id if state.step else ""


def _ruled_out(state: TaskState) -> Iterator[str]:
    """What the door would refuse, by what the task knows before it asks the model."""
    guard = state.guard
    if guard.stage in ("block", "stop"):
        yield f"blocked as a circle: {guard.says}"
    for said in state.rejections.values():
        yield f"rejected in this step: {said}"
    yield from _in_vain(state.tried, state.failures)


def _in_vain(tried: Tried, failures: Mapping[str, Any]) -> Iterator[str]:
    for name, ops in tried.items():
        if len(ops) < TWICE:
            continue
        shown = ", ".join(f"op{op}" for op in ops)
        known = failures.get(name)
        call = f"{known.what} {known.arguments}" if known else "a call"
        yield f"{call} failed {len(ops)} times ({shown}), and nothing has changed since"


def _said(result: str) -> str:
    """The words of a model's reply, from its record."""
    try:
        reply = msgspec.json.decode(result)
    except (msgspec.DecodeError, RecursionError):  # a long one is cut in its record
        return ""
    return _short(str(reply.get("content") or ""), SHOWN)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
