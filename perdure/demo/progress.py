"""The demo's live lines, read off the log file that the child writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Follower"]


class Follower:
    """Reads what is new in the log and says it in plain lines."""

    def __init__(self, log: Path, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._offset = 0
        self._names: dict[int, str] = {}
        self._spent = {"model_calls": 0, "tool_calls": 0, "tokens": 0}

    def catch_up(self) -> None:
        """Say what whole lines hold that were not there before."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a line that a kill tore
            if said := self._line(event):
                self._say(said)

    def _line(self, event: dict[str, Any]) -> str:
        match event["event"]:
            case "task.submitted":
                return f"task {event['task']}: {event['goal']}"
            case "recovery.began":
                return f"recovery: {event['cause']}"
            case "recovery.verified" if event["decided"]:
                decided = ", ".join(
                    f"{op} {how}" for op, how in event["decided"].items()
                )
                return f"recovery: open operations decided: {decided}"
            case "recovery.declared":
                verdict = (
                    "accepted" if event["accepted"] else f"refused: {event['why']}"
                )
                return f"recovery: declaration {verdict}"
            case "effect.registered":
                self._names[event["op"]] = event["name"]
            case "effect.recorded":
                return self._effect(event)
            case "account.settled" if event["book"] == "spent":
                for name in self._spent:
                    self._spent[name] += event["amounts"].get(name, 0)
            case "step.ended":
                return self._step(event)
            case "task.paused":
                why = f"{event['reason']}: {event['detail']}"
                return f"paused: {why}; goes on with: {event['ends_with']}"
            case "queue.parked":
                return f"parked: {event['reason']}; goes on with: {event['ends_with']}"
            case "answer.refused":
                return f"  answer of {event['step']} refused: {event['why']}"
            case "task.closed":
                return f"task {event['status']}"
        return ""

    def _effect(self, event: dict[str, Any]) -> str:
        name = self._names.get(event["op"], "?")
        if name == "model":
            failed = event["status"] != "completed" and event["by"] == "run"
            return f"  model call failed: {event['error']}" if failed else ""
        by = "" if event["by"] == "run" else f" by {event['by']}"
        why = f": {event['error']}" if event["status"] == "failed" else ""
        return f"  effect {name} (operation {event['op']}): {event['status']}{by}{why}"

    def _step(self, event: dict[str, Any]) -> str:
        spent = ", ".join(f"{n} {name}" for name, n in self._spent.items())
        return f"step {event['step']}: {event['status']} (spent so far: {spent})"
