"""A task's contacts with the outside, and its log, as its store has them."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator
from typing import Any

import msgspec

from .actors import events, names
from .events import line_of
from .folds import family, records_of, whole
from .storage.reader import Reader

__all__ = ["Change", "EffectLine", "ProbeLine", "effects", "log"]


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

    `reused` is the operation whose record answered it without a run; `result` is
    whole up to 16 KiB.
    """

    op: int
    attempt: int
    step: str
    kind: str
    tool: str
    effect: str = msgspec.field(name="class")
    status: str = "pending"
    history: tuple[Change, ...] = ()
    probes: tuple[ProbeLine, ...] = ()
    request_id: str = ""
    reused: int | None = None
    arguments: str = ""
    result: str = ""
    error: str = ""


def effects(reader: Reader, task: str) -> list[EffectLine]:
    """Every attempt that the task's ledger registered, oldest first."""
    found: dict[tuple[int, int], EffectLine] = {}
    change = msgspec.structs.replace
    for record, event in whole(reader, names.ledger(task)):
        match event:
            case events.EffectRegistered():
                pending = Change(status="pending", by="task", at=record.at)
                found[event.op, event.attempt] = EffectLine(
                    op=event.op,
                    attempt=event.attempt,
                    step=event.step,
                    kind=event.kind,
                    tool=event.name,
                    effect=event.effect,
                    history=(pending,),
                    request_id=event.request_id,
                    reused=event.reused,
                    arguments=event.arguments,
                )
            case events.EffectRecorded():
                line = found[event.op, event.attempt]
                now = Change(
                    status=event.status, by=event.by, at=record.at, error=event.error
                )
                found[event.op, event.attempt] = change(
                    line,
                    status=event.status,
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
