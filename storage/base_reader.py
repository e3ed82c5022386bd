"""What every reader of a store can do, whatever the store is kept in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from .errors import ObjectMissing, StorageError, Undecodable
from .pointer import Source, whole
from .records import (
    Command,
    Head,
    Loaded,
    Record,
    Row,
    Snapshot,
    blob_digest,
    record_checksum,
    snapshot_checksum,
)

__all__ = ["Reader"]

PAGE = 1000  # records


class Reader(ABC):
    """A view of what was flushed; used by one thread at a time.

    Every method is one short transaction of its own and leaves no cursor open, since
    an open one would keep the log file from shrinking. A back end implements the
    methods with a leading underscore.

    Raises `Undecodable` where a record or blob does not match its checksum,
    `StoreTrouble` or `StoreFailed` where the store itself cannot be read.
    """

    copied = False  # whether it reads a copy, which nothing is added to

    def __init__(self, warn: Callable[[str, Mapping[str, object]], None]) -> None:
        self._warn = warn
        self.objects: Source | None = None  # where bodies of snapshots may lie

    @property
    @abstractmethod
    def durable_seq(self) -> int:
        """The seq of the last record, 0 in an empty store."""

    @abstractmethod
    def row(self, space: str, key: str) -> bytes | None:
        """Return the value of one row, None where there is none."""

    @abstractmethod
    def rows(self, space: str, prefix: str = "") -> list[Row]:
        """Return the rows of a space whose keys begin with `prefix`, by key."""

    @abstractmethod
    def last_row(self, space: str, prefix: str) -> Row | None:
        """Return of those rows the last one by key, None where there is none."""

    @abstractmethod
    def rows_after(self, space: str, after: str, limit: int) -> list[Row]:
        """Return at most `limit` rows of a space with keys behind `after`, by key."""

    @abstractmethod
    def digests(self, after: str, limit: int) -> list[str]:
        """Return the names of at most `limit` blobs behind `after`, in order."""

    @abstractmethod
    def streams(self, prefix: str = "") -> list[str]:
        """Return the names of a family's streams in order, all of them for ""."""

    @abstractmethod
    def commands(self, after: int = 0) -> list[Command]:
        """Return the commands behind place `after` without an answer, in order."""

    @abstractmethod
    def sent(self, subjects: Iterable[str]) -> list[Command]:
        """Return all commands about these subjects, answered or not, in order."""

    @abstractmethod
    def close(self) -> None:
        """Let the store go."""

    def load(
        self, stream: str, *, usable: Callable[[Snapshot], bool] | None = None
    ) -> Loaded:
        """Return a stream's newest good snapshot and the records after it.

        Args:
            stream: the stream's name; one without records loads as empty.
            usable: asked of each snapshot, newest first, whether the caller can read
                it; False or an exception skips it, like a bad checksum does. With no
                snapshot left, all records are returned.

        A skipped snapshot is reported as ``snapshot.skipped`` with its reason.
        """
        with self._transaction():
            head, found = self._head(stream), self._snapshots(stream)
            records = () if found else tuple(_checked(self._tail(stream, 0)))
        if not found:
            return _loaded(stream, head, None, records)
        # Between two transactions: its body may have to come from far away.
        snapshot = self._choose_snapshot(found, head, usable)
        after = 0 if snapshot is None else snapshot.version
        with self._transaction():
            before, head = head, self._head(stream)
            stands = head == before or snapshot is None or self._holds(snapshot)
            records = tuple(_checked(self._tail(stream, after))) if stands else ()
        if not stands:  # what it covers was erased, or moved, meanwhile
            return self.load(stream, usable=usable)
        return _loaded(stream, head, snapshot, records)

    def all_of(self, stream: str) -> tuple[Record, ...]:
        """Return all records of a stream, and look at none of its snapshots."""
        with self._transaction():
            head, records = self._head(stream), tuple(_checked(self._tail(stream, 0)))
        _refuse_gaps(stream, 0, records, head)
        return records

    def head(self, stream: str) -> int:
        """Return the version of a stream's last record, 0 where it has none."""
        return self.position(stream).version

    def position(self, stream: str) -> Head:
        """Return a stream's last version with its seq, epoch and incarnation."""
        with self._transaction():
            return self._head(stream)

    def records(
        self, after_seq: int = 0, limit: int = PAGE, prefix: str | None = None
    ) -> list[Record]:
        """Return a page of the log in its order.

        Args:
            after_seq: the last seq already seen.
            limit: at most so many records.
            prefix: only the streams of this family: the stream of that name and
                those under it (``task/7`` means ``task/7`` and ``task/7/…``).
        """
        with self._transaction():
            return list(_checked(self._page(after_seq, limit, prefix or "")))

    def stretch(self, stream: str, after: int, limit: int) -> list[Record]:
        """Return the records of one stream behind version `after`, at most `limit`.

        It costs what it returns, however long the stream and the log are.
        """
        return list(_checked(self._stretch(stream, after, limit)))

    def examined(
        self, stream: str, after: int, limit: int
    ) -> list[tuple[Record, bool]]:
        """Return what `stretch` does, and of each whether it matches its checksum."""
        return [(one, _is_sound(one)) for one in self._stretch(stream, after, limit)]

    def examined_snapshots(self, stream: str) -> list[tuple[Snapshot, bool]]:
        """Return a stream's snapshots, and of each whether it matches its checksum."""
        with self._transaction():
            return [
                (snapshot, snapshot_checksum(snapshot) == checksum)
                for snapshot, checksum in self._snapshots(stream)
            ]

    def damage(self) -> list[str]:
        """Say what is wrong with the store below its records; it reads all of it."""
        return []

    def fetch(self, seqs: Iterable[int]) -> list[Record]:
        """Return the records with these seqs, in the order of the log."""
        with self._transaction():
            return list(_checked(self._fetch(sorted(set(seqs)))))

    def blob(self, digest: str) -> bytes | None:
        """Return the blob of this SHA-256, None where there is none."""
        body = self._blob(digest)
        if body is not None and blob_digest(body) != digest:
            raise Undecodable(f"blob {digest}", "its bytes do not match its digest")
        return body

    def examined_blob(self, digest: str) -> tuple[bytes, bool] | None:
        """Return what is kept as this blob, and whether it matches its digest."""
        body = self._blob(digest)
        return None if body is None else (body, blob_digest(body) == digest)

    def snapshots(self, stream: str) -> list[Snapshot]:
        """Return the stream's snapshots that match their checksum, newest first.

        Their bodies are those in the store, which `whole` follows.
        """
        with self._transaction():
            return [
                snapshot
                for snapshot, checksum in self._snapshots(stream)
                if snapshot_checksum(snapshot) == checksum
            ]

    def whole(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its own body, which may lie in an object store.

        Raises a StorageError where that cannot be read: see `pointer.whole`.
        """
        return whole(snapshot, self.objects)

    def _holds(self, snapshot: Snapshot) -> bool:
        """Whether the record that a snapshot covers still stands where it did."""
        found = self._fetch([snapshot.covers])
        return [one.version for one in found] == [snapshot.version]

    def _choose_snapshot(
        self,
        found: Iterable[tuple[Snapshot, int]],
        head: Head,
        usable: Callable[[Snapshot], bool] | None,
    ) -> Snapshot | None:
        for snapshot, checksum in found:
            chosen = self._good(snapshot, checksum, head, usable)
            if isinstance(chosen, Snapshot):
                return chosen
            self._warn(
                "snapshot.skipped",
                {
                    "stream": snapshot.stream,
                    "version": snapshot.version,
                    "reason": chosen,
                },
            )
        return None

    def _good(
        self,
        snapshot: Snapshot,
        checksum: int,
        head: Head,
        usable: Callable[[Snapshot], bool] | None,
    ) -> Snapshot | str:
        """The snapshot as it can be used, or why it cannot."""
        if snapshot_checksum(snapshot) != checksum:
            return "bad checksum"
        if snapshot.version > head.version:
            return "ahead of its stream"
        try:
            snapshot = self.whole(snapshot)
            if usable is None or usable(snapshot):
                return snapshot
        except ObjectMissing:
            return "its object is missing"
        except StorageError as error:
            return str(error)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "not usable by this code"

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]: ...

    @abstractmethod
    def _head(self, stream: str) -> Head: ...

    @abstractmethod
    def _tail(self, stream: str, after_version: int) -> list[Record]: ...

    @abstractmethod
    def _stretch(self, stream: str, after: int, limit: int) -> list[Record]: ...

    @abstractmethod
    def _page(self, after_seq: int, limit: int, prefix: str) -> list[Record]: ...

    @abstractmethod
    def _fetch(self, seqs: list[int]) -> list[Record]: ...

    @abstractmethod
    def _blob(self, digest: str) -> bytes | None: ...

    @abstractmethod
    def _snapshots(self, stream: str) -> list[tuple[Snapshot, int]]: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _loaded(
    stream: str, head: Head, snapshot: Snapshot | None, records: tuple[Record, ...]
) -> Loaded:
    after = 0 if snapshot is None else snapshot.version
    _refuse_gaps(stream, after, records, head)
    return Loaded(
        stream=stream,
        snapshot=snapshot,
        records=records,
        head=head.version,
        seq=head.seq,
    )


def _checked(records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        if not _is_sound(record):
            raise Undecodable(
                f"record {record.seq} of {record.stream}", "its checksum does not match"
            )
        yield record


def _is_sound(record: Record) -> bool:
    return record.checksum == record_checksum(
        record.seq,
        record.stream,
        record.version,
        record.type,
        record.schema_version,
        record.codec,
        record.at,
        record.epoch,
        record.incarnation,
        record.body,
    )


def _refuse_gaps(
    stream: str, after: int, records: Iterable[Record], head: Head
) -> None:
    """Raise Undecodable unless these lead from version `after` to the head."""
    expected = after
    for record in records:
        expected += 1
        if record.version != expected:
            raise Undecodable(stream, f"its record {expected} is missing")
    if expected != head.version:
        raise Undecodable(stream, f"its record {expected + 1} is missing")
