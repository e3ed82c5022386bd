"""How long to wait before the next restart."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

__all__ = ["Backoff"]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential delays with jitter, and a count of crashes in a row.

    `first`, `limit` and `reset_after` are seconds; `jitter` is a share of the delay.
    The limit is applied before the jitter, so that delays at the limit still spread.
    """

    first: float = 1.0
    factor: float = 2.0
    limit: float = 60.0
    jitter: float = 0.2
    reset_after: float = 600.0

    def __post_init__(self) -> None:
        for field, least in (("first", 0), ("factor", 1), ("reset_after", 0)):
            value = getattr(self, field)
            if not value >= least:
                msg = f"Backoff.{field} = {value!r}: give a number of at least {least}"
                raise ValueError(msg)
        if not self.limit >= self.first:
            msg = f"Backoff.limit = {self.limit!r}: give at least first ({self.first})"
            raise ValueError(msg)
        if not 0 <= self.jitter < 1:
            msg = f"Backoff.jitter = {self.jitter!r}: give a share from 0 up to 1"
            raise ValueError(msg)

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds before restart number `attempt` (from 1); `random` is in [0, 1)."""
        try:
            base = min(self.limit, self.first * self.factor ** (attempt - 1))
        except OverflowError:
            base = self.limit
        return base * (1.0 + self.jitter * (2.0 * random() - 1.0))

    def count(self, crashes: int, up_for: float) -> int:
        """Crashes in a row, with the one that ended a run of `up_for` seconds.

        Computed when a crash happens, from the run that it ended. A reset timer would
        have to carry the count it was set for, or it would wipe out later crashes.
        """
        return 1 if up_for >= self.reset_after else crashes + 1
