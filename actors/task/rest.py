"""How long an operation waits because of its service. Pure."""

from __future__ import annotations

import msgspec

from ..events import RestAsked, SlotCame, SlotDeferred

__all__ = ["Rest", "rest_after"]


class Rest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operation's attempt waits for at its service's window.

    `until` is the second since the epoch that it comes again, 0 where it does not
    wait; `waited` that it has waited before; before second `retry_at` its service
    asked not to be called again.
    """

    until: float = 0.0
    service: str = ""
    waited: bool = False
    retry_at: float = 0.0


def rest_after(rest: Rest, event: SlotDeferred | SlotCame | RestAsked) -> Rest:
    """The wait once it was asked for, has begun, or is over."""
    change = msgspec.structs.replace
    match event:
        case SlotDeferred(service=service, at=at):
            return change(rest, until=at, service=service, waited=True)
        case SlotCame():
            return change(rest, until=0.0)
        case RestAsked(until=until):
            return change(rest, retry_at=until)
