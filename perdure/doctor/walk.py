"""One stream from its first record: sound, complete, known, and as its snapshots say.

A page at a time, so that it takes no more room for a million records than for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..actors import names
from ..actors.admission import queue
from ..actors.budget import account, pool
from ..actors.events import Event, TaskErased
from ..actors.ledger import entry
from ..actors.memory import state as memory
from ..actors.task import state as task
from ..actors.upgrades import body_of, is_current
from ..actors.windows import window
from ..folds import event_of
from ..storage.errors import NewerSchema, NoUpgradePath, Undecodable, UnknownType
from ..storage.reader import Reader
from ..storage.records import Record, Snapshot
from .objects import whole_of
from .report import Findings

__all__ = ["Each", "Fold", "Walk", "fold_of"]

PAGE = 1_000  # records

Fold: TypeAlias = tuple[Any, Callable[[Any, Event], Any]]  # first state, and apply
Each: TypeAlias = Callable[[Record, Event, Any, Any], None]  # states before and after

_SERVICES: dict[str, Fold] = {
    names.ADMISSION: (queue.QueueState(), queue.apply),
    names.POOL: (pool.PoolState(), pool.apply_pool),
    names.WINDOWS: (window.WindowsState(), window.apply),
    names.MEMORY: (memory.MemoryState(), memory.apply),
}
_TASKS: dict[str, Fold] = {
    "": (task.TaskState(), task.apply),
    "account": (account.AccountState(), account.apply),
    "ledger": (entry.LedgerState(), entry.apply),
}


def fold_of(stream: str) -> Fold | None:
    """How a stream comes to its state; None where it has none."""
    if stream in _SERVICES:
        return _SERVICES[stream]
    family, _, rest = stream.partition("/")
    return _TASKS.get(rest.partition("/")[2]) if family == "task" else None


class Walk:
    """A stream as far as it was read; `on` reads what came since.

    `whole` says that nothing is amiss so far: only then is `state` what the stream
    comes to, and only so far is it compared with snapshots.
    """

    def __init__(
        self,
        reader: Reader,
        stream: str,
        found: Findings,
        bodies: Callable[[bytes], None],
        each: Each | None = None,
    ) -> None:
        self._reader = reader
        self._found = found
        self._bodies = bodies  # hears of each record's, damaged ones too
        self._each = each
        self.stream = stream
        self.version = 0
        self.records = 0
        self.snapshots = 0
        self.whole = True
        self.erased = False  # all that is left of it is the record that says so
        fold = fold_of(stream)
        self._fold = None if fold is None else fold[1]
        self.state: Any = None if fold is None else fold[0]
        self._snapshots: dict[int, Snapshot] | None = None

    def on(self) -> None:
        """Read up to where the stream ends now."""
        if self._snapshots is None:  # first: they are then not ahead of it
            self._snapshots = self._read_snapshots()
        head = self._reader.head(self.stream)
        while self.version < head:
            page = self._reader.examined(self.stream, self.version, PAGE)
            for record, sound in page:
                self._take(record, sound=sound)
            if not page:
                break

    def end(self) -> None:
        """Name the snapshots that the stream does not reach."""
        for snapshot in (self._snapshots or {}).values():
            if snapshot.version > self.version:
                self._found.add(
                    "snapshot_ahead",
                    self._at(snapshot),
                    f"the stream ends with record {self.version}",
                )

    def _read_snapshots(self) -> dict[int, Snapshot]:
        good: dict[int, Snapshot] = {}
        for snapshot, sound in self._reader.examined_snapshots(self.stream):
            self.snapshots += 1
            if sound:
                at = self._at(snapshot)
                whole = whole_of(self._reader, snapshot, self._found, at)
                if whole is not None:
                    good[snapshot.version] = whole
            else:
                what = "its checksum does not match"
                self._found.add("snapshot_checksum", self._at(snapshot), what)
        return good

    def _take(self, record: Record, *, sound: bool) -> None:
        self.records += 1
        first, self.version = self.version + 1, record.version
        where = f"record {record.seq}: {self.stream} {record.version} ({record.type})"
        if record.version != first:
            last = record.version - 1
            self._amiss("gap", self.stream, f"its records {first} to {last}")
        self._bodies(record.body)
        if not sound:
            self._amiss("checksum", where, "its checksum does not match")
            return
        try:
            event = event_of(record)
        except NewerSchema as error:
            known = f"version {error.found}, and {error.known} is known"
            self._amiss("newer_schema", where, known)
        except NoUpgradePath as error:
            self._amiss("no_upgrade", where, error.reason)
        except UnknownType as error:
            self._amiss("unknown_type", where, error.reason)
        except Undecodable as error:
            self._amiss("body", where, error.reason)
        else:
            self._apply(record, event, where)

    def _apply(self, record: Record, event: Event, where: str) -> None:
        if not self.whole:
            return
        before = self.state
        if isinstance(event, TaskErased) and self.stream not in _SERVICES:
            self.erased = True
        if self._fold is not None and not self.erased:
            try:
                self.state = self._fold(before, event)
            except Exception as error:  # whatever a fold trips over
                self._amiss("history", where, f"{type(error).__name__}: {error}")
                return
        if self._each is not None:
            self._each(record, event, before, self.state)
        snapshot = (self._snapshots or {}).get(record.version)
        if snapshot is not None:
            self._compare(snapshot, record)

    def _compare(self, snapshot: Snapshot, record: Record) -> None:
        if snapshot.covers != record.seq:
            what = f"it covers record {snapshot.covers}, and that is {record.seq}"
            self._found.add("snapshot_differs", self._at(snapshot), what)
        elif (
            is_current(snapshot, type(self.state))
            and body_of(self.state) != snapshot.body
        ):
            what = "replay comes to another state"
            self._found.add("snapshot_differs", self._at(snapshot), what)

    def _amiss(self, kind: str, where: str, what: str) -> None:
        self.whole = False
        self._found.add(kind, where, what)

    def _at(self, snapshot: Snapshot) -> str:
        return f"snapshot of {self.stream} at {snapshot.version}"
