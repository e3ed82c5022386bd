"""The actor that builds requests, off the task's turns."""

from __future__ import annotations

from typing import Any

from ...supervision.actor import Actor
from ..agent import Agent
from ..errors import ContextBudgetError
from ..house import House
from ..model import ModelRequest
from ..protocol import Assemble, Built
from .blocks import Block
from .known import Known
from .layers import assemble
from .measure import copied
from .render import TaskView, render_moving, render_recovery, render_task_stable
from .shrink import assemble_shrinking

__all__ = ["Context", "request_blocks"]


def request_blocks(
    instructions: str, view: TaskView, *, purpose: str
) -> tuple[list[Block], list[Block], Block]:
    """The fixed, stable and moving blocks of one request; pure.

    What is asked besides the work itself is asked in the three modules of a recovery.
    """
    system = {"role": "system", "content": instructions}
    fixed = [Block(id=0, layer="fixed", origin="agent", messages=(system,))]
    stable: list[Block] = []
    if purpose == "closing":
        text = render_recovery(view, "closing")
    elif purpose == "declare":
        text = render_recovery(view)
    else:
        text = render_moving(view)
        goal = {"role": "user", "content": render_task_stable(view)}
        stable.append(Block(id=0, layer="task", origin="task", messages=(goal,)))
    last = {"role": "user", "content": text}
    return fixed, stable, Block(id=0, layer="task", origin="task", messages=(last,))


class Context(Actor):
    """A request is built from what it is asked with; kept is only what was measured."""

    def __init__(self, house: House, agent: Agent) -> None:
        super().__init__()
        self.house = house
        self.agent = agent
        self._known = Known(agent.fixed.tools)

    def receive(self, message: Any) -> None:
        """Build requests."""
        match message:
            case Assemble():
                message.reply_to.tell(self._build(message))

    def _build(self, message: Assemble) -> Built:
        rules = self.house.baseline
        layer = self.agent.fixed
        fixed, stable, moving = request_blocks(
            layer.instructions, message.view, purpose=message.purpose
        )
        working = message.purpose == "work"
        tools = layer.tools if working else []
        scratch = message.scratch if working else []
        fit = assemble_shrinking if rules.newest == "reference" else assemble
        try:
            made = fit(
                fixed,
                stable,
                scratch,
                moving,
                tools,
                limit=rules.request_limit,
                window=message.window,
                low_water=rules.low_water,
                known=self._known,
            )
        except ContextBudgetError as error:
            return Built(
                op=message.op,
                attempt=message.attempt,
                request=None,
                digest="",
                window=message.window,
                blocks=(),
                characters=0,
                error=str(error),
            )
        request = ModelRequest(
            messages=copied(made.messages),
            tools=copied(made.tools),
            max_output_tokens=rules.closing_tokens
            if message.purpose == "closing"
            else rules.output_tokens,
            timeout=rules.model_timeout,
        )
        return Built(
            op=message.op,
            attempt=message.attempt,
            request=request,
            digest=made.digest,
            window=made.window,
            blocks=made.kept,
            characters=made.report.after,
            error="",
            fates=made.fates,
        )
