"""A short run of a tool-calling loop under a tight budget, with fixed replies.

It needs no network and no credentials, and proves nothing of a model's quality.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ..model import Message, ToolSchema
from .budgeted import BudgetedModel
from .measure import copied, request_characters
from .units import units

__all__ = ["demo"]

LIMIT = 3700  # characters
MAX_TURNS = 6
TIMEOUT = 2.0  # seconds
TASK = "Read the four documents one, two, three and four, then say that you are done."
RULES = (
    "You read documents with the tool read_document and answer from what they say. "
    "Call the tool for each document that the task names, and never for another. "
    "Two documents may be asked for at once. Say that you are done only when every "
    "document has been read; a document that is no longer shown was still read."
)
DOCUMENTS = dict.fromkeys(("one", "two", "three", "four"), "资料" * 480)
SCRIPT = (("one", "two"), ("three",), ("four",), ())
TOOLS: list[ToolSchema] = [
    {
        "type": "function",
        "function": {
            "name": "read_document",
            "description": "Return the whole text of one document, named by its word.",
            "parameters": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 20}},
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    }
]


class _Fixture:
    """Replies in a fixed order, and keeps each request as it was received."""

    def __init__(self) -> None:
        self.requests: list[tuple[list[Message], list[ToolSchema]]] = []

    async def complete(
        self, messages: list[Message], tools: list[ToolSchema]
    ) -> Message:
        names = SCRIPT[len(self.requests)]
        self.requests.append((copied(messages), copied(tools)))
        if not names:
            return {"role": "assistant", "content": "Done: four documents were read."}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [_call(name) for name in names],
        }


def _call(name: str) -> dict[str, Any]:
    arguments = json.dumps({"name": name})
    function = {"name": "read_document", "arguments": arguments}
    return {"id": f"read_{name}", "type": "function", "function": function}


async def demo() -> dict[str, Any]:
    """Run the loop and return what was checked on every request that was sent."""
    fixture = _Fixture()
    model = BudgetedModel(fixture, max_characters=LIMIT, required_task=TASK)
    executed: list[str] = []
    async with asyncio.timeout(TIMEOUT):
        status = await _run(model, executed)
    sizes = [request_characters(*request) for request in fixture.requests]
    preserved = all(
        {"role": "user", "content": TASK} in messages
        for messages, _ in fixture.requests
    )
    measures = [report.after for report in model.reports]
    honest = measures == sizes and max(sizes) <= LIMIT
    complete = sum(_exchanges(messages) for messages, _ in fixture.requests)
    dropped = sum(report.dropped_exchanges for report in model.reports)
    # The histories held 0, 1, 2 and 3 exchanges: none may be lost uncounted.
    whole = complete + dropped == sum(range(len(SCRIPT)))
    return {
        "complete_tool_exchanges": whole,
        "current_task_preserved": preserved,
        "dropped_exchanges": dropped,
        "limit_characters": LIMIT,
        "max_request_characters": max(sizes),
        "mode": "fixture",
        "model_calls": model.calls,
        "ok": whole and preserved and honest and status == "complete",
        "status": status,
        "tools_executed": executed,
    }


async def _run(model: BudgetedModel, executed: list[str]) -> str:
    history: list[Message] = [
        {"role": "system", "content": RULES},
        {"role": "user", "content": TASK},
    ]
    for _ in range(MAX_TURNS):
        reply = await model.complete(history, TOOLS)
        history.append(reply)
        if not reply.get("tool_calls"):
            return "complete"
        for call in reply["tool_calls"]:
            name = json.loads(call["function"]["arguments"])["name"]
            executed.append(name)
            history.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": DOCUMENTS[name],
                }
            )
    return "turn limit"


def _exchanges(messages: list[Message]) -> int:
    return sum(unit.exchange for unit in units(messages))
