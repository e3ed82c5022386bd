"""Reads the disk beside the runtime: no folding of ours, defaults filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure.events import fields_of
from perdure.storage.memory import MemoryStore

__all__ = ["Entry", "Witness"]


class Entry:
    """One record as the disk has it, its body parsed."""

    __slots__ = ("body", "record", "task", "type")

    def __init__(self, record: Any) -> None:
        self.record = record
        self.type: str = record.type
        self.body: dict[str, Any] = fields_of(record.type, record.body)
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
        self._answered: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._cited: dict[str, set[str]] = {}  # request id -> approvals
        self._asked: dict[str, tuple[str, str]] = {}  # approval -> tool, arguments
        self.verdicts: dict[str, list[dict[str, Any]]] = {}  # approval -> its answers
        self.due: dict[tuple[str, int], float] = {}  # task, op -> its time, not over
        self.parents: dict[str, str] = {}  # task -> its parent, or nothing; as queued
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

    def approved(self, request_id: str, tool: str, arguments: dict[str, Any]) -> bool:
        """Whether an approval of exactly this is durable, cited, and still stands."""
        self.look()
        return any(
            self._asked.get(one) == (tool, _text(arguments))
            and self.verdicts.get(one, [{}])[-1].get("approved") is True
            for one in self._cited.get(request_id, ())
        )

    def answered_calls(self, task: str, step: str) -> set[tuple[str, str]]:
        """Tool and arguments of the calls of a step that were done, or rejected."""
        self.look()
        return self._answered.get((task, step), set())

    def parts(self, task: str) -> list[str]:
        """The sub-tasks of a task, and theirs, in the order of their begin."""
        self.look()
        found = [task]
        for name, parent in self.parents.items():
            if parent in found:
                found.append(name)
        return found[1:]

    def row(self, task: str) -> dict[str, Any]:
        """The task's row; empty where there is none."""
        raw = self._store.rows.get("task", {}).get(task)
        return json.loads(raw) if raw else {}

    def _note(self, entry: Entry) -> None:
        body = entry.body
        match entry.type:
            case "EffectRegistered":
                self._registered[entry.task, body["op"]] = body
                if body["kind"] == "tool" and body.get("reused") is None:
                    request = f"perdure-{body['key']}"
                    self._requests[request] = entry.task
                    self._cited.setdefault(request, set()).add(body.get("approval", ""))
            case "EffectRecorded" if (
                body["status"] == "completed" or body["by"] == "person"
            ):
                self._note_answer(entry.task, body["op"])
            case "ApprovalAsked":
                arguments = _text(json.loads(body["arguments"]))
                self._asked[body["approval"]] = body["tool"], arguments
            case "ApprovalAnswered":
                self.verdicts.setdefault(body["approval"], []).append(body)
            case "TimerSet":
                self.due[entry.task, body["op"]] = body["at"]
            case "TimerFired":
                self.due.pop((entry.task, body["op"]), None)
            case "TaskQueued":
                self.parents[entry.task] = body["parent"]
                if body["not_before"] is not None:
                    self.due[entry.task, 0] = body["not_before"]
            case "TaskActivated":
                self.due.pop((entry.task, 0), None)
            case "TaskLeft":
                self.ended[entry.task] = body["status"]
                for key in [key for key in self.due if key[0] == entry.task]:
                    del self.due[key]

    def _note_answer(self, task: str, op: int) -> None:
        made = self._registered[task, op]
        if made["kind"] == "tool":
            arguments = json.loads(made["arguments"] or "{}")
            done = self._answered.setdefault((task, made["step"]), set())
            done.add((made["name"], _text(arguments)))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
