"""One request from a task's view and its exchanges; pure, so that it can be repeated.

What a cut takes away stays as findings, which the same request shows already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ..agent import FixedLayer
from ..errors import ContextBudgetError
from ..model import ToolSchema
from .blocks import Block, Window
from .facts import Finding, merged, room_for
from .judging import Question, judging
from .known import Known
from .layers import Assembled, assemble
from .render import TaskView, render_moving, render_recovery, render_task_stable
from .shrink import assemble_shrinking
from .summary import Subject
from .summing import summing

__all__ = ["Fitted", "Rules", "build", "request_blocks"]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a request may take, how far a cut goes, and the mode of the newest."""

    limit: int
    low_water: float
    newest: Literal["reference", "strict"]


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and what of it is to be recorded.

    Args:
        made: the request itself.
        findings: what is kept of the blocks that it dropped or shrank.
        bare: there is no room for findings, a reminder of the goal, or a summary.
    """

    made: Assembled
    findings: tuple[Finding, ...] = ()
    bare: bool = False


def request_blocks(
    instructions: str,
    view: TaskView,
    *,
    purpose: str,
    opens: bool = False,
    tools: Sequence[ToolSchema] = (),
) -> tuple[list[Block], list[Block], Block]:
    """The fixed, stable and moving blocks of one request; pure.

    What is asked besides the work itself is asked in the three modules of a recovery.
    `opens` says whether the model has tools that open the record, `tools` what a plan
    can count on. A summary stands last
    in the stable part: between two summaries its bytes stay.
    """
    system = {"role": "system", "content": instructions}
    fixed = [Block(id=0, layer="fixed", origin="agent", messages=(system,))]
    stable: list[Block] = []
    if purpose == "closing":
        text = render_recovery(view, "closing")
    elif purpose == "plan":
        text = render_recovery(view, "plan", tools)
    elif purpose == "declare":
        text = render_recovery(view)
    else:
        text = render_moving(view, opens=opens)
        goal = {"role": "user", "content": render_task_stable(view)}
        stable.append(Block(id=0, layer="task", origin="task", messages=(goal,)))
        if view.summary:
            said = {"role": "user", "content": view.summary}
            stable.append(
                Block(id=1, layer="scratch", origin="summary", messages=(said,))
            )
    last = {"role": "user", "content": text}
    return fixed, stable, Block(id=0, layer="task", origin="task", messages=(last,))


def build(
    layer: FixedLayer,
    view: TaskView,
    scratch: Sequence[Block],
    *,
    purpose: str,
    window: Window,
    rules: Rules,
    known: Known,
    subject: Subject | None = None,
    question: Question | None = None,
) -> Fitted:
    """Fit a request; what it cuts is shown in short by the same request.

    With a `subject` it asks for a summary of that, and of nothing else; with a
    `question` for a verdict.

    Raises `ContextBudgetError` where what must be in does not fit.
    """
    if subject is not None:
        return Fitted(
            made=summing(layer, subject, limit=rules.limit, measure=known.measure)
        )
    if question is not None:
        made = judging(question, limit=rules.limit, measure=known.measure)
        return Fitted(made=made)
    if purpose != "work":
        made, bare = _fitted(layer, view, (), purpose, Window(), rules, known)
        return Fitted(made=made, bare=bare)
    room = room_for(rules.limit)
    cut: dict[str, Finding] = {}
    while True:
        kept = tuple(
            one
            for one in merged(view.findings, cut.values(), room)
            if one.evidence in cut and one not in view.findings
        )
        # What the record makes of those kept: one that is left out has made no room.
        found = merged(view.findings, kept, room)
        shown = msgspec.structs.replace(view, findings=found)
        made, bare = _fitted(layer, shown, scratch, purpose, window, rules, known)
        lost = _lost(scratch, window, made, known)
        if lost.keys() <= cut.keys():
            break
        # The findings make the request longer: again, from where it is cut now.
        cut.update(lost)
        window = made.window
    return Fitted(made=made, findings=kept, bare=bare)


def _fitted(
    layer: FixedLayer,
    view: TaskView,
    scratch: Sequence[Block],
    purpose: str,
    window: Window,
    rules: Rules,
    known: Known,
) -> tuple[Assembled, bool]:
    """The request, and whether it had to do without findings, reminder and summary.

    They cost neither the request nor the newest exchange as it is.
    """
    bare = msgspec.structs.replace(view, findings=(), adrift=False, summary="")
    views = [view] if view == bare else [view, bare]
    fits = [assemble]
    if rules.newest == "reference" and scratch:
        fits.append(assemble_shrinking)
    refused = ContextBudgetError("a request must end with the current user task")
    for fit in fits:
        for shown in views:
            fixed, stable, moving = request_blocks(
                layer.instructions,
                shown,
                purpose=purpose,
                opens=known.opens,
                tools=layer.tools,
            )
            try:
                made = fit(
                    fixed,
                    stable,
                    scratch,
                    moving,
                    layer.tools if purpose == "work" else [],
                    limit=rules.limit,
                    window=window,
                    low_water=rules.low_water,
                    known=known,
                )
            except ContextBudgetError as error:
                refused = error
            else:
                return made, shown is not view
    raise refused


def _lost(
    scratch: Sequence[Block], before: Window, made: Assembled, known: Known
) -> dict[str, Finding]:
    """What a cut took out of sight: whole blocks, and results now by reference."""
    after = made.window
    alone = {one.block for one in made.fates if one.fate == "referenced"}
    found: dict[str, Finding] = {}
    for block in scratch:
        dropped = before.start <= block.id < after.start
        shrunk = before.shrunk <= block.id < after.shrunk or block.id in alone
        if not dropped and not shrunk:
            continue
        one = known.scratch(block)
        if dropped or block.id in alone or one.reference[0] is not block:
            found.update(
                (each.evidence, each)
                for each in one.findings
                if dropped or each.subject  # the model's own words still stand
            )
    return found
