"""A task as of one place of the log, as one document (B18-B24, B30).

What is stored is a snapshot and the events after it, which is less than this: inputs
and outputs of finished calls stay in the record. The document is put together from the
task's streams, all of them up to one `seq`, whoever owns the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from .actors import events, names
from .actors.budget import account
from .actors.budget.account import AccountState, add, shown
from .actors.events import CallTool, EffectRecorded, EffectRegistered, Event
from .actors.evidence import evidence_id
from .actors.rules import said
from .actors.task import state as task_state
from .actors.task.rows import ENDED
from .actors.task.state import Op, TaskState
from .actors.task.trimmed import why_gone
from .errors import Misuse
from .folds import event_of, family
from .storage.reader import Reader
from .storage.records import Record, Snapshot

__all__ = ["Checkpoint", "NextStep", "checkpoint"]

SCHEMA = 1  # of the document
SUMMARY = 500  # characters of what a finished step brought
SHOWN = 1_000  # characters of one call's input, and of its output


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far the task is: steps by id, and why it stopped, where it did."""

    status: str
    current_step: str | None
    completed_steps: tuple[str, ...]
    pending_steps: tuple[str, ...]
    stopped_steps: dict[str, str]
    reason: str = ""
    detail: str = ""
    ends_with: str = ""


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, word for word, and what is to be there at the end."""

    raw_input: str
    inputs: dict[str, Any]
    constraints: tuple[str, ...]
    final_goal: str


class DoneStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that passed acceptance, its output in short, and where that came from."""

    step: str
    summary: str
    evidence: str


