"""Reading a store in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .backend import Warn
from .base_reader import Reader
from .inbox import ANSWERS
from .postgres_schema import RECORD_COLUMNS
from .postgres_server import connect, errors_of, look, shown
from .records import Command, Head, Record, Row, Snapshot, family_bounds

__all__ = ["PostgresReader"]

_SELECT = f"SELECT {RECORD_COLUMNS} FROM perdure_records "  # noqa: S608 - constants
_ROWS = """
SELECT key, value FROM perdure_rows WHERE space = %s AND key >= %s
    AND substring(key FROM 1 FOR %s) = %s ORDER BY key
"""
_COMMANDS = "SELECT id, kind, subject, at, body, place FROM perdure_inbox "
_OPEN = """
WHERE place > %s AND NOT EXISTS (SELECT 1 FROM perdure_rows
    WHERE space = %s AND key = convert_to(perdure_inbox.id, 'UTF8')) ORDER BY place
"""
_UNLISTED = """
SELECT stream FROM perdure_records
    WHERE stream NOT IN (SELECT name FROM perdure_streams)
UNION
SELECT stream FROM perdure_snapshots
    WHERE stream NOT IN (SELECT name FROM perdure_streams)
LIMIT 100
"""


class PostgresReader(Reader):
    """A read-only connection of its own; with `check` a store must be there."""

    def __init__(self, url: str, warn: Warn, *, check: bool = False) -> None:
        super().__init__(warn)
        self._path = shown(url)
        self._connection = connect(url, write=False)
        if check:
            try:
                look(self._connection, url)
            except BaseException:
                self.close()
                raise

    @property
    def durable_seq(self) -> int:
        """The seq of the last record, 0 in an empty store."""
        found = self._all("SELECT coalesce(max(seq), 0) FROM perdure_records")
        return int(found[0][0])

    def row(self, space: str, key: str) -> bytes | None:
        """Return the value of one row, None where there is none."""
        found = self._all(
            "SELECT value FROM perdure_rows WHERE space = %s AND key = %s",
            space,
            key.encode(),
        )
        return bytes(found[0][0]) if found else None

    def rows(self, space: str, prefix: str = "") -> list[Row]:
        """Return the rows of a space whose keys begin with `prefix`, by key."""
        return [_row(space, line) for line in self._rows(_ROWS, space, prefix)]

    def last_row(self, space: str, prefix: str) -> Row | None:
        """Return of those rows the last one by key, None where there is none."""
        found = self._rows(_ROWS + " DESC LIMIT 1", space, prefix)
        return _row(space, found[0]) if found else None

    def rows_after(self, space: str, after: str, limit: int) -> list[Row]:
        """Return at most `limit` rows of a space with keys behind `after`, by key."""
        found = self._all(
            "SELECT key, value FROM perdure_rows WHERE space = %s AND key > %s "
            "ORDER BY key LIMIT %s",
            space,
            after.encode(),
            limit,
        )
        return [_row(space, line) for line in found]

    def digests(self, after: str, limit: int) -> list[str]:
        """Return the names of at most `limit` blobs behind `after`, in order."""
        found = self._all(
            "SELECT digest FROM perdure_blobs WHERE digest > %s ORDER BY digest "
            "LIMIT %s",
            after,
            limit,
        )
        return [digest for (digest,) in found]

    def damage(self) -> list[str]:
        """Name streams that records or snapshots are of, and that are not listed."""
        return [f"the stream {name} is not listed" for (name,) in self._all(_UNLISTED)]

    def streams(self, prefix: str = "") -> list[str]:
        """Return the names of a family's streams in order, all of them for ""."""
        if not prefix:
            found = self._all("SELECT name FROM perdure_streams ORDER BY name")
        else:
            found = self._all(
                "SELECT name FROM perdure_streams WHERE name = %s "
                "OR (name >= %s AND name < %s) ORDER BY name",
                *family_bounds(prefix),
            )
        return [name for (name,) in found]

    def commands(self, after: int = 0) -> list[Command]:
        """Return the commands behind place `after` without an answer, in order."""
        found = self._all(_COMMANDS + _OPEN, after, ANSWERS)
        return [_command(line) for line in found]

    def sent(self, subjects: Iterable[str]) -> list[Command]:
        """Return all commands about these subjects, answered or not, in order."""
        found = self._all(
            _COMMANDS + "WHERE subject = ANY(%s) ORDER BY place", list(subjects)
        )
        return [_command(line) for line in found]

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with errors_of(self._path):
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield
            finally:
                if not self._connection.closed:
                    self._connection.rollback()

    def _head(self, stream: str) -> Head:
        found = self._all(
            "SELECT version, seq, epoch, incarnation FROM perdure_records "
            "WHERE stream = %s ORDER BY version DESC LIMIT 1",
            stream,
        )
        if not found:
            return Head()
        version, seq, epoch, incarnation = found[0]
        return Head(version=version, seq=seq, epoch=epoch, incarnation=incarnation)

    def _tail(self, stream: str, after_version: int) -> list[Record]:
        return self._records(
            "WHERE stream = %s AND version > %s ORDER BY version", stream, after_version
        )

    def _stretch(self, stream: str, after: int, limit: int) -> list[Record]:
        return self._records(
            "WHERE stream = %s AND version > %s ORDER BY version LIMIT %s",
            stream,
            after,
            limit,
        )

    def _page(self, after_seq: int, limit: int, prefix: str) -> list[Record]:
        if not prefix:
            return self._records(
                "WHERE seq > %s ORDER BY seq LIMIT %s", after_seq, limit
            )
        return self._records(
            "WHERE (stream = %s OR (stream >= %s AND stream < %s)) AND seq > %s "
            "ORDER BY seq LIMIT %s",
            *family_bounds(prefix),
            after_seq,
            limit,
        )

    def _fetch(self, seqs: list[int]) -> list[Record]:
        return self._records("WHERE seq = ANY(%s) ORDER BY seq", seqs)

    def _blob(self, digest: str) -> bytes | None:
        found = self._all("SELECT body FROM perdure_blobs WHERE digest = %s", digest)
        return bytes(found[0][0]) if found else None

    def _snapshots(self, stream: str) -> list[tuple[Snapshot, int]]:
        found = self._all(
            "SELECT stream, version, covers, state_schema, body, reason, at, checksum "
            "FROM perdure_snapshots WHERE stream = %s ORDER BY version DESC",
            stream,
        )
        names = Snapshot.__struct_fields__
        return [
            (Snapshot(**dict(zip(names, line[:-1], strict=True))), line[-1])
            for line in found
        ]

    def _records(self, where: str, *params: object) -> list[Record]:
        names = Record.__struct_fields__
        return [
            Record(**dict(zip(names, line, strict=True)))
            for line in self._all(_SELECT + where, *params)
        ]

    def _rows(self, sql: str, space: str, prefix: str) -> list[tuple[Any, ...]]:
        start = prefix.encode()
        return self._all(sql, space, start, len(start), start)

    def _all(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        with errors_of(self._path):
            return self._connection.execute(sql, params).fetchall()


def _row(space: str, line: tuple[Any, ...]) -> Row:
    key, value = line
    return Row(space=space, key=bytes(key).decode(), value=bytes(value))


def _command(line: tuple[Any, ...]) -> Command:
    name, kind, subject, at, body, place = line
    return Command(
        id=name, kind=kind, subject=subject, at=at, body=bytes(body), place=place
    )
