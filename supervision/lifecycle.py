"""How an actor ends, and who hears of it."""

from __future__ import annotations

import traceback as _traceback
from typing import TypeAlias

import msgspec

__all__ = [
    "NORMAL",
    "SHUTDOWN",
    "ActorStopped",
    "Crash",
    "Down",
    "Exited",
    "Normal",
    "NotRunning",
    "Reason",
    "Shutdown",
    "Started",
    "Up",
    "crash_of",
    "describe",
]

TRACEBACK_FRAMES = 30  # the innermost ones; a RecursionError has a thousand


class ActorStopped(Exception):
    """The actor is not running, or ended before it answered; ask again on `Up`."""


class Normal(msgspec.Struct, frozen=True, kw_only=True, tag="normal"):
    """It had nothing left to do."""


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, tag="shutdown"):
    """It was told to end, or ended because its work was called off."""

    detail: str = ""


class Crash(msgspec.Struct, frozen=True, kw_only=True, tag="crash"):
    """It raised or was killed; text only, so that no frame is kept alive."""

    error: str
    traceback: str = ""


class NotRunning(msgspec.Struct, frozen=True, kw_only=True, tag="not_running"):
    """Nobody of that name was running when the monitor was set."""


Reason: TypeAlias = Normal | Shutdown | Crash | NotRunning

NORMAL = Normal()
SHUTDOWN = Shutdown()


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """To its supervisor: this incarnation is up."""

    child: str
    incarnation: int


class Exited(msgspec.Struct, frozen=True, kw_only=True):
    """To its supervisor, exactly once: this incarnation has ended."""

    child: str
    incarnation: int
    reason: Reason


class Up(msgspec.Struct, frozen=True, kw_only=True):
    """To its monitors: a new incarnation is up."""

    name: str
    incarnation: int


class Down(msgspec.Struct, frozen=True, kw_only=True):
    """To its monitors: the incarnation has ended.

    With `NotRunning` and incarnation 0 nobody was running when the monitor was set.
    """

    name: str
    incarnation: int
    reason: Reason


def crash_of(error: BaseException) -> Crash:
    """Describe an exception as text; never raises, whatever its `__str__` does."""
    return Crash(
        error=describe(error),
        traceback="".join(_traceback.format_exception(error, limit=-TRACEBACK_FRAMES)),
    )


def describe(error: BaseException) -> str:
    """Type and message of an exception in one line."""
    return "".join(_traceback.format_exception_only(error)).strip()
