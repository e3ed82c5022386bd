"""Work on a store that remembers what it was promised, and checks it.

The checks fold the log for themselves and compare it with what was appended: nothing
here trusts the journal's own view of what it wrote.
"""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import msgspec

from perdure.storage.base_reader import Reader
from perdure.storage.errors import StorageError
from perdure.storage.records import Draft, Lease, Record, Row, Snapshot, blob_digest
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, draft, snapshot_of

__all__ = ["Broken", "Load"]

STREAMS = ("task/1", "task/1/ledger", "task/2", "pool")
KEYS = 6
BIG = 12_000  # bytes of the largest body or blob: several pages


class Broken(Exception):
    """A store did not keep what it had promised."""


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """One append, whole: its records with the rows and blobs that came with them."""

    records: list[Record]
    rows: list[Row]
    blobs: list[bytes]


class Load:
    """One store under load.

    `appends` are those that may be on disk, `acked` the seqs that surely are.
    """

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path = path
        self.appends: list[Append] = []
        self.acked: set[int] = set()
        self.runtime_epoch = 0
        self._rng = rng
        self._leases: dict[str, Lease] = {}

    def open(self) -> Bench:
        """Open the store and take every stream."""
        bench = Bench(SqliteBackend(self.path))
        try:
            epoch = bench.journal.runtime_epoch
            if epoch <= self.runtime_epoch:
                raise Broken(f"runtime epoch {epoch} after {self.runtime_epoch}")
            self.runtime_epoch = epoch
            for stream in STREAMS:
                lease = self._leases[stream] = bench.lease(stream)
                sure = [r for r in self.of(stream) if r.seq in self.acked]
                newest = max((r.incarnation for r in sure), default=0)
                if lease.incarnation <= newest:
                    raise Broken(f"{stream}: incarnation {newest} was given out twice")
        except BaseException:
            bench.backend.abandon()
            raise
        return bench

    def of(self, stream: str) -> list[Record]:
        """Return what was appended to a stream."""
        return [r for a in self.appends for r in a.records if r.stream == stream]

    def append(self, bench: Bench) -> Append:
        """Append to one to three streams at once, and note the acknowledgement."""
        rng = self._rng
        changes: list[tuple[Lease, list[Draft]]] = []
        for stream in rng.sample(STREAMS, rng.randint(1, 3)):
            head = len(self.of(stream))
            drafts = [
                self._draft(stream, head + 1 + n) for n in range(rng.randint(1, 3))
            ]
            changes.append((self._leases[stream], drafts))
        drafts = [d for _, some in changes for d in some]
        append = Append(
            records=bench.journal.append(changes),
            rows=[row for d in drafts for row in d.rows],
            blobs=[blob for d in drafts for blob in d.blobs],
        )
        self.appends.append(append)
        for record in append.records:
            bench.journal.when_durable(
                record.seq, lambda seq=record.seq: self.acked.add(seq)
            )
        return append

    def snapshot(self, bench: Bench, record: Record) -> None:
        """Queue a snapshot of what a record leads to."""
        body = b"%s@%d" % (record.stream.encode(), record.seq)
        bench.journal.snapshot(snapshot_of(record, body))

    def work(self, bench: Bench, steps: int) -> None:
        """Append and commit in batches; stops where the journal fails."""
        for _ in range(steps):
            try:
                for _ in range(self._rng.randint(1, 3)):
                    append = self.append(bench)
                if self._rng.random() < 0.4:
                    self.snapshot(bench, append.records[-1])
            except StorageError:
                return
            bench.commit()

    def check(self, reader: Reader, *, owned: bool = True) -> None:
        """Compare a reopened store with what was promised; forget what is not there.

        Args:
            reader: of the store after whatever happened to it.
            owned: whether a journal has opened it since: what is there counts as
                written from then on.

        Raises:
            Broken: something acknowledged is missing, an append is there in part, or
                something is there that was never appended.
        """
        log = reader.records(limit=1_000_000)
        sent = [record for append in self.appends for record in append.records]
        if log != sent[: len(log)]:
            raise Broken(f"the log is not what was appended: {_difference(log, sent)}")
        there = {record.seq for record in log}
        if lost := sorted(self.acked - there):
            raise Broken(f"acknowledged and lost: {lost}")
        self._forget(there)
        if owned:
            self.acked |= there
        for stream in STREAMS:
            records = self.of(stream)
            if [r.version for r in records] != list(range(1, len(records) + 1)):
                raise Broken(f"{stream}: its versions have a gap")
            self._check_load(reader, stream, records)
        self._check_rows_and_blobs(reader)

    def _forget(self, there: set[int]) -> None:
        kept: list[Append] = []
        for append in self.appends:
            seqs = {record.seq for record in append.records}
            if seqs <= there:
                kept.append(append)
            elif seqs & there:
                raise Broken(f"an append is there in part: {sorted(seqs & there)}")
        self.appends = kept

    def _check_load(self, reader: Reader, stream: str, records: list[Record]) -> None:
        loaded = reader.load(stream)
        if loaded.head != len(records):
            raise Broken(f"{stream}: head {loaded.head}, {len(records)} were written")
        start = 0
        if loaded.snapshot is not None:
            start = loaded.snapshot.version
            self._check_snapshot(loaded.snapshot, records)
        if list(loaded.records) != records[start:]:
            raise Broken(f"{stream}: its tail after {start} is another one")
        for snapshot in reader.snapshots(stream):
            self._check_snapshot(snapshot, records)

    def _check_snapshot(self, snapshot: Snapshot, records: list[Record]) -> None:
        at = f"{snapshot.stream}: its snapshot at {snapshot.version}"
        covered = records[snapshot.version - 1 : snapshot.version]
        if [record.seq for record in covered] != [snapshot.covers]:
            raise Broken(f"{at} is ahead of its stream")
        state = b"%s@%d" % (snapshot.stream.encode(), snapshot.covers)
        if snapshot.body != state:
            raise Broken(f"{at} is of another state")

    def _check_rows_and_blobs(self, reader: Reader) -> None:
        rows: dict[str, bytes] = {}
        blobs: set[bytes] = set()
        for append in self.appends:
            blobs.update(append.blobs)
            for row in append.rows:
                if row.value is None:
                    rows.pop(row.key, None)
                else:
                    rows[row.key] = row.value
        found = {row.key: row.value for row in reader.rows("keys")}
        if found != rows:
            raise Broken(f"rows {sorted(found)} do not follow from the log")
        for blob in blobs:
            if reader.blob(blob_digest(blob)) != blob:
                raise Broken("a blob is missing")
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            stored = connection.execute("SELECT count(*) FROM blobs").get
            sound = connection.pragma("integrity_check")
        finally:
            connection.close()
        if stored != len(blobs):
            raise Broken(f"{stored} blobs are there, {len(blobs)} belong there")
        if sound != "ok":
            raise Broken(f"integrity check: {sound}")

    def _draft(self, stream: str, version: int) -> Draft:
        rng = self._rng
        rows = [
            Row(
                space="keys",
                key=f"{stream}#{rng.randrange(KEYS)}",
                value=None if rng.random() < 0.3 else b"%d" % version,
            )
            for _ in range(rng.randint(0, 2))
        ]
        blobs = [rng.randbytes(rng.randint(1, BIG))] if rng.random() < 0.15 else []
        size = rng.choice((10, 200, 2000, BIG))
        return draft(
            stream,
            version,
            type=rng.choice(("Noted", "Done")),
            body=b'{"n":%d,"x":"%s"}' % (version, b"x" * rng.randrange(size)),
            rows=tuple(rows),
            blobs=tuple(blobs),
        )


def _difference(log: list[Record], sent: list[Record]) -> str:
    for found, wanted in zip(log, sent, strict=False):
        if found != wanted:
            return f"record {found.seq} is {found}, not {wanted}"
    return f"{len(log)} records, {len(sent)} were appended"
