"""Reading an SQLite store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from .backend import Warn
from .base_reader import Reader
from .inbox import ANSWERS
from .layout import EVENT_COLUMNS
from .records import Command, Head, Record, Row, Snapshot, family_bounds
from .sqlite_aside import connect_to_read
from .sqlite_file import connect, errors_of
from .sqlite_places import LAST_OF_STREAM, MISPLACED, OF_STREAM, PART_OF_STREAM

__all__ = ["SqliteReader"]

FETCH_CHUNK = 500  # parameters of one statement

_RECORDS = (
    f"SELECT {EVENT_COLUMNS} FROM records AS r "  # noqa: S608 - constants only
    "JOIN streams AS s ON s.id = r.stream_id JOIN types AS t ON t.id = r.type_id "
)
_NAMELESS = """
SELECT 'record', seq FROM records
WHERE stream_id NOT IN (SELECT id FROM streams)
    OR type_id NOT IN (SELECT id FROM types)
UNION ALL
SELECT 'snapshot', id FROM snapshots WHERE stream_id NOT IN (SELECT id FROM streams)
LIMIT 100
"""


class SqliteReader(Reader):
    """A read-only connection of its own; to a copy, where it cannot be otherwise.

    The owner's is always to the store, where the owner may write.
    """

    def __init__(self, path: Path, warn: Warn, *, owned: bool = False) -> None:
        super().__init__(warn)
        self._path = str(path)
        if owned:
            self._connection = connect(path, write=False)
        else:
            self._connection, self.copied = connect_to_read(path)

    @property
    def durable_seq(self) -> int:
        """The seq of the last record, 0 in an empty store."""
        with errors_of(self._path):
            return int(self._value("SELECT coalesce(max(seq), 0) FROM records") or 0)

    def row(self, space: str, key: str) -> bytes | None:
        """Return the value of one row, None where there is none."""
        with errors_of(self._path):
            value = self._value(
                "SELECT CAST(value AS BLOB) FROM rows WHERE space = ? AND key = ?",
                space,
                key,
            )
        return None if value is None else bytes(value)

    def rows(self, space: str, prefix: str = "") -> list[Row]:
        """Return the rows of a space whose keys begin with `prefix`, by key."""
        with errors_of(self._path):
            found = self._all(
                "SELECT key, CAST(value AS BLOB) FROM rows "
                "WHERE space = ?1 AND key >= ?2 "
                "AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
                space,
                prefix,
            )
        return [Row(space=space, key=key, value=value) for key, value in found]

    def last_row(self, space: str, prefix: str) -> Row | None:
        """Return of those rows the last one by key, None where there is none."""
        with errors_of(self._path):
            found = self._all(
                "SELECT key, CAST(value AS BLOB) FROM rows "
                "WHERE space = ?1 AND key >= ?2 "
                "AND substr(key, 1, length(?2)) = ?2 ORDER BY key DESC LIMIT 1",
                space,
                prefix,
            )
        return Row(space=space, key=found[0][0], value=found[0][1]) if found else None

    def rows_after(self, space: str, after: str, limit: int) -> list[Row]:
        """Return at most `limit` rows of a space with keys behind `after`, by key."""
        with errors_of(self._path):
            found = self._all(
                "SELECT key, CAST(value AS BLOB) FROM rows "
                "WHERE space = ? AND key > ? ORDER BY key LIMIT ?",
                space,
                after,
                limit,
            )
        return [Row(space=space, key=key, value=value) for key, value in found]

    def digests(self, after: str, limit: int) -> list[str]:
        """Return the names of at most `limit` blobs behind `after`, in order."""
        with errors_of(self._path):
            found = self._all(
                "SELECT digest FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?",
                after,
                limit,
            )
        return [digest for (digest,) in found]

    def damage(self) -> list[str]:
        """Say what SQLite finds in its file, and what is noted wrongly in it."""
        with errors_of(self._path):
            said = [one for (one,) in self._all("PRAGMA integrity_check")]
            lost = self._all(_NAMELESS)
            misplaced = self._all(MISPLACED)
        return [
            *(one for one in said if one != "ok"),
            *(f"{table} {n} names no stream or type" for table, n in lost),
            *(f"record {n} is not where the index says" for (n,) in misplaced),
        ]

    def streams(self, prefix: str = "") -> list[str]:
        """Return the names of a family's streams in order, all of them for ""."""
        with errors_of(self._path):
            if not prefix:
                return [n for (n,) in self._all("SELECT name FROM streams ORDER BY 1")]
            return [
                name
                for (name,) in self._all(
                    "SELECT name FROM streams "
                    "WHERE name = ?1 OR (name >= ?2 AND name < ?3) ORDER BY name",
                    *family_bounds(prefix),
                )
            ]

    def commands(self, after: int = 0) -> list[Command]:
        """Return the commands behind place `after` without an answer, in order."""
        with errors_of(self._path):
            found = self._all(
                "SELECT id, kind, subject, at, CAST(body AS BLOB), place FROM inbox "
                "WHERE place > ? AND NOT EXISTS (SELECT 1 FROM rows "
                "WHERE space = ? AND key = inbox.id) ORDER BY place",
                after,
                ANSWERS,
            )
        return [_command(line) for line in found]

    def sent(self, subjects: Iterable[str]) -> list[Command]:
        """Return all commands about these subjects, answered or not, in order."""
        wanted = set(subjects)
        with errors_of(self._path):
            found = self._all(
                "SELECT id, kind, subject, at, CAST(body AS BLOB), place FROM inbox "
                "ORDER BY place"
            )
        return [_command(line) for line in found if line[2] in wanted]

    def position(self, stream: str) -> Head:
        """Return a stream's last version with its seq, epoch and incarnation."""
        with errors_of(self._path):
            return self._head(stream)  # one statement is a transaction

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with errors_of(self._path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("COMMIT")

    def _head(self, stream: str) -> Head:
        found = self._all(
            "SELECT version, seq, epoch, incarnation FROM records "  # noqa: S608
            f"WHERE seq = ({LAST_OF_STREAM})",
            stream,
        )
        if not found:
            return Head()
        version, seq, epoch, incarnation = found[0]
        return Head(version=version, seq=seq, epoch=epoch, incarnation=incarnation)

    def _tail(self, stream: str, after_version: int) -> list[Record]:
        where = f"WHERE r.seq IN ({OF_STREAM}) ORDER BY r.seq"
        return self._records(where, stream, after_version)

    def _stretch(self, stream: str, after: int, limit: int) -> list[Record]:
        where = f"WHERE r.seq IN ({PART_OF_STREAM}) ORDER BY r.seq LIMIT ?3"
        with errors_of(self._path):
            return self._records(where, stream, after, limit)

    def _page(self, after_seq: int, limit: int, prefix: str) -> list[Record]:
        if not prefix:
            return self._records(
                "WHERE r.seq > ? ORDER BY r.seq LIMIT ?", after_seq, limit
            )
        return self._records(
            "WHERE r.seq > ?4 AND r.stream_id IN (SELECT id FROM streams "
            "WHERE name = ?1 OR (name >= ?2 AND name < ?3)) ORDER BY r.seq LIMIT ?5",
            *family_bounds(prefix),
            after_seq,
            limit,
        )

    def _fetch(self, seqs: list[int]) -> list[Record]:
        records: list[Record] = []
        for start in range(0, len(seqs), FETCH_CHUNK):
            chunk = seqs[start : start + FETCH_CHUNK]
            marks = ",".join("?" * len(chunk))
            records += self._records(f"WHERE r.seq IN ({marks}) ORDER BY r.seq", *chunk)
        return records

    def _blob(self, digest: str) -> bytes | None:
        with errors_of(self._path):
            body = self._value(
                "SELECT CAST(body AS BLOB) FROM blobs WHERE digest = ?", digest
            )
        return None if body is None else bytes(body)

    def _snapshots(self, stream: str) -> list[tuple[Snapshot, int]]:
        found = self._all(
            "SELECT version, covers, state_schema, at, reason, CAST(body AS BLOB), "
            "checksum FROM snapshots "
            "WHERE stream_id = (SELECT id FROM streams WHERE name = ?) "
            "ORDER BY version DESC",
            stream,
        )
        return [
            (
                Snapshot(
                    stream=stream,
                    version=version,
                    covers=covers,
                    state_schema=state_schema,
                    at=at,
                    reason=reason,
                    body=body,
                ),
                checksum,
            )
            for version, covers, state_schema, at, reason, body, checksum in found
        ]

    def _records(self, where: str, *params: apsw.SQLiteValue) -> list[Record]:
        return [
            Record(
                seq=seq,
                stream=stream,
                version=version,
                type=type_name,
                schema_version=schema_version,
                codec=codec,
                at=at,
                epoch=epoch,
                incarnation=incarnation,
                body=body,
                checksum=checksum,
            )
            for (
                seq,
                stream,
                version,
                type_name,
                schema_version,
                codec,
                at,
                epoch,
                incarnation,
                body,
                checksum,
            ) in self._all(_RECORDS + where, *params)
        ]

    def _all(self, sql: str, *params: apsw.SQLiteValue) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, params).fetchall()

    def _value(self, sql: str, *params: apsw.SQLiteValue) -> Any:
        return self._connection.execute(sql, params).get


def _command(line: tuple[Any, ...]) -> Command:
    name, kind, subject, at, body, place = line
    return Command(id=name, kind=kind, subject=subject, at=at, body=body, place=place)
