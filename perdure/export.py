"""All that a store holds about one task, as JSON values; reads only."""

from __future__ import annotations

import base64
import heapq
import operator
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from .actors import names
from .actors.belongings import named_by, rows_under
from .actors.events import KnowledgeTaken, task_of
from .actors.memory.facts import Fact
from .folds import event_of, family
from .reading import row_of
from .storage.erasure import digests_in
from .storage.inbox import ANSWERS
from .storage.reader import Reader
from .storage.records import Record, in_family

__all__ = ["export_subject", "export_task", "services_about"]

SERVICES = "services"


def export_task(reader: Reader, task: str) -> Iterator[dict[str, Any]]:
    """What the store has of a task, in a fixed order, up to where the log ends now.

    Each value says what it `is`:

    ``task`` names it, its status and its sub-tasks, which are exported on their own;
    ``record`` is one of its streams, or of a service and about it, in the order of the
    log, with its body; ``value`` a big value, behind the first record that names it by
    its digest; ``row`` what is looked up of it; ``command`` what was asked of it.

    Raises TaskNotFound.
    """
    status = row_of(reader, task).status
    children = [one.key for one in reader.rows(names.TASK_ROWS, f"{task}.")]
    yield {"is": "task", "task": task, "status": status, "subtasks": children}
    last = reader.durable_seq
    shown: set[str] = set()
    keys: dict[tuple[str, str], None] = {(names.TASK_ROWS, task): None}
    for record in _records(reader, task, last):
        yield _record(record)
        for digest in sorted(digests_in([record.body]) - shown):
            shown.add(digest)
            if (blob := reader.blob(digest)) is not None:
                yield {"is": "value", "digest": digest, "value": _value(blob)}
        if in_family(record.stream, names.family(task)):
            keys.update(dict.fromkeys(named_by(record)))
    keys.update(dict.fromkeys(rows_under(reader, task)))
    yield from _rows(reader, sorted(keys))
    spaces = names.APPROVALS, names.QUESTIONS
    asked = [key for space, key in keys if space in spaces]
    yield from _commands(reader, [task, *asked])


def export_subject(reader: Reader, subject: str) -> Iterator[dict[str, Any]]:
    """All facts about a subject, current and past, up to where the log ends now.

    Each value says what it `is`: ``subject`` names it; ``fact`` is one fact, with its
    evidence, and how it ended; ``record`` tells of one, in the order of the log;
    ``shown`` names a task whose requests had some from a record on.
    """
    yield {"is": "subject", "subject": subject}
    found = [
        msgspec.json.decode(row.value or b"", type=Fact)
        for space in (names.FACTS, names.FACTS_PAST)
        for row in reader.rows(space)
    ]
    mine = {one.id: one for one in found if one.subject == subject}
    for fact in sorted(mine.values(), key=lambda one: int(one.id.removeprefix("f"))):
        value = {**msgspec.to_builtins(fact), "value": msgspec.json.decode(fact.value)}
        yield {"is": "fact", **value}
    for record in family(reader, "", reader.durable_seq):
        if record.stream == names.MEMORY:
            body = msgspec.json.decode(record.body)
            if body.get("fact") in mine:
                yield _record(record)
        elif record.type == KnowledgeTaken.__name__:
            taken = event_of(record)
            assert isinstance(taken, KnowledgeTaken)
            shown = [one.id for one in taken.facts if one.subject == subject]
            if shown:
                task = task_of(record.stream)
                yield {"is": "shown", "task": task, "seq": record.seq, "facts": shown}


def _records(reader: Reader, task: str, last: int) -> Iterator[Record]:
    """Those of the task's streams, and those of services that name it."""
    about = services_about(reader, task, last)
    own = family(reader, names.family(task), last)
    return heapq.merge(own, about, key=operator.attrgetter("seq"))


def services_about(reader: Reader, task: str, last: int) -> Iterator[Record]:
    """The records of services that name a task, up to a place of the log."""
    mention = re.compile(rb"(?<![\w.-])%s(?!\w|[.-]\w)" % re.escape(task.encode()))
    return (
        record
        for record in family(reader, SERVICES, last)
        if mention.search(record.body)
    )


def _record(record: Record) -> dict[str, Any]:
    return {
        "is": "record",
        "seq": record.seq,
        "at": record.at,
        "stream": record.stream,
        "version": record.version,
        "type": record.type,
        "schema_version": record.schema_version,
        "epoch": record.epoch,
        "incarnation": record.incarnation,
        "body": msgspec.json.decode(record.body),
    }


def _rows(reader: Reader, keys: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for space, key in keys:
        value = reader.row(space, key)
        if value is not None:
            yield {"is": "row", "space": space, "key": key, "value": _value(value)}


def _commands(reader: Reader, subjects: list[str]) -> Iterator[dict[str, Any]]:
    for command in reader.sent(subjects):
        answer = reader.row(ANSWERS, command.id)
        yield {
            "is": "command",
            "id": command.id,
            "kind": command.kind,
            "subject": command.subject,
            "at": command.at,
            "body": _value(command.body),
            "answer": None if answer is None else _value(answer),
        }


def _value(body: bytes) -> Any:
    """JSON as its value, text as text, anything else in base 64."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
