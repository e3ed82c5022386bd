"""What the executor is given to run, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from ..outcomes import RaisedElsewhere
from ..tool import EffectClass

__all__ = ["NEVER", "Key", "Outcome", "Run", "Work", "evidence", "refused", "told"]

Key: TypeAlias = tuple[str, str]
ERROR_LIMIT = 2_000  # characters
NEVER = math.inf  # seconds
EVIDENCE = 200  # characters of what came too late


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a piece of work ended.

    `status` is ``unknown`` where the deadline passed or a connection was lost.
    `seconds` is how long it ran; `started` False means that it surely did not run,
    `refused` that this runtime did not let it, `late` that its time was over first,
    `hung` that it was not waited for any longer,
    `turned_away` that the service did not read what it was asked, `rest` how many
    seconds it asked to be left alone.
    """

    key: Key
    status: Literal["completed", "failed", "unknown"]
    value: Any = None
    error: str = ""
    started: bool = True
    seconds: float = 0.0
    refused: bool = False
    late: bool = False
    hung: bool = False
    turned_away: bool = False
    rest: float = 0.0


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """User code to run once.

    Args:
        key: whose work it is, and which; one of a key runs at a time.
        name: subject of its fault points.
        effect: decides what an exception of no known kind means.
        call: runs on a thread; with `coroutine` it returns an awaitable for the loop.
        timeout: seconds after which its outcome is unknown.
        not_after: wall-clock second after which it must not start any more.
        until: wall-clock second at which it is over, whatever its timeout; None for no
            such second.
        forbidden: asked just before the call; says why it may not start, or nothing.
        deliver: told of the outcome, once, on any thread; must be short.
        kept: keep the outcome until `forget` (operations), or not (probes).
        kill: ends the worker at its deadline, and `call` with it; None where that
            cannot be done (a thread).
    """

    key: Key
    name: str
    effect: EffectClass
    call: Callable[[], Any]
    timeout: float
    not_after: float
    deliver: Callable[[Outcome], None]
    until: float | None = None
    coroutine: bool = False
    forbidden: Callable[[], str] | None = None
    kept: bool = False
    kill: Callable[[], None] | None = None


class Run:
    """A piece of work at hand: what became of it, and whether its worker lives.

    `place` says that it takes the place of a thread, given back when it ends or is
    `abandoned`; `loop` is the number of the event loop that it was handed to, `allowed`
    how many seconds it may take, `due` the monotonic second when they are over.
    """

    __slots__ = (
        "abandoned",
        "alive",
        "allowed",
        "began",
        "cancel",
        "due",
        "killed",
        "loop",
        "outcome",
        "place",
        "work",
    )

    def __init__(self, work: Work) -> None:
        self.work = work
        self.allowed = work.timeout  # seconds from its start
        self.alive = True
        self.place = False
        self.abandoned = False
        self.loop = 0
        self.began: float | None = None
        self.outcome: Outcome | None = None
        self.due = NEVER
        self.killed = False
        self.cancel: Callable[[], None] | None = None


def refused(key: Key, error: str) -> Outcome:
    """What became of work that was not let run."""
    return Outcome(key=key, status="failed", error=error, started=False, refused=True)


def told(error: BaseException) -> str:
    """Type and text of an error, bounded; whatever its text does."""
    if isinstance(error, RaisedElsewhere):
        return str(error.args[0])[:ERROR_LIMIT]  # type and text already
    try:
        text = str(error)
    except Exception:
        text = "(its text could not be made)"
    shown = f"{type(error).__name__}: {text}"[:ERROR_LIMIT]
    return shown.encode("utf-8", "replace").decode()  # no lone surrogates


def evidence(outcome: Outcome) -> str:
    """What came too late to move anything, for the log: its error or its result."""
    return str(outcome.error or getattr(outcome.value, "text", ""))[:EVIDENCE]
