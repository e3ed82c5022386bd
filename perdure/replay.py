"""The exact request of a model call, rendered again from the store alone (A2, A6).

A rendered request is never stored: its event holds a digest, the version of the task
that it was rendered from, and the exchanges that were in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .actors.agent import FixedLayer
from .actors.context.blocks import Fate, Layer, Window
from .actors.context.build import request_blocks
from .actors.context.judging import judging
from .actors.context.known import Known
from .actors.context.measures import named
from .actors.context.render import OperationView
from .actors.context.shrink import assemble_shrinking
from .actors.context.summing import summing
from .actors.events import (
    CallModel,
    ContextRebuilt,
    Event,
    KnowledgeTaken,
    RequestBuilt,
    StepEnded,
    StepRetried,
    StepStarted,
    TaskErased,
    TaskTrimmed,
)
from .actors.ledger import entry as ledger
from .actors.ledger.entry import Entry, LedgerState
from .actors.model import Message, ModelReply, ToolSchema
from .actors.task import state as task_state
from .actors.task.opinions import question_of
from .actors.task.recovery import exchanges, operations, view_of
from .actors.task.state import TaskState
from .actors.task.summaries import subject_of
from .actors.task.trimmed import why_gone
from .errors import Misuse
from .folds import whole
from .storage.errors import Undecodable
from .storage.reader import Reader
from .storage.records import Record

__all__ = ["Rendered", "render_again", "rounds"]


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the model got it; `digest` equals the one recorded.

    `layers` is the layer of each message; `fates` say what became of each block that
    it could have held. It takes `size` of `limit`, both in `measure`.
    """

    op: int
    attempt: int
    purpose: str
    messages: list[Message]
    layers: tuple[Layer, ...]
    tools: list[ToolSchema]
    digest: str
    characters: int
    measure: str
    size: int
    limit: int
    fates: tuple[Fate, ...]


def render_again(reader: Reader, task: str, op: int) -> Rendered:
    """Render the newest request of model call `op`.

    Raises Misuse where the task has no such request or was erased, Undecodable where
    what is rendered is not what was sent. A request measured in exact tokens needs the
    extra.
    """
    stream = whole(reader, f"task/{task}")
    if stream and isinstance(stream[0][1], TaskErased):
        raise Misuse(f"task {task} was erased by {stream[0][1].by}: no request is left")
    _refuse_trimmed(task, stream)
    record, built = _request(stream, task, op)
    state = _task_at(stream, built.view)
    decided = state.ops[op].action
    assert isinstance(decided, CallModel)
    purpose = decided.purpose
    work = purpose == "work"
    facts = _facts(reader, stream, task, record, built)
    view = view_of(state, facts, purpose=purpose)
    if work:  # it shows in short what it cuts itself
        found = _task_at(stream, record.version).findings
        view = msgspec.structs.replace(view, findings=found)
    if built.bare:
        view = msgspec.structs.replace(view, findings=(), adrift=False, summary="")
    layer = _fixed(reader, built)
    known = Known(layer.tools, named(built.measure, built.scale))
    fixed, stable, moving = request_blocks(
        layer.instructions,
        view,
        purpose=purpose,
        opens=known.opens,
        tools=layer.tools,
    )
    since = built.facts_until + 1 if work else 0
    entries = _calls(reader, task, record.seq, since)
    if purpose == "summarise":
        shown = {n for first, last in built.blocks for n in range(first, last + 1)}
        subject = subject_of(state, exchanges(entries, shown))
        made = summing(layer, subject, limit=built.limit, measure=known.measure)
    elif purpose == "judge":
        question = question_of(state, view, decided, _said(entries, decided.judges))
        made = judging(question, limit=built.limit, measure=known.measure)
    else:
        made = assemble_shrinking(
            fixed,
            stable,
            exchanges(entries, range(built.op)) if work else [],
            moving,
            layer.tools if work else [],
            limit=built.limit,
            window=Window(
                start=built.window, omitted=built.omitted, shrunk=built.shrunk
            )
            if work
            else Window(),
            known=known,
        )
    if made.digest != built.digest and _lacks(stream, built.view):
        raise Misuse(f"request {op} of task {task} showed facts that were erased")
    if made.digest != built.digest:
        raise Undecodable(
            f"request {op}#{built.attempt} of task {task}",
            f"it renders to {made.digest[:16]}, {built.digest[:16]} was sent",
        )
    return Rendered(
        op=op,
        attempt=built.attempt,
        purpose=purpose,
        messages=made.messages,
        layers=made.layers,
        tools=made.tools,
        digest=made.digest,
        characters=made.characters,
        measure=built.measure,
        size=made.report.after,
        limit=built.limit,
        fates=_summed_up(made.fates, state) if view.summary else made.fates,
    )


