"""Snapshots in an object store: that each is there, and that each there is one's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ..objects import FAMILY
from ..storage.errors import CannotOpen, ObjectMissing, Undecodable
from ..storage.objects import ObjectStore
from ..storage.pointer import place_of, pointer_of, prefix_of
from ..storage.reader import Reader
from ..storage.records import Snapshot
from .report import Findings

__all__ = ["check_objects", "whole_of"]

ON_ITS_WAY = timedelta(minutes=10)  # within it the snapshot that names it may come


def whole_of(
    reader: Reader, snapshot: Snapshot, found: Findings, where: str
) -> Snapshot | None:
    """A snapshot with its own body; None where that is not to be had.

    Raises ObjectTrouble: that says nothing of the store.
    """
    try:
        return reader.whole(snapshot)
    except CannotOpen:  # no object store was named, so none is looked at
        return None
    except ObjectMissing as error:
        kind, what = "object_missing", error.key
    except Undecodable as error:
        kind, what = "object_bytes", error.subject
    if snapshot in reader.snapshots(snapshot.stream):  # or a newer one came since
        found.add(kind, where, what)
    return None


def check_objects(reader: Reader, found: Findings, store: ObjectStore) -> None:
    """Name the objects that no snapshot names."""
    before = datetime.now(UTC) - ON_ITS_WAY
    suspects = list(_unnamed(reader, store))
    if not suspects:
        return
    old = {key for key, at in store.keys(prefix_of(FAMILY)) if at < before}
    for key in suspects:
        if key in old:
            found.add("object_orphaned", f"object {key}", "not named")


def _unnamed(reader: Reader, store: ObjectStore) -> Iterator[str]:
    for key, _ in store.keys(prefix_of(FAMILY)):
        place = place_of(key)
        if place is None:
            continue
        named = [pointer_of(one) for one in reader.snapshots(place[0])]
        if key not in [one.object for one in named if one is not None]:
            yield key
