"""The verdict of a check that ran out of time: no refusal, but no answer at all."""

from __future__ import annotations

from ..acceptance import Verdict

__all__ = ["Hung"]


class Hung(Verdict, frozen=True, kw_only=True):
    """It was ended at a limit of its own; the step is `timed_out`, as for a hang."""
