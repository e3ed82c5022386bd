"""Taking records out of an SQLite store, and their bytes out of its file.

Deleting leaves bytes behind: in pages of the free list, in the gaps of pages that cells
were moved from, in the WAL. `secure_delete` reaches only the first, and only from then
on. So the file is rebuilt once, and the WAL cut to nothing.
"""

from __future__ import annotations

from typing import Any

import apsw

from .erasure import ERASED, SCRUB, Erasure, Redaction, digests_in, moved, redacted
from .inbox import ANSWERS
from .layout import EVENT_COLUMNS
from .records import Record, in_family
from .sqlite_pack import note_loose
from .sqlite_places import note

__all__ = ["erase", "finish", "is_scrub_due", "rebuild"]

CHUNK = 500  # parameters of one statement

_RECORDS = (
    f"SELECT {EVENT_COLUMNS} FROM records AS r "  # noqa: S608 - constants only
    "JOIN streams AS s ON s.id = r.stream_id JOIN types AS t ON t.id = r.type_id "
)
_RECORD = _RECORDS + "WHERE r.seq = ?"
_BEHIND = _RECORDS + (  # noqa: S608 - constants only
    "WHERE r.seq IN (SELECT seq FROM places WHERE stream_id = ? AND version > ?) "
    "ORDER BY r.seq"
)


def erase(connection: apsw.Connection, erasure: Erasure) -> None:
    """Do it in the transaction that is open, and note where a scrub is due."""
    note(connection)
    kept = {one.seq for one in erasure.redactions}
    for one in erasure.redactions:
        _redact(connection, one)
    for stream_id, name in _all(connection, "SELECT id, name FROM streams"):
        if any(in_family(name, family) for family in erasure.families):
            _drop_stream(connection, stream_id, kept)
    for stream, seqs in erasure.gone.items():
        _close_up(connection, stream, seqs)
    _drop_blobs(connection, erasure)
    # By id first: whoever has lost its words has no subject to be found by.
    for column, names in (("id", erasure.commands), ("subject", erasure.subjects)):
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            _blank_commands(connection, erasure, column, chunk)
    if erasure.scrub:
        connection.execute(
            "INSERT OR REPLACE INTO rows (space, key, value) VALUES (?, ?, ?)",
            (SCRUB, "due", b"true"),
        )
        return
    went = [seq for seqs in erasure.gone.values() for seq in seqs]
    note_loose(connection, [*went, *kept])


def is_scrub_due(connection: apsw.Connection) -> bool:
    """Tell whether erased bytes may be left in the file."""
    found = connection.execute("SELECT 1 FROM rows WHERE space = ?", (SCRUB,)).get
    return found is not None


def rebuild(connection: apsw.Connection) -> None:
    """Write the file anew, through the WAL; as long as copying the store takes."""
    connection.execute("VACUUM")


def finish(connection: apsw.Connection) -> None:
    """Copy a WAL that holds the whole file into it, and cut it to nothing.

    Raises apsw.BusyError while somebody still reads what was there before.
    """
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("DELETE FROM rows WHERE space = ?", (SCRUB,))


def _redact(connection: apsw.Connection, by: Redaction) -> None:
    found = _all(connection, _RECORD, by.seq)
    if not found:
        return
    fields = dict(zip(Record.__struct_fields__, found[0], strict=True))
    record = redacted(Record(**fields), by)
    type_id = connection.execute(
        "SELECT id FROM types WHERE name = ?", (record.type,)
    ).get
    if type_id is None:
        connection.execute("INSERT INTO types (name) VALUES (?)", (record.type,))
        type_id = connection.last_insert_rowid()
    connection.execute(
        "UPDATE records SET type_id = ?, schema_version = ?, body = ?, checksum = ? "
        "WHERE seq = ?",
        (type_id, record.schema_version, record.body, record.checksum, record.seq),
    )
    connection.execute(
        "DELETE FROM snapshots WHERE stream_id = "
        "(SELECT stream_id FROM records WHERE seq = ?)",
        (record.seq,),
    )


def _drop_stream(connection: apsw.Connection, stream_id: int, kept: set[int]) -> None:
    mine = "SELECT version, seq FROM places WHERE stream_id = ?"
    found = _all(connection, mine, stream_id)
    gone = [(version, seq) for version, seq in found if seq not in kept]
    connection.executemany(
        "DELETE FROM records WHERE seq = ?", [(seq,) for _, seq in gone]
    )
    connection.executemany(
        "DELETE FROM places WHERE stream_id = ? AND version = ?",
        [(stream_id, version) for version, _ in gone],
    )
    connection.execute("DELETE FROM snapshots WHERE stream_id = ?", (stream_id,))
    if len(gone) == len(found):
        connection.execute("DELETE FROM streams WHERE id = ?", (stream_id,))


def _close_up(connection: apsw.Connection, stream: str, seqs: tuple[int, ...]) -> None:
    stream_id = connection.execute(
        "SELECT id FROM streams WHERE name = ?", (stream,)
    ).get
    if stream_id is None:
        return
    connection.execute("DELETE FROM snapshots WHERE stream_id = ?", (stream_id,))
    mine = "WHERE stream_id = ? AND seq = ?"
    first = "SELECT min(version) FROM records " + mine  # noqa: S608 - a constant
    found = [connection.execute(first, (stream_id, seq)).get for seq in seqs]
    versions = [version for version in found if version is not None]
    if not versions:
        return
    connection.executemany(
        "DELETE FROM records " + mine,  # noqa: S608 - a constant
        [(stream_id, seq) for seq in seqs],
    )
    before = min(versions) - 1
    left = _all(connection, _BEHIND, stream_id, before)
    places: list[tuple[int, int, int]] = []
    for version, values in enumerate(left, before + 1):
        old = Record(**dict(zip(Record.__struct_fields__, values, strict=True)))
        places.append((stream_id, version, old.seq))
        if old.version != version:
            connection.execute(
                "UPDATE records SET version = ?, checksum = ? WHERE seq = ?",
                (version, moved(old, version).checksum, old.seq),
            )
    connection.execute(
        "DELETE FROM places WHERE stream_id = ? AND version > ?", (stream_id, before)
    )
    connection.executemany("INSERT INTO places VALUES (?, ?, ?)", places)


def _drop_blobs(connection: apsw.Connection, erasure: Erasure) -> None:
    if not erasure.blobs:
        return
    later = "SELECT CAST(body AS BLOB) FROM records WHERE seq > ?"
    used = digests_in(body for (body,) in _all(connection, later, erasure.searched))
    connection.executemany(
        "DELETE FROM blobs WHERE digest = ?",
        [(digest,) for digest in erasure.blobs if digest not in used],
    )


def _blank_commands(
    connection: apsw.Connection, erasure: Erasure, column: str, names: tuple[str, ...]
) -> None:
    # The row stays: places are never given twice, and an id is sent once.
    marks = ",".join("?" * len(names))
    where = f"{column} IN ({marks}) AND id != ?"
    named = (*names, erasure.but)
    connection.execute(
        "UPDATE rows SET value = ? WHERE space = ? AND key IN "  # noqa: S608 - marks
        f"(SELECT id FROM inbox WHERE {where})",
        (erasure.answer, ANSWERS, *named),
    )
    connection.execute(
        f"UPDATE inbox SET kind = ?, subject = '', body = ? WHERE {where}",  # noqa: S608
        (ERASED, b"{}", *named),
    )


def _all(
    connection: apsw.Connection, sql: str, *params: apsw.SQLiteValue
) -> list[tuple[Any, ...]]:
    return connection.execute(sql, params).fetchall()
