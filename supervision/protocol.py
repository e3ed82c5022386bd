"""What supervisors are told, ask and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .address import Address
    from .lifecycle import Reason
    from .promise import Promise
    from .spec import ChildSpec

__all__ = [
    "ChildFailed",
    "ChildStarted",
    "GiveUp",
    "MayRestart",
    "Restart",
    "StartChild",
    "StartFailed",
    "StopChild",
]


class StartFailed(Exception):
    """The child did not start; the message says what its start raised."""


class StartChild(msgspec.Struct, frozen=True, kw_only=True):
    """To a dynamic supervisor: start a child and keep it up as its spec says.

    An address in `reply_to` gets `ChildStarted` or `ChildFailed`; a promise is set to
    `ChildStarted` or fails with `StartFailed`. Starting a child that is up already
    answers `ChildStarted` and changes nothing; one that stops, or has just ended, is
    started when its end is over.
    """

    spec: ChildSpec
    reply_to: Promise | Address | None = None


class StopChild(msgspec.Struct, frozen=True, kw_only=True):
    """To a dynamic supervisor: stop a child for good; unknown names are ignored."""

    name: str


class ChildStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The child is up."""

    child: str
    incarnation: int


class ChildFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The child did not start, and will not be tried again."""

    child: str
    error: str


class MayRestart(msgspec.Struct, frozen=True, kw_only=True):
    """To the gate, when a restart is due: answer `Restart` or `GiveUp`.

    Sent again while no answer comes, and on the gate's `Up`: answer each.
    """

    supervisor: str
    incarnation: int  # of the supervisor
    child: str
    reason: Reason


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """From the gate: go on with the restart it was asked about."""

    child: str


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """From the gate: stop all children and end, without that being a crash."""

    child: str
    reason: str
