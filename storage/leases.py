"""Who may append to which stream: heads, incarnations and family epochs.

Plain bookkeeping without a lock; the journal calls it under its own.
"""

from __future__ import annotations

from collections.abc import Callable

from .errors import Fenced
from .records import Head, Lease

__all__ = ["Leases", "StreamState"]


class StreamState:
    """What the journal knows of one stream, queued records included."""

    __slots__ = ("epoch", "families", "incarnation", "version")

    def __init__(self, stream: str, head: Head) -> None:
        self.version = head.version
        self.epoch = head.epoch
        self.incarnation = head.incarnation
        parts = stream.split("/")
        self.families = tuple(
            "/".join(parts[:count]) for count in range(1, len(parts) + 1)
        )


class Leases:
    """The leases of one journal.

    Args:
        lookup: reads where a stream ends on disk; called once a stream.
    """

    def __init__(self, lookup: Callable[[str], Head]) -> None:
        self._lookup = lookup
        self._streams: dict[str, StreamState] = {}
        self._epochs: dict[str, int] = {}

    def acquire(self, stream: str, epoch: int) -> Lease:
        """Give out the stream's next incarnation; older leases are stale from now on.

        Raises:
            Fenced: the stream or its family has a higher epoch.
        """
        state = self._state(stream)
        newest = max(state.epoch, self._family_epoch(state))
        if epoch < newest:
            raise Fenced(stream, f"epoch {epoch} was asked for, {newest} is current")
        state.epoch = epoch
        state.incarnation += 1
        return Lease(stream=stream, epoch=epoch, incarnation=state.incarnation)

    def check(self, lease: Lease) -> StreamState:
        """Return the stream's state if the lease is the current one, else `Fenced`."""
        state = self._state(lease.stream)
        if lease.incarnation != state.incarnation:
            raise Fenced(
                lease.stream,
                f"incarnation {lease.incarnation} wrote, "
                f"{state.incarnation} is current",
            )
        newest = max(state.epoch, self._family_epoch(state))
        if lease.epoch != newest:
            raise Fenced(
                lease.stream, f"epoch {lease.epoch} wrote, {newest} is current"
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
            Fenced: the family has a higher epoch already.
        """
        current = self._epochs.get(family, 0)
        if epoch < current:
            raise Fenced(family, f"epoch {epoch} was asked for, {current} is current")
        self._epochs[family] = epoch

    def take_back(self, stream: str, version: int) -> None:
        """Set a stream's head back, its later records having been left out."""
        self._streams[stream].version = version

    def _state(self, stream: str) -> StreamState:
        state = self._streams.get(stream)
        if state is None:
            state = StreamState(stream, self._lookup(stream))
            self._streams[stream] = state
        return state

    def _family_epoch(self, state: StreamState) -> int:
        epochs = self._epochs
        if not epochs:
            return 0
        return max(epochs.get(family, 0) for family in state.families)
