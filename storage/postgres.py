"""The store in a PostgreSQL database, with a commit of its own for each batch.

One connection writes. It holds an advisory lock of the session: who has it owns the
store, and the server gives it back when the connection ends, however it ends. A batch
is one call of a function of the store's, so that it costs one round trip, commit
included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors

from .backend import Batch, HeldUp, Opening, Warn
from .base_reader import Reader
from .errors import CannotOpen, Fenced, StoreFailed, StoreLocked, StoreTrouble
from .postgres_arrays import (
    BIGINT,
    BIGINTS,
    BYTEAS,
    DOUBLES,
    TEXTS,
    bigint,
    bigints,
    byteas,
    doubles,
    texts,
)
from .postgres_calls import call, prepare
from .postgres_erase import erase, is_scrub_due, rebuild
from .postgres_reader import PostgresReader
from .postgres_schema import LAYOUT, SCHEMA
from .postgres_server import connect, errors_of, is_missing, look, shown
from .records import Row, Snapshot, snapshot_checksum

__all__ = ["INBOX_CHANNEL", "PostgresBackend"]

INBOX_CHANNEL = "perdure_inbox"
_LOCK = "SELECT pg_try_advisory_lock('perdure_owner'::regclass::oid::bigint)"
_OWNER = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND (classid::bigint << 32) + objid::bigint
        = 'perdure_owner'::regclass::oid::bigint
"""
_APPEND = "perdure_append"
_KEEP_SNAPSHOTS = "perdure_keep_snapshots"
_STALE = "PD001"  # what perdure_append raises for another epoch
_APPEND_TYPES = (
    BIGINT,
    *(BIGINTS, TEXTS, BIGINTS, TEXTS, BIGINTS, TEXTS),  # seq to codec
    *(DOUBLES, BIGINTS, BIGINTS, BYTEAS, BIGINTS),  # at to checksum
    TEXTS,  # streams that begin
    *(TEXTS, BYTEAS, BYTEAS),  # rows
    *(TEXTS, BYTEAS),  # rows to delete
    *(TEXTS, BYTEAS),  # blobs
)
_SNAPSHOT_TYPES = (
    *(TEXTS, BIGINTS, BIGINTS, BIGINTS, DOUBLES, TEXTS),  # stream to reason
    *(BYTEAS, BIGINTS),
)


