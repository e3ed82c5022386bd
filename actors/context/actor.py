"""The actor that builds requests, off the task's turns."""

from __future__ import annotations

from typing import Any

from ...supervision.actor import Actor
from ..agent import Agent
from ..errors import ContextBudgetError
from ..house import House
from ..model import ModelRequest
from ..protocol import Assemble, Built
from .build import Rules, build
from .known import Known
from .measure import copied

__all__ = ["Context"]


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
        try:
            fitted = build(
                self.agent.fixed,
                message.view,
                message.scratch,
                purpose=message.purpose,
                window=message.window,
                rules=Rules(
                    limit=rules.request_limit,
                    low_water=rules.low_water,
                    newest=rules.newest,
                ),
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
        made = fitted.made
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
            findings=fitted.findings,
            bare=fitted.bare,
        )
