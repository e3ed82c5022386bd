"""Small agents for tests of the runtime."""

from __future__ import annotations

import json
from typing import Any

from perdure import (
    Agent,
)
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from tests.actors.world import (
    as_calls,
    follow,
    outcomes,
)

__all__ = ["calling", "done", "echoing", "one_step"]


def calling(*calls: tuple[str, dict[str, Any]]) -> ModelReply:
    return ModelReply(tool_calls=as_calls(calls))


def done(text: str = '"done"') -> ModelReply:
    return ModelReply(content=text)


def one_step(*calls: tuple[str, dict[str, Any]], **options: Any) -> Agent:
    """An agent without a plan that makes these calls one by one, then answers."""
    options.setdefault("model", Scripted(follow({"task": [[one] for one in calls]})))
    return Agent(name="agent", instructions="Do it.", **options)


def echoing(*calls: ToolCall) -> Scripted:
    """Makes one round of calls, then answers with what came of them."""

    def reply(request: ModelRequest) -> ModelReply:
        found = outcomes(request)
        if not found:
            return ModelReply(
                tool_calls=calls or (ToolCall(id="1", name="look", arguments="{}"),)
            )
        return ModelReply(content=json.dumps(found))

    return Scripted(reply)
