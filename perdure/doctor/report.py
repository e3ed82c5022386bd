"""What an examination of a store can find, what that means, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from ..storage.errors import ObjectTrouble, StorageError, StoreTrouble
from .quarantine import item_id

__all__ = ["KINDS", "Finding", "Findings", "Held", "Report"]

MOST = 1_000  # findings that are kept word for word; the others are counted

_RESTORE = "restore the store from a backup; the runtime must not go on with this one"
_CACHE = "nothing is lost: the runtime goes without it and replays its stream"
_NEWER = "open the store with the perdure that wrote it, or a newer one"

KINDS: dict[str, tuple[str, str]] = {  # what each means, and what to do
    "file": ("the file itself is damaged", f"check the disk; {_RESTORE}"),
    "unreadable": ("it cannot be read at all", f"check the disk; {_RESTORE}"),
    "checksum": ("its bytes are not those that were written", _RESTORE),
    "gap": ("records of the stream are missing", _RESTORE),
    "unknown_type": ("this perdure does not know such events", _NEWER),
    "newer_schema": ("newer code wrote it", _NEWER),
    "no_upgrade": (
        "older code wrote it, and an upgrader is missing",
        "open the store with a perdure that has the upgrader, one version at a time",
    ),
    "body": ("what it says does not fit its type", _RESTORE),
    "history": ("the events of the stream cannot have followed each other", _RESTORE),
    "snapshot_checksum": ("its bytes are not those that were written", _CACHE),
    "snapshot_ahead": (
        "the stream's newest records are missing, or the snapshot is not its own",
        f"look for the records in a backup; {_CACHE}",
    ),
    "snapshot_differs": (
        "the state in it is not what its stream comes to, and it would be believed",
        "take it out of the store by hand: it is a cache, and replay is right",
    ),
    "object_missing": ("its object is not in the object store", _CACHE),
    "object_bytes": ("the bytes of its object are not those that were put", _CACHE),
    "object_orphaned": (
        "no snapshot names it: it was left behind by a kill, or is another store's",
        "remove it from the object store, unless stores share the address",
    ),
    "blob_bytes": ("its bytes do not match its digest", _RESTORE),
    "blob_missing": (
        "a record names it and it is not there",
        "restore the store from a backup; its task goes on without that text",
    ),
    "blob_orphaned": (
        "no record names it",
        "it only takes room; records may have been lost that did",
    ),
    "money": ("the account's books do not add up", _RESTORE),
    "grant": ("pool and account do not agree on what was granted", _RESTORE),
    "row_unreadable": ("this perdure cannot read it", _NEWER),
    "row_missing": ("a stream has no such row, so that it is not found", _RESTORE),
    "row_differs": ("the row does not say what its stream says", _RESTORE),
    "row_of_none": ("it is of a task that the store does not have", _RESTORE),
    "left_open": (
        "it still waits, though its task has ended",
        "ignore it: what is answered has no effect",
    ),
    "not_queued": (
        "the task has not ended and stands in no queue: nothing starts it",
        _RESTORE,
    ),
    "agent_missing": (
        "a live task's agent is not among those given",
        "register it, or the task stays parked",
    ),
    "agent_changed": (
        "a live task would be parked: its agent is not the one that it was given to",
        "register the agent as it was, or have the task go on with it as it is now: "
        "Agent(adopt=…), or perdure adopt once it is parked",
    ),
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be: of what `kind`, `where`, and `what`."""

    kind: str
    where: str
    what: str
    means: str
    fix: str


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A live task that this code cannot go on with, and why."""

    task: str
    why: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and all that was found.

    `live` tasks have not ended; of them this code, with the agents that were given,
    can go on with `loads`, and `held` says what holds the others back. `counts` are
    the findings by kind: more than `findings` where there are more than a thousand.
    What a repair has noted is no finding any more; `quarantined` counts all that is in
    quarantine.
    """

    store: str
    records: int
    streams: int
    snapshots: int
    blobs: int
    tasks: int
    live: int
    loads: int
    held: tuple[Held, ...]
    counts: dict[str, int]
    findings: tuple[Finding, ...]
    quarantined: int = 0

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.counts


class Findings:
    """What was found so far; bounded, however much that is.

    Args:
        known: the ids under which findings are in quarantine: they are none any more.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self.kept: list[Finding] = []
        self.counts: dict[str, int] = {}

    def add(self, kind: str, where: str, what: str) -> None:
        """Write down one finding of a kind that the table above lists."""
        if item_id(kind, where, what) in self._known:
            return
        means, fix = KINDS[kind]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.kept) < MOST:
            found = Finding(kind=kind, where=where, what=what, means=means, fix=fix)
            self.kept.append(found)

    @contextmanager
    def reading(self, where: str) -> Iterator[None]:
        """Go on with the rest where a part of the store cannot be read.

        Raises StoreTrouble, ObjectTrouble: they are worth a retry, and say nothing of
        the store.
        """
        try:
            yield
        except (StoreTrouble, ObjectTrouble):
            raise
        except StorageError as error:
            self.add("unreadable", where, str(error))
