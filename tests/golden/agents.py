"""The agent whose tasks the golden stores hold; its definition must not change.

Each task looks at three things and then sends one mail, which a person approves. The
process dies as `look` is called with ``dies``, where the folder holds a file `armed`.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from perdure import Agent, Step, tool
from perdure.models import Scripted
from tests.actors.world import follow

__all__ = ["golden", "script_of"]

LOOKS = ("a", "b", "dies")


@tool(effect="read")
def look(what: str) -> str:
    """Look at something."""
    if what == "dies" and Path("armed").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return f"saw {what}"


@tool(effect="once", approval=True)
def send(text: str) -> str:
    """Send a mail."""
    with Path("sent").open("a") as file:
        file.write(f"{text}\n")
    return f"sent {text}"


def script_of(*looks: str) -> dict[str, Any]:
    """What a task's model does, step by step."""
    return {
        "look": [[("look", {"what": what})] for what in looks],
        "send": [[("send", {"text": "hello"})]],
    }


def whole(result: Any, _: Any) -> bool:
    """Accept what says that it is well."""
    return bool(result["ok"])


def golden() -> Agent:
    """The agent; a goal that ends with ``short`` looks at less."""

    def reply(request: Any) -> Any:
        text = json.dumps(request.messages)
        looks = LOOKS[:2] if "short" in text else LOOKS
        return follow(script_of(*looks))(request)

    return Agent(
        name="golden",
        instructions="Look, then send.",
        model=Scripted(reply),
        tools=[look, send],
        plan=[
            Step(id="look", goal="Look at them.", done="all are seen", accept=whole),
            Step(id="send", goal="Send a mail.", accept=whole),
        ],
    )
