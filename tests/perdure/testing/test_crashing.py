"""crash_everywhere finds the tools that mind a kill, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, DidNotHappen, Happened, tool
from perdure.actors.tool import Tool
from perdure.models import ModelReply, ModelRequest, ToolCall
from perdure.testing import Scripted, crash_everywhere


def script(request: ModelRequest) -> ModelReply:
    """Call the one tool, then end; the declaration comes from the record."""
    last = request.messages[-1]["content"]
    seen = any(message["role"] == "tool" for message in request.messages)
    if seen or '"tool":"act"' in last:
        return ModelReply(content='{"done": true}')
    call = ToolCall(id="1", name="act", arguments='{"what": "x"}')
    return ModelReply(tool_calls=(call,))


def agent(act: Tool) -> Agent:
    return Agent(
        name="a",
        instructions="Act once.",
        model=Scripted(script),
        tools=[act],
        recovery="rules",
    )


def report(file: Path, act: Tool) -> Any:
    return crash_everywhere(
        agent(act),
        "act",
        reset=lambda: file.write_text(""),
        world=lambda: len(file.read_text().splitlines()),
    )


def test_a_once_tool_with_a_probe_minds_no_kill(tmp_path: Path) -> None:
    file = tmp_path / "sent"

    def was_sent(effect: Any) -> Any:
        return (
            Happened("ok") if effect.request_id in file.read_text() else DidNotHappen()
        )

    @tool(effect="once", probe=was_sent, name="act")
    def send(what: str, *, request_id: str) -> str:
        """Send."""
        file.write_text(f"{file.read_text()}{request_id}\n")
        return "ok"

    found = report(file, send)
    assert found.safe, str(found)
    assert found.kills > 10
    assert "as if nothing had happened" in str(found)


def test_a_tool_that_only_says_it_is_idempotent_is_named(tmp_path: Path) -> None:
    file = tmp_path / "log"

    @tool(effect="idempotent", name="act")
    def append(what: str) -> str:
        """Append a line, and one more each time."""
        file.write_text(f"{file.read_text()}{what}\n")
        return "ok"

    found = report(file, append)
    assert not found.safe
    assert {one.tool for one in found.findings} == {"act"}
    assert "not safe" in str(found)


def test_a_once_tool_without_a_probe_is_told_to_get_one(tmp_path: Path) -> None:
    file = tmp_path / "sent"

    @tool(name="act")
    def send(what: str) -> str:
        """Send."""
        file.write_text(f"{file.read_text()}{what}\n")
        return "ok"

    found = report(file, send)
    assert any("give it a probe" in one.what for one in found.findings)
    assert all("not safe" not in one.what for one in found.findings)


def test_an_agent_that_does_not_complete_is_refused(tmp_path: Path) -> None:
    @tool(effect="read", name="act")
    def broken(what: str) -> str:
        """Raise."""
        raise ValueError(what)

    refusing = Agent(
        name="a",
        instructions="Act.",
        model=Scripted(script),
        tools=[broken],
        accept=lambda result, view: "never",
    )
    with pytest.raises(AssertionError, match="without a crash"):
        crash_everywhere(refusing, "act")
