"""Acceptance as data: what judges a result, what it may look at, and what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from .errors import Misuse

__all__ = [
    "Accept",
    "AllOf",
    "Answer",
    "AnyOf",
    "FailedCall",
    "ModelJudge",
    "Verdict",
    "View",
    "check_accept",
]


class FailedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the step whose last attempt went wrong, and that was not made good.

    `op` is its operation, `status` ``failed`` or ``unknown``, `why` the newest reason.
    A call is the same by its tool and its arguments; `newest` says that it is among
    the last calls that were made before the answer.
    """

    op: int
    tool: str
    status: str
    why: str
    newest: bool = True


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What an acceptance function may look at besides the result.

    `facts` maps the id of each completed step to its accepted result, `failed` holds
    the calls of the step that went wrong. For the acceptance of the whole task, `step`
    is empty, and `failed` is of the step that ran last.
    """

    task: str
    step: str
    goal: str
    inputs: dict[str, Any]
    facts: dict[str, Any]
    failed: tuple[FailedCall, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What acceptance says, with what it rests on.

    Args:
        ok: whether the result is accepted.
        why: the reason, in words; the model sees it where the result is refused.
        evidence: plain JSON for the record: paths, digests, counts. More than 2,000
            characters are cut.
    """

    ok: bool
    why: str = ""
    evidence: dict[str, Any] = {}


Answer: TypeAlias = bool | str | Verdict


class AllOf(msgspec.Struct, frozen=True):
    """Accepts what each of its parts accepts; see `perdure.accept.all_of`."""

    parts: tuple[Accept, ...]


class AnyOf(msgspec.Struct, frozen=True):
    """Accepts what one of its parts accepts; see `perdure.accept.any_of`."""

    parts: tuple[Accept, ...]


class ModelJudge(msgspec.Struct, frozen=True):
    """Accepts what a model says meets a criterion; see `perdure.accept.judge`."""

    criterion: str


Accept: TypeAlias = (
    Callable[[Any, View], Answer]
    | Callable[[Any, View], Awaitable[Answer]]
    | AllOf
    | AnyOf
    | ModelJudge
)
"""What judges a result: a function of the host, sync or async, or what is made of
such functions. It runs off the dispatcher, with a deadline."""


def check_accept(accept: object, where: str) -> None:
    """Refuse what cannot judge; `where` names the field in the message."""
    made = isinstance(accept, AllOf | AnyOf | ModelJudge)
    if made or callable(accept):
        return
    raise Misuse(
        f"{where}={accept!r} is no function; give one of the result and a View, or "
        "one of perdure.accept"
    )
