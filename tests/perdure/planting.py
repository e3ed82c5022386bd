"""Stores that are changed behind perdure's back, to see whether that is found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from perdure.storage.reader import open_reader
from perdure.storage.records import (
    Record,
    Snapshot,
    record_checksum,
    snapshot_checksum,
)

__all__ = ["bytes_of", "editing", "record_of", "reseal", "reseal_snapshot"]


@contextmanager
def editing(path: Path) -> Iterator[apsw.Connection]:
    """A connection that writes to the file."""
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


def record_of(path: Path, stream: str, kind: str) -> Record:
    """The first record of a type in a stream."""
    with open_reader(path) as reader:
        return next(
            one for one in reader.stretch(stream, 0, 10_000) if one.type == kind
        )


def reseal(path: Path, record: Record, **changes: Any) -> None:
    """Write another record in its place, with the checksum that it then has."""
    fields = msgspec.structs.asdict(msgspec.structs.replace(record, **changes))
    kind = fields.pop("type")
    stream = fields.pop("stream")
    del fields["checksum"]
    fields["checksum"] = record_checksum(**fields, stream=stream, type_name=kind)
    with editing(path) as db:
        db.execute("INSERT OR IGNORE INTO types (name) VALUES (?)", (kind,))
        places = ", ".join(f"{name} = :{name}" for name in fields)
        db.execute(
            f"UPDATE records SET {places}, "
            "type_id = (SELECT id FROM types WHERE name = :type) WHERE seq = :seq",
            {**fields, "type": kind},
        )


def reseal_snapshot(path: Path, snapshot: Snapshot, **changes: Any) -> None:
    """Write another snapshot in its place, with the checksum that it then has."""
    new = msgspec.structs.replace(snapshot, **changes)
    with editing(path) as db:
        db.execute(
            "UPDATE snapshots SET version = ?, covers = ?, state_schema = ?, body = ?, "
            "checksum = ? "
            "WHERE version = ? AND stream_id = (SELECT id FROM streams WHERE name = ?)",
            (
                new.version,
                new.covers,
                new.state_schema,
                new.body,
                snapshot_checksum(new),
                snapshot.version,
                snapshot.stream,
            ),
        )


def bytes_of(folder: Path) -> dict[str, str]:
    """A digest of each file of a folder, by its name."""
    return {
        str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest()
        for one in sorted(folder.rglob("*"))
        if one.is_file()
    }
