"""The exact request of a model call, rendered again from the store alone (A2, A6).

A rendered request is never stored: its event holds a digest, the version of the task
that it was rendered from, and the exchanges that were in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .actors.agent import FixedLayer
from .actors.context.blocks import Block, Fate, Layer, Window
from .actors.context.build import request_blocks
from .actors.context.known import Known
from .actors.context.measures import named
from .actors.context.render import OperationView
from .actors.context.shrink import assemble_shrinking
from .actors.events import (
    CallModel,
    ContextRebuilt,
    DecisionMade,
    Event,
    KnowledgeTaken,
    RequestBuilt,
    StepEnded,
    StepStarted,
    TaskErased,
)
from .actors.ledger import entry as ledger
from .actors.ledger.entry import Entry, LedgerState
from .actors.model import Message, ModelReply, ToolSchema
from .actors.task import state as task_state
from .actors.task.recovery import exchange, operations, told, view_of
from .actors.task.state import TaskState
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
    record, built = _request(stream, task, op)
    state = _task_at(stream, built.view)
    decided = state.ops[op].action
    assert isinstance(decided, CallModel)
    purpose = decided.purpose
    work = purpose == "work"
    facts = _facts(reader, stream, task, record, built)
    view = view_of(state, facts, closing=purpose == "closing")
    # A request shows in short what it cuts itself.
    found = () if built.bare else _task_at(stream, record.version).findings
    adrift = view.adrift and not built.bare
    view = msgspec.structs.replace(view, findings=found, adrift=adrift)
    layer = _fixed(reader, built)
    known = Known(layer.tools, named(built.measure, built.scale))
    fixed, stable, moving = request_blocks(
        layer.instructions, view, purpose=purpose, opens=known.opens
    )
    made = assemble_shrinking(
        fixed,
        stable,
        _scratch(
            _calls(reader, task, record.seq, built.facts_until + 1),
            built,
            _asides(stream),
        )
        if work
        else [],
        moving,
        layer.tools if work else [],
        limit=built.limit,
        window=Window(start=built.window, omitted=built.omitted, shrunk=built.shrunk)
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
        fates=made.fates,
    )


def rounds(reader: Reader, task: str) -> list[int]:
    """The operations that are model calls which a request was built for, in order."""
    stream = whole(reader, f"task/{task}")
    return sorted({e.op for _, e in stream if isinstance(e, RequestBuilt)})


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
    return tuple(state.entries.values())


def _calls(reader: Reader, task: str, seq: int, since: int) -> tuple[Entry, ...]:
    """Operations from `since` on, as of a place in the log: none has left a state."""
    found: dict[int, Entry] = {}
    for record, event in whole(reader, f"task/{task}/ledger"):
        op: int = getattr(event, "op")  # noqa: B009 - every event of a ledger has one
        if record.seq < seq and op >= since:
            held = {op: found[op]} if op in found else {}
            found[op] = ledger.apply(LedgerState(entries=held), event).entries[op]
    return tuple(found.values())


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
        if record.seq < at.seq
        and isinstance(event, ContextRebuilt | StepStarted | StepEnded)
    ]
    if not marks or not isinstance(marks[-1][1], ContextRebuilt):
        return ()
    record = marks[-1][0]
    step = _task_at(stream, record.version).step
    entries = _entries_at(reader, task, record.seq)
    mine = [one for one in entries if step is not None and one.step == step.id]
    return operations(mine, built.facts_until)


def _fixed(reader: Reader, built: RequestBuilt) -> FixedLayer:
    body = reader.blob(built.fixed)
    if body is None:
        raise Undecodable(f"blob {built.fixed}", "it is not in the store")
    return msgspec.json.decode(body, type=FixedLayer)


def _asides(stream: Sequence[tuple[Record, Event]]) -> set[int]:
    """The model calls that were not the step's work: never in scratch."""
    return {
        event.op
        for _, event in stream
        if isinstance(event, DecisionMade)
        and isinstance(event.action, CallModel)
        and event.action.purpose != "work"
    }


def _scratch(
    entries: Sequence[Entry], built: RequestBuilt, asides: set[int]
) -> list[Block]:
    """The exchanges that the request could have held, made as the task made them."""
    blocks: list[Block] = []
    for entry in entries:
        if entry.kind != "model" or entry.status != "completed":
            continue
        if entry.op in asides or entry.op >= built.op:
            continue
        reply = msgspec.json.decode(entry.result, type=ModelReply)
        results: list[Any] = [one for one in entries if one.parent == entry.op]
        texts = [(f"{entry.op}.{n}", told(one)) for n, one in enumerate(results)]
        calls = reply.tool_calls[: len(texts)]
        reply = msgspec.structs.replace(reply, tool_calls=calls)
        if texts or (reply.content or "").strip():
            ops = [one.op for one in results]
            blocks.append(exchange(entry.op, reply, texts, ops))
    return blocks
