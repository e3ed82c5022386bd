"""Whether the newest actions go round in circles. Pure, and judged by results.

What a poll says and what a service's trouble costs is no circle: the first has its own
patience, the second its backoff. An action that changed something, or whose result is
new, ends every circle that it does not belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .seen import FREE, INFRA, REFUSED, TRIVIAL, WROTE, Seen, similarity

__all__ = ["KEPT", "LONGEST", "Finding", "Kind", "LoopRules", "detect"]

Kind: TypeAlias = Literal[
    "repeat", "period", "errors", "near", "poll_timeout", "service"
]
LONGEST = 5  # actions of one period
TIMES = 3  # a period is seen, and then repeated twice over
KEPT = LONGEST * TIMES  # actions that are looked at


class LoopRules(msgspec.Struct, frozen=True, kw_only=True):
    """From when on repetition is a circle (design §11)."""

    repeats: int = 3  # equal actions with equal results in a row
    period: int = LONGEST  # longest period, seen three times
    errors: int = 4  # different actions in a row that failed
    near: int = 4  # nearly equal actions that failed alike or changed nothing
    similar: float = 0.9  # from which two actions are nearly equal


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A circle: its kind, its actions by digest, and the operations that show it."""

    kind: Kind
    actions: tuple[str, ...]
    ops: tuple[int, ...]
    says: str


def detect(recent: Sequence[Seen], rules: LoopRules) -> Finding | None:
    """Look at the newest actions, oldest first; the newest one is in the circle."""
    if not recent:
        return None
    newest = recent[-1]
    if newest.flags & INFRA:
        return None
    if newest.patience:
        return _impatient(recent)
    if _is_new_work(recent) and rules.repeats > 1 and rules.near > 1:
        return None
    tried = [one for one in recent if not one.flags & INFRA and not one.patience]
    found = _round(tried, rules) or _near(tried, rules)
    if found is None and newest.status != "completed":
        found = _errors(tried, rules.errors)
    if found is None or len(found.actions) > 1:
        return found
    if newest.has(FREE):
        return None
    if newest.has(REFUSED) and _unserved(recent, newest):
        says = f"the service of {newest.tool} failed it, and its retries are used up"
        return msgspec.structs.replace(found, kind="service", says=says)
    return found


def _is_new_work(recent: Sequence[Seen]) -> bool:
    """Whether the newest action changed something, and was not done before.

    So it is with most, and such a one belongs to no circle of more than one action.
    """
    newest = recent[-1]
    if newest.status != "completed" or not newest.flags & WROTE:
        return False
    for one in recent:
        if one.action == newest.action:
            return one is newest
    return False


def _unserved(recent: Sequence[Seen], newest: Seen) -> bool:
    """Whether a call is refused since its service failed it, not the call (K26)."""
    made = [
        one for one in recent if one.action == newest.action and not one.has(REFUSED)
    ]
    return bool(made) and made[-1].has(INFRA)


def _impatient(recent: Sequence[Seen]) -> Finding | None:
    newest = recent[-1]
    since = newest
    for one in reversed(recent):
        if one.action != newest.action:
            continue
        if not one.same(newest):
            break
        since = one
    waited = newest.at - since.at
    if waited < newest.patience:
        return None
    return Finding(
        kind="poll_timeout",
        actions=(newest.action,),
        ops=(since.op, newest.op),
        says=f"{newest.tool} said the same for {waited:g} s, "
        f"{newest.patience:g} s are allowed",
    )


def _round(tried: Sequence[Seen], rules: LoopRules) -> Finding | None:
    """The same action over and over, or a few of them in turn."""
    newest = tried[-1]
    size = len(tried)
    for length in range(1, rules.period + 1):
        times = TIMES if length > 1 else rules.repeats
        if size < length * times:
            continue
        if times > 1 and tried[-1 - length].action != newest.action:
            continue  # so it is with most
        if not _recurs(tried, length, times):
            continue
        last = tried[-length * times :]
        if length == 1:
            says = f"{newest.tool} did the same {times} times over"
            return _found("repeat", last, says)
        names = ", ".join(one.tool for one in last[:length])
        return _found(
            "period", last, f"{length} calls ({names}) came round {times} times"
        )
    return None


def _recurs(tried: Sequence[Seen], length: int, times: int) -> bool:
    """Whether the newest actions, so many of them, came so many times over."""
    size = len(tried)
    for place in range(size - 1, size - 1 - length * (times - 1), -1):  # newest first
        if not tried[place].same(tried[place - length]):
            return False
    return True


def _near(tried: Sequence[Seen], rules: LoopRules) -> Finding | None:
    size = len(tried)
    if size < rules.near:
        return None
    for place in range(size - 1, size - rules.near, -1):  # the newest say it first
        if not _alike(tried[place - 1], tried[place], rules.similar):
            return None
    last = tried[-rules.near :]
    came = "failed alike" if last[0].status != "completed" else "changed nothing"
    says = f"{rules.near} calls of {last[0].tool} were nearly the same and {came}"
    return _found("near", last, says)


def _alike(one: Seen, two: Seen, similar: float) -> bool:
    if one.status == "completed":
        if (one.flags | two.flags) & WROTE or one.result != two.result:
            return False
        # Many questions have no answer: only the same words asked anew are the same.
        if one.has(TRIVIAL) and one.words != two.words:
            return False
    return similarity(one, two) >= similar


def _errors(tried: Sequence[Seen], errors: int) -> Finding | None:
    # The retries of one call are one failure: they are its kind's to bound (B82).
    last: list[Seen] = []
    for one in reversed(tried):
        if one.status == "completed":
            return None
        if not last or one.action != last[-1].action:
            last.append(one)
        if len(last) == errors:
            says = f"{errors} different calls in a row failed"
            return _found("errors", last[::-1], says)
    return None


def _found(kind: Kind, last: Sequence[Seen], says: str) -> Finding:
    return Finding(
        kind=kind,
        actions=tuple(dict.fromkeys(one.action for one in last)),
        ops=tuple(one.op for one in last),
        says=says,
    )