def _said(entries: Sequence[Entry], op: int) -> str:
    """What the model answered in an operation; nothing for none."""
    for entry in entries:
        if entry.op == op and entry.status == "completed":
            reply = msgspec.json.decode(entry.result, type=ModelReply)
            return reply.content or ""
    return ""


def _summed_up(fates: Sequence[Fate], state: TaskState) -> tuple[Fate, ...]:
    """The fates, with the summary as the reason where one stands in a block's place."""
    said = state.summary
    return tuple(
        msgspec.structs.replace(one, why="a summary stands in its place")
        if one.fate == "dropped" and said.since <= one.block <= said.until
        else one
        for one in fates
    )


def rounds(reader: Reader, task: str) -> list[int]:
    """The operations that are model calls which a request was built for, in order.

    Raises Misuse where retention has let them go.
    """
    stream = whole(reader, f"task/{task}")
    _refuse_trimmed(task, stream)
    return sorted({e.op for _, e in stream if isinstance(e, RequestBuilt)})


def _refuse_trimmed(task: str, stream: Sequence[tuple[Record, Event]]) -> None:
    for _, event in stream:
        if isinstance(event, TaskTrimmed):
            raise Misuse(why_gone(task, event.trimmed_at, "no request is left"))


def _lacks(stream: Sequence[tuple[Record, Event]], version: int) -> bool:
    """Whether facts that the task knew at some version are erased."""
    return any(
        isinstance(event, KnowledgeTaken) and event.erased > 0
        for record, event in stream
        if record.version <= version
    )


def _request(
    stream: Sequence[tuple[Record, Event]], task: str, op: int
) -> tuple[Record, RequestBuilt]:
    found = [
        (record, event)
        for record, event in stream
        if isinstance(event, RequestBuilt) and event.op == op
    ]
    if not found:
        calls = sorted({e.op for _, e in stream if isinstance(e, RequestBuilt)})
        known = ", ".join(map(str, calls)) or "none yet"
        raise Misuse(f"task {task} sent no request {op}; its model calls are: {known}")
    return found[-1]


def _task_at(stream: Sequence[tuple[Record, Event]], version: int) -> TaskState:
    state = TaskState()
    for record, event in stream:
        if record.version <= version:
            state = task_state.apply(state, event)
    return state


def _entries_at(reader: Reader, task: str, seq: int) -> tuple[Entry, ...]:
    """The ledger's entries as of a place in the log."""
    state = LedgerState()
    for record, event in whole(reader, f"task/{task}/ledger"):
        if record.seq < seq:
            state = ledger.apply(state, event)
    return ledger.in_order(state.entries.values())


def _calls(reader: Reader, task: str, seq: int, since: int) -> tuple[Entry, ...]:
    """Operations from `since` on, as of a place in the log: none has left a state."""
    found: dict[int, Entry] = {}
    for record, event in whole(reader, f"task/{task}/ledger"):
        op: int = getattr(event, "op")  # noqa: B009 - every event of a ledger has one
        if record.seq < seq and op >= since:
            held = {op: found[op]} if op in found else {}
            found[op] = ledger.apply(LedgerState(entries=held), event).entries[op]
    return ledger.in_order(found.values())


def _facts(
    reader: Reader,
    stream: Sequence[tuple[Record, Event]],
    task: str,
    at: Record,
    built: RequestBuilt,
) -> tuple[OperationView, ...]:
    """The operations that the request showed as facts: those of the last rebuild."""
    marks = [
        (record, event)
        for record, event in stream
        if record.seq < at.seq and _begins(stream, record, event)
    ]
    if not marks or not isinstance(rebuilt := marks[-1][1], ContextRebuilt):
        return ()
    record = marks[-1][0]
    step = _task_at(stream, record.version).step
    entries = _entries_at(reader, task, record.seq)
    mine = [one for one in entries if step is not None and one.step == step.id]
    return operations(mine, built.facts_until, rebuilt.limit)


def _begins(
    stream: Sequence[tuple[Record, Event]], record: Record, event: Event
) -> bool:
    """Whether a task's exchanges, and what it shows as facts of them, begin anew."""
    if not isinstance(event, StepRetried):
        return isinstance(event, ContextRebuilt | StepStarted | StepEnded)
    running = _task_at(stream, record.version - 1).step
    return running is None or running.id in event.steps


def _fixed(reader: Reader, built: RequestBuilt) -> FixedLayer:
    body = reader.blob(built.fixed)
    if body is None:
        raise Undecodable(f"blob {built.fixed}", "it is not in the store")
    return msgspec.json.decode(body, type=FixedLayer)
