"""What a journal needs from the place it is kept in.

A backend is used by one thread at a time for writing; each reader it gives out is
used by one thread at a time too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from .base_reader import Reader
from .erasure import Erasure
from .records import Record, Row, Snapshot

__all__ = ["Backend", "Batch", "HeldUp", "Opening", "Warn"]

Warn: TypeAlias = Callable[[str, Mapping[str, object]], None]


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What the opening transaction settled: our epoch, and where the log ends."""

    runtime_epoch: int
    last_seq: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction writes. `upto` is the last seq it accounts for.

    An `erasure` comes first, before what stands beside it is written.
    """

    records: Sequence[Record]
    rows: Sequence[Row]  # the last one of each (space, key) only
    blobs: Mapping[str, bytes]  # by digest
    upto: int
    erasure: Erasure | None = None


class HeldUp(msgspec.Struct, frozen=True, kw_only=True):
    """A log file that grows, since somebody reads what stood there before.

    Args:
        size: its bytes.
        holders: the ids of the processes that read just now, as far as the system
            tells; this one may be among them.
    """

    size: int
    holders: tuple[int, ...] = ()


@runtime_checkable
class Backend(Protocol):
    """A place for one journal.

    Every method raises `StoreTrouble` where nothing was written and a retry may
    help, `Fenced` where another runtime has taken over, and `StoreFailed` where it
    cannot tell what was written.
    """

    @property
    def path(self) -> str:
        """How messages name this store."""
        ...

    def open(self) -> Opening:
        """Become the one owner, then raise the runtime's epoch before any read.

        Raises `CannotOpen`, `NotAStore`, `NewerLayout` or `StoreLocked`, with
        nothing changed on disk.
        """
        ...

    def write(self, batch: Batch) -> None:
        """Begin a transaction, check the runtime's epoch in it, write the batch."""
        ...

    def flush(self) -> None:
        """Commit what `write` began; durable when this returns."""
        ...

    def rollback(self) -> None:
        """Undo what `write` began."""
        ...

    def scrub(self) -> None:
        """See that no byte is left of what a flushed erasure took out.

        Raises `StoreTrouble` where some may be left yet, because somebody still reads
        what was there before; `tidy` goes on with it then, and so does the next `open`.
        """
        ...

    def write_snapshots(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Store snapshots, the newest two a stream; return those not written.

        A snapshot is left out unless the log holds the record that it covers. They
        need not be durable before the next `flush`.
        """
        ...

    def reader(self, warn: Warn) -> Reader:
        """Return a new reader that sees what was flushed."""
        ...

    def watch(self, notice: Callable[[], object]) -> bool:
        """Have `notice` called when somebody sends a command to the inbox.

        Returns True where it never will be, and `changed` is to be asked instead.
        """
        ...

    def changed(self) -> bool:
        """Tell whether anybody else has written to the store since the last call."""
        ...

    def tidy(self, *, idle: bool) -> bool:
        """Do the housekeeping that is due, after the acknowledgements went out.

        Args:
            idle: nothing was written for a while, so that it may take its time.

        Returns whether to call again when it is idle.
        """
        ...

    def held_up(self) -> HeldUp | None:
        """Say that a reader keeps the log file from starting over, and it is long.

        Asked after each `tidy`; None where nothing is amiss, or no reader can do that.
        """
        ...

    def close(self) -> None:
        """Leave the store in its resting form and give it up."""
        ...

    def abandon(self) -> None:
        """Give the store up as it is, as a kill would."""
        ...
