"""What failed in a task, how often, and why: kept over its steps (A107). Pure.

A call is the same by its tool and its arguments, as the loop detector names it. One
that went well at last is forgotten; what stopped a step, or paused the task, is kept
beside the calls.
"""

from __future__ import annotations

import msgspec

from ..context.render import FailureView
from ..events import ActionObserved, CallTool, StepEnded, TaskPaused
from ..guard.seen import action_of

__all__ = ["Failure", "blocked", "failed_before", "observed", "paused"]

KEPT = 8  # calls and steps; the one that failed longest ago goes first
SHOWN = 120  # characters of arguments
CUT = "…"
WHY = 200  # characters of a reason
TROUBLES = (  # reasons of a pause that say what went wrong, not what is waited for
    "acceptance",
    "context",
    "deadline",
    "plan",
    "recovery_mismatch",
    "service",
    "undo",
    "unknown_effect",
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A call or a step that failed so often, and the newest reason."""

    what: str
    arguments: str
    times: int
    why: str


def observed(
    failures: dict[str, Failure], call: CallTool, event: ActionObserved
) -> dict[str, Failure]:
    """Keep a failed call, forget one that completed.

    One that was not let out since it had failed is no more failure than there was.
    """
    if event.again or call.undoes is not None:
        return failures
    seen = event.seen
    name = seen.action if seen else action_of(call.tool, call.arguments)
    if event.status == "completed":
        if name not in failures:
            return failures
        return {key: one for key, one in failures.items() if key != name}
    why = event.reason.removeprefix(f"{call.tool}: ")
    before = failures.get(name)
    if event.refused and before is not None and before.why != _short(why, WHY):
        return failures
    return _more(failures, name, call.tool, call.arguments, why)


def blocked(failures: dict[str, Failure], event: StepEnded) -> dict[str, Failure]:
    """Keep what stopped a step, forget that of a step which passed."""
    what = f"step {event.step}"
    if event.status == "completed":
        return {key: one for key, one in failures.items() if key != what}
    return _more(failures, what, what, "", event.reason)


def paused(
    failures: dict[str, Failure], step: str, event: TaskPaused
) -> dict[str, Failure]:
    """Keep what paused the task, where that was a trouble."""
    if event.reason not in TROUBLES:
        return failures
    what = f"step {step}" if step else "task"
    why = f"paused: {event.reason}: {event.detail}"
    return _more(failures, what, what, "", why)


def failed_before(
    failures: dict[str, Failure], notes: tuple[str, ...]
) -> tuple[FailureView, ...]:
    """What a model is told of them: all but what a note of its step says already."""
    said = [" ".join(note.split()) for note in notes]
    return tuple(
        FailureView(
            what=one.what, arguments=one.arguments, times=one.times, why=one.why
        )
        for one in failures.values()
        if one.times > 1 or not any(one.why.removesuffix(CUT) in note for note in said)
    )


def _more(
    failures: dict[str, Failure], key: str, what: str, arguments: str, why: str
) -> dict[str, Failure]:
    before = failures.get(key)
    others = {name: one for name, one in failures.items() if name != key}
    kept = dict(list(others.items())[-(KEPT - 1) :])
    kept[key] = Failure(
        what=what,
        arguments=_short(arguments, SHOWN),
        times=1 if before is None else before.times + 1,
        why=_short(why, WHY),
    )
    return kept


def _short(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most] + CUT
