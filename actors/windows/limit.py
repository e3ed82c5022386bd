"""How often a service may be called, as hosts say it."""

from __future__ import annotations

import math
import re

import msgspec

from ..errors import Misuse

__all__ = ["RateLimit", "is_service", "seconds_of"]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}  # seconds
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
SHORTEST = 0.001  # seconds
LONGEST = 366 * 86_400.0  # seconds
MOST = 10_000  # starts in a window: so many times stand in its state
SERVICE = 200  # characters of a name


class RateLimit(msgspec.Struct, frozen=True):
    """At most `count` operations of a service begin in any `per` seconds.

    Args:
        service: what tools and models name as their ``service``.
        count: a whole number from 1 to 10,000.
        per: seconds, or a text such as ``"30s"``, ``"1m"``, ``"1h"``, ``"1d"``.

    Raises:
        Misuse: naming the field, the value and the fix.
    """

    service: str
    count: int
    per: float | str

    def __post_init__(self) -> None:
        if not is_service(self.service):
            raise Misuse(
                f"RateLimit: service={self.service!r} must be the name that tools and "
                f"models give as their service, of 1 to {SERVICE} characters"
            )
        if type(self.count) is not int or not 1 <= self.count <= MOST:
            raise Misuse(
                f"RateLimit: count={self.count!r} must be a whole number from 1 to "
                f"{MOST}; a longer per= takes a higher rate"
            )
        if seconds_of(self.per) is None:
            raise Misuse(
                f"RateLimit: per={self.per!r} must be seconds, above 0 and at most a "
                "year, or a text such as '30s', '1m', '1h' or '1d'"
            )

    @property
    def seconds(self) -> float:
        """The length of the window."""
        found = seconds_of(self.per)
        assert found is not None
        return found


def is_service(name: object) -> bool:
    """Tell whether something can be the name of a service."""
    if not isinstance(name, str) or not 1 <= len(name) <= SERVICE:
        return False
    return name.isprintable() and name == name.strip()


def seconds_of(per: object) -> float | None:
    """The seconds that a span says, or None where it says none that can be kept."""
    if isinstance(per, str):
        found = SPAN.fullmatch(per.strip())
        if found is None:
            return None
        seconds = float(found[1]) * UNITS[found[2]]
    elif isinstance(per, int | float) and not isinstance(per, bool):
        seconds = float(per)
    else:
        return None
    within = math.isfinite(seconds) and SHORTEST <= seconds <= LONGEST
    return seconds if within else None
