"""Repairing a store: what is amiss goes into quarantine, and nothing is lost by it.

Three rules. What can be made anew from the log (snapshots, the rows of tasks) is taken
from its place, kept, and made anew. What belongs to nothing (rows of no task, blobs
that are not what their names say) is taken from its place, and kept. All else, records
above all, stays where it is and is noted; a live task that it concerns is parked.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from ..actors import names
from ..actors.admission.place import Place
from ..actors.events import Quarantined, QuarantineLifted, TaskParked, TaskRecalled
from ..actors.upgrades import body_of
from ..errors import Misuse
from ..folds import event_of
from ..storage.address import Address
from ..storage.erasure import Erasure
from ..storage.mend import mend_file
from ..storage.reader import open_reader
from ..storage.records import Draft, Lease, Row, Snapshot, blob_digest
from ..storage.upgrades import version_of
from .examine import examine
from .owned import Owned
from .quarantine import Item, Taken, held, item_id, items, rows_of, without
from .renew import Standing, naming, renewed_row
from .report import Finding, Report
from .walk import fold_of

__all__ = ["Repaired", "put_back", "quarantined", "repair"]

PASSES = 4  # what is set aside may show what it hid
PAGE = 1_000  # records

_SNAPSHOTS = ("snapshot_checksum", "snapshot_ahead", "snapshot_differs")
_ROWS = ("row_unreadable", "row_differs", "row_missing")
_PARKS = ("checksum", "gap", "body", "history", "money", "grant", *_ROWS)
_LEFT = ("file", "unreadable", "unknown_type", "newer_schema", "no_upgrade")
_TASK = re.compile(r"(?:^|\W)task[/ ]([^/ ]+)")
_SNAPSHOT = re.compile(r"snapshot of (\S+) at (\d+)")


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What went into quarantine, the live tasks that were parked, and what is left.

    `left` is what an examination finds now: what no quarantine helps against.
    """

    taken: tuple[Item, ...]
    parked: tuple[str, ...]
    left: Report


def repair(address: Address) -> Repaired:
    """Set aside what is amiss in a store, so that a runtime can work on the rest of it.

    It owns the store meanwhile. Killed at any moment, it can be done again.

    Raises:
        StoreLocked: a runtime owns the store.
        CannotOpen, NotAStore, NewerLayout: as `Runtime` does.
        StoreTrouble, StoreFailed: it cannot be written.
    """
    taken: dict[str, Item] = {}
    parked: list[str] = []
    report = examine(address)
    for _ in range(PASSES):
        done, harmed = _pass(address, report)
        if not done:
            break
        taken.update((one.id, one) for one in done)
        parked += harmed
        report = examine(address)
    return Repaired(taken=tuple(taken.values()), parked=tuple(parked), left=report)


def _pass(address: Address, report: Report) -> tuple[list[Item], list[str]]:
    """Set aside what was found; returns the items, and the tasks that were parked."""
    mended = [
        _item(one, name=kept)
        for one in report.findings
        if one.kind == "file" and (kept := mend_file(address, one.what))
    ]
    found = [one for one in report.findings if one.kind not in _LEFT]
    if any(_is_of_task(one) for one in found):
        # What is of a task with a wrong row seems to be of none, or of an ended one.
        found = [one for one in found if one.kind not in ("row_of_none", "left_open")]
    if "unreadable" in report.counts or not (mended or found):
        return [], []
    with _Repair(address) as work:
        for item in mended:
            work.note(item)
        taken = [work.take(one) for one in found]
    return mended + [one for one in taken if one is not None], work.parked


def put_back(address: Address, ids: Iterable[str]) -> list[Item]:
    """Take items out of quarantine: rows go back to their places, notes are dropped.

    A task that was parked for one stays so until it is resumed. What is damaged is
    kept to be looked at only, and so is the copy of a file.

    Raises:
        Misuse: there is no such item, or it cannot be put back; nothing was changed.
        StoreLocked and others: as for `repair`.
    """
    with _Repair(address) as work:
        found = [work.liftable(one) for one in ids]
        for item in found:
            work.lift(item)
    return found


def quarantined(address: Address) -> list[tuple[Item, bytes]]:
    """All that is in quarantine, each with what is held of it; owns nothing."""
    with open_reader(address) as reader:
        return [(one, held(reader, one)) for one in items(reader)]


