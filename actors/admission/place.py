"""Where one unfinished task stands."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Place"]


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one unfinished task stands.

    `place` is its position for good; `clean` says that its actors ended as they
    should, so that it needs no recovery; `since` is the epoch its order was given for.
    A resume stands until the task heard it, whatever it was woken for since: it was
    given for epoch `resumed`.

    `opening` says in which process it was activated last, `deaths` how many processes
    died under it since it was seen to get further, and `struck` whether the last of
    those deaths counts against it: it does where nobody else was active.

    `digest` is the definition of its agent that it goes on with, `rules` the baseline,
    where those are not what it was submitted with. `unfit` is a parked one that this
    code, or its agent as it was then, could not go on with.
    """

    agent: str
    place: int
    group: str = ""
    priority: int = 0
    key: str | None = None
    where: Literal["queued", "active", "waiting", "parked"] = "queued"
    epoch: int = 0
    order: Literal["run", "resume", "cancel", "compensate", "again"] = "run"
    by: str = ""
    since: int = 0
    clean: bool = True
    lacks_agent: bool = False
    opening: int = 0
    deaths: int = 0
    struck: bool = True
    not_before: float = 0.0
    parent: str = ""
    ending: bool = False  # it was told to end, whatever it was woken for since
    pausing: str = ""  # who wants it to pause, or has paused it
    lifted: bool = False  # somebody has it go on that had it pause in this epoch
    notes: int = 0  # that stand in its view
    noted: int = 0  # that it was ever given, replacements among them
    resumed: int = 0
    resumer: str = ""
    retry: str = ""  # the step that its newest resume has done again
    digest: str = ""
    rules: str = ""
    unfit: bool = False

    @property
    def woken(self) -> bool:
        """Whether its order came after its last activation."""
        return self.since > self.epoch

    @property
    def forgiven(self) -> bool:
        """Whether somebody had it go on, so that its recoveries count anew."""
        return self.woken and self.order != "again"

    @property
    def rests(self) -> bool:
        """Whether nothing can be done for it until something comes: it is a row only.

        A pause that somebody asked for, or lifted, while it stopped is settled first.
        """
        stopping = self.where == "waiting" and bool(self.pausing or self.lifted)
        return self.is_early or (self.where in ("waiting", "parked") and not stopping)

    @property
    def is_early(self) -> bool:
        """Whether it was only submitted so far, for a time that has not come."""
        waits = self.where == "queued" and bool(self.not_before)
        return waits and not (self.since or self.pausing)
