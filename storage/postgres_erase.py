"""Taking records out of a store in PostgreSQL, and their bytes out of its tables."""

from __future__ import annotations

from typing import Any

import psycopg

from .erasure import ERASED, SCRUB, Erasure, Redaction, digests_in, moved, redacted
from .inbox import ANSWERS
from .postgres_schema import RECORD_COLUMNS
from .records import Record

__all__ = ["erase", "is_scrub_due", "rebuild"]

TABLES = ("streams", "records", "rows", "blobs", "inbox", "snapshots")


def erase(connection: psycopg.Connection[Any], erasure: Erasure) -> None:
    """Do it in the transaction that is open, and note where a scrub is due."""
    run = connection.execute
    for one in erasure.redactions:
        _redact(connection, one)
    kept = [one.seq for one in erasure.redactions]
    names = [name for (name,) in run("SELECT name FROM perdure_streams").fetchall()]
    gone = [name for name in names if erasure.covers(name)]
    run(
        "DELETE FROM perdure_records WHERE stream = ANY(%s) AND NOT seq = ANY(%s)",
        (gone, kept),
    )
    run("DELETE FROM perdure_snapshots WHERE stream = ANY(%s)", (gone,))
    run(
        "DELETE FROM perdure_streams AS s WHERE name = ANY(%s) AND NOT EXISTS "
        "(SELECT 1 FROM perdure_records WHERE stream = s.name)",
        (gone,),
    )
    for stream, seqs in erasure.gone.items():
        _close_up(connection, stream, list(seqs))
    _drop_blobs(connection, erasure)
    for column, words in (("id", erasure.commands), ("subject", erasure.subjects)):
        _blank_commands(connection, erasure, column, list(words))
    if erasure.scrub:
        run(
            "INSERT INTO perdure_rows VALUES (%s, 'due', 'true') "
            "ON CONFLICT DO NOTHING",
            (SCRUB,),
        )


def is_scrub_due(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether erased bytes may be left in the tables."""
    found = connection.execute("SELECT 1 FROM perdure_rows WHERE space = %s", (SCRUB,))
    return found.fetchone() is not None


def rebuild(connection: psycopg.Connection[Any]) -> None:
    """Write the tables anew; readers wait for as long as copying them takes."""
    for table in TABLES:
        connection.execute(f"VACUUM (FULL) perdure_{table}")
    connection.execute("DELETE FROM perdure_rows WHERE space = %s", (SCRUB,))


def _redact(connection: psycopg.Connection[Any], by: Redaction) -> None:
    found = connection.execute(
        f"SELECT {RECORD_COLUMNS} FROM perdure_records WHERE seq = %s",  # noqa: S608
        (by.seq,),
    ).fetchone()
    if found is None:
        return
    names = Record.__struct_fields__
    record = redacted(Record(**dict(zip(names, found, strict=True))), by)
    connection.execute(
        "UPDATE perdure_records SET type = %s, schema_version = %s, body = %s, "
        "checksum = %s WHERE seq = %s",
        (record.type, record.schema_version, record.body, record.checksum, record.seq),
    )
    connection.execute(
        "DELETE FROM perdure_snapshots WHERE stream = %s", (record.stream,)
    )


def _close_up(
    connection: psycopg.Connection[Any], stream: str, seqs: list[int]
) -> None:
    run = connection.execute
    run("DELETE FROM perdure_snapshots WHERE stream = %s", (stream,))
    first = run(
        "SELECT min(version) FROM perdure_records WHERE stream = %s AND seq = ANY(%s)",
        (stream, seqs),
    ).fetchone()
    if first is None or first[0] is None:
        return
    run(
        "DELETE FROM perdure_records WHERE stream = %s AND seq = ANY(%s)",
        (stream, seqs),
    )
    before = first[0] - 1
    left = run(
        f"SELECT {RECORD_COLUMNS} FROM perdure_records "  # noqa: S608 - constants only
        "WHERE stream = %s AND version > %s ORDER BY version",
        (stream, before),
    ).fetchall()
    for version, values in enumerate(left, before + 1):
        old = Record(**dict(zip(Record.__struct_fields__, values, strict=True)))
        if old.version != version:  # in order: the place before it is free by now
            run(
                "UPDATE perdure_records SET version = %s, checksum = %s WHERE seq = %s",
                (version, moved(old, version).checksum, old.seq),
            )


def _drop_blobs(connection: psycopg.Connection[Any], erasure: Erasure) -> None:
    if not erasure.blobs:
        return
    later = connection.execute(
        "SELECT body FROM perdure_records WHERE seq > %s", (erasure.searched,)
    )
    used = digests_in(bytes(body) for (body,) in later)
    connection.execute(
        "DELETE FROM perdure_blobs WHERE digest = ANY(%s)",
        ([digest for digest in erasure.blobs if digest not in used],),
    )


def _blank_commands(
    connection: psycopg.Connection[Any], erasure: Erasure, column: str, words: list[str]
) -> None:
    # The row stays: places are never given twice, and an id is sent once.
    where = f"{column} = ANY(%s) AND id <> %s"
    connection.execute(
        "UPDATE perdure_rows SET value = %s WHERE space = %s AND key IN "  # noqa: S608
        f"(SELECT convert_to(id, 'UTF8') FROM perdure_inbox WHERE {where})",
        (erasure.answer, ANSWERS, words, erasure.but),
    )
    connection.execute(
        f"UPDATE perdure_inbox SET kind = %s, subject = '', body = %s WHERE {where}",  # noqa: S608
        (ERASED, b"{}", words, erasure.but),
    )
