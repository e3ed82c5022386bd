"""An archived task back in a store: its streams, rows and big values, as they were.

The file is read and checked whole, and every event decoded, before the store is
touched; then all of it is one transaction. Who imports owns the store for that long.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from .actors import names
from .actors.admission.retention import ended_row
from .actors.belongings import is_under, named_by
from .actors.events import EVENTS, TaskErased, TaskImported
from .actors.task.rows import ENDED, ERASED, TaskRow
from .archive_file import bytes_of, read, record_of
from .archive_place import Place, fetched
from .errors import Misuse, StoreBusy, StoreRefused
from .folds import event_of
from .storage.address import Address, backend_of
from .storage.codec import Codec
from .storage.erasure import Erasure, digests_in
from .storage.errors import StorageError, StoreLocked, Undecodable
from .storage.journal import Journal
from .storage.reader import Reader
from .storage.records import Draft, Lease, Origin, Record, Row, blob_digest

__all__ = ["Imported", "bring_back"]

CLOSE_TIMEOUT = 5.0  # seconds
SHARED = (names.ADMISSION, names.POOL)  # whose records about the task come, too
NOT_BROUGHT = (names.FACTS, names.FACTS_PAST)


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came into the store."""

    task: str
    subtasks: tuple[str, ...]
    records: int
    values: int


class _Kept(msgspec.Struct, kw_only=True):
    """What a file holds, checked."""

    tasks: list[str]
    records: list[Record]
    services: list[tuple[str, Record]]  # with the task that each is about
    values: list[bytes]
    rows: list[Row]


class _Idle:
    """A background that is stepped by hand."""

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        self.name = name
        self.step = step

    def wake(self) -> None:
        """Nothing runs by itself."""

    def stop(self, timeout: float) -> None:
        """Nothing runs."""


def bring_back(store: Address, file: Place) -> Imported:
    """Bring an archived task back; a store is made where there is none.

    Everything about it is as it was, but for three things: its scratch is kept as long
    as if it had ended now, facts of its own scope stay in the file, and so do commands
    that were sent about it.

    Raises:
        Misuse: the file is no archive, damaged, or of a newer perdure; or the task, or
            its key, is in the store already.
        StoreBusy: a runtime owns the store.
        ObjectTrouble: the object store cannot be reached.
        StoreRefused: it cannot be opened or written.
    """
    with fetched(file) as path:
        kept = _checked(path)
    try:
        backend = backend_of(store)
        journal = Journal(
            backend,
            time=time.time,
            background=_Idle,
            call_later=lambda *_: None,
        )
    except StoreLocked as error:
        raise StoreBusy(
            f"the store {error.path} is owned by {error.owner}: import needs it alone; "
            "close that runtime first, or import into another store"
        ) from None
    except StorageError as error:
        raise StoreRefused(str(error)) from None
    try:
        reader = backend.reader(_ignore)
        erased = _refuse_known(reader, kept)
        if erased:
            _make_room(journal, reader, erased)
        _append(journal, reader, kept)
    except StorageError as error:
        raise StoreRefused(str(error)) from None
    finally:
        journal.close(CLOSE_TIMEOUT)
    return Imported(
        task=kept.tasks[0],
        subtasks=tuple(kept.tasks[1:]),
        records=len(kept.records),
        values=len(kept.values),
    )


def _ignore(_: str, __: Mapping[str, object]) -> None:
    """Nobody hears of a snapshot that is passed over."""


def _checked(path: Path) -> _Kept:
    kept = _Kept(tasks=[], records=[], services=[], values=[], rows=[])
    for line in read(path):
        _take(kept, line)
    own = {names.family(task) for task in kept.tasks}
    first = {record.stream for record in kept.records if record.version == 1}
    rows = {row.key: row for row in kept.rows if row.space == names.TASK_ROWS}
    for task in kept.tasks:
        row = rows.get(task)
        ended = row and msgspec.json.decode(row.value or b"", type=TaskRow).status
        if names.family(task) not in first or ended not in ENDED:
            raise Misuse(f"{path} lacks task {task}, which it names; take another copy")
    strangers = [
        *(r.stream for r in kept.records if _family(r.stream) not in own),
        *(of for of, _ in kept.services if of not in kept.tasks),
        *(f"row {row.space}/{row.key}" for row in _strange_rows(kept)),
    ]
    if strangers:
        raise Misuse(
            f"{path} holds {strangers[0]}, which is of none of its tasks; take another "
            "copy of it"
        )
    named = digests_in(record.body for record in kept.records)
    kept.values = [one for one in kept.values if blob_digest(one) in named]
    for record in (*kept.records, *(one for _, one in kept.services)):
        try:
            event_of(record)
        except Undecodable as error:
            raise Misuse(
                f"{path} cannot be read by this perdure: {error}; use a newer one"
            ) from None
    return kept


def _family(stream: str) -> str:
    return "/".join(stream.split("/", 2)[:2])


def _strange_rows(kept: _Kept) -> Iterator[Row]:
    """Rows that are of no task of the file: what it holds may write nothing else."""
    mine = {(names.TASK_ROWS, task) for task in kept.tasks}
    for record in kept.records:
        mine.update(named_by(record))
    for row in kept.rows:
        under = any(is_under(row.space, row.key, task) for task in kept.tasks)
        value = (row.value or b"").decode(errors="replace")
        if not (under or (row.space, row.key) in mine) or (
            row.space == names.KEYS and value not in kept.tasks
        ):
            yield row


