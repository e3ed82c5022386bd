"""How an operation that raised ended: surely not done, or in doubt.

An operation that returned is `completed`. One that raised is `failed` only where the
exception proves that nothing happened outside; everything else is `unknown`, and
unknown is a state that a probe, a repeat or a person decides, not an error.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from .tool import EffectClass

__all__ = [
    "Declared",
    "NotSent",
    "Outcome",
    "RaisedElsewhere",
    "ServiceTrouble",
    "classify",
    "declared",
    "rest_of",
    "surely_not_sent",
    "turned_away",
]

Outcome: TypeAlias = Literal["failed", "unknown"]

TOO_MANY_REQUESTS = 429  # HTTP status: the request was turned away unread
LONGEST_REST = 86_400.0  # seconds that a service can have us wait


class NotSent(Exception):
    """Nothing happened outside: raise it only where that is sure.

    A refused connection, an argument that was refused, an answer that says "no".
    The call may be tried again, whatever its effect class.
    """


class ServiceTrouble(Exception):
    """The service answered with an error: overload, or a fault of its own.

    Args:
        message: What the service said, bounded and without secrets.
        status: Its status code (HTTP: 429, 5xx; 200 for an answer that is none).
        retry_after: Seconds it asked us to wait, if it did.
    """

    def __init__(
        self, message: str, *, status: int, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool says of its own exceptions; classes by module and name.

    So that it can be asked in another process, too.
    """

    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def of(self, error: BaseException) -> Outcome | None:
        """What is declared of an error, by the nearest of its classes; or nothing."""
        for one in type(error).__mro__:
            name = _name(one)
            if name in self.failed:
                return "failed"
            if name in self.unknown:
                return "unknown"
        return None


def declared(
    failed: Sequence[type[Exception]], unknown: Sequence[type[Exception]]
) -> Declared:
    """What a declaration with these classes says."""
    return Declared(
        failed=tuple(map(_name, failed)), unknown=tuple(map(_name, unknown))
    )


def _name(error: type) -> str:
    return f"{error.__module__}.{error.__qualname__}"


class RaisedElsewhere(Exception):
    """What a tool raised, classified where it was raised.

    In a process of its own, or by what the tool declares.

    Args:
        message: Type and text of the error.
        status: What `classify` said of it.
        not_sent: What `surely_not_sent` said of it.
        retry_after: What `rest_of` said of it, in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        status: Outcome,
        not_sent: bool,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.status: Outcome = status
        self.not_sent = not_sent
        self.retry_after = retry_after


def classify(error: BaseException, effect: EffectClass) -> Outcome:
    """Decide what an exception says about an operation that had been started.

    `failed` means surely not done (or, for what changes nothing or bears repeating,
    ended with an error); `unknown` means that it may have happened. A `once` effect
    fails only on proof: an exception of no known kind may have come after the act.
    """
    match error:
        case RaisedElsewhere(status=status):
            return status
        case NotSent() | ConnectionRefusedError() | socket.gaierror():
            return "failed"
        case ServiceTrouble() if turned_away(error):
            return "failed"
        case TimeoutError() | ConnectionError():
            return "unknown"
        case Exception():
            return "unknown" if effect == "once" else "failed"
        case _:
            return "unknown"


def turned_away(error: BaseException) -> bool:
    """Tell whether a service did not read the request: a call without tokens."""
    return isinstance(error, ServiceTrouble) and error.status == TOO_MANY_REQUESTS


def rest_of(error: BaseException) -> float:
    """The seconds that a service asked us to wait: `retry_after` of what was raised.

    At most a day; 0 where it says nothing that can be waited for.
    """
    seconds = getattr(error, "retry_after", None)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return 0.0
    return min(seconds, LONGEST_REST) if math.isfinite(seconds) and seconds > 0 else 0.0


def surely_not_sent(error: BaseException) -> bool:
    """Tell whether nothing left this process: such an attempt costs nothing."""
    if isinstance(error, RaisedElsewhere):
        return error.not_sent
    return isinstance(error, NotSent | ConnectionRefusedError | socket.gaierror)
