"""What must hold of sub-tasks, read from the journal by hand."""

from __future__ import annotations

import json
from typing import Any

from tests.simulation.findings import Findings
from tests.simulation.witness import Entry, Witness

__all__ = ["DEPTH", "HANDS_ON", "check_parts"]

HANDS_ON = "delegate"  # the tool that hands work to a task of its own
DEPTH = 3  # sub-tasks of sub-tasks
ONCE = "once_at_most_once"


class Part:
    """One sub-task, from its parent's side."""

    def __init__(self, started: Entry) -> None:
        self.parent = started.task
        self.op: int = started.body["op"]
        self.amounts: dict[str, int] = started.body["amounts"]
        self.submitted = False
        self.status: str | None = None  # once it is closed


class Parts:
    """All of them by id, and who has ended."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.parts: dict[str, Part] = {}
        self.depths: dict[str, int] = {}
        self.closing: dict[str, dict[str, Any]] = {}  # task -> how it is to end
        self.over: set[str] = set()  # closed
        self.told: set[str] = set()  # sub-tasks whose end their parent has on record

    def follow(self, one: Entry) -> None:
        """Take in one record."""
        body = one.body
        match one.type:
            case "SubtaskStarted":
                self._check(ONCE, body["child"] not in self.parts, one)
                known = any(
                    (part.parent, part.op) == (one.task, body["op"])
                    for part in self.parts.values()
                )
                self._check(ONCE, not known, one)
                self.parts.setdefault(body["child"], Part(one))
            case "TaskSubmitted":
                self._submitted(one)
            case "TaskClosing":
                self.closing[one.task] = body
            case "TaskClosed":
                self._closed(one)
            case "SubtaskEnded":
                part = self.parts.get(body["child"])
                held = part is not None and body["child"] not in self.told
                self.told.add(body["child"])
                self._check(ONCE, held, one)
                # One whose agent is gone never began.
                status = "failed" if part is None else part.status or "failed"
                self._check("complete_after_acceptance", body["status"] == status, one)
            case "EffectRecorded" if body["by"] == "subtask":
                self._recorded(one)

    def _submitted(self, one: Entry) -> None:
        body = one.body
        parent = body["parent"]
        depth = self.depths[one.task] = self.depths.get(parent, -1) + 1
        held = body["depth"] == depth <= DEPTH
        self._check("no_grant_over_limit", held, one)
        if not parent:
            return
        part = self.parts.get(one.task)
        held = part is not None and not part.submitted
        if part is not None:
            held = held and (part.parent, part.op) == (parent, body["parent_op"])
            part.submitted = True
            self._check("money_conserved", body["budget"] == part.amounts, one)
        self._check(ONCE, held, one)
        self._check("complete_after_acceptance", parent not in self.over, one)

    def _closed(self, one: Entry) -> None:
        status = one.body["status"]
        self.over.add(one.task)
        if one.task in self.parts:
            self.parts[one.task].status = status
        alive = [
            name
            for name, part in self.parts.items()
            if part.parent == one.task and part.submitted and name not in self.over
        ]
        self._check("complete_after_acceptance", not alive, one)

    def _recorded(self, one: Entry) -> None:
        """What a call that handed work on gave is what the sub-task left."""
        body = one.body
        made = [
            name
            for name, part in self.parts.items()
            if (part.parent, part.op) == (one.task, body["op"])
        ]
        if not made:  # it could not be begun, and the call says why
            self._check("no_effect_lost", body["status"] == "failed", one)
            return
        (name,) = made
        end = self.closing.get(name, {})
        if self.parts[name].status == "completed":
            held = body["status"] == "completed" and body["result"] == end["output"]
        else:
            held = body["status"] == "failed" and name in body["error"]
        self._check("no_effect_lost", held, one)

    def _check(self, invariant: str, held: bool, one: Entry) -> None:
        self.findings.check(invariant, held, one.__repr__)


def check_parts(findings: Findings, entries: list[Entry], witness: Witness) -> None:
    """Begun once, within their parent's life, and their outcome is its result."""
    parts = Parts(findings)
    for one in entries:
        parts.follow(one)
    for name, part in parts.parts.items():
        findings.check(
            "live_after_faults",
            name in witness.ended or (not part.submitted and part.parent in parts.over),
            lambda n=name: f"{n} has not ended: {json.dumps(witness.row(n))}",
        )