class PostgresBackend:
    """One opening of a store in a database.

    Args:
        url: ``postgresql://HOST/DATABASE``, with all that libpq takes; its tables are
            made in the first schema of the search path.
        create: make the tables on `open` where there are none.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._url = url
        self._create = create
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._readers: list[PostgresReader] = []
        self._epoch = 0
        self._written: Batch | None = None
        self._scrub_due = False

    @property
    def path(self) -> str:
        """How messages name this store."""
        return shown(self._url)

    def open(self) -> Opening:
        """Become the one owner, and raise the runtime's epoch before any read.

        Raises:
            CannotOpen: the server cannot be reached, or does not keep what it commits.
            NotAStore: a table of that name is something else.
            NewerLayout: a newer perdure made it.
            StoreLocked: another runtime owns it.
            StoreTrouble: it is full or busy just now.
        """
        self._connection = connect(self._url, write=True)
        try:
            with errors_of(self.path):
                return self._open(self._connection)
        except BaseException:
            self.abandon()
            raise

    def _open(self, connection: psycopg.Connection[tuple[Any, ...]]) -> Opening:
        if _value(connection, "SHOW fsync") != "on":
            raise CannotOpen(
                self.path,
                "its server runs with fsync=off, so that a power cut loses what it "
                "said was written",
                "set fsync = on",
            )
        if self._create and is_missing(connection):
            self._make(connection)
        look(connection, self._url)
        if not _value(connection, _LOCK):
            pid = _value(connection, _OWNER)
            raise StoreLocked(self.path, f"another runtime (server process {pid})")
        # A third less of the server's CPU for a snapshot; some servers do not have it.
        with suppress(errors.InvalidParameterValue, errors.UndefinedObject):
            connection.execute("SET default_toast_compression = 'lz4'")
        prepare(connection, _APPEND, _APPEND_TYPES)
        prepare(connection, _KEEP_SNAPSHOTS, _SNAPSHOT_TYPES)
        connection.execute(f"LISTEN {INBOX_CHANNEL}")
        self._epoch = _value(
            connection, "UPDATE perdure_owner SET epoch = epoch + 1 RETURNING epoch"
        )
        last = _value(connection, "SELECT max(seq) FROM perdure_records")
        self._scrub_due = is_scrub_due(connection)
        if self._scrub_due:  # the process that erased it has died
            self._scrub_again()
        return Opening(runtime_epoch=self._epoch, last_seq=last or 0)

    def _make(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        with connection.transaction():
            # Two may come at once; the second finds what the first has made.
            connection.execute("SELECT pg_advisory_xact_lock(1346720836)")  # "PERD"
            if is_missing(connection):
                connection.execute(SCHEMA)
                connection.execute(
                    "INSERT INTO perdure_owner VALUES (1, %s, 0)", (LAYOUT,)
                )

    def write(self, batch: Batch) -> None:
        """Hold a batch that the next `flush` makes durable, in one round trip."""
        self._written = batch

    def flush(self) -> None:
        """Check the runtime's epoch, write and commit; durable when this returns.

        Where the answer is lost, nobody knows whether it is: `StoreFailed`.
        """
        batch, self._written = self._written, None
        if batch is None:
            return
        connection = self._db
        with errors_of(self.path):
            try:
                if batch.erasure is None:
                    self._append(connection, batch)
                else:
                    with connection.transaction():
                        erase(connection, batch.erasure)
                        self._append(connection, batch)
            except psycopg.DatabaseError as error:
                if error.sqlstate != _STALE:
                    raise
                raise Fenced(self.path, str(error.diag.message_primary)) from None

    def _append(
        self, connection: psycopg.Connection[tuple[Any, ...]], batch: Batch
    ) -> None:
        records = batch.records
        kept = [r for r in batch.rows if r.value is not None]
        gone = [r for r in batch.rows if r.value is None]
        parameters = [
            bigint(self._epoch),
            bigints([r.seq for r in records]),
            texts([r.stream for r in records]),
            bigints([r.version for r in records]),
            texts([r.type for r in records]),
            bigints([r.schema_version for r in records]),
            texts([r.codec for r in records]),
            doubles([r.at for r in records]),
            bigints([r.epoch for r in records]),
            bigints([r.incarnation for r in records]),
            byteas([r.body for r in records]),
            bigints([r.checksum for r in records]),
            texts([r.stream for r in records if r.version == 1]),
            *_keys(kept),
            byteas([r.value or b"" for r in kept]),
            *_keys(gone),
            texts(list(batch.blobs)),
            byteas(list(batch.blobs.values())),
        ]
        call(connection, _APPEND, parameters)

    def rollback(self) -> None:
        """Forget the batch that `write` was given."""
        self._written = None

    def scrub(self) -> None:
        """Rewrite the tables without what a flushed erasure took out.

        The server's own log and backups hold it until they are recycled.
        """
        self._scrub_due = True
        with errors_of(self.path):
            rebuild(self._db)
        self._scrub_due = False

    def _scrub_again(self) -> None:
        with suppress(StoreTrouble):  # somebody reads: it is tried again when idle
            self.scrub()

    def write_snapshots(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Store snapshots, the newest two a stream; return those not written.

        Their commit does not wait for the disk: the next flush covers it.
        """
        parameters = [
            texts([s.stream for s in snapshots]),
            bigints([s.version for s in snapshots]),
            bigints([s.covers for s in snapshots]),
            bigints([s.state_schema for s in snapshots]),
            doubles([s.at for s in snapshots]),
            texts([s.reason for s in snapshots]),
            byteas([s.body for s in snapshots]),
            bigints([snapshot_checksum(s) for s in snapshots]),
        ]
        with errors_of(self.path):
            refused = call(self._db, _KEEP_SNAPSHOTS, parameters)
        return [snapshots[int(place) - 1] for place in refused.split()]

    def reader(self, warn: Warn) -> Reader:
        """Return a reader on a connection of its own, closed with the backend."""
        reader = PostgresReader(self._url, warn)
        self._readers.append(reader)
        return reader

    def watch(self, notice: Callable[[], object]) -> bool:
        """The server tells our connection only: say that `changed` is to be asked."""
        return True

    def changed(self) -> bool:
        """Tell whether a command was sent since the last call."""
        with errors_of(self.path):
            self._db.execute("")  # it tells what it has before it answers
            return bool(list(self._db.notifies(timeout=0)))

    def tidy(self, *, idle: bool) -> bool:
        """Go on with a scrub that is due; the rest the server does by itself."""
        if idle and self._scrub_due:
            self._scrub_again()
        return self._scrub_due

    def held_up(self) -> HeldUp | None:
        """Tell of nothing: no reader holds anything up."""
        return None

    def close(self) -> None:
        """Give the store up."""
        self.abandon()

    def abandon(self) -> None:
        """Give the store up as it is; nothing more is written to it."""
        for reader in self._readers:
            reader.close()
        self._readers.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def _db(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None:
            raise StoreFailed(self.path, "it is not open")
        return self._connection


def _keys(rows: Sequence[Row]) -> tuple[bytes, bytes]:
    return texts([r.space for r in rows]), byteas([r.key.encode() for r in rows])


def _value(connection: psycopg.Connection[tuple[Any, ...]], sql: str) -> Any:
    found = connection.execute(sql).fetchone()
    return None if found is None else found[0]
