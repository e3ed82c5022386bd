"""Kill the worker at random moments, start it again, and ask the service what came."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from perdure.demo.audit import Journal
from tests.crash.children import Wrong, was_killed

from .service import Reached, Service, asked
from .worker import Job, expected, run

__all__ = ["Found", "killed_run"]

KILLS_A_RUN = 4
SOONEST, LATEST = 0.1, 1.1  # seconds from a start to its kill


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one run, or several together, came to."""

    effects: int = 0
    once_twice: int = 0
    idempotent_other_key: int = 0
    lost: int = 0
    unknown_resolved: int = 0
    waiting: int = 0
    kills: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in self.__struct_fields__
            }
        )


def killed_run(
    service: Service, name: str, *, seed: int, kills: int, probes: bool
) -> Found:
    """Run the work with so many kills at most; each start may end before its own."""
    chance = random.Random(f"{seed} {name}")
    with tempfile.TemporaryDirectory(prefix="perdure-double-") as folder:
        job = Job(
            place=folder,
            name=name,
            web=service.web,
            mail=service.mail,
            probes=probes,
        )
        killed = 0

        def killed_within(seconds: float) -> bool:
            return was_killed(run, job, after=seconds)

        while killed < kills and killed_within(chance.uniform(SOONEST, LATEST)):
            killed += 1
        if killed == kills and was_killed(run, job):
            raise Wrong("somebody else killed the worker")
        found = asked(service.web, "GET", f"/reached/{quote(name)}/")
        reached = [(kind, what, key) for kind, what, key in found["reached"]]
        counted = judged(name, reached)
        noted = Path(folder) / "waiting"
        waited = set(noted.read_text().split()) if noted.exists() else set()
        return msgspec.structs.replace(
            counted,
            unknown_resolved=_resolved(Path(folder) / "tasks.db"),
            waiting=len(waited),
            kills=killed,
        )


def judged(name: str, reached: list[Reached]) -> Found:
    """Count what reached the service against what was to reach it."""
    times = Counter((kind, what) for kind, what, _ in reached)
    keys: dict[str, set[str]] = {}
    for kind, what, key in reached:
        if kind == "idempotent":
            keys.setdefault(what, set()).add(key)
    return Found(
        effects=sum(kind != "read" for kind, _ in times),
        once_twice=sum(kind == "once" and n > 1 for (kind, _), n in times.items()),
        idempotent_other_key=sum(len(found) > 1 for found in keys.values()),
        lost=len(expected(name) - set(times)),
    )


def _resolved(store: Path) -> int:
    """The attempts that were unknown and that somebody or something decided."""
    unknown: set[tuple[Any, ...]] = set()
    resolved: set[tuple[Any, ...]] = set()
    classes: dict[tuple[Any, ...], str] = {}
    for event in Journal(store).events():
        op = event.stream, event.body.get("op")
        if event.type == "EffectRegistered":
            classes[op] = event.body["effect"]
            resolved |= {one for one in unknown if one[:2] == op}
        elif event.type == "EffectRecorded" and classes[op] != "read":
            attempt = (*op, event.body["attempt"])
            if event.body["status"] == "unknown":
                unknown.add(attempt)
            elif attempt in unknown:
                resolved.add(attempt)
    return len(resolved)
