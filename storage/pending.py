"""What waits in memory: records not flushed, and those who wait for them.

Plain bookkeeping without a lock; the journal calls it under its own.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from .backend import Batch
from .base_reader import Reader
from .erasure import Erasure
from .records import Record, Row, Snapshot, in_family

__all__ = ["Entry", "Pending", "PendingRead"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One append: its records are written together or left out together."""

    records: Sequence[Record]
    rows: Sequence[Row]
    blobs: Mapping[str, bytes]
    erasure: Erasure | None = None


class PendingRead(msgspec.Struct, frozen=True, kw_only=True):
    """A read that runs once everything up to `after` is flushed."""

    after: int
    run: Callable[[Reader], Any]
    done: Callable[[Any], None]


class Pending:
    """The journal's queues, in the order of seq."""

    def __init__(self, last_seq: int) -> None:
        self.last_seq = last_seq
        self.durable_seq = last_seq  # everything up to here is flushed or left out
        self.backlog = 0  # records that are not flushed
        self._reads: deque[PendingRead] = deque()
        self._queue: deque[Entry] = deque()
        self._waiters: list[tuple[int, int, Callable[[], object]]] = []
        self._order = 0
        self._left_out: set[int] = set()
        self._snapshots: dict[str, Snapshot] = {}

    @property
    def queued(self) -> bool:
        """Whether appends wait that no batch has taken."""
        return bool(self._queue)

    def add(self, entry: Entry) -> None:
        """Queue one append; its records go on from `last_seq`."""
        self._queue.append(entry)
        self.backlog += len(entry.records)
        self.last_seq += len(entry.records)

    def take(self) -> Batch | None:
        """Return what is queued as one batch, None where nothing is.

        An erasure is a batch of its own: rows before it are not written after it.
        """
        if not self._queue:
            if self.backlog == 0:
                self.durable_seq = self.last_seq
            return None
        records: list[Record] = []
        rows: dict[tuple[str, str], Row] = {}
        blobs: dict[str, bytes] = {}
        erasure = self._queue[0].erasure
        while self._queue:
            if self._queue[0].erasure is not None and records:
                break
            entry = self._queue.popleft()
            records.extend(entry.records)
            blobs.update(entry.blobs)
            for row in entry.rows:
                rows[row.space, row.key] = row
            if erasure is not None:
                break
        following = self._queue[0].records[0].seq - 1 if self._queue else self.last_seq
        return Batch(
            records=records,
            rows=list(rows.values()),
            blobs=blobs,
            upto=following,
            erasure=erasure,
        )

    def leave_out(self, family: str, epoch: int) -> list[Record]:
        """Drop the queued appends that are the fenced family's alone; return them.

        An append shared with another family stays, and so does what comes before it
        in one of its streams: leaving out half of it would split it, and leaving out
        an earlier version would tear a hole into its stream.
        """
        kept: deque[Entry] = deque()
        kept_streams: set[str] = set()
        dropped: list[Record] = []
        while self._queue:
            entry = self._queue.pop()
            streams = {record.stream for record in entry.records}
            fenced = entry.erasure is None and all(
                record.epoch < epoch and in_family(record.stream, family)
                for record in entry.records
            )
            if fenced and not streams & kept_streams:
                dropped[:0] = entry.records
            else:
                kept.appendleft(entry)
                kept_streams |= streams
        self._queue = kept
        self.backlog -= len(dropped)
        self._left_out.update(record.seq for record in dropped)
        self._waiters = [w for w in self._waiters if w[0] not in self._left_out]
        heapq.heapify(self._waiters)
        return dropped

    def settle(self, batch: Batch) -> list[Callable[[], object]]:
        """Count a batch as flushed and return the callbacks that waited for it."""
        self.durable_seq = batch.upto
        self.backlog -= len(batch.records)
        due: list[Callable[[], object]] = []
        while self._waiters and self._waiters[0][0] <= self.durable_seq:
            due.append(heapq.heappop(self._waiters)[2])
        return due

    def wait_for(self, seq: int, callback: Callable[[], object]) -> bool:
        """Keep a callback for the flush of `seq`; False where it is due at once.

        A callback for a record that was left out is never called.
        """
        if seq in self._left_out:
            return True
        if seq <= self.durable_seq:
            return False
        self._order += 1
        heapq.heappush(self._waiters, (seq, self._order, callback))
        return True

    def add_read(
        self, run: Callable[[Reader], Any], done: Callable[[Any], None]
    ) -> None:
        """Queue a read behind everything appended so far."""
        self._reads.append(PendingRead(after=self.last_seq, run=run, done=done))

    @property
    def read_due(self) -> bool:
        """Whether a read waits for nothing more."""
        return bool(self._reads) and self._reads[0].after <= self.durable_seq

    def next_read(self) -> PendingRead | None:
        """Take the oldest read whose appends are flushed."""
        return self._reads.popleft() if self.read_due else None

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Queue a snapshot; a newer one of the same stream takes its place."""
        self._snapshots[snapshot.stream] = snapshot

    def drop_snapshots(self, erasure: Erasure) -> None:
        """Drop the queued snapshots that may hold what goes."""
        for stream in [one for one in self._snapshots if erasure.touches(one)]:
            del self._snapshots[stream]

    def ready_snapshots(self) -> list[Snapshot]:
        """Take the snapshots whose records are flushed."""
        if not self._snapshots:
            return []
        ready = [s for s in self._snapshots.values() if s.covers <= self.durable_seq]
        for snapshot in ready:
            del self._snapshots[snapshot.stream]
        return ready

    def abandon(self) -> list[PendingRead]:
        """Forget everyone who waits; return the reads, which must hear of it."""
        reads = list(self._reads)
        self._reads.clear()
        self._waiters.clear()
        self._snapshots.clear()
        return reads
