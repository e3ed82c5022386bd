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
from .measures import counts_tokens, named
from .tally import Tally

__all__ = ["Context"]


class Context(Actor):
    """A request is built from what it is asked with; kept is only what was measured."""

    def __init__(self, house: House, agent: Agent) -> None:
        super().__init__()
        self.house = house
        self.agent = agent
        self._known = Known(agent.fixed.tools, named(agent.measure))
        self._tally = Tally()

    def receive(self, message: Any) -> None:
        """Build requests."""
        match message:
            case Assemble():
                message.reply_to.tell(self._build(message))

    def _build(self, message: Assemble) -> Built:
        rules = self.house.baseline
        agent = self.agent
        closing = message.purpose == "closing"
        reply = rules.closing_tokens if closing else rules.output_tokens
        room = reply if counts_tokens(agent.measure) else 0
        limit = (agent.request_limit or rules.request_limit) - room
        # A scale moves the sum of what was measured, and none of it.
        self._known.measure = named(agent.measure, message.scale)
        try:
            fitted = build(
                agent.fixed,
                message.view,
                message.scratch,
                purpose=message.purpose,
                window=message.window,
                rules=Rules(
                    limit=limit,
                    low_water=rules.low_water,
                    newest=rules.newest,
                ),
                known=self._known,
                subject=message.subject,
                question=message.question,
            )
        except ContextBudgetError as error:
            return Built(
                op=message.op,
                attempt=message.attempt,
                version=message.version,
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
            max_output_tokens=reply,
            timeout=rules.model_timeout,
        )
        return Built(
            op=message.op,
            attempt=message.attempt,
            version=message.version,
            request=request,
            digest=made.digest,
            window=made.window if message.subject is None else message.window,
            blocks=made.kept,
            characters=made.characters,
            error="",
            fates=made.fates,
            findings=fitted.findings,
            bare=fitted.bare,
            size=made.report.after,
            limit=limit,
            room=room,
            scale=message.scale,
            tokens=self._tally.tokens(made.messages, made.tools),
        )
