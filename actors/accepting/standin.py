"""What stands in for the acceptance of a step that has none."""

from __future__ import annotations

from typing import Any

from ..acceptance import Verdict, View
from .checks import Check

__all__ = ["NO_FAILED_CALLS", "TASK_JUDGES", "stands_in"]

WHY = 1_000  # characters of a reason


def _no_failed_calls(result: Any, view: View) -> Verdict:
    wrong = [one for one in view.failed if one.newest]
    if not wrong:
        return Verdict(ok=True)
    calls = "; ".join(f"{one.tool} {one.status}: {one.why}" for one in wrong)
    why = (
        f"the last calls before the answer went wrong ({calls}): make them good, or do "
        "it in another way; words alone do not complete a step"
    )
    evidence = {"failed": [f"op{one.op}" for one in wrong]}
    return Verdict(ok=False, why=why[:WHY], evidence=evidence)


def _passes(result: Any, view: View) -> Verdict:
    return Verdict(ok=True)


NO_FAILED_CALLS = Check("no_failed_calls", _no_failed_calls)
"""All that is asked where nothing else is: that no failed call came last (A35)."""

TASK_JUDGES = Check("task_judges", _passes)
"""Leaves the only step of a task to the acceptance of the task."""


def stands_in(judge: object) -> bool:
    """Whether it is one of these: a pass of theirs is no ruling to be recorded."""
    return judge is NO_FAILED_CALLS or judge is TASK_JUDGES
