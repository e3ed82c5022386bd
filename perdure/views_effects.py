"""A task's contacts with the outside, and its log, as its store has them."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator
from typing import Any

import msgspec

from .actors import events, names
from .actors.context.measure import canonical
from .actors.events import EffectResolved
from .actors.ledger.rows import DoubtRow
from .errors import Misuse
from .events import line_of
from .folds import family, records_of, whole
from .storage.reader import Reader
from .views import find

__all__ = [
    "Change",
    "EffectLine",
    "ProbeLine",
    "check_unknown",
    "effects",
    "find_effect",
    "log",
    "result_text",
    "unknown",
]

MAX_RESULT = 16_384  # bytes of a result that a person gives


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An effect took a status, at a second since the epoch, by somebody's word."""

    status: str
    by: str
    at: float
    error: str = ""


class ProbeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A probe's answer that decided nothing."""

    at: float
    answer: str
    again_at: float


class EffectLine(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of an operation, with every status it had, oldest first.

    `id` names the effect, whatever the attempt; `since` is when it took its status, in
    seconds since the epoch. `reused` is the operation whose record answered it without
    a run, `undoes` the effect that it takes back; `result` is whole up to 16 KiB. Where
    it is `trimmed`, retention has let arguments and result go.
    """

    id: str
    op: int
    attempt: int
    step: str
    kind: str
    tool: str
    since: float
    effect: str = msgspec.field(name="class")
    status: str = "pending"
    history: tuple[Change, ...] = ()
    probes: tuple[ProbeLine, ...] = ()
    request_id: str = ""
    reused: int | None = None
    undoes: str = ""
    arguments: str = ""
    result: str = ""
    error: str = ""
    trimmed: bool = False


def effects(reader: Reader, task: str) -> list[EffectLine]:
    """Every attempt that the task's ledger registered, oldest first."""
    found: dict[tuple[int, int], EffectLine] = {}
    change = msgspec.structs.replace
    for record, event in whole(reader, names.ledger(task)):
        match event:
            case events.EffectRegistered():
                pending = Change(status="pending", by="task", at=record.at)
                found[event.op, event.attempt] = EffectLine(
                    id=names.effect(task, event.op),
                    since=record.at,
                    op=event.op,
                    attempt=event.attempt,
                    step=event.step,
                    kind=event.kind,
                    tool=event.name,
                    effect=event.effect,
                    history=(pending,),
                    request_id=event.request_id,
                    reused=event.reused,
                    undoes=_undoes(task, event),
                    arguments=event.arguments,
                    trimmed=event.trimmed,
                )
            case events.EffectRecorded():
                line = found[event.op, event.attempt]
                now = Change(
                    status=event.status, by=event.by, at=record.at, error=event.error
                )
                found[event.op, event.attempt] = change(
                    line,
                    status=event.status,
                    since=record.at,
                    history=(*line.history, now),
                    result=event.result,
                    error=event.error,
                )
            case events.EffectProbed():
                line = found[event.op, event.attempt]
                probe = ProbeLine(
                    at=record.at, answer=event.answer, again_at=event.again_at
                )
                found[event.op, event.attempt] = change(
                    line, probes=(*line.probes, probe)
                )
    return list(found.values())


def _undoes(task: str, event: events.EffectRegistered) -> str:
    return "" if event.undoes is None else names.effect(task, event.undoes.op)


def unknown(reader: Reader, task: str = "") -> list[EffectLine]:
    """The effects that may have happened and that nobody has decided yet.

    Those of one task or of all. A read is not among them: it is repeated.
    """
    rows = [
        msgspec.json.decode(row.value or b"", type=DoubtRow)
        for row in reader.rows(names.DOUBTS, f"{task}:" if task else "")
    ]
    lines = {
        (line.id, line.attempt): line
        for one in sorted({row.task for row in rows})
        for line in effects(reader, one)
    }
    keys = [(names.effect(row.task, row.op), row.attempt) for row in rows]
    found = [lines[key] for key in keys if key in lines]
    return sorted(found, key=lambda line: line.since)


def find_effect(reader: Reader, word: str) -> tuple[str, EffectLine]:
    """The task of an effect and the newest attempt of it. Raises Misuse.

    `word` is an effect's id; its task may be the beginning of an id, as elsewhere.
    """
    beginning, colon, number = str(word).rpartition(":")
    if not (colon and beginning and number.isascii() and number.isdecimal()):
        raise Misuse(
            f"{word!r} is no effect's id, such as t-1:7; `perdure effects` lists them"
        )
    task = find(reader, beginning)
    mine = [line for line in effects(reader, task) if line.op == int(number)]
    if not mine:
        raise Misuse(
            f"task {task} has no effect {word!r}; `perdure effects {task}` lists them"
        )
    return task, mine[-1]


def check_unknown(reader: Reader, line: EffectLine) -> None:
    """Raise Misuse, naming the status, where nobody need say whether it happened."""
    if line.status == "unknown" and line.effect != "read":
        return
    if line.effect == "read":
        why = "is a read: it changes nothing, and is repeated"
    else:
        why = f"is {line.status}, by {line.history[-1].by}"
    row = reader.row(names.VERDICTS, line.id)
    said = None if row is None else msgspec.json.decode(row, type=EffectResolved)
    if said is None or said.attempt != line.attempt:
        raise Misuse(f"effect {line.id} ({line.tool}) {why}; nobody need resolve it")


def result_text(value: Any) -> str:
    """What a person says that a call gave, as the text a tool's result is kept as.

    Raises Misuse for what is no JSON value, or has over 16,384 bytes.
    """
    try:
        text = (
            value if isinstance(value, str) else canonical(msgspec.to_builtins(value))
        )
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Misuse(f"result: no JSON value ({error}); give one, or none") from None
    if size > MAX_RESULT:
        raise Misuse(f"result has {size} bytes; give at most {MAX_RESULT}")
    return text


def log(reader: Reader, task: str) -> Iterator[dict[str, Any]]:
    """The task's events in the order of the log, as the log file's lines have them.

    What queue and pool wrote of the task is among them; what the supervisors said
    stands in a log file only. Ends where the log ended when it began.
    """
    last = reader.durable_seq
    own = family(reader, names.family(task), last)
    services = (
        record
        for stream in (names.ADMISSION, names.POOL)
        for record in records_of(reader, stream)
        if task.encode() in record.body and record.seq <= last
    )
    shared = sorted(services, key=operator.attrgetter("seq"))
    for record in heapq.merge(own, shared, key=operator.attrgetter("seq")):
        name, fields = line_of(record)
        if fields["task"] == task:
            yield {"event": name, **fields}