class _Repair(Owned):
    """The store, owned, and what is set aside in it."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._standing = Standing(self.reader)
        self.parked: list[str] = []
        self._renewed: set[str] = set()

    # ── into quarantine ──────────────────────────────────────────────────────────

    def note(self, item: Item) -> None:
        """Write down what was set right before the journal was opened."""
        self._write(item, b"")

    def take(self, found: Finding) -> Item | None:
        """Set one finding aside; None where that helps nothing, and it is left."""
        if found.kind in _SNAPSHOTS:
            return self._take_snapshot(found)
        if found.kind == "blob_bytes":
            return self._take_blob(found)
        if _is_of_task(found):
            return self._renew_row(found)
        if found.kind in ("row_of_none", "left_open", "row_unreadable"):
            return self._take_row(found)
        item = _item(found)
        rests = self._standing.resting(item.task)
        if found.kind == "not_queued" and rests is not None:
            return self._renew_place(found, rests)
        if not item.task and found.kind != "blob_orphaned":
            return None  # of what all tasks share, nothing can be set aside
        return self._write(item, b"")

    def _take_snapshot(self, found: Finding) -> Item | None:
        match = _SNAPSHOT.fullmatch(found.where)
        assert match is not None
        stream, version = match[1], int(match[2])
        reader = self.reader
        there = reader.examined_snapshots(stream)
        bad = [one for one, _ in there if one.version == version]
        right = self._replayed(stream, version)
        if not bad or not right:
            return None
        if any(
            good and version < one.version < right[-1].version for one, good in there
        ):
            del right[:-1]  # the bad one falls out as the third
        item = _item(found, taken="snapshot", name=f"{stream} {version}")
        rest = {**msgspec.structs.asdict(bad[0]), "body": ""}
        item = self._write(item, msgspec.json.encode(rest) + b"\n" + bad[0].body)
        for snapshot in right:  # the newest last: older ones give way to it
            self.keep(snapshot)
        return item

    def _replayed(self, stream: str, version: int) -> list[Snapshot]:
        """What the stream comes to there, and at its end; nothing where it cannot."""
        reader, how = self.reader, fold_of(stream)
        if how is None:
            return []
        state, apply = how
        made: list[Snapshot] = []
        at, head = 0, reader.position(stream)
        try:
            while at < head.version:
                for record in reader.stretch(stream, at, PAGE):
                    if record.version != at + 1:
                        return []
                    at, state = record.version, apply(state, event_of(record))
                    if at in (version, head.version):
                        made.append(_snapshot(stream, at, record.seq, state))
        except Exception:  # a record, or whatever a fold trips over
            return []
        return made

    def _take_blob(self, found: Finding) -> Item | None:
        digest = found.where.removeprefix("blob ")
        kept = self.reader.examined_blob(digest)
        if kept is None:
            return None
        item = _item(found, taken="blob", name=digest)
        gone = Erasure(blobs=(digest,), searched=self.durable_seq, scrub=False)
        # Under each task that names it: it is erased with them.
        first, *others = sorted(naming(self.reader, digest)) or [""]
        copies = [msgspec.structs.replace(item, task=one) for one in others]
        rows = [row for one in copies for row in rows_of(one, kept[0])]
        item = msgspec.structs.replace(item, task=first)
        return self._write(item, kept[0], rows=rows, erasure=gone)

    def _take_row(self, found: Finding) -> Item | None:
        space, _, key = found.where.removeprefix("row ").partition("/")
        reader = self.reader
        value = reader.row(space, key)
        if value is None:
            return None
        item = _item(found, taken="row", name=f"{space}/{key}")
        first = re.split(r"[/:]", key)[0]  # of most rows that is their task
        if not item.task and reader.row(names.TASK_ROWS, first) is not None:
            item = msgspec.structs.replace(item, task=first)
        return self._write(item, value, rows=[Row(space=space, key=key, value=None)])

    def _renew_row(self, found: Finding) -> Item | None:
        task = found.where.partition("/")[2]
        reader = self.reader
        old = reader.row(names.TASK_ROWS, task)
        item = _item(found, name=f"{names.TASK_ROWS}/{task}")
        if task in self._renewed:
            return self._write(item, b"")
        new = renewed_row(reader, task, self._standing.place(task), why(item))
        if new is None and found.kind == "row_unreadable":
            return self._take_row(found)
        if new is None or new == old:
            return self._write(item, b"")
        self._renewed.add(task)
        taken: Taken = "" if old is None else "row"
        item = msgspec.structs.replace(item, taken=taken, instead=blob_digest(new))
        row = Row(space=names.TASK_ROWS, key=task, value=new)
        return self._write(item, old or b"", rows=[row])

    def _renew_place(self, found: Finding, place: Place) -> Item:
        """Write the row of a place in the queue anew, as the log has it."""
        item = _item(found)
        old = self.reader.row(names.PLACES, item.task)
        row = _resting(item.task, place)
        taken: Taken = "" if old is None else "row"
        item = msgspec.structs.replace(
            item,
            name=f"{names.PLACES}/{item.task}",
            taken=taken,
            instead=blob_digest(row.value or b""),
        )
        return self._write(item, old or b"", rows=[row])

    # ── out of it ────────────────────────────────────────────────────────────────

    def liftable(self, word: str) -> Item:
        """The item of that id, if it can be put back. Raises Misuse."""
        reader = self.reader
        item = next((one for one in items(reader) if one.id == word), None)
        if item is None:
            raise Misuse(f"{word!r} is not in quarantine: see perdure doctor")
        if item.taken in ("blob", "snapshot") or item.kind == "file":
            raise Misuse(
                f"{word} is {item.taken or 'a copy'} kept to be looked at, and is not "
                "put back: what stands in its place is right"
            )
        if item.taken == "row":
            space, _, key = item.name.partition("/")
            now = reader.row(space, key)
            if item.instead != ("" if now is None else blob_digest(now)):
                raise Misuse(f"{word}: row {item.name} was written since; it stays")
        return item

    def lift(self, item: Item) -> None:
        """Put it back, and forget it."""
        rows = without(item)
        if item.taken == "row":
            space, _, key = item.name.partition("/")
            rows.append(Row(space=space, key=key, value=held(self.reader, item)))
        self.append(QuarantineLifted(item=item.id, task=item.task), rows)

    # ── writing ──────────────────────────────────────────────────────────────────

    def _write(
        self,
        item: Item,
        body: bytes,
        *,
        rows: Iterable[Row] = (),
        erasure: Erasure | None = None,
    ) -> Item:
        """Write an item with all that it changes, in one transaction."""
        item = self._apart(item, body)
        also: list[tuple[Lease, list[Draft]]] = []
        place = self._standing.place(item.task)
        if place is not None and _parks(item):
            item = msgspec.structs.replace(item, parked=True)
            if place.where != "parked" and item.task not in self.parked:
                also = [(self.admission, self._park(item, place))]
                self.parked.append(item.task)
        kept = [*rows_of(item, body), *rows]
        self.append(
            Quarantined(item=item.id, kind=item.kind, task=item.task),
            kept,
            also,
            erasure,
        )
        return item

    def _park(self, item: Item, place: Place) -> list[Draft]:
        task, reason = item.task, why(item)
        parked = TaskParked(
            task=task, status="parked", reason=reason, ends_with="resume"
        )
        rests = msgspec.structs.replace(place, where="parked", lacks_agent=False)
        rows = [_resting(task, rests)]
        row = renewed_row(self.reader, task, place, reason)
        if row is not None:
            rows.append(Row(space=names.TASK_ROWS, key=task, value=row))
        draft = self.draft(names.ADMISSION, parked, rows)
        if self._standing.resting(task) is None:
            return [draft]
        recalled = self.draft(names.ADMISSION, TaskRecalled(task=task, place=place))
        return [recalled, msgspec.structs.replace(draft, version=draft.version + 1)]

    def _apart(self, item: Item, body: bytes) -> Item:
        """The item under an id of its own: what was held before stays held."""
        there = {one.id: one for one in items(self.reader)}
        for number in itertools.count(2):
            old = there.get(item.id)
            if old is None or (old.name, held(self.reader, old)) == (item.name, body):
                return item
            base = item_id(item.kind, item.where, item.what)
            item = msgspec.structs.replace(item, id=f"{base}-{number}")
        raise AssertionError


def _resting(task: str, place: Place) -> Row:
    return Row(space=names.PLACES, key=task, value=msgspec.json.encode(place))


def why(item: Item) -> str:
    """Why a task is parked for an item."""
    return f"{item.kind}: {item.where}: {item.what} (in quarantine as {item.id})"


def _is_of_task(found: Finding) -> bool:
    return found.kind in _ROWS and found.where.startswith(f"row {names.TASK_ROWS}/")


def _parks(item: Item) -> bool:
    return item.kind in _PARKS and not item.where.startswith(f"row {names.KEYS}/")


def _item(found: Finding, **more: Any) -> Item:
    match = _TASK.search(found.where)
    if match is None and found.kind == "row_differs":  # of a key
        match = _TASK.search(found.what)
    fields = {
        "id": item_id(found.kind, found.where, found.what),
        "at": time.time(),
        "task": match[1] if match else "",
        **more,
    }
    return Item(kind=found.kind, where=found.where, what=found.what, **fields)


def _snapshot(stream: str, version: int, covers: int, state: Any) -> Snapshot:
    return Snapshot(
        stream=stream,
        version=version,
        covers=covers,
        state_schema=version_of(type(state)),
        body=body_of(state),
        reason="repaired",
    )
