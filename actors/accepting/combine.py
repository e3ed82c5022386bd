"""Which part of an acceptance is to judge next, and what the parts so far say. Pure.

Parts are asked one after another, and no more of them than the verdict needs: `AllOf`
ends with the first that refuses, `AnyOf` with the first that accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ..acceptance import Accept, AllOf, AnyOf, ModelJudge, Verdict, check_accept
from ..errors import Misuse
from ..storable import is_storable

__all__ = ["Path", "all_of", "any_of", "asks_a_model", "judge", "part_at", "settled"]

Path: TypeAlias = tuple[int, ...]
"""Where a part stands: its place among the parts of each level, outermost first."""

PARTS = 64  # of one level
LEVELS = 8
CRITERION = 2_000  # characters


def all_of(*parts: Accept) -> AllOf:
    """Accept what every part accepts; the first that refuses says why.

    Parts are functions of the host, sync or async, ready-made ones, or combined ones
    again. They are asked in the order given, those with a model judge last, each with a
    deadline of its own; what raises or hangs is no pass of the whole.

    Raises Misuse for no parts, or one that cannot judge.
    """
    return AllOf(_checked("all_of", parts))


def any_of(*parts: Accept) -> AnyOf:
    """Accept what at least one part accepts; else each says why not.

    They are asked in the order given, those with a model judge last, until one
    accepts. A part that raises or hangs before is no pass of the whole: who wants that
    caught catches it in a function.

    Raises Misuse for no parts, or one that cannot judge.
    """
    return AnyOf(_checked("any_of", parts))


def judge(criterion: str) -> ModelJudge:
    """Accept what the agent's model says meets a criterion.

    The model sees goal, criterion, confirmed facts and the result, whole, and none of
    the exchanges. Its call is budgeted and recorded like any other, and its verdict is
    marked as a model's (`by: model`). An answer that cannot be read is no pass: it is
    asked three times in all, then the step ends as `acceptance_error`.

    Args:
        criterion: what the result must meet, in words, 2,000 characters at most.

    Raises Misuse for what is no criterion.
    """
    text = isinstance(criterion, str) and criterion.strip() and is_storable(criterion)
    if not text or len(criterion) > CRITERION:
        raise Misuse(
            f"judge: criterion={criterion!r} must be text, {CRITERION} characters at "
            "most, that says what the result must meet"
        )
    return ModelJudge(criterion)


def settled(
    accept: Accept, given: Mapping[Path, Verdict], at: Path = ()
) -> Verdict | Path:
    """The verdict of all parts together, or the place of the part to be asked next.

    Args:
        accept: the whole, or the part at `at`.
        given: what the parts said that were asked so far.
        at: where `accept` stands.
    """
    match accept:
        case AllOf(parts):
            for place, part in _in_turn(parts):
                found = settled(part, given, (*at, place))
                if not isinstance(found, Verdict) or not found.ok:
                    return found
            return Verdict(ok=True)
        case AnyOf(parts):
            whys: list[str] = []
            for place, part in _in_turn(parts):
                found = settled(part, given, (*at, place))
                if not isinstance(found, Verdict) or found.ok:
                    return found
                whys.append(found.why)
            return Verdict(ok=False, why=f"none of these: {'; '.join(whys)}")
    return given.get(at, at)


def part_at(accept: Accept, at: Path) -> Accept:
    """The part that stands at `at`."""
    for place in at:
        assert isinstance(accept, AllOf | AnyOf)
        accept = accept.parts[place]
    return accept


def _checked(name: str, parts: tuple[Accept, ...]) -> tuple[Accept, ...]:
    if not 1 <= len(parts) <= PARTS:
        raise Misuse(f"{name} of {len(parts)} parts: give 1 to {PARTS}")
    for place, part in enumerate(parts, 1):
        check_accept(part, f"{name}: part {place}")
    if (deep := 1 + max(map(_levels, parts))) > LEVELS:
        raise Misuse(f"{name}: {deep} levels of parts; {LEVELS} at most")
    return parts


def _in_turn(parts: tuple[Accept, ...]) -> list[tuple[int, Accept]]:
    """A model is asked only where everything that costs nothing has been."""
    return sorted(enumerate(parts), key=lambda pair: asks_a_model(pair[1]))


def asks_a_model(accept: Accept | None) -> bool:
    """Whether a part of it is for a model to judge."""
    if isinstance(accept, AllOf | AnyOf):
        return any(map(asks_a_model, accept.parts))
    return isinstance(accept, ModelJudge)


def _levels(accept: Accept) -> int:
    if isinstance(accept, AllOf | AnyOf):
        return 1 + max(map(_levels, accept.parts))
    return 0
