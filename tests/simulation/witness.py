"""Reads the disk beside the runtime: JSON by hand, no decoding or folding of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure.storage.memory import MemoryStore

__all__ = ["Entry", "Witness"]


class Entry:
    """One record as the disk has it, its body parsed."""

    __slots__ = ("body", "record", "task", "type")

    def __init__(self, record: Any) -> None:
        self.record = record
        self.type: str = record.type
        self.body: dict[str, Any] = json.loads(record.body)
        parts = record.stream.split("/")
        self.task = parts[1] if parts[0] == "task" else self.body.get("task", "")

    def __repr__(self) -> str:
        return f"{self.record.seq} {self.record.stream} {self.type} {self.body}"


class Witness:
    """Follows what is durable; every record is parsed once.

    `changed` lists seqs whose records were not where they had been seen before.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.entries: list[Entry] = []
        self.changed: list[int] = []
        self._requests: dict[str, str] = {}  # request id -> task
        self._registered: dict[tuple[str, int], dict[str, Any]] = {}  # task, op
        self._completed: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self.ended: dict[str, str] = {}  # task -> status

    def look(self) -> list[Entry]:
        """Everything durable so far."""
        log = self._store.log
        for record in log[len(self.entries) :]:
            entry = Entry(record)
            self.entries.append(entry)
            self._note(entry)
        return self.entries

    def compare(self) -> None:
        """Look whether everything seen is still there."""
        log = self._store.log
        for place, entry in enumerate(self.entries):
            if place >= len(log) or log[place] is not entry.record:
                self.changed.append(entry.record.seq)

    def since(self, place: int) -> Iterator[Entry]:
        """The entries after the first `place`."""
        return iter(self.look()[place:])

    def task_of_request(self, request_id: str) -> str | None:
        """The task whose registration of this request is durable."""
        self.look()
        return self._requests.get(request_id)

    def completed_calls(self, task: str, step: str) -> set[tuple[str, str]]:
        """Tool and arguments of every call of a step that is on record as done."""
        self.look()
        return self._completed.get((task, step), set())

    def row(self, task: str) -> dict[str, Any]:
        """The task's row; empty where there is none."""
        raw = self._store.rows.get("task", {}).get(task)
        return json.loads(raw) if raw else {}

    def _note(self, entry: Entry) -> None:
        body = entry.body
        if entry.type == "EffectRegistered":
            self._registered[entry.task, body["op"]] = body
            if body["kind"] == "tool" and body.get("reused") is None:
                self._requests[body["request_id"]] = entry.task
        elif entry.type == "EffectRecorded" and body["status"] == "completed":
            made = self._registered[entry.task, body["op"]]
            if made["kind"] == "tool":
                arguments = json.dumps(json.loads(made["arguments"]), sort_keys=True)
                key = entry.task, made["step"]
                done = self._completed.setdefault(key, set())
                done.add((made["name"], arguments))
        elif entry.type == "TaskLeft":
            self.ended[body["task"]] = body["status"]
