"""A model that makes given calls in turn, for tests of tools and of their recovery."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..actors.context.render import moving_data
from ..actors.model import ModelReply, ModelRequest, ToolCall
from ..models.scripted import Scripted

__all__ = ["in_turn"]


def in_turn(*calls: tuple[str, Mapping[str, Any]], answer: Any = "done") -> Scripted:
    """A scripted model that makes one call after the other, then answers.

    It counts the results that a request shows, so it goes on after a kill where it
    stood, and it declares after a crash what the record shows. In a plan, each step
    makes these calls. It sums nothing up: give few calls, whose results fit. Asked
    for a plan it writes one step, and leaves each plan that it is shown as it is.

    Args:
        calls: (tool, arguments), one model reply each.
        answer: JSON value of the last reply.
    """

    def reply(request: ModelRequest) -> ModelReply:
        data = moving_data(request.messages[-1]["content"])
        if data["kind"] == "recovery":
            return ModelReply(content=json.dumps(_declaration(data)))
        if data["kind"] == "summarise":
            return ModelReply(content="it sums nothing up")  # so requests are cut
        if data["kind"] == "plan":
            one = {"id": "task", "goal": "what the task asks for"}
            plan = {"keep": True} if data["plan"] else {"steps": [one]}
            return ModelReply(content=json.dumps(plan))
        made = len(data["operations"])
        made += sum(message["role"] == "tool" for message in request.messages)
        if made >= len(calls):
            return ModelReply(content=json.dumps(answer))
        name, arguments = calls[made]
        call = ToolCall(id=f"c{made}", name=name, arguments=json.dumps(arguments))
        return ModelReply(tool_calls=(call,))

    return Scripted(reply)


def _declaration(data: dict[str, Any]) -> dict[str, Any]:
    done = [name for name, status in data["steps"].items() if status == "completed"]
    step = (data["step"] or {}).get("id")
    return {"done": done, "next": step, "uncertain": data["uncertain"]}
