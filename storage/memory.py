"""A store in memory, with the same rules as one on disk; nothing outlives it."""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from .backend import Batch, HeldUp, Opening, Warn
from .base_reader import Reader
from .erasure import ERASED, Erasure, digests_in, moved, redacted
from .errors import Fenced, StoreLocked
from .inbox import ANSWERS, check_command, sent_before
from .records import Command, Head, Record, Row, Snapshot, in_family, snapshot_checksum

__all__ = ["MemoryBackend", "MemoryReader", "MemoryStore", "keep_snapshot"]

KEPT_SNAPSHOTS = 2  # per stream


class MemoryStore:
    """The "disk": what is flushed stays here, whoever opens it next."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.owner: MemoryBackend | None = None
        self.runtime_epoch = 0
        self.log: list[Record] = []  # by seq
        self.streams: dict[str, list[Record]] = {}
        self.rows: dict[str, dict[str, bytes]] = {}
        self.blobs: dict[str, bytes] = {}
        self.inbox: list[Command] = []
        self.snapshots: dict[str, list[tuple[Snapshot, int]]] = {}  # newest first
        self.flushed_snapshots: dict[str, list[tuple[Snapshot, int]]] = {}

    def send(self, command: Command) -> None:
        """Keep a command, and let the owner notice at once; see `Inbox.send`."""
        check_command(command)
        with self.lock:
            if any(one.id == command.id for one in self.inbox):
                raise sent_before(command)
            place = len(self.inbox) + 1
            self.inbox.append(msgspec.structs.replace(command, place=place))
            notice = self.owner.notice if self.owner is not None else None
        if notice is not None:
            notice()

    def cut(self, reached: Batch | None = None) -> None:
        """Cut the power: drop everything that was not flushed, and the owner.

        `reached` is what came to the disk all the same, though nobody heard of it.
        What the old owner still tries to write is refused as stale.
        """
        with self.lock:
            self.owner = None
            self.runtime_epoch += 1
            self.snapshots = dict(self.flushed_snapshots)
            if reached is not None:
                self.keep(reached)

    def keep(self, batch: Batch) -> None:
        """Make one batch durable; called under the lock."""
        if batch.erasure is not None:
            self._erase(batch.erasure)
        self.blobs.update(batch.blobs)
        for row in batch.rows:
            space = self.rows.setdefault(row.space, {})
            if row.value is None:
                space.pop(row.key, None)
            else:
                space[row.key] = row.value
        for record in batch.records:
            self.log.append(record)
            self.streams.setdefault(record.stream, []).append(record)

    def _erase(self, erasure: Erasure) -> None:
        others = {one.seq: one for one in erasure.redactions}
        gone = {seq for seqs in erasure.gone.values() for seq in seqs}
        log: list[Record] = []
        self.streams = {}
        for one in self.log:
            if one.seq in gone and one.seq in erasure.gone.get(one.stream, ()):
                continue
            if one.seq not in others and erasure.covers(one.stream):
                continue
            record = redacted(one, others[one.seq]) if one.seq in others else one
            before = self.streams.setdefault(record.stream, [])
            if record.version != len(before) + 1 and record.stream in erasure.gone:
                record = moved(record, len(before) + 1)
            before.append(record)
            log.append(record)
        self.log = log
        for kept in (self.snapshots, self.flushed_snapshots):
            for name in [one for one in kept if erasure.touches(one)]:
                del kept[name]
        used = digests_in(one.body for one in log if one.seq > erasure.searched)
        for digest in set(erasure.blobs) - used:
            self.blobs.pop(digest, None)
        answers = self.rows.get(ANSWERS, {})
        for place, command in enumerate(self.inbox):
            meant = command.subject in erasure.subjects
            if (meant or command.id in erasure.commands) and command.id != erasure.but:
                self.inbox[place] = msgspec.structs.replace(
                    command, kind=ERASED, subject="", body=b"{}"
                )
                if command.id in answers:
                    answers[command.id] = erasure.answer


class MemoryBackend:
    """One opening of a `MemoryStore`."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self._epoch = 0
        self._written: Batch | None = None
        self._new_snapshots = False
        self.notice: Callable[[], object] | None = None

    @property
    def path(self) -> str:
        """How messages name this store."""
        return "in memory"

    def open(self) -> Opening:
        """Become the owner; raises `StoreLocked` where the store has one."""
        store = self.store
        with store.lock:
            if store.owner is not None:
                raise StoreLocked(self.path, "another runtime of this process")
            store.owner = self
            store.runtime_epoch += 1
            self._epoch = store.runtime_epoch
            last = store.log[-1].seq if store.log else 0
            return Opening(runtime_epoch=self._epoch, last_seq=last)

    def write(self, batch: Batch) -> None:
        """Hold a batch that the next `flush` makes durable."""
        with self.store.lock:
            self._refuse_if_stale()
            self._written = batch

    def flush(self) -> None:
        """Make the written batch durable, with the snapshots before it."""
        store = self.store
        with store.lock:
            self._refuse_if_stale()
            batch, self._written = self._written, None
            if self._new_snapshots:
                store.flushed_snapshots = dict(store.snapshots)
                self._new_snapshots = False
            if batch is not None:
                store.keep(batch)

    def rollback(self) -> None:
        """Forget the written batch."""
        self._written = None

    def scrub(self) -> None:
        """Do nothing: what was erased is nowhere."""

    def write_snapshots(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Show the snapshots now, keep them with the next flush."""
        store = self.store
        refused: list[Snapshot] = []
        with store.lock:
            self._refuse_if_stale()
            for snapshot in snapshots:
                records = store.streams.get(snapshot.stream, [])
                covered = records[snapshot.version - 1 : snapshot.version]
                if [record.seq for record in covered] == [snapshot.covers]:
                    keep_snapshot(store, snapshot)
                    self._new_snapshots = True
                else:
                    refused.append(snapshot)
        return refused

    def reader(self, warn: Warn) -> Reader:
        """Return a reader of what was flushed."""
        return MemoryReader(self.store, warn)

    def watch(self, notice: Callable[[], object]) -> bool:
        """Have `notice` called where a command is sent; nothing is to be polled."""
        self.notice = notice
        return False

    def changed(self) -> bool:
        """Never: `watch` told of it."""
        return False

    def tidy(self, *, idle: bool) -> bool:
        """Do nothing, since nothing is ever due."""
        return False

    def held_up(self) -> HeldUp | None:
        """Tell of nothing: no reader holds anything up."""
        return None

    def close(self) -> None:
        """Flush the snapshots and give the store up."""
        with self.store.lock:
            if self.store.owner is self:
                self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Give the store up as it is."""
        with self.store.lock:
            self._written = None
            if self.store.owner is self:
                self.store.owner = None

    def _refuse_if_stale(self) -> None:
        current = self.store.runtime_epoch
        if self._epoch != current or self.store.owner is not self:
            raise Fenced(
                self.path,
                f"it was opened again (runtime epoch {current}, ours {self._epoch})",
            )


def keep_snapshot(store: MemoryStore, snapshot: Snapshot) -> None:
    """Show a snapshot, and the newest one before it."""
    kept = [(snapshot, snapshot_checksum(snapshot))]
    for older, checksum in store.snapshots.get(snapshot.stream, []):
        if older.version < snapshot.version:
            kept.append((older, checksum))
    store.snapshots[snapshot.stream] = kept[:KEPT_SNAPSHOTS]


class MemoryReader(Reader):
    """A reader of a `MemoryStore`."""

    def __init__(self, store: MemoryStore, warn: Warn) -> None:
        super().__init__(warn)
        self._store = store

    @property
    def durable_seq(self) -> int:
        """The seq of the last record, 0 in an empty store."""
        with self._store.lock:
            return self._store.log[-1].seq if self._store.log else 0

    def row(self, space: str, key: str) -> bytes | None:
        """Return the value of one row, None where there is none."""
        with self._store.lock:
            return self._store.rows.get(space, {}).get(key)

    def rows(self, space: str, prefix: str = "") -> list[Row]:
        """Return the rows of a space whose keys begin with `prefix`, by key."""
        with self._store.lock:
            values = self._store.rows.get(space, {})
            return [
                Row(space=space, key=key, value=values[key])
                for key in sorted(values, key=str.encode)
                if key.startswith(prefix)
            ]

    def last_row(self, space: str, prefix: str) -> Row | None:
        """Return of those rows the last one by key, None where there is none."""
        found = self.rows(space, prefix)
        return found[-1] if found else None

    def commands(self, after: int = 0) -> list[Command]:
        """Return the commands behind place `after` without an answer, in order."""
        with self._store.lock:
            answered = self._store.rows.get(ANSWERS, {})
            return [
                one
                for one in self._store.inbox
                if one.place > after and one.id not in answered
            ]

    def sent(self, subjects: Iterable[str]) -> list[Command]:
        """Return all commands about these subjects, answered or not, in order."""
        wanted = set(subjects)
        with self._store.lock:
            return [one for one in self._store.inbox if one.subject in wanted]

    def rows_after(self, space: str, after: str, limit: int) -> list[Row]:
        """Return at most `limit` rows of a space with keys behind `after`, by key."""
        with self._store.lock:
            values = self._store.rows.get(space, {})
            behind = (key for key in values if key.encode() > after.encode())
            keys = heapq.nsmallest(limit, behind, key=str.encode)
            return [Row(space=space, key=key, value=values[key]) for key in keys]

    def digests(self, after: str, limit: int) -> list[str]:
        """Return the names of at most `limit` blobs behind `after`, in order."""
        with self._store.lock:
            behind = (digest for digest in self._store.blobs if digest > after)
            return heapq.nsmallest(limit, behind)

    def streams(self, prefix: str = "") -> list[str]:
        """Return the names of a family's streams in order, all of them for ""."""
        with self._store.lock:
            names = sorted(self._store.streams, key=str.encode)
        return [name for name in names if not prefix or in_family(name, prefix)]

    def close(self) -> None:
        """Nothing is held."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._store.lock:
            yield

    def _head(self, stream: str) -> Head:
        records = self._store.streams.get(stream)
        if not records:
            return Head()
        last = records[-1]
        return Head(
            version=last.version,
            seq=last.seq,
            epoch=last.epoch,
            incarnation=last.incarnation,
        )

    def _tail(self, stream: str, after_version: int) -> list[Record]:
        return self._store.streams.get(stream, [])[after_version:]

    def _stretch(self, stream: str, after: int, limit: int) -> list[Record]:
        with self._store.lock:
            records = self._store.streams.get(stream, [])
            start = bisect_right(records, after, key=lambda record: record.version)
            return records[start : start + limit]

    def _page(self, after_seq: int, limit: int, prefix: str) -> list[Record]:
        page: list[Record] = []
        log = self._store.log
        for place in range(_after(log, after_seq), len(log)):
            record = log[place]
            if len(page) == limit:
                break
            if not prefix or in_family(record.stream, prefix):
                page.append(record)
        return page

    def _fetch(self, seqs: list[int]) -> list[Record]:
        log = self._store.log
        places = [(seq, _after(log, seq) - 1) for seq in seqs]
        return [log[at] for seq, at in places if at >= 0 and log[at].seq == seq]

    def _blob(self, digest: str) -> bytes | None:
        with self._store.lock:
            return self._store.blobs.get(digest)

    def _snapshots(self, stream: str) -> list[tuple[Snapshot, int]]:
        return list(self._store.snapshots.get(stream, []))


def _after(log: list[Record], seq: int) -> int:
    return bisect_right(log, seq, key=lambda record: record.seq)
