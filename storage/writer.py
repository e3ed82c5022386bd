"""The writer: batches to disk, one flush each, then the acknowledgements."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .backend import Backend, Batch
from .errors import StoreTrouble
from .listeners import Listeners
from .pending import Pending
from .records import Snapshot

__all__ = ["Writer"]

RETRY_FIRST = 0.1  # seconds
RETRY_LIMIT = 5.0  # seconds
IDLE = 2.0  # seconds without a batch


class Writer:
    """Commits what is pending, one batch at a time and in the order of seq.

    Args:
        backend: the opened store.
        pending: the queues; touched under `lock` only.
        lock: the journal's.
        listeners: those who hear of flushed records and of warnings.
        hit: told each fault point.
        call_later: runs a callback after some seconds.
        wake: has `commit` called again, soon.
    """

    def __init__(
        self,
        *,
        backend: Backend,
        pending: Pending,
        lock: threading.Lock,
        listeners: Listeners,
        hit: Callable[[str, str], None],
        call_later: Callable[[float, Callable[[], None]], object],
        wake: Callable[[], None],
    ) -> None:
        self.trouble: StoreTrouble | None = None
        self.retries = 0
        self._backend = backend
        self._pending = pending
        self._lock = lock
        self._listeners = listeners
        self._hit = hit
        self._call_later = call_later
        self._wake = wake
        self._batch: Batch | None = None
        self._waiting = False
        self._idle_timer = False  # whether it is set
        self._idle_due = False  # whether it went off
        self._worked = False  # whether there was a batch since it was set
        self._held_up = 0  # bytes of a log file that a reader holds, at most

    def commit(self) -> bool:
        """Write one batch and the snapshots it makes ready; True if more waits.

        Raises:
            Fenced: another runtime owns the store; the batch was not written.
            StoreFailed: it is unknown what was written.
        """
        with self._lock:
            if self._waiting:
                return False
            if self._batch is None:
                self._batch = self._pending.take()
            batch = self._batch
        if batch is not None and not self._flush(batch):
            return False
        self._write_snapshots()
        self._tidy(worked=batch is not None)
        with self._lock:
            return self._pending.queued

    def hurry(self) -> None:
        """Let the next `commit` try again at once."""
        with self._lock:
            self._waiting = False

    def _flush(self, batch: Batch) -> bool:
        subject = batch.records[-1].type
        try:
            self._backend.write(batch)
            self._hit("journal.flush.before", subject)
            self._backend.flush()
        except StoreTrouble as trouble:
            self._backend.rollback()
            self._retry_later(trouble)
            return False
        self._hit("journal.flush.after", subject)
        if batch.erasure is not None and batch.erasure.scrub:
            self._scrub()
        self._hit("journal.ack.before", subject)
        self._listeners.each(self._listeners.flushed, batch.records)
        with self._lock:
            self._batch = None
            self.trouble = None
            retries, self.retries = self.retries, 0
            due = self._pending.settle(batch)
        if retries:
            self._listeners.warn("journal.resumed", {"retries": retries})
        self._listeners.each(due)
        return True

    def _scrub(self) -> None:
        """Before the acknowledgement: who is told finds no byte of it any more."""
        try:
            self._backend.scrub()
        except StoreTrouble as trouble:
            self._listeners.warn("journal.erasure_waits", {"detail": str(trouble)})

    def _retry_later(self, trouble: StoreTrouble) -> None:
        with self._lock:
            self.trouble = trouble
            delay = min(RETRY_FIRST * 2**self.retries, RETRY_LIMIT)
            self.retries += 1
            self._waiting = True
        self._listeners.warn(
            "journal.trouble",
            {"kind": trouble.kind, "detail": str(trouble), "retry_in": delay},
        )
        self._call_later(delay, self._retry)

    def _retry(self) -> None:
        self.hurry()
        self._wake()

    def _tidy(self, *, worked: bool) -> None:
        with self._lock:
            due, self._idle_due = self._idle_due, False
        self._worked |= worked
        wanted = self._backend.tidy(idle=due and not self._worked)
        self._tell_held_up()
        if due:
            self._idle_timer = False
        if wanted and not self._idle_timer:
            self._idle_timer, self._worked = True, False
            self._call_later(IDLE, self._idle)

    def _tell_held_up(self) -> None:
        """Say once that a reader holds the log file, and once that it does no more."""
        held, most = self._backend.held_up(), self._held_up
        if held is not None:
            self._held_up = max(held.size, most)
            if not most:
                fields = {"size": held.size, "holders": list(held.holders)}
                self._listeners.warn("journal.wal_held", fields)
        elif most:
            self._held_up = 0
            self._listeners.warn("journal.wal_free", {"size": most})

    def _idle(self) -> None:
        with self._lock:
            self._idle_due = True
        self._wake()

    def _write_snapshots(self) -> None:
        with self._lock:
            snapshots = self._pending.ready_snapshots()
        if not snapshots:
            return
        self._hit("snapshot.write.before", "")
        try:
            refused = self._backend.write_snapshots(snapshots)
        except StoreTrouble as trouble:
            # Not kept for a retry: the next one is newer and covers more.
            self._warn_not_written(snapshots, str(trouble))
            return
        self._hit("snapshot.write.after", "")
        self._warn_not_written(refused, "the log does not hold what it covers")

    def _warn_not_written(self, snapshots: list[Snapshot], reason: str) -> None:
        for snapshot in snapshots:
            self._listeners.warn(
                "snapshot.not_written",
                {
                    "stream": snapshot.stream,
                    "version": snapshot.version,
                    "reason": reason,
                },
            )
