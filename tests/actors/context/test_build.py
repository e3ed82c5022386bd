"""A request shows what its own record makes of it."""

from __future__ import annotations

import pytest

from perdure.actors.agent import FixedLayer
from perdure.actors.context.blocks import Block, Window
from perdure.actors.context.build import Rules, build
from perdure.actors.context.facts import Finding, merged, room_for
from perdure.actors.context.known import Known
from perdure.actors.context.render import TaskView, render_moving
from perdure.actors.model import ModelReply, ToolCall
from perdure.actors.task.recovery import exchange

LAYER = FixedLayer(instructions="Work.", tools=[])
RULES = Rules(limit=3_000, low_water=0.7, newest="reference")


def looked(op: int, width: int) -> Block:
    """An exchange of one call, whose result is told in `width` characters."""
    call = ToolCall(id=f"{op}.0", name="look", arguments="{}")
    said = f"error: {'y' * width} {'z ' * 400}"
    return exchange(op, ModelReply(tool_calls=(call,)), [(call.id, said)], [op + 1])


@pytest.mark.parametrize("width", range(40, 193, 8))
def test_a_finding_that_is_left_out_makes_no_room_for_an_older_one(width: int) -> None:
    # What replay and the next request show is folded from the findings recorded.
    before = tuple(Finding(f"op{op}", said="x" * 20) for op in range(1, 5))
    view = TaskView(goal="count", findings=before)
    scratch = [looked(op, width) for op in range(10, 30, 2)]
    made = build(
        LAYER,
        view,
        scratch,
        purpose="work",
        window=Window(),
        rules=RULES,
        known=Known(LAYER.tools),
    )
    assert made.findings
    after = merged(before, made.findings, room_for(RULES.limit))
    shown = made.made.messages[-1]["content"]
    assert shown == render_moving(TaskView(goal="count", findings=after))
