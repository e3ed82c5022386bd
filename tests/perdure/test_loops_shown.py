"""What a person sees of a task that was stopped for going round in circles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure import Agent, Runtime, tool
from perdure.testing import in_turn


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return "nothing new in this file"


def test_show_and_log_tell_what_came_round_and_where_it_is_seen(tmp_path: Path) -> None:
    # A20 B53
    store = tmp_path / "tasks.db"
    model = in_turn(*[("look", {"path": "todo.txt"})] * 9)
    agent = Agent(name="l", instructions="Look.", model=model, tools=[look])
    with Runtime(store, agents=[agent]) as runtime:
        task = runtime.submit("l", goal="Find out what is new")
        assert task.wait(timeout=30).reason == "loop"

    def say(*words: str) -> str:
        command = [sys.executable, "-m", "perdure", *words, "--store", str(store)]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout

    shown = say("show", task.id)
    assert "repeat: look did the same 3 times over; look was called once more" in shown
    assert "(operations 4, 6, 8, 10)" in shown
    assert say("log", task.id).count("guard.found") == 3