class NextAction(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was decided and has no outcome yet."""

    evidence: str
    tool: str
    parameters: Any
    status: str


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """What comes next: `actions` are decided, without any the model is asked."""

    step: str
    goal: str
    expected_result: str
    parameters: dict[str, Any]
    actions: tuple[NextAction, ...]


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool, with what it was given and what it gave; both bounded."""

    evidence: str
    step: str
    tool: str
    effect: str = msgspec.field(name="class")
    status: str
    by: str
    input: str
    output: str
    error: str


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The newest snapshot that covers nothing behind the document's `seq`."""

    stream: str
    version: int
    seq: int
    reason: str
    at: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One task as of `seq`.

    `side_effects` counts the effects that happened and stand, by what their tools say
    that they are (``@tool(counts_as=…)``, else the tool's name). `effects` names those
    of each status by evidence id, with ``undone`` for those taken back.
    """

    checkpoint_id: str
    schema_version: int
    session_id: str
    created_at: str
    seq: int
    agent: str
    goal: Goal
    task_status: TaskStatus
    completed: tuple[DoneStep, ...]
    next_step: NextStep | None
    tools_called: tuple[Called, ...]
    side_effects: dict[str, int]
    effects: dict[str, tuple[str, ...]]
    resource_usage: dict[str, Any]
    snapshot: Taken | None


class _Call(msgspec.Struct, kw_only=True):
    """The newest attempt of a call, while its records are gone through."""

    registered: EffectRegistered
    recorded: EffectRecorded | None = None
    undone: bool = False

    @property
    def status(self) -> str:
        return self.recorded.status if self.recorded else "pending"


def checkpoint(reader: Reader, task: str, at: int | None = None) -> Checkpoint:
    """The document of a task, by its id, as of `at` or as of now.

    Raises Misuse where the task has no record so early, was erased, or where `at` is
    before the end of one whose scratch was let go.
    """
    last = reader.durable_seq if at is None else min(at, reader.durable_seq)
    history = [
        (record, event_of(record))
        for record in family(reader, names.family(task), last)
    ]
    own = [event for record, event in history if record.stream == f"task/{task}"]
    if not own:
        raise Misuse(f"task {task} has no record up to seq {last}; give a later one")
    if isinstance(own[0], events.TaskErased):
        raise Misuse(f"task {task} was erased by {own[0].by}: nothing is left to show")
    state = TaskState()
    for event in own:
        state = task_state.apply(state, event)
    if state.trimmed and state.status not in ENDED:
        what = "only its end is left"
        raise Misuse(why_gone(task, state.trimmed, what))
    books = AccountState()
    for record, event in history:
        if record.stream == names.account(task):
            books = account.apply(books, event)
    calls = _calls([event for _, event in history])
    newest = history[-1][0]
    return Checkpoint(
        checkpoint_id=f"cp_{task}_{newest.seq}",
        schema_version=SCHEMA,
        session_id=task,
        created_at=_time(newest.at),
        seq=newest.seq,
        agent=state.task.agent,
        goal=Goal(
            raw_input=state.task.goal,
            inputs=state.task.inputs,
            constraints=said(state.task.constraints, state.task.rules),
            final_goal=state.task.goal,
        ),
        task_status=_status(state),
        completed=tuple(
            DoneStep(
                step=one.id,
                summary=_short(one.result, SUMMARY),
                evidence=evidence_id(one.evidence),
            )
            for one in state.steps
            if one.status == "completed"
        ),
        next_step=_next(state),
        tools_called=tuple(map(_called, calls)),
        side_effects=_side_effects(calls),
        effects=_effects(calls),
        resource_usage=_usage(books),
        snapshot=_taken(reader, task, newest),
    )


def _status(state: TaskState) -> TaskStatus:
    pause, outcome = state.pause, state.outcome
    named = {"completed": [], "pending": []}  # type: dict[str, list[str]]
    stopped: dict[str, str] = {}
    for one in state.steps:
        if one.status in named:
            named[one.status].append(one.id)
        elif one.status != "running":
            stopped[one.id] = one.status
    return TaskStatus(
        status=state.status,
        current_step=state.step.id if state.step else None,
        completed_steps=tuple(named["completed"]),
        pending_steps=tuple(named["pending"]),
        stopped_steps=stopped,
        reason=pause.reason if pause else outcome.reason if outcome else "",
        detail=pause.detail if pause else "",
        ends_with=pause.ends_with if pause else "",
    )


def _next(state: TaskState) -> NextStep | None:
    """The step that runs, or the first that may; none once the task has ended."""
    if state.outcome is not None:
        return None
    done = {one.id for one in state.steps if one.status == "completed"}
    running = state.step.id if state.step else ""
    waiting = [one for one in state.plan if one.id not in done]
    ready = [one for one in waiting if done.issuperset(one.needs)]
    now = [one for one in waiting if one.id == running]
    plan = next(iter((*now, *ready, *waiting)), None)
    if plan is None:
        return None
    return NextStep(
        step=plan.id,
        goal=plan.goal,
        expected_result=plan.done,
        parameters=state.task.inputs,
        actions=tuple(
            NextAction(
                evidence=evidence_id(op.op),
                tool=op.action.tool,
                parameters=_json(op.action.arguments),
                status=_stands(op),
            )
            for op in state.open_ops()
            if isinstance(op.action, CallTool)
        ),
    )


def _stands(op: Op) -> str:
    if op.gate:
        return op.gate
    return "in doubt" if op.doubt else "decided"


def _calls(history: Sequence[Event]) -> list[_Call]:
    """Every call of a tool, by its newest attempt, in the order they were decided."""
    found: dict[int, _Call] = {}
    for event in history:
        match event:
            case EffectRegistered(kind="tool", op=op):
                found[op] = _Call(registered=event)
            case EffectRecorded(op=op) if op in found:
                found[op].recorded = event
                undoes = found[op].registered.undoes
                if undoes is not None and event.status == "completed":
                    found[undoes.op].undone = True
    return [found[op] for op in sorted(found)]


def _called(call: _Call) -> Called:
    made, recorded = call.registered, call.recorded
    return Called(
        evidence=evidence_id(made.op),
        step=made.step,
        tool=made.name,
        effect=made.effect,
        status=call.status,
        by=recorded.by if recorded else "",
        input=_short(made.arguments, SHOWN),
        output=_short(recorded.result if recorded else "", SHOWN),
        error=_short(recorded.error if recorded else "", SHOWN),
    )


def _is_effect(call: _Call) -> bool:
    """Whether it is an effect of its own: no read, no answer from the record."""
    made = call.registered
    return made.effect != "read" and made.reused is None and made.undoes is None


def _side_effects(calls: Sequence[_Call]) -> dict[str, int]:
    counted = Counter(
        call.registered.counts_as or call.registered.name
        for call in calls
        if _is_effect(call) and call.status == "completed" and not call.undone
    )
    return dict(sorted(counted.items()))


def _effects(calls: Sequence[_Call]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {
        status: [] for status in ("pending", "completed", "failed", "unknown", "undone")
    }
    for call in filter(_is_effect, calls):
        status = "undone" if call.undone else call.status
        found[status].append(evidence_id(call.registered.op))
    return {status: tuple(ids) for status, ids in found.items()}


def _usage(books: AccountState) -> dict[str, Any]:
    """What was used in all: by known outcomes, unknown ones, and recoveries."""
    whole = add(add(books.books.spent, books.books.unknown), books.books.recovery)
    plain = shown(whole)
    plain.pop("tool_calls")
    tokens = whole.get("input_tokens", 0) + whole.get("output_tokens", 0)
    return {
        "tokens_consumed": tokens,
        "tool_calls": whole.get("tool_calls", 0),
        **plain,
    }


def _taken(reader: Reader, task: str, newest: Record) -> Taken | None:
    found: list[Snapshot] = []
    for stream in (names.family(task), names.ledger(task), names.account(task)):
        found += [one for one in reader.snapshots(stream) if one.covers <= newest.seq]
    if not found:
        return None
    last = max(found, key=lambda one: (one.covers, one.at))
    return Taken(
        stream=last.stream,
        version=last.version,
        seq=last.covers,
        reason=last.reason,
        at=_time(last.at),
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _json(text: str) -> Any:
    """The arguments as JSON, or as the text that a model wrote instead of it."""
    try:
        return msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _time(at: float) -> str:
    """A second since the epoch, as B30 has it: whole seconds, UTC."""
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
