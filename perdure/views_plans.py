"""How a task's plan came to be what it is: written, revised, kept, refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from .actors.events import (
    ConsentAsked,
    DroppedStep,
    Event,
    Fired,
    PlanChecked,
    PlanKept,
    PlanMade,
    PlanRefused,
    PlanRevised,
    TaskSubmitted,
)
from .storage.records import Record

__all__ = ["PlanLine", "plan_lines", "plans_text"]


class PlanLine(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one look at the plan; the first writes it.

    `op` is the call that said so, 0 where none was made. `number` is that of the plan
    in force since then, `fired` what the look was due for, `steps` the ids of the whole
    plan where there is another. An ``asked`` revision waits for a person; `consent` is
    who agreed. Several proposals may be ``refused`` in one look: the last one is final.
    """

    at: float
    op: int
    what: Literal["made", "revised", "kept", "refused", "asked"]
    number: int = 0
    fired: tuple[str, ...] = ()
    why: str = ""
    steps: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    consent: str = ""
    final: bool = True


def plan_lines(history: Sequence[tuple[Record, Event]]) -> tuple[PlanLine, ...]:
    """Every look at a task's plan, from its stream, oldest first."""
    found: list[PlanLine] = []
    fired: tuple[Fired, ...] = ()
    number = 0
    for record, event in history:
        match event:
            case TaskSubmitted(steps=steps):
                number = 1 if steps else 0
                continue
            case PlanChecked():
                fired = event.fired
                continue
            case PlanMade() | PlanRevised():
                number = event.number
                what: Literal["made", "revised", "kept", "refused", "asked"]
                what = "made" if isinstance(event, PlanMade) else "revised"
                line = PlanLine(
                    at=record.at,
                    op=event.op,
                    what=what,
                    steps=tuple(step.id for step in event.steps),
                )
            case ConsentAsked():
                line = PlanLine(at=record.at, op=event.op, what="asked")
            case PlanKept():
                line = PlanLine(at=record.at, op=event.op, what="kept")
            case PlanRefused(op=op, final=final):
                line = PlanLine(at=record.at, op=op, what="refused", final=final)
            case _:
                continue
        dropped: Sequence[DroppedStep] = getattr(event, "dropped", ())
        found.append(
            msgspec.structs.replace(
                line,
                number=number,
                fired=tuple(f"{one.trigger}: {one.why}" for one in fired),
                why=event.why,
                dropped={one.id: one.why for one in dropped},
                consent=getattr(event, "consent", ""),
            )
        )
    return tuple(found)


def plans_text(lines: Sequence[PlanLine]) -> Iterator[str]:
    """The looks at a plan as `perdure show` prints them."""
    for one in lines:
        since = "; ".join(one.fired)
        yield f"plan {one.number} {one.what} (op{one.op}): {since}"
        if one.why:
            yield f"  why: {one.why}"
        if one.steps:
            yield f"  steps: {', '.join(one.steps)}"
        for step, why in one.dropped.items():
            agreed = f", as {one.consent} agreed" if one.consent else ""
            yield f"  without {step}: {why}{agreed}"
