"""An agent for the tests of the command; copied beside the store it works on.

Step `look` reads, step `send` writes a file once. Where a named pipe `gate` stands in
the folder, `send` waits behind its effect until somebody has opened and closed it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure import Agent, DidNotHappen, Happened, Step, tool
from perdure.actors.context.render import moving_data
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models.scripted import Scripted

CALLS = {"look": ("look", {"n": 4}), "send": ("send", {"to": "operator"})}


def was_sent(effect: Any) -> Happened | DidNotHappen:
    sent = Path("sent") / effect.request_id
    return Happened("sent") if sent.exists() else DidNotHappen()


@tool(effect="read")
def look(n: int) -> int:
    """Double a number."""
    return n * 2


@tool(effect="once", probe=was_sent)
def send(to: str, *, request_id: str) -> str:
    """Leave a file for somebody."""
    Path("sent").mkdir(exist_ok=True)
    with (Path("sent") / request_id).open("x") as file:
        file.write(to)
    gate = Path("gate")
    if gate.exists():
        gate.read_bytes()
    return "sent"


def script(request: ModelRequest) -> ModelReply:
    text = request.messages[-1]["content"]
    data = moving_data(text)
    step = (data["step"] or {}).get("id")
    if '"uncertain"' in text.rpartition("```json")[0]:
        done = [name for name, status in data["steps"].items() if status == "completed"]
        said = {"done": done, "next": step, "uncertain": data["uncertain"]}
        return ModelReply(content=json.dumps(said))
    results = [m["content"] for m in request.messages if m["role"] == "tool"]
    results += [one["result"] for one in data["operations"]]
    if results:
        return ModelReply(content=json.dumps({"result": results[-1]}))
    name, arguments = CALLS[step]
    call = ToolCall(id=f"{step}-1", name=name, arguments=json.dumps(arguments))
    return ModelReply(content=f"doing {step}", tool_calls=(call,))


def _agent(name: str) -> Agent:
    return Agent(
        name=name,
        instructions="Do each step.",
        tools=[look, send],
        model=Scripted(script),
        plan=[Step(id="look", goal="Look."), Step(id="send", goal="Send.")],
    )


reporter = _agent("reporter")
other = _agent("other")
not_an_agent = "reporter"
