"""Calls that failed by themselves and would fail again: refused before they run. Pure.

A call that failed as often as it may (`Baseline.failed_attempts`) is not made again
until something changed: an effect of the task completed, the call itself went well, or
a person had the task go on. What its service failed, what the door refused, what a
crash cut off and what a poll says is no failure of the call: retries by kind and
backoff are for those (B82).
"""

from __future__ import annotations

from typing import TypeAlias

from .seen import OWN, WROTE, Outcome, Seen

__all__ = ["TIMES_KEPT", "Tried", "in_vain", "tried_after"]

Tried: TypeAlias = dict[str, tuple[int, ...]]  # operations that failed, by action
CALLS_KEPT = 64  # the one that failed longest ago goes first
TIMES_KEPT = 16  # failures of one call


def tried_after(tried: Tried, op: int, seen: Seen | None, status: Outcome) -> Tried:
    """What was tried in vain once operation `op` has an outcome.

    `seen` is what its event holds of it, without its operation and status.
    """
    if seen is None:
        return tried
    if status == "completed":
        if seen.flags & WROTE:  # the world is another one now
            return {}
        if seen.action not in tried:
            return tried
        return {name: ops for name, ops in tried.items() if name != seen.action}
    if not seen.has(OWN):
        return tried
    others = {name: ops for name, ops in tried.items() if name != seen.action}
    ops = (*tried.get(seen.action, ()), op)[-TIMES_KEPT:]
    return dict(list(others.items())[-(CALLS_KEPT - 1) :]) | {seen.action: ops}


def in_vain(ops: tuple[int, ...], why: str) -> str:
    """What the model is told of a call that is not made again (A107)."""
    shown = ", ".join(f"op{op}" for op in ops)
    last = f", at last with: {why}" if why else ""
    return (
        f"not made: this very call failed {len(ops)} times ({shown}){last}. Nothing "
        "has changed since: change its arguments, do something else first, or answer "
        "without it"
    )
