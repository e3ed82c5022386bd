"""Who writes and revises a plan: the model, within what its host allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..acceptance import Accept, check_accept
from ..errors import Misuse
from ..naming import NAME
from ..storable import is_storable
from .triggers import TRIGGERS

__all__ = ["Planner"]

MOST_STEPS = 64
MOST_PHRASES = 100
PHRASE = 100  # characters


class Planner(msgspec.Struct, frozen=True, kw_only=True):
    """Has the model write the plan of a task, and look at it again (A87).

    An agent without a `plan` has it written when a task starts; a plan that the host
    wrote is only looked at again. What the model writes is data: it may name a check of
    the host's, never bring one.

    Args:
        max_steps: steps of a plan, completed ones included; 64 at most.
        revisions: how often a task's plan may be revised; a revision that is refused,
            or whose call fails, counts too. A look that leaves the plan as it is does
            not.
        timeout: seconds for all calls of one plan, or of one look at it, together.
        triggers: what a look at the plan is due for: ``phase`` done, a failed or
            unexpected ``result``, ``unsure`` words, ``half`` of the steps.
        phrases: of uncertainty, beside the built-in ones in English and Chinese.
        accept: judges the results of written steps that name no check, as a step's
            does; None accepts each that is not empty, unless calls failed just before.
        checks: by name, what a written step may ask to be judged by: functions, or
            what `perdure.accept` makes.

    Raises:
        Misuse: naming the field, the value and the fix.
    """

    max_steps: int = 12
    revisions: int = 3
    timeout: float = 300.0
    triggers: tuple[str, ...] = TRIGGERS
    phrases: tuple[str, ...] = ()
    accept: Accept | None = None
    checks: Mapping[str, Accept] = {}

    def __post_init__(self) -> None:
        for name, least, most in (("max_steps", 1, MOST_STEPS), ("revisions", 0, None)):
            value = getattr(self, name)
            if type(value) is not int or value < least or (most and value > most):
                up_to = f" up to {most}" if most else ""
                raise Misuse(
                    f"Planner: {name}={value!r} must be a whole number from "
                    f"{least}{up_to}"
                )
        if not _is_seconds(self.timeout):
            raise Misuse(
                f"Planner: timeout={self.timeout!r} must be a number above 0, seconds"
            )
        if not isinstance(self.triggers, tuple) or not set(self.triggers) <= {
            *TRIGGERS
        }:
            known = ", ".join(map(repr, TRIGGERS))
            raise Misuse(
                f"Planner: triggers={self.triggers!r} must be a tuple of some of "
                f"{known}; () never looks at the plan again"
            )
        self._check_phrases()
        self._check_functions()

    def _check_phrases(self) -> None:
        if not isinstance(self.phrases, tuple) or len(self.phrases) > MOST_PHRASES:
            raise Misuse(
                f"Planner: phrases={self.phrases!r} must be a tuple of at most "
                f"{MOST_PHRASES} texts"
            )
        for one in self.phrases:
            text = isinstance(one, str) and one.strip() and is_storable(one)
            if not text or len(one) > PHRASE:
                raise Misuse(
                    f"Planner: phrases holds {one!r}; each must be text of 1-{PHRASE} "
                    "characters"
                )

    def _check_functions(self) -> None:
        if self.accept is not None:
            check_accept(self.accept, "Planner: accept")
        if not isinstance(self.checks, Mapping) or len(self.checks) > MOST_STEPS:
            raise Misuse(
                f"Planner: checks={self.checks!r} must be a mapping of at most "
                f"{MOST_STEPS} names to what judges"
            )
        for name, check in self.checks.items():
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise Misuse(
                    f"Planner: checks[{name!r}]: use 1-64 letters, digits, . _ or -"
                )
            check_accept(check, f"Planner: checks[{name!r}]")


def _is_seconds(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value < float("inf")