def _take(kept: _Kept, line: dict[str, Any]) -> None:
    match line["is"]:
        case "archive":
            kept.tasks = [str(one) for one in line["tasks"]]
        case "record":
            kept.records.append(record_of(line))
        case "service" if line["stream"] in SHARED:
            kept.services.append((line["of"], record_of(line)))
        case "value":
            kept.values.append(bytes_of(line))
        case "row":
            row = Row(space=line["space"], key=line["key"], value=bytes_of(line))
            kept.rows.append(row)


def _refuse_known(reader: Reader, kept: _Kept) -> list[str]:
    """Raise Misuse where something of it is there; the tasks that were erased."""
    erased = []
    for task in kept.tasks:
        value = reader.row(names.TASK_ROWS, task)
        if value is None:
            continue
        status = msgspec.json.decode(value, type=TaskRow).status
        if status != ERASED:
            raise Misuse(
                f"task {task} is in the store already ({status}); nothing was changed"
            )
        erased.append(task)
    for row in kept.rows:
        found = reader.row(names.KEYS, row.key) if row.space == names.KEYS else None
        if found is not None:
            raise Misuse(
                f"the key {row.key!r} of task {kept.tasks[0]} is task "
                f"{found.decode()}'s in this store; nothing was changed"
            )
    return erased


def _make_room(journal: Journal, reader: Reader, tasks: list[str]) -> None:
    """Take away what says that these were erased: they come back."""
    event = TaskErased(
        task=tasks[0],
        by="import",
        erased_at=time.time(),
        subtasks=tuple(tasks[1:]),
    )
    rows = [Row(space=names.TASK_ROWS, key=task, value=None) for task in tasks]
    families = tuple(names.family(task) for task in tasks)
    erasure = Erasure(families=families, scrub=False)
    change = _queued(journal, reader, event, rows)
    _commit(journal, [change], erasure)


def _append(journal: Journal, reader: Reader, kept: _Kept) -> None:
    """Append all of it in one transaction, in the order that it had."""
    task = kept.tasks[0]
    there = {one.seq: one for one in reader.fetch(r.seq for _, r in kept.services)}
    copies = [
        (of, one) for of, one in kept.services if _is_new(one, there.get(one.seq))
    ]
    records = sorted([*kept.records, *_about(copies)], key=attrgetter("seq"))
    epochs: dict[str, int] = {}
    for one in records:
        family = _family(one.stream)
        epochs[family] = max(epochs.get(family, 0), one.epoch)
    leases: dict[str, Lease] = {}
    changes: list[tuple[Lease, list[Draft]]] = []
    for one in records:
        if one.stream not in leases:
            family = _family(one.stream)
            leases[one.stream] = journal.acquire(one.stream, epochs[family])
        changes.append((leases[one.stream], [_draft(one)]))
    last = changes[-1][1]
    last[0] = msgspec.structs.replace(
        last[0],
        rows=tuple(row for row in kept.rows if row.space not in NOT_BROUGHT),
        blobs=tuple(kept.values),
    )
    event = TaskImported(
        task=task,
        subtasks=tuple(kept.tasks[1:]),
        queued_at=min(one.at for one in kept.records),
        records=len(kept.records),
    )
    change = _queued(journal, reader, event, [ended_row(task, time.time())])
    _commit(journal, [change, *changes])


def _is_new(record: Record, there: Record | None) -> bool:
    """Whether a shared record is of another store, or of one that went."""
    if there is None:
        return True
    mine = (record.stream, record.version, record.at)
    return mine != (there.stream, there.version, there.at)


def _about(services: list[tuple[str, Record]]) -> Iterator[Record]:
    """Records of shared streams, each in a stream of the task that it is about."""
    heads: Counter[str] = Counter()
    for task, record in services:
        stream = f"{names.family(task)}/services"
        heads[stream] += 1
        yield msgspec.structs.replace(record, stream=stream, version=heads[stream])


def _draft(record: Record) -> Draft:
    return Draft(
        stream=record.stream,
        version=record.version,
        type=record.type,
        schema_version=record.schema_version,
        body=record.body,
        origin=Origin(at=record.at, epoch=record.epoch, incarnation=record.incarnation),
    )


def _queued(
    journal: Journal,
    reader: Reader,
    event: TaskErased | TaskImported,
    rows: list[Row],
) -> tuple[Lease, list[Draft]]:
    """An event of the queue's stream, with rows in its transaction."""
    stream = names.ADMISSION
    kind, schema, body = Codec(EVENTS).encode(event)
    draft = Draft(
        stream=stream,
        version=reader.head(stream) + 1,
        type=kind,
        schema_version=schema,
        body=body,
        rows=tuple(rows),
    )
    return journal.acquire(stream, journal.runtime_epoch), [draft]


def _commit(
    journal: Journal,
    changes: list[tuple[Lease, list[Draft]]],
    erasure: Erasure | None = None,
) -> None:
    journal.append(changes, erasure)
    while journal.commit_batch():
        pass
    health = journal.health()
    if health.state != "ok" or health.backlog:
        raise StoreRefused(f"{health.detail or health.state}; nothing was imported")
