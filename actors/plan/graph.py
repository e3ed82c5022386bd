"""Which steps wait for which: the order of a plan, checked before anything runs. Pure.

Ids stand for steps here, so that a plan of the host and one of the model's are judged
by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["wrong_needs"]


def wrong_needs(needs: Mapping[str, Sequence[str]]) -> str:
    """Say what is wrong with what steps need, or nothing where they form a DAG.

    Args:
        needs: by step, in the order of the plan, the ids of the steps it waits for.
    """
    for step, wanted in needs.items():
        for one in wanted:
            if one == step:
                return f"step {step!r}: needs={one!r} is itself; leave it out"
            if one not in needs:
                known = ", ".join(map(repr, needs))
                return f"step {step!r}: needs={one!r} is no step; there are {known}"
    if cycle := _cycle(needs):
        around = " -> ".join((*cycle, cycle[0]))
        return f"steps wait for each other: {around}; take one of these needs= away"
    return ""


def _cycle(needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The first steps that wait for each other in a ring, if any do."""
    left = dict(needs)
    while True:
        ready = [
            step for step, wanted in left.items() if left.keys().isdisjoint(wanted)
        ]
        if not ready:
            break
        for step in ready:
            del left[step]
    if not left:
        return ()
    path = [next(iter(left))]  # each that is left needs another that is left
    while True:
        following = next(one for one in left[path[-1]] if one in left)
        if following in path:
            return tuple(path[path.index(following) :])
        path.append(following)
