"""Calls of the running step that went wrong, and were not made good since. Pure.

An answer is judged with that knowledge (A35): a step is not complete because a sentence
came after a call that failed. A call is the same by its tool and its arguments.
"""

from __future__ import annotations

import msgspec

from ..acceptance import FailedCall
from ..events import ActionObserved, CallTool
from ..guard.seen import action_of
from .parts import Op

__all__ = ["LIMIT", "Failing", "observed", "shown"]

KEPT = 8  # calls; the one that failed longest ago goes first
WHY = 200  # characters of a reason
LIMIT = "limit: "  # how the reason begins where a limit of calls refused one
KEPT_BACK = (LIMIT, "the rule ", "blocked: ")  # so begin reasons of refusals


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """The newest attempt of a call that went wrong, in the exchange `parent`."""

    op: int
    tool: str
    status: str
    why: str
    parent: int


class Failing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, by call; `newest` is the last exchange with a call in it."""

    newest: int = 0
    calls: dict[str, Wrong] = msgspec.field(default_factory=dict)


def observed(failing: Failing, op: Op, event: ActionObserved) -> Failing:
    """Keep a call that failed or is unknown; forget one that went well.

    One that a person, a rule, a limit of calls or the loop guard kept from being made
    has not failed: that was the answer, and the model is to go on with it (K36). Where
    it had failed before, it still has.
    """
    call = op.action
    if not isinstance(call, CallTool) or event.again or op.undoes:
        return failing
    seen = event.seen
    name = seen.action if seen else action_of(call.tool, call.arguments)
    newest = max(failing.newest, call.parent)
    if event.status == "completed" and name not in failing.calls:
        return Failing(newest=newest, calls=failing.calls)
    calls = {key: one for key, one in failing.calls.items() if key != name}
    why = event.reason.removeprefix(f"{call.tool}: ")
    kept = bool(op.rejected) or (event.refused and why.startswith(KEPT_BACK))
    before = failing.calls.get(name)
    if kept and before is not None:
        calls[name] = msgspec.structs.replace(before, parent=call.parent)
    elif event.status != "completed" and not kept:
        calls[name] = Wrong(
            op=op.op,
            tool=call.tool,
            status=event.status,
            why=why[:WHY],
            parent=call.parent,
        )
    return Failing(
        newest=newest,
        calls=dict(list(calls.items())[-KEPT:]),
    )


def shown(failing: Failing) -> tuple[FailedCall, ...]:
    """As an acceptance function sees them, the newest last."""
    return tuple(
        FailedCall(
            op=one.op,
            tool=one.tool,
            status=one.status,
            why=one.why,
            newest=one.parent == failing.newest,
        )
        for one in failing.calls.values()
    )
