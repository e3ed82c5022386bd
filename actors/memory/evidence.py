"""Recorded results opened again: `read_evidence`, for the task that asks (A40).

Rows lead to where an operation's record stands; what went to a blob is read from
there. A piece at a time, so that one call cannot fill a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ...storage.records import Record
from ..errors import Misuse
from ..evidence import evidence_id, named_op
from ..ledger.places import Outcome, newest_recorded, outcome_of
from ..model import ModelReply
from ..protocol import Inquire
from .lineage import holder, lineage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..events import Event
    from .actor import Memory

__all__ = ["PIECE", "Evidence", "opened"]

PIECE = 4_000  # characters of a result that one call shows at most
NEARBY = 3  # operations on either side that an error looks for


class Evidence:
    """The memory's part for records: reads off its turn, then answers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def open(self, asked: Inquire) -> None:
        """Have a piece of a record read."""
        memory = self._memory
        event_of = memory.house.event_of

        def read(reader: Reader) -> tuple[str, str]:
            try:
                return opened(reader, event_of, asked.task, asked.values), ""
            except (Misuse, Undecodable) as error:
                return "", str(error)

        def answer(found: tuple[str, str]) -> None:
            text, error = found
            memory.answer(asked, text, error=error)

        memory.read(read, answer)


def opened(
    reader: Reader,
    event_of: Callable[[Record], Event],
    task: str,
    values: dict[str, Any],
) -> str:
    """A piece of one recorded result of a task, under a line that says which.

    Raises Misuse, for the model to read, where the task has no such record or the
    record no such characters.
    """
    names = [task, *(source for source, _, _ in lineage(reader, task))]
    ops = {named_op(values["id"], name): name for name in reversed(names)}
    op = next((one for one in ops if one is not None), None)
    if op is None:
        raise Misuse(_unknown(reader, event_of, task, values["id"], op))
    whose, erased = holder(reader, task, op)
    if erased:
        raise Misuse(f"{evidence_id(op)} was of task {whose}, which was erased")
    found = outcome_of(reader, event_of, whose, op)
    if found is None or ops[op] not in (task, whose):
        raise Misuse(_unknown(reader, event_of, task, values["id"], op))
    text = _text(reader, found)
    return _piece(f"{evidence_id(op)} {found.name}", text, **_range(values))


def _range(values: dict[str, Any]) -> dict[str, Any]:
    return {"start": values.get("start", 0), "end": values.get("end")}


def _piece(head: str, text: str, start: int, end: int | None) -> str:
    size = len(text)
    if not 0 <= start <= max(size - 1, 0) or (end is not None and end <= start):
        raise Misuse(
            f"{head} has {size} characters: give a start from 0 to {max(size - 1, 0)} "
            f"and an end behind it, not start={start}, end={end}"
        )
    stop = min(size, start + PIECE, size if end is None else end)
    if (start, stop) == (0, size):
        return f"{head}: all {size} characters\n{text}"
    more = f"; the next piece begins at start={stop}" if stop < size else ""
    return f"{head}: characters {start} to {stop} of {size}{more}\n{text[start:stop]}"


def _text(reader: Reader, found: Outcome) -> str:
    record = found.event
    if record.status == "failed":
        return f"error: {record.error}"
    if record.status == "unknown":
        return f"error: {record.error} (the outcome is not known: it may have run)"
    if record.blob:
        body = reader.blob(record.blob)
        if body is None:
            raise Misuse("this result is not in the store any more")
        return body.decode()
    if found.kind == "tool":
        return record.result
    reply = msgspec.json.decode(record.result, type=ModelReply)
    called = [f"{one.name}({one.arguments})" for one in reply.tool_calls]
    return "\n".join([*([reply.content] if reply.content else []), *called])


def _unknown(
    reader: Reader,
    event_of: Callable[[Record], Event],
    task: str,
    name: str,
    op: int | None,
) -> str:
    last = newest_recorded(reader, task)
    if not last:
        return "nothing is recorded in this task yet"
    around = range((op or last) - NEARBY, (op or last) + NEARBY + 1)
    near = [
        evidence_id(one)
        for one in around
        if one > 0 and outcome_of(reader, event_of, task, one) is not None
    ]
    listed = f"; near it: {', '.join(near)}" if near else ""
    return (
        f"this task has no recorded result {name[:64]!r}; the newest is "
        f"{evidence_id(last)}{listed}"
    )
