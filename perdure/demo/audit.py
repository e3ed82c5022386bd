"""What the demo's parent counts: plain SQL over the journal, files and kept mails.

Nothing here asks the runtime or folds with its code: the figures are an outsider's. The
fields that a record leaves out, as they have their defaults, are filled in.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from ..events import fields_of
from .mail import kept
from .workplace import REPORTS, Workplace

__all__ = ["Event", "Journal", "budget_ok", "duplicates", "report_digest", "totals"]


class Event(msgspec.Struct, frozen=True):
    """One row of the journal's `events` view, its body decoded."""

    seq: int
    stream: str
    type: str
    body: dict[str, Any]


class Journal:
    """The journal of a store that nobody owns at the moment, or that somebody does."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def events(self) -> list[Event]:
        """All flushed events in order; none where there is no store yet."""
        if not self._store.exists():
            return []
        where = f"{self._store.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(where, uri=True)) as database:
            if not database.execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'events'"
            ).fetchone():
                return []
            rows = database.execute(
                "SELECT seq, stream, type, body FROM events ORDER BY seq"
            ).fetchall()
        return [
            Event(seq, stream, kind, fields_of(kind, body))
            for seq, stream, kind, body in rows
        ]

    def status(self) -> str:
        """``none``, ``unfinished``, or the status that the last stop gave."""
        status = "none"
        for event in self.events():
            match event.type:
                case "TaskSubmitted" | "TaskResumed" | "TaskWoken":
                    status = "unfinished"
                case "TaskPaused":
                    status = "paused"
                case "TaskParked":
                    status = event.body["status"]
                case "TaskClosed":
                    status = event.body["status"]
        return status

    def steps(self) -> dict[str, int]:
        """The steps that are complete, with the seq of the event that says so."""
        return {
            event.body["step"]: event.seq
            for event in self.events()
            if event.type == "StepEnded" and event.body["status"] == "completed"
        }

    def started_after(self, step: str, seq: int) -> bool:
        """Whether a step was started after a seq."""
        return any(
            event.type == "StepStarted"
            and event.body["step"] == step
            and event.seq > seq
            for event in self.events()
        )

    def progress(self) -> int:
        """How many recoveries got further, by the runtime's own marks."""
        return sum(event.type == "ProgressMade" for event in self.events())


def totals(events: list[Event], book: str) -> dict[str, Any]:
    """What one book of the accounts holds, from the settlements."""
    found: Counter[str] = Counter()
    for event in events:
        if event.type == "Settled" and event.body["book"] == book:
            found.update(event.body["amounts"])
    return {
        "model_calls": found["model_calls"],
        "tool_calls": {
            name.removeprefix("tool:"): number
            for name, number in sorted(found.items())
            if name.startswith("tool:") and number
        },
        "output_tokens": found["output_tokens"],
    }


def budget_ok(events: list[Event]) -> bool:
    """Whether money was conserved at every event, and equals what operations used."""
    used = {
        (event.body["op"], event.body["attempt"]): event.body.get("usage", {})
        for event in events
        if event.type == "EffectRecorded"
    }
    granted: Counter[str] = Counter()
    available: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    aside: dict[tuple[int, int], dict[str, int]] = {}
    settled: set[tuple[int, int]] = set()
    for event in events:
        body = event.body
        key = (body.get("op", 0), body.get("attempt", 0))
        match event.type:
            case "GrantTaken":
                granted.update(body["amounts"])
                available.update(body["amounts"])
            case "Reserved":
                if key in aside or key in settled:
                    return False
                aside[key] = body["amounts"]
                available.subtract(body["amounts"])
            case "Settled":
                amounts, book = body["amounts"], body["book"]
                if key not in aside or key in settled:
                    return False
                if book in ("spent", "recovery") and amounts != used.get(key):
                    return False
                if book == "unknown" and amounts != aside[key]:
                    return False
                settled.add(key)
                available.update(aside.pop(key))
                for paid in (amounts, *body["beside"].values()):
                    available.subtract(paid)
                    spent.update(paid)
            case "AccountClosed":
                left = {name: available[name] for name in granted}
                if aside or body["returned"] != left:
                    return False
            case _:
                continue
        held = Counter[str]()
        for amounts in aside.values():
            held.update(amounts)
        for name, number in granted.items():
            if number != available[name] + held[name] + spent[name]:
                return False
    return True


def duplicates(place: Workplace, events: list[Event]) -> int:
    """Effects that the world holds once too often.

    Kept messages beyond one per Message-ID, files beyond the two reports, and reports
    that differ from what the newest recorded effect says of them.
    """
    messages = Counter(str(message["Message-ID"]) for message in kept(place.mail_store))
    extra = sum(number - 1 for number in messages.values())
    found = {path.name for path in Path(place.folder).iterdir()}
    extra += len(found - set(REPORTS))
    for name, digest in _written(events):
        path = place.report(name)
        extra += path.exists() and _sha256(path) != digest
    return extra


def report_digest(place: Workplace) -> str:
    """One SHA-256 over both reports, by name; of nothing where one is missing."""
    whole = hashlib.sha256()
    for name in REPORTS:
        path = place.report(name)
        whole.update(f"{name}\0".encode())
        whole.update(path.read_bytes() if path.exists() else b"")
    return whole.hexdigest()


def _written(events: list[Event]) -> Iterator[tuple[str, str]]:
    """Name and digest of each report, as the newest completed effect has them."""
    names = {
        event.body["op"]: event.body["name"]
        for event in events
        if event.type == "EffectRegistered"
    }
    newest: dict[str, str] = {}
    for event in events:
        if (
            event.type == "EffectRecorded"
            and event.body["status"] == "completed"
            and names.get(event.body["op"]) == "write_report"
        ):
            result = json.loads(event.body["result"])
            newest[result["file"]] = result["sha256"]
    yield from newest.items()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
