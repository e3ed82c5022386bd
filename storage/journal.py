"""The journal: one ordered log, appended to by call and flushed in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias, TypeVar

import msgspec

from .appends import Changes, admit, measure
from .backend import Backend
from .background import Background, Step, daemon_timer, no_hit
from .base_reader import Reader
from .erasure import Erasure
from .errors import Fenced, Rejected, StorageError, StoreFailed
from .leases import Leases
from .listeners import Listeners
from .pending import Pending, PendingRead
from .posix import process
from .records import Lease, Record, Snapshot
from .watch import InboxWatch
from .writer import Writer

__all__ = ["MAX_BODY", "Health", "Journal"]

MAX_BODY = 1024 * 1024  # bytes of one record or row
MAX_SNAPSHOT = 16 * 1024 * 1024  # bytes
CLOSE_TIMEOUT = 5.0  # seconds

T = TypeVar("T")
State: TypeAlias = Literal["open", "closing", "failed", "closed"]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the journal moves. `retries` counts those of the batch that is stuck."""

    state: Literal["ok", "trouble", "failed", "closed"]
    detail: str
    retries: int
    backlog: int  # records
    durable_seq: int


class Journal:
    """The one writer of a store; opens it at once.

    Args:
        backend: where the log is kept, not opened yet.
        time: seconds since the epoch, for `Record.at`.
        background: makes the threads of the writer and of the reader from a name and
            a step.
        writing: makes the writer's in its place, so that it may share one.
        hit: told each fault point that is passed, with the type of the last record
            concerned.
        call_later: runs a callback after some seconds; the writer's retries use it.
        max_body: bytes allowed for one record or row.

    Raises:
        StorageError: whatever `Backend.open` raises; nothing is held then.

    Callbacks (`when_durable`, `on_…`) must be short; where one raises, the rest still
    run and ``journal.callback_failed`` is reported to `on_warning`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        time: Callable[[], float],
        background: Callable[[str, Step], Background],
        writing: Callable[[str, Step], Background] | None = None,
        hit: Callable[[str, str], None] | None = None,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        self._backend = backend
        self._time = time
        self._hit = hit or no_hit
        self._max_body = max_body
        self._pid = process.pid
        self._lock = threading.Lock()  # the order of the log, and all that waits
        self._writing = threading.Lock()  # one batch at a time
        self._reading = threading.Lock()  # one read at a time
        self._state: State = "open"
        self._given_up = False
        self._error: StorageError | None = None
        self._listeners = Listeners()
        self._hit("journal.open.before", "")
        opening = backend.open()
        try:
            self._hit("journal.open.after", "")
            self.runtime_epoch = opening.runtime_epoch
            self._pending = Pending(opening.last_seq)
            self._leases = Leases(backend.reader(self._listeners.warn).position)
            self._reader = backend.reader(self._listeners.warn)
            writing = writing or background
            self._writer_thread = writing("journal.writer", self.commit_batch)
            self._reader_thread = background("journal.reader", self.serve_reads)
        except BaseException:
            backend.abandon()
            raise
        later = call_later or daemon_timer
        self._watch = InboxWatch(backend, later, self._writer_thread.wake)
        self._writer = Writer(
            backend=backend,
            pending=self._pending,
            lock=self._lock,
            listeners=self._listeners,
            hit=self._hit,
            call_later=later,
            wake=self._writer_thread.wake,
        )

    def append(self, changes: Changes, erasure: Erasure | None = None) -> list[Record]:
        """Take the next places in the log for these drafts, all of them or none.

        The records are not durable yet: the writer is woken for them, `when_durable`
        tells. One call is never split over two transactions, nor left out in part. An
        `erasure` is done with it, just before; when the records are durable, the bytes
        of what it took out are gone, or go when a reader that still sees them ends.

        Raises:
            Rejected: too big, or not the stream's next version; surely not written.
            Fenced: a lease is stale; surely not written.
            StoreFailed: the journal has failed or is closed; surely not written.
        """
        types = [draft.type for _, drafts in changes for draft in drafts]
        if not types:
            return []
        subject = types[-1]
        self._hit("journal.append.before", subject)
        rows, blobs = measure(changes, self._max_body)
        try:
            with self._lock:
                self._refuse_unless_open()
                first, at = self._pending.last_seq + 1, float(self._time())
                entry = admit(changes, self._leases, first, at, rows, blobs)
                if erasure is not None:
                    entry = msgspec.structs.replace(entry, erasure=erasure)
                    self._leases.erase(erasure.fenced)
                    self._pending.drop_snapshots(erasure)
                self._pending.add(entry)
        except StoreFailed as error:
            self._fail(error)
            raise
        try:
            if erasure is not None:
                erased = partial(self._erased, erasure.fenced)
                self.when_durable(entry.records[-1].seq, erased)
            self._hit("journal.append.after", subject)
        finally:
            self._writer_thread.wake()
        return list(entry.records)

    def acquire(self, stream: str, epoch: int) -> Lease:
        """Give out the right to append to a stream; older leases become stale.

        Raises `Fenced` where the stream or its family has a higher epoch.
        """
        try:
            with self._lock:
                self._refuse_unless_open()
                return self._leases.acquire(stream, epoch)
        except StoreFailed as error:
            self._fail(error)
            raise

    def holds(self, lease: Lease) -> bool:
        """Tell, on any thread, whether an append under this lease would be taken."""
        with self._lock:
            return self._state == "open" and self._leases.holds(lease)

    def raise_epoch(self, family: str, epoch: int) -> list[Record]:
        """Fence every smaller epoch of a family: the stream and those under it.

        Its appends that no batch has taken yet are left out, as if the family had
        died before them; listeners of `on_fenced` are told and the records returned.
        An append shared with another family stays. Who needs the family's last append
        to survive waits for its flush first.
        """
        with self._lock:
            self._refuse_unless_open()
            self._leases.raise_epoch(family, epoch)
            dropped = self._pending.leave_out(family, epoch)
            for record in reversed(dropped):
                self._leases.take_back(record.stream, record.version - 1)
        if dropped:
            self._listeners.each(self._listeners.fenced, dropped)
            self._writer_thread.wake()
        return dropped

    def forget(self, family: str) -> None:
        """Drop from memory what the disk tells of a family; its leases are stale."""
        with self._lock:
            self._leases.forget(family, self._pending.durable_seq)

    @property
    def durable_seq(self) -> int:
        """Everything up to this seq is on disk (or was left out by a fence)."""
        return self._pending.durable_seq

    @property
    def backlog(self) -> int:
        """The number of records that are not durable yet."""
        return self._pending.backlog

    def when_durable(self, seq: int, callback: Callable[[], object]) -> None:
        """Call `callback` once `seq` is flushed: on the thread that did it, or at once.

        It is never called where the record was left out or the journal fails first.
        """
        with self._lock:
            dead = self._state in ("failed", "closed")
            waits = dead or self._pending.wait_for(seq, callback)
        if not waits:
            callback()

    def on_flushed(self, listener: Callable[[Sequence[Record]], None]) -> None:
        """Hear every record once, in the order of the log, after its flush.

        Called on the thread that flushed it, before the `when_durable` callbacks.
        """
        self._listeners.flushed.append(listener)

    def on_fenced(self, listener: Callable[[Sequence[Record]], None]) -> None:
        """Hear of records that were left out, on the thread that raised the epoch."""
        self._listeners.fenced.append(listener)

    def on_failed(self, callback: Callable[[StorageError], None]) -> None:
        """Hear once that the journal has failed; at once where it has already."""
        with self._lock:
            error = self._error
            if error is None:
                self._listeners.failed.append(callback)
                return
        callback(error)

    def watch_inbox(self, listener: Callable[[], object]) -> None:
        """Hear, on any thread, that a command may have come; one listener at a time."""
        self._watch.tell(listener)

    def on_warning(self, listener: Callable[[str, Mapping[str, object]], None]) -> None:
        """Hear the name and fields of what went wrong without harm."""
        self._listeners.warned.append(listener)

    def read(
        self, run: Callable[[Reader], T], done: Callable[[T | BaseException], None]
    ) -> None:
        """Run a read behind every append made so far, on the reader's thread.

        `done` gets what `run` returned or raised, on that thread too.
        """
        with self._lock:
            self._refuse_unless_open()
            self._pending.add_read(run, done)
            due = self._pending.read_due
        (self._reader_thread if due else self._writer_thread).wake()

    def snapshot(self, snapshot: Snapshot) -> None:
        """Queue a snapshot; it is written after the records that it covers.

        Raises:
            Rejected: it is too big.
        """
        if len(snapshot.body) > MAX_SNAPSHOT:
            raise Rejected(
                snapshot.stream,
                f"its snapshot has {len(snapshot.body)} bytes, "
                f"{MAX_SNAPSHOT} are allowed",
            )
        with self._lock:
            self._refuse_unless_open()
            self._pending.keep_snapshot(
                msgspec.structs.replace(snapshot, at=float(self._time()))
            )
        self._writer_thread.wake()

    def health(self) -> Health:
        """Say in one value whether the journal moves."""
        with self._lock:
            state: Literal["ok", "trouble", "failed", "closed"] = "ok"
            if self._error or self._state == "closed":
                state = "failed" if self._error else "closed"
            elif self._writer.trouble:
                state = "trouble"
            return Health(
                state=state,
                detail=str(self._error or self._writer.trouble or ""),
                retries=self._writer.retries,
                backlog=self._pending.backlog,
                durable_seq=self._pending.durable_seq,
            )

    def commit_batch(self) -> bool:
        """Write everything queued in one transaction, flush once, acknowledge.

        The writer's step; True while there is more to do.
        """
        with self._writing:
            if self._state in ("failed", "closed"):
                return False
            try:
                more = self._writer.commit()
                told = self._watch.look()
            except StorageError as error:
                self._fail(error)
                return False
            except BaseException as error:
                self._fail(
                    StoreFailed(self._backend.path, f"{type(error).__name__}: {error}")
                )
                return False
        if told is not None:
            self._listeners.each([told])
        if self._pending.read_due:
            self._reader_thread.wake()
        return more

    def serve_reads(self) -> bool:
        """Run one read that is due. The reader's step; True while there is more."""
        with self._reading:
            with self._lock:
                if self._state in ("failed", "closed"):
                    return False
                read = self._pending.next_read()
            if read is None:
                return False
            self._listeners.each([read.done], self._perform(read))
            return True

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Flush what is queued, leave the store in its resting form, give it up.

        Waits `timeout` seconds at most for each thread. Returns whether all that was
        appended is durable; where it is not, the store is as a kill leaves it. A store
        that a thread is stuck in is given up by a later call. In a forked child it
        does nothing.
        """
        if process.pid != self._pid:
            return False
        with self._lock:
            if self._given_up:
                return self._pending.backlog == 0
            if self._state == "open":
                self._state = "closing"
        self._writer_thread.stop(timeout)
        self._reader_thread.stop(timeout)
        for busy in (self._writing, self._reading):
            if not busy.acquire(timeout=timeout):
                # A thread is stuck inside the store. Pulling the store from under it
                # is not safe, so it stays ours until that thread is out.
                self._shut()
                return False
            busy.release()
        self._writer.hurry()
        while self.commit_batch():
            pass
        while self.serve_reads():
            pass
        clean = self._shut()
        self._given_up = True
        if clean:
            self._backend.close()
        else:
            self._backend.abandon()
        return clean

    def _shut(self) -> bool:
        with self._lock:
            clean = self._state == "closing" and self._pending.backlog == 0
            self._state = "closed"
            reads = self._pending.abandon()
        gone = StoreFailed(self._backend.path, "it was closed")
        for read in reads:
            self._listeners.each([read.done], gone)
        return clean

    def _erased(self, families: Sequence[str]) -> None:
        with self._lock:
            self._leases.erased(families)

    def _perform(self, read: PendingRead) -> object:
        try:
            return read.run(self._reader)
        except StoreFailed as error:
            self._fail(error)
            return error
        except BaseException as error:
            return error

    def _refuse_unless_open(self) -> None:
        if self._state != "open":
            raise self._error or StoreFailed(self._backend.path, "it was closed")
        if process.pid != self._pid:
            raise Fenced(
                self._backend.path, "this process was forked from the one that owns it"
            )

    def _fail(self, error: StorageError) -> None:
        with self._lock:
            if self._state not in ("open", "closing"):
                return
            self._state = "failed"
            self._error = error
            reads = self._pending.abandon()
            callbacks = list(self._listeners.failed)
        for read in reads:
            self._listeners.each([read.done], error)
        self._listeners.each(callbacks, error)
