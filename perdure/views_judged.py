"""What acceptance said of steps and of the whole task, as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from .actors.events import AnswerRefused, Event, Ruling, StepEnded, TaskClosing

__all__ = ["JudgedLine", "judged_of", "judged_text"]

WHY = 60  # characters
OF_THE_TASK = "(the task)"


class JudgedLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge said last of a step, or of the whole task (`step` is empty).

    `by` is ``function``, ``check`` (a ready-made one) or ``model``: an opinion.
    """

    step: str
    who: str
    by: str
    ok: bool
    why: str
    evidence: dict[str, Any]


def judged_of(history: Iterable[Event]) -> tuple[JudgedLine, ...]:
    """The newest verdict on each step, in the order of the steps; the task's last."""
    newest: dict[str, Sequence[Ruling]] = {}
    done: set[str] = set()
    for event in history:
        match event:
            case AnswerRefused(step=step, judged=judged):
                newest[step] = judged
            case StepEnded(step=step, status="completed", judged=judged):
                newest[step] = judged
                done.add(step)
            case StepEnded(step=step, judged=judged):
                # A step that was complete runs again, since the task was not.
                newest["" if step in done else step] = judged
                done.discard(step)
            case TaskClosing(status="completed", judged=judged):
                newest[""] = judged
    of_the_task = newest.pop("", ())
    return tuple(
        JudgedLine(
            step=step,
            who=one.who,
            by=one.by,
            ok=one.ok,
            why=one.why,
            evidence=one.evidence,
        )
        for step, rulings in (*newest.items(), ("", of_the_task))
        for one in rulings
    )


def judged_text(judged: Sequence[JudgedLine]) -> Iterator[str]:
    """A table of them; nothing where nobody judged."""
    from .views_text import short, table, value_text

    if not judged:
        return
    yield ""
    yield from table(
        ("JUDGED", "BY", "WHO", "SAID", "WHY", "EVIDENCE"),
        (
            (
                one.step or OF_THE_TASK,
                one.by,
                short(one.who, WHY),
                "pass" if one.ok else "no pass",
                short(one.why, WHY) or "-",
                short(value_text(one.evidence), WHY) if one.evidence else "-",
            )
            for one in judged
        ),
    )
