"""What a run has shown: checks made by name of the invariant, and violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

__all__ = ["INVARIANTS", "Findings"]

INVARIANTS = (
    "acked_durable",
    "versions_contiguous",
    "epochs_grow",
    "snapshot_is_fold",
    "once_at_most_once",
    "idempotent_one_key",
    "no_effect_lost",
    "money_conserved",
    "no_grant_over_limit",
    "requests_fit",
    "complete_after_acceptance",
    "live_after_faults",
)


class Findings:
    """Counts checks; keeps what was violated as (invariant, text)."""

    def __init__(self) -> None:
        self.checks: Counter[str] = Counter()
        self.wrong: list[tuple[str, str]] = []

    def check(self, invariant: str, held: bool, why: Callable[[], str]) -> None:
        """Count one check of an invariant; note `why()` where it did not hold."""
        assert invariant in INVARIANTS
        self.checks[invariant] += 1
        if not held:
            self.wrong.append((invariant, why()))
