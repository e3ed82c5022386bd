"""A finished task as one portable file, and back into a store.

Writing one only reads: a runtime may own the store meanwhile. Bringing one back writes
streams that no runtime knows of, so it needs the store to itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from .actors import names
from .actors.belongings import named_by, rows_under
from .actors.task.rows import ENDED, ERASED
from .archive_file import FORMAT, shown, told, write
from .archive_place import Place, put_after
from .errors import Misuse
from .export import services_about
from .folds import family
from .reading import row_of
from .storage.address import Address
from .storage.erasure import digests_in
from .storage.inbox import ANSWERS
from .storage.reader import Reader, open_reader
from .storage.records import Record

__all__ = ["Archive", "archive", "archive_task"]

TRIES = 3  # reads of a task that changes meanwhile


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds: a task with its sub-tasks, and how much of it."""

    file: str
    task: str
    subtasks: tuple[str, ...]
    records: int
    values: int
    bytes: int
    sha256: str


def archive(store: Address, task: str, file: Place) -> Archive:
    """Write an ended task into a new file, with all that the store holds of it.

    The file may be an object: ``s3://BUCKET/PREFIX/NAME`` and the like (extra
    ``objects``).

    See `archive_task`; the store may be in use. Raises as `open_reader` does, too.
    """
    with open_reader(store) as reader:
        return archive_task(reader, task, file)


def archive_task(reader: Reader, task: str, file: Place) -> Archive:
    """Write an ended task and its sub-tasks into a new file, whole or not at all.

    The file is durable, and was read back and checked, when this returns. Nothing is
    taken out of the store.

    Raises:
        TaskNotFound: there is no such task.
        Misuse: it has not ended, was erased, or is a sub-task; or the file is there.
        ObjectExists: the object is there.
        ObjectTrouble: the object store cannot be reached.
    """
    tasks = _tasks(reader, task)
    counted = dict.fromkeys(("record", "value"), 0)
    with put_after(file) as path:
        digest = _write(reader, task, tasks, path, counted)
        size = path.stat().st_size
    return Archive(
        file=os.fspath(file),
        task=task,
        subtasks=tuple(tasks[1:]),
        records=counted["record"],
        values=counted["value"],
        bytes=size,
        sha256=digest,
    )


def _write(
    reader: Reader, task: str, tasks: list[str], path: Path, counted: dict[str, int]
) -> str:
    for attempt in range(1, TRIES + 1):
        counted.update(dict.fromkeys(counted, 0))
        lines = _counting(_lines(reader, task, tasks), counted)
        try:
            return write(path, lines)
        except Misuse as error:  # perhaps its scratch went while it was read
            if attempt == TRIES or "is missing" not in str(error):
                raise
    raise AssertionError


def _tasks(reader: Reader, task: str) -> list[str]:
    row = row_of(reader, task)
    if row.parent:
        raise Misuse(
            f"task {task} is a sub-task: archive {row.parent}, it goes with it"
        )
    below = [one.key for one in reader.rows(names.TASK_ROWS, f"{task}.")]
    for one in (task, *below):
        status = row_of(reader, one).status
        if status == ERASED:
            raise Misuse(f"task {one} was erased: nothing is left to archive")
        if status not in ENDED:
            raise Misuse(
                f"task {one} is {status}: archive it when it has ended "
                f"(perdure cancel {one} ends it)"
            )
    return [task, *below]


def _counting(
    lines: Iterable[dict[str, Any]], counted: dict[str, int]
) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line["is"] in counted:
            counted[line["is"]] += 1
        yield line


def _lines(reader: Reader, task: str, tasks: list[str]) -> Iterator[dict[str, Any]]:
    yield {
        "is": "archive",
        "format": FORMAT,
        "task": task,
        "tasks": tasks,
        "made_at": time.time(),
    }
    last = reader.durable_seq
    seen: set[str] = set()
    keys: dict[tuple[str, str], None] = {}
    for one in tasks:
        keys[names.TASK_ROWS, one] = None
    for record in _own(reader, tasks, last):
        yield told(record, "record")
        keys.update(dict.fromkeys(named_by(record)))
        for digest in sorted(digests_in([record.body]) - seen):
            seen.add(digest)
            if (value := reader.blob(digest)) is not None:
                yield {"is": "value", "digest": digest, **shown(value)}
    for one in tasks:
        for record in services_about(reader, one, last):
            yield {**told(record, "service"), "of": one}
        keys.update(dict.fromkeys(rows_under(reader, one)))
    for space, key in sorted(keys):
        found = reader.row(space, key)
        if found is not None:
            yield {"is": "row", "space": space, "key": key, **shown(found)}
    asked = [key for space, key in keys if space in (names.APPROVALS, names.QUESTIONS)]
    for command in reader.sent([*tasks, *asked]):
        answer = reader.row(ANSWERS, command.id)
        yield {
            "is": "command",
            "id": command.id,
            "kind": command.kind,
            "subject": command.subject,
            "at": command.at,
            "body": shown(command.body),
            "answer": None if answer is None else shown(answer),
        }


def _own(reader: Reader, tasks: list[str], last: int) -> Iterator[Record]:
    """The records of a task's streams, then those of each sub-task's."""
    for task in tasks:
        yield from family(reader, names.family(task), last)
