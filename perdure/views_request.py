"""A request as the model got it, and why it holds what it holds (A2, A6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from .actors.context.blocks import Fate
from .actors.model import Message, ToolSchema
from .errors import Misuse
from .replay import Rendered, render_again, rounds
from .storage.reader import Reader
from .views_text import table, tame

__all__ = [
    "LayersDocument",
    "RequestSheet",
    "layers_document",
    "request",
    "request_text",
]


class RequestSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a task.

    Args:
        round: its place among the task's model calls, from 1; `rounds` how many there
            are.
        op, attempt: the operation.
        purpose: ``work``, or what the model was asked besides it.
        digest: SHA-256 of its canonical JSON, as it was recorded when it was sent.
        characters: the length of that JSON.
        measure, size, limit: what was counted, how much of it, what was allowed.
        messages, tools: the request itself.
        units: what became of each block that it could have held, and why.
    """

    task: str
    round: int
    rounds: int
    op: int
    attempt: int
    purpose: str
    digest: str
    characters: int
    measure: str
    size: int
    limit: int
    messages: list[Message]
    tools: list[ToolSchema]
    units: tuple[Fate, ...]


class LayersDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a request by layer (B11)."""

    session_id: str
    layers: dict[str, list[dict[str, Any]]]


def request(
    reader: Reader, task: str, place: int | None
) -> tuple[RequestSheet, Rendered]:
    """Render the request of round `place` again, of the newest one for None.

    Raises Misuse where the task has no such round, Undecodable where what is rendered
    is not what was sent.
    """
    ops = rounds(reader, task)
    if not ops:
        raise Misuse(f"task {task} has sent no request yet")
    if place is not None and not 1 <= place <= len(ops):
        raise Misuse(f"task {task} has no round {place}; it has 1 to {len(ops)}")
    place = place or len(ops)
    found = render_again(reader, task, ops[place - 1])
    sheet = RequestSheet(
        task=task,
        round=place,
        rounds=len(ops),
        op=found.op,
        attempt=found.attempt,
        purpose=found.purpose,
        digest=found.digest,
        characters=found.characters,
        measure=found.measure,
        size=found.size,
        limit=found.limit,
        messages=found.messages,
        tools=found.tools,
        units=found.fates,
    )
    return sheet, found


def layers_document(task: str, found: Rendered) -> LayersDocument:
    """The request's messages by layer; a tool's message says whose result it is."""
    names = {
        call["id"]: call["function"]["name"]
        for message in found.messages
        for call in message.get("tool_calls") or ()
    }
    layers: dict[str, list[dict[str, Any]]] = {"fixed": [], "task": [], "scratch": []}
    for layer, message in zip(found.layers, found.messages, strict=True):
        named = message
        if message["role"] == "tool":
            named = {"name": names[message["tool_call_id"]], **message}
        layers[layer].append(named)
    return LayersDocument(session_id=task, layers=layers)


def request_text(sheet: RequestSheet, *, why: bool) -> Iterator[str]:
    """The request as lines; with `why` the fate of each unit instead of its text."""
    yield (
        f"round {sheet.round} of {sheet.rounds} of task {sheet.task}: operation "
        f"{sheet.op}#{sheet.attempt}, {sheet.purpose}"
    )
    unit = sheet.measure
    if unit != "characters":
        unit = f"tokens ({unit}), {sheet.characters} characters"
    yield f"{sheet.size} of {sheet.limit} {unit}, {len(sheet.tools)} tools"
    yield f"SHA-256 {sheet.digest}, as recorded"
    yield ""
    if why:
        yield from _why(sheet.units)
        return
    for message in sheet.messages:
        yield f"--- {message['role']}{_of(message)}"
        if message.get("content"):
            for line in str(message["content"]).split("\n"):
                yield tame(line)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            said = f"{function['name']} {function['arguments']}"
            yield tame(f"calls {call['id']}: {said}")
    for tool in sheet.tools:
        yield "--- tool schema"
        yield tame(json.dumps(tool, ensure_ascii=False, sort_keys=True))


def _of(message: Message) -> str:
    if message["role"] != "tool":
        return ""
    return f", result of {tame(str(message['tool_call_id']))}"


def _why(units: tuple[Fate, ...]) -> Iterator[str]:
    yield from table(
        ("LAYER", "UNIT", "EVIDENCE", "FATE", "SIZE", "SENT", "WHY"),
        (
            (
                one.layer,
                str(one.block),
                one.evidence or "-",
                one.fate,
                str(one.before),
                str(one.after),
                one.why,
            )
            for one in units
        ),
    )
