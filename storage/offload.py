"""Snapshots of one family of streams kept in an object store, beside any back end.

    write_snapshots -> put, on a thread of its own -> pointer, by the writer

No batch waits for an object. A pointer is written once its object is there; where it
cannot be put, the snapshot is kept in the store as if there were no object store. An
object goes when no pointer names it any more, an erased stream's at once: a row in the
transaction of the erasure remembers that they are due until they are gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from .backend import Backend, Batch, HeldUp, Opening, Warn
from .background import Background, Step
from .base_reader import Reader
from .erasure import Erasure
from .errors import ObjectExists, StorageError, StoreTrouble, Undecodable
from .objects import ObjectStore
from .pointer import folder_of, place_of, pointer_of, pointer_to, prefix_of
from .records import Row, Snapshot, in_family

__all__ = ["OBJECT_ROWS", "USED", "OffloadingBackend"]

SMALLEST = 4096  # bytes; below, a pointer and a request cost more than they save
MOST = 256  # snapshots that wait to be put; the store keeps what comes beyond
AGAIN = 60.0  # seconds until objects are tried again that could not be removed
DRAIN = 2.0  # seconds that closing waits for uploads
OBJECT_ROWS = "objects"  # the space of the rows below
USED = "used"  # stands once an object was put
_DUE = "due/"  # and a stream or family whose objects are to go


class OffloadingBackend:
    """A back end whose big snapshots of one family lie in an object store.

    Args:
        backend: keeps everything else.
        objects: where they are put.
        family: the streams concerned, by their first segment; their names are unique
            over all stores that share the object store.
        background: makes the thread that speaks to the object store.
        call_later: runs a callback after some seconds.
        warn: hears the name and fields of what went wrong without harm.
    """

    def __init__(
        self,
        backend: Backend,
        objects: ObjectStore,
        *,
        family: str,
        background: Callable[[str, Step], Background],
        call_later: Callable[[float, Callable[[], None]], object],
        warn: Warn,
    ) -> None:
        self._backend = backend
        self._objects = objects
        self._family = family
        self._background = background
        self._call_later = call_later
        self._warn = warn
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._thread: Background | None = None
        self._over = False
        self._waiting: dict[str, Snapshot] = {}  # by stream, to be put
        self._busy: Snapshot | None = None  # which is being put, and still wanted
        self._ready: dict[str, Snapshot] = {}  # by stream, for the writer
        self._unwritten: set[str] = set()  # keys whose pointers are on their way
        self._stale: dict[str, None] = {}  # streams with objects that nobody names
        self._due: dict[str, None] = {}  # streams and families that were erased
        self._rows: dict[str, bytes | None] = {}  # to be written with the next batch
        self._used = False  # whether the store says that objects were put
        self._batch: Batch | None = None

    @property
    def path(self) -> str:
        """How messages name this store."""
        return self._backend.path

    def open(self) -> Opening:
        """Open the back end, and go on with what is due since its last owner."""
        opening = self._backend.open()
        try:
            self._reader = self._backend.reader(_say_nothing)
            for row in self._reader.rows(OBJECT_ROWS, _DUE):
                self._due[row.key.removeprefix(_DUE)] = None
            self._used = self._reader.row(OBJECT_ROWS, USED) is not None
            self._thread = self._background("journal.objects", self._step)
        except BaseException:
            self._backend.abandon()
            raise
        if self._due:
            self._thread.wake()
        return opening

    def write(self, batch: Batch) -> None:
        """Write a batch; with an erasure, also which objects are to go."""
        with self._lock:
            if batch.erasure is not None:
                self._forget(batch.erasure)
            rows = [
                Row(space=OBJECT_ROWS, key=key, value=value)
                for key, value in self._rows.items()
            ]
        if rows:
            batch = msgspec.structs.replace(batch, rows=[*batch.rows, *rows])
        self._batch = batch
        self._backend.write(batch)

    def flush(self) -> None:
        """Commit, then have the objects of what was erased removed."""
        self._backend.flush()
        batch, self._batch = self._batch, None
        if batch is None:
            return
        with self._lock:
            for row in batch.rows:
                if row.space == OBJECT_ROWS and self._rows.get(row.key) == row.value:
                    self._rows.pop(row.key, None)
            if batch.erasure is not None:
                self._due.update(dict.fromkeys(self._touched(batch.erasure)))
        if batch.erasure is not None:
            self._wake()

    def rollback(self) -> None:
        """Undo what `write` began."""
        self._batch = None
        self._backend.rollback()

    def scrub(self) -> None:
        """See that no byte is left in the store itself."""
        self._backend.scrub()

    def write_snapshots(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Take the big ones to be put, store the others; return those not written."""
        with self._lock:
            kept = [one for one in snapshots if not self._take(one)]
        if len(kept) < len(snapshots):
            self._wake()
        return self._backend.write_snapshots(kept) if kept else []

    def reader(self, warn: Warn) -> Reader:
        """Return a reader that follows pointers."""
        reader = self._backend.reader(warn)
        reader.objects = self._objects
        return reader

    def watch(self, notice: Callable[[], object]) -> bool:
        """Have the journal look now and then: pointers are written when it does."""
        self._backend.watch(notice)
        return True

    def changed(self) -> bool:
        """Tell whether anybody else has written to the store since the last call."""
        return self._backend.changed()

    def tidy(self, *, idle: bool) -> bool:
        """Write the pointers whose objects are there; then do what else is due."""
        self._write_ready()
        return self._backend.tidy(idle=idle)

    def held_up(self) -> HeldUp | None:
        """Say whether a reader keeps the back end's log file long."""
        return self._backend.held_up()

    def close(self) -> None:
        """Put what can be put in 2 s, keep the rest in the store, give it up."""
        end = time.monotonic() + DRAIN
        stuck = self._thread is not None and self._thread.stop(DRAIN) is False
        with self._lock:
            self._over = stuck
            busy, self._busy = self._busy, None
            for snapshot in [*([busy] if busy else []), *self._waiting.values()]:
                self._keep_ready(snapshot)  # newer ones last
            self._waiting.clear()
        try:
            self._write_ready()
        except StorageError:
            self.abandon()
            raise
        while time.monotonic() < end and self._step():
            pass
        self._over = True
        self._backend.close()

    def abandon(self) -> None:
        """Give the store up as it is."""
        self._over = True
        if self._thread is not None:
            self._thread.stop(0.0)
        self._backend.abandon()

    # ── under the lock ───────────────────────────────────────────────────────────

    def _take(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is to be put; older ones on their way give way to it."""
        stream = snapshot.stream
        if not in_family(stream, self._family):
            return False
        room = stream in self._waiting or len(self._waiting) < MOST
        if room and len(snapshot.body) >= SMALLEST and not self._objects.is_away:
            self._waiting[stream] = snapshot
            return True
        # Written now: what is older must not be written after it.
        self._drop(lambda one: one == stream)
        return False

    def _forget(self, erasure: Erasure) -> None:
        self._drop(erasure.touches)
        for name in self._touched(erasure):
            self._rows[f"{_DUE}{name}"] = b"true"

    def _keep_ready(self, snapshot: Snapshot) -> None:
        """Have the writer write it, instead of an older one of its stream."""
        self._let_go(self._ready.get(snapshot.stream))
        self._ready[snapshot.stream] = snapshot

    def _let_go(self, snapshot: Snapshot | None) -> None:
        """Its object is not on its way any more: it goes unless a snapshot names it."""
        pointer = None if snapshot is None else pointer_of(snapshot)
        if pointer is not None:
            self._unwritten.discard(pointer.object)

    def _drop(self, concerns: Callable[[str], bool]) -> None:
        if self._busy is not None and concerns(self._busy.stream):
            self._busy = None
        for kept in (self._waiting, self._ready):
            for stream in [one for one in kept if concerns(one)]:
                self._let_go(kept.pop(stream))
                self._stale[stream] = None

    def _touched(self, erasure: Erasure) -> list[str]:
        redacted = (one.stream for one in erasure.redactions)
        names = dict.fromkeys([*erasure.families, *erasure.gone, *redacted])
        return [one for one in names if in_family(one, self._family)]

    # ── on the thread that flushes ───────────────────────────────────────────────────

    def _write_ready(self) -> None:
        with self._lock:
            ready = list(self._ready.values())
            self._ready.clear()
        if not ready:
            return
        reason = "the log does not hold what it covers"
        try:
            refused = self._backend.write_snapshots(ready)
        except StoreTrouble as trouble:
            refused, reason = ready, str(trouble)
        for one in refused:
            self._warn(
                "snapshot.not_written",
                {"stream": one.stream, "version": one.version, "reason": reason},
            )
        with self._lock:
            for one in ready:
                self._let_go(one)
                self._stale[one.stream] = None
        self._wake()

    def _wake(self) -> None:
        if self._thread is not None:
            self._thread.wake()

    # ── on the thread that speaks to the object store ────────────────────────────

    def _step(self) -> bool:
        """Remove what was erased, else put one snapshot, else remove old objects."""
        erased = stale = None
        with self._lock:
            if self._over:
                return False
            if self._due:
                erased = next(iter(self._due))
                del self._due[erased]
            elif self._waiting:
                self._busy = self._waiting.pop(next(iter(self._waiting)))
            elif self._stale:
                stale = next(iter(self._stale))
                del self._stale[stale]
            else:
                return False
            snapshot = self._busy
        if erased is not None:
            self._remove_erased(erased)
        elif stale is not None:
            self._remove_stale(stale)
        elif snapshot is not None:
            self._put(snapshot)
        return True

    def _put(self, snapshot: Snapshot) -> None:
        made = pointer_to(snapshot)
        pointer = pointer_of(made)
        assert pointer is not None
        key = pointer.object
        with self._lock:
            self._unwritten.add(key)
        try:
            self._put_once(key, snapshot.body)
        except StorageError as error:
            made = snapshot
            self._warn(
                "objects.trouble",
                {
                    "stream": snapshot.stream,
                    "version": snapshot.version,
                    "detail": str(error),
                },
            )
        with self._lock:
            wanted, self._busy = self._busy is not None, None
            if made is not snapshot and not self._used:
                self._used = True
                self._rows[USED] = b"true"
            if wanted:
                self._keep_ready(made)
            if not wanted or made is snapshot:
                self._unwritten.discard(key)
                self._stale[made.stream] = None

    def _put_once(self, key: str, body: bytes) -> None:
        try:
            self._objects.put(key, body)
        except ObjectExists:  # put by who died before its pointer was written
            if self._objects.get(key) != body:
                raise Undecodable(
                    f"object {key}", "other bytes are there under its name"
                ) from None

    def _remove_stale(self, stream: str) -> None:
        if self._objects.is_away:
            return  # they go with the stream's next ones
        try:
            self._remove(folder_of(stream))
        except StorageError as error:
            self._warn("objects.not_removed", {"of": stream, "detail": str(error)})
        except Exception:
            if not self._over:  # the reader was closed under it
                raise

    def _remove_erased(self, name: str) -> None:
        try:
            self._remove(prefix_of(name))
        except StorageError as error:
            self._warn("objects.erasure_waits", {"of": name, "detail": str(error)})

            def again() -> None:
                with self._lock:
                    self._due[name] = None
                self._wake()

            self._call_later(AGAIN, again)
        except Exception:
            if not self._over:
                raise
        else:
            with self._lock:
                key = f"{_DUE}{name}"
                if name not in self._due and key not in self._rows:  # not again since
                    self._rows[key] = None

    def _remove(self, prefix: str) -> None:
        """Remove the objects under a prefix that no snapshot of the store names."""
        for key, _ in list(self._objects.keys(prefix)):
            place = place_of(key)
            if place is not None and key not in self._named(place[0]):
                self._objects.delete(key)

    def _named(self, stream: str) -> set[str]:
        assert self._reader is not None
        with self._lock:
            on_their_way = set(self._unwritten)
        return on_their_way | set(_keys(self._reader.snapshots(stream)))


def _keys(snapshots: Iterable[Snapshot]) -> list[str]:
    found = (pointer_of(one) for one in snapshots)
    return [one.object for one in found if one is not None]


def _say_nothing(event: str, fields: object) -> None:
    return
