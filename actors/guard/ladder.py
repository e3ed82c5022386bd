"""What is done about a circle, step by step: say so, block it, stop. Pure.

nudge   the model is told what came round, and how often
block   the calls of the circle are refused at the door, and cost nothing
stop    one of them is made again all the same: the task pauses, with the evidence

Five actions outside every circle end it. A person who resumes the task does, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .detect import KEPT, LONGEST, Finding, Kind, LoopRules, detect
from .seen import Seen

__all__ = [
    "GuardState",
    "Stage",
    "blocked",
    "evidence",
    "look",
    "observed",
    "taken",
    "told",
]

Stage: TypeAlias = Literal["nudge", "block", "stop"]
ORDER: tuple[Stage, ...] = ("nudge", "block", "stop")


class GuardState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest actions, and how far up the ladder a circle has come."""

    recent: tuple[Seen, ...] = ()
    stage: Stage | None = None
    kind: Kind = "repeat"
    actions: tuple[str, ...] = ()  # of the circle
    ops: tuple[int, ...] = ()  # that show it
    says: str = ""
    until: int = 0  # operations below were decided before the model was told
    calm: int = 0  # actions in a row outside every circle


def look(
    state: GuardState, seen: Seen, rules: LoopRules
) -> tuple[Stage, Finding] | None:
    """What is to be done after one more action, if anything is.

    Nobody climbs the ladder for calls that were decided before they were warned.
    """
    if seen.op < state.until:
        return None
    if blocked(state, seen.op, seen.action):
        again = Finding(
            kind=state.kind,
            actions=state.actions,
            ops=(*state.ops, seen.op),
            says=f"{state.says}; {seen.tool} was called once more, though blocked",
        )
        return "stop", again
    found = detect((*state.recent, seen), rules)
    if found is None:
        return None
    if state.stage is None or not {*found.actions} & {*state.actions}:
        return "nudge", found
    return ORDER[min(ORDER.index(state.stage) + 1, len(ORDER) - 1)], found


def observed(state: GuardState, seen: Seen) -> GuardState:
    """The state after one more action; `taken` follows where a circle was found."""
    recent = _kept(state.recent, seen)
    calm = state.calm + 1
    if calm >= LONGEST:
        return GuardState(recent=recent)
    return msgspec.structs.replace(state, recent=recent, calm=calm)


def taken(state: GuardState, stage: Stage, found: Finding, until: int) -> GuardState:
    """The state after a circle was found; `until` is the next operation's number."""
    return msgspec.structs.replace(
        state,
        stage=stage,
        kind=found.kind,
        actions=found.actions,
        ops=found.ops,
        says=found.says,
        until=until,
        calm=0,
    )


def blocked(state: GuardState, op: int, action: str) -> str:
    """Why a call is not let out, or nothing."""
    if state.stage not in ("block", "stop") or op < state.until:
        return ""
    return f"blocked: {state.says}" if action in state.actions else ""


def evidence(state: GuardState) -> str:
    """What a person is told of the circle that a task was stopped for."""
    shown = ", ".join(str(op) for op in state.ops)
    return f"{state.kind}: {state.says} (operations {shown})"


def told(stage: Stage, says: str) -> str:
    """What the model is told of a circle; that it stops is told to a person."""
    match stage:
        case "nudge":
            return f"you go round in circles: {says}. Do something else"
        case "block":
            return (
                f"you still go round in circles: {says}. These calls are refused now; "
                "one more of them pauses the task"
            )
    return ""


def _kept(recent: Sequence[Seen], seen: Seen) -> tuple[Seen, ...]:
    # A poll is looked at for longer than a circle: its first answer is kept.
    kept = (*recent, seen)[-KEPT:]
    if not seen.patience:
        return kept
    same = [one for one in recent if one.action == seen.action]
    if same and same[0] not in kept and same[0].same(seen):
        return (same[0], *kept[1:])
    return kept
