"""Who may append to which stream: heads, incarnations and family epochs.

Plain bookkeeping without a lock; the journal calls it under its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .errors import Fenced
from .records import Head, Lease, in_family

__all__ = ["Leases", "StreamState"]


class StreamState:
    """What the journal knows of one stream, queued records included.

    `seq` and `written` are the place and the epoch of its last record; `epoch` and
    `incarnation` those of the lease given out last, which may have written nothing.
    `newest` is the highest epoch of the stream and of its families.
    """

    __slots__ = (
        "epoch",
        "families",
        "incarnation",
        "lease",
        "newest",
        "seq",
        "version",
        "written",
    )

    def __init__(self, stream: str, head: Head) -> None:
        self.version = head.version
        self.seq = head.seq
        self.written = head.epoch
        self.epoch = self.newest = head.epoch
        self.incarnation = head.incarnation
        self.lease: Lease | None = None
        parts = stream.split("/")
        self.families = tuple(
            "/".join(parts[:count]) for count in range(1, len(parts) + 1)
        )


class Leases:
    """The leases of one journal.

    A family is a stream and those under it; its epoch is the highest that was raised,
    or that its own stream was written with. Of a family that was forgotten the disk
    tells the rest, and no lease that was given out before is current again.

    Args:
        lookup: reads where a stream ends on disk; called for streams that are not
            known, or not any more.
    """

    def __init__(self, lookup: Callable[[str], Head]) -> None:
        self._lookup = lookup
        self._streams: dict[str, StreamState] = {}
        self._epochs: dict[str, int] = {}
        self._under: dict[str, set[str]] = {}  # the known streams of each family
        self._erasing: list[str] = []  # families; the disk still tells of them

    def acquire(self, stream: str, epoch: int) -> Lease:
        """Give out the stream's next incarnation; older leases are stale from now on.

        Raises:
            Fenced: the stream or its family has a higher epoch, or is being erased.
        """
        self._refuse_erased(stream)
        state = self._state(stream)
        if epoch < state.newest:
            raise Fenced(
                stream, f"epoch {epoch} was asked for, {state.newest} is current"
            )
        state.epoch = state.newest = epoch
        state.incarnation += 1
        state.lease = Lease(stream=stream, epoch=epoch, incarnation=state.incarnation)
        return state.lease

    def check(self, lease: Lease) -> StreamState:
        """Return the stream's state if the lease is the current one, else `Fenced`."""
        state = self._streams.get(lease.stream)
        if state is None or state.lease is None:
            raise Fenced(lease.stream, "its lease was given up: it is at rest")
        # By identity: once forgotten, a stream may give out a number a second time
        # where the lease that had it wrote nothing.
        if lease is not state.lease:
            raise Fenced(
                lease.stream,
                f"incarnation {lease.incarnation} wrote, "
                f"{state.incarnation} is current",
            )
        if lease.epoch != state.newest:
            raise Fenced(
                lease.stream, f"epoch {lease.epoch} wrote, {state.newest} is current"
            )
        return state

    def holds(self, lease: Lease) -> bool:
        """Tell whether this is the stream's current lease."""
        try:
            self.check(lease)
        except Fenced:
            return False
        return True

    def raise_epoch(self, family: str, epoch: int) -> None:
        """Make every smaller epoch of the family stale.

        Raises:
            Fenced: the family has a higher epoch already, or is being erased.
        """
        self._refuse_erased(family)
        current = self._epoch_of(family)
        if epoch < current:
            raise Fenced(family, f"epoch {epoch} was asked for, {current} is current")
        self._epochs[family] = epoch
        for stream in self._under.get(family, ()):
            state = self._streams[stream]
            state.newest = max(state.newest, epoch)

    def forget(self, family: str, durable_seq: int) -> None:
        """Drop what the disk tells of a family at rest; its leases become stale.

        What it does not tell stays: a stream with records after `durable_seq`, and an
        epoch that nothing was written with.
        """
        root = self._streams.get(family)
        told = root.written if root is not None and root.seq <= durable_seq else 0
        families = {family}
        for stream in list(self._under.get(family, ())):
            state = self._streams[stream]
            if state.seq > durable_seq or state.epoch > max(told, state.written):
                continue
            del self._streams[stream]
            families.update(one for one in state.families if in_family(one, family))
            for one in state.families:
                streams = self._under[one]
                streams.discard(stream)
                if not streams:
                    del self._under[one]
        for one in families - self._under.keys():
            if self._epochs.get(one, 0) <= told:
                self._epochs.pop(one, None)

    def erase(self, families: Sequence[str]) -> None:
        """Fence everybody from families that are queued to go."""
        for family in families:
            for stream in list(self._under.get(family, ())):
                state = self._streams.pop(stream)
                for one in state.families:
                    self._under[one].discard(stream)
            for one in [one for one in self._epochs if in_family(one, family)]:
                del self._epochs[one]
        self._erasing += families

    def erased(self, families: Sequence[str]) -> None:
        """They are gone from the disk, which tells of them again."""
        for family in families:
            self._erasing.remove(family)

    def take_back(self, stream: str, version: int) -> None:
        """Set a stream's head back, its later records having been left out."""
        self._streams[stream].version = version

    def _refuse_erased(self, stream: str) -> None:
        if any(in_family(stream, family) for family in self._erasing):
            raise Fenced(stream, "it is being erased")

    def _state(self, stream: str) -> StreamState:
        state = self._streams.get(stream)
        if state is None:
            state = StreamState(stream, self._lookup(stream))
            for family in state.families[:-1]:
                if family not in self._epochs:
                    self._epochs[family] = self._epoch_of(family)
            for family in state.families:
                self._under.setdefault(family, set()).add(stream)
                state.newest = max(state.newest, self._epochs.get(family, 0))
            self._streams[stream] = state
        return state

    def _epoch_of(self, family: str) -> int:
        epoch = self._epochs.get(family)
        if epoch is not None:
            return epoch
        own = self._streams.get(family)
        return self._lookup(family).epoch if own is None else own.written
