"""The demo's parent: serves mail, starts the child, sees it killed, counts the rest."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..actors.errors import Misuse
from ..supervision.faults import Fault
from .audit import Journal, budget_ok, duplicates, report_digest, totals
from .child import COMPLETED, STOPPED, Order
from .data import build_database
from .mail import MailServer, kept
from .progress import Follower
from .workplace import Workplace

__all__ = ["HITS", "Job", "Missed", "kill_points", "kills_at", "kills_by_seed"]

HITS = 800  # fault points the scripted job passes at least; a test counts them
FIRST_DECISION = "effect.registered"  # hit once the first decision is flushed
PROGRESS = "recovery.progressed"
IN_VAIN = 3  # kills without progress in a row, then the next one waits for some
POLL = 0.02  # seconds between two looks at the log
CHILD_TIMEOUT = 240.0  # seconds one start may take
REACH_RECOVERY = Fault(point="effect.executed", subject="send_mail", action="kill")


class Missed(Exception):
    """The run is not what was asked for: a kill did not happen, or a child failed."""


Plan = Callable[[int, Journal], tuple[Fault, ...]]
"""Which faults the n-th start gets; none means that it runs to its end."""


class Job:
    """One run of the report job, with its kills.

    Args:
        folder: gets store, log, database, reports and mails; must be empty.
        say: told of the progress in plain lines.
    """

    def __init__(
        self,
        folder: Path,
        *,
        country: str,
        operator: str,
        model: str,
        say: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self.country = country
        self.operator = operator
        self.model = model
        self.say = say
        self.journal = Journal(folder / "tasks.db")
        self.kills = 0
        self.recoveries = 0
        self._complete: dict[str, int] = {}

    def run(self, plan: Plan, *, observe: bool = False) -> dict[str, Any]:
        """Run the job to its end; return what the outsider counted.

        Raises Missed where a planned kill did not happen, or a child died of something
        else.
        """
        began = time.monotonic()
        self._furnish()
        with MailServer(self.folder / "mails") as server:
            self.place = Workplace(
                folder=str(self.folder / "reports"),
                database=str(self.folder / "airports.db"),
                smtp_port=server.port,
                mail_store=str(self.folder / "mails"),
            )
            follower = Follower(self.folder / "log.jsonl", self.say)
            start = 0
            while True:
                self.recoveries += self.journal.status() == "unfinished"
                faults = plan(start, self.journal)
                if not self._start(start, faults, follower, observe=observe):
                    break
                start += 1
        return self._count(time.monotonic() - began)

    def hits(self) -> list[tuple[str, str]]:
        """The fault points that observed children passed, with their subjects."""
        found = []
        for path in sorted(self.folder.glob("hits.*")):
            for line in path.read_text().splitlines():
                point, _, subject = line.partition("\t")
                found.append((point, subject))
        return found

    def _furnish(self) -> None:
        (self.folder / "reports").mkdir()
        number = build_database(self.folder / "airports.db")
        self.say(f"{number} airports loaded into {self.folder / 'airports.db'}")

    def _start(
        self,
        start: int,
        faults: tuple[Fault, ...],
        follower: Follower,
        *,
        observe: bool,
    ) -> bool:
        """Start a child and wait for its end; True where it was killed as planned."""
        order = Order(
            store=str(self.folder / "tasks.db"),
            log=str(self.folder / "log.jsonl"),
            place=self.place,
            country=self.country,
            operator=self.operator,
            model=self.model,
            faults=faults,
            hits=str(self.folder / f"hits.{start}") if observe else "",
        )
        path = self.folder / "order.json"
        path.write_bytes(msgspec.json.encode(order))
        child = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
            [sys.executable, "-m", "perdure.demo.child", str(path)],
            stdin=subprocess.PIPE,  # it ends with us, however we end
            stdout=subprocess.DEVNULL,
        )
        try:
            code = _wait(child, follower)
        finally:
            child.kill()
            child.wait()
            if child.stdin is not None:
                child.stdin.close()
        follower.catch_up()
        if code == -signal.SIGKILL and faults:
            self.kills += 1
            self.say(f"killed ({_described(faults[0])}); starting again")
            self._complete.update(self.journal.steps())
            return True
        if code not in (COMPLETED, STOPPED):
            raise Missed(f"the runtime's process ended with status {code}")
        if faults:
            raise Missed(
                f"{_described(faults[0])} was not passed; killed {self.kills} times"
            )
        return False

    def _count(self, seconds: float) -> dict[str, Any]:
        events = self.journal.events()
        steps = self.journal.steps()
        before = self._complete
        return {
            "status": self.journal.status(),
            "model": self.model,
            "kills": self.kills,
            "recoveries": self.recoveries,
            "mails": sum(1 for _ in kept(self.folder / "mails")),
            "duplicate_effects": duplicates(self.place, events),
            "lost_steps": len(before.keys() - steps.keys()),
            "redone_steps": sum(
                self.journal.started_after(step, seq) for step, seq in before.items()
            ),
            "budget_ok": budget_ok(events),
            "spent": totals(events, "spent"),
            "spent_unknown": totals(events, "unknown"),
            "spent_recovery": totals(events, "recovery"),
            "report_sha256": report_digest(self.place),
            "steps": len(steps),
            "seconds": round(seconds, 3),
        }


def kills_by_seed(kills: int, seed: int) -> Plan:
    """Kill each of the first starts at a hit that the seed picks.

    Hits count from the first flushed decision; each start gets its share of the job's
    hits at most, so that every kill finds the task unfinished. After three kills in a
    row that undid all progress, the next one waits for some: a sixth would park the
    task, as it should.
    """
    chance = random.Random(seed)  # noqa: S311 - a schedule, not a secret
    share = HITS // (kills + 1)
    seen: list[int] = []

    def plan(start: int, journal: Journal) -> tuple[Fault, ...]:
        if start >= kills:
            return ()
        seen.append(journal.progress())
        after = FIRST_DECISION if start == 0 else None
        if len(seen) > IN_VAIN and seen[-1] == seen[-1 - IN_VAIN]:
            after = PROGRESS
        nth = chance.randint(1, share)
        return (Fault(point=None, nth=nth, action="kill", after=after),)

    return plan


def kills_at(point: str, hits: list[tuple[str, str]], **job: Any) -> Plan:
    """Kill once at a named point: at `send_mail`'s hit of it, else at its first.

    A point that only a recovery passes is reached by one kill before it. With `job` it
    is made sure that a recovery passes it. Raises Missed where nothing does.
    """
    at_mail = Fault(point=point, subject="send_mail", action="kill")
    first = Fault(point=point, action="kill")
    if (point, "send_mail") in hits:
        faults = [at_mail]
    elif any(passed == point for passed, _ in hits):
        faults = [first]
    else:
        if job and all(
            passed != point for passed, _ in rehearse((REACH_RECOVERY,), **job)
        ):
            raise Missed(f"{point} is not passed by the job; nothing was killed")
        faults = [REACH_RECOVERY, first]

    def plan(start: int, _journal: Journal) -> tuple[Fault, ...]:
        return (faults[start],) if start < len(faults) else ()

    return plan


def rehearse(kills: tuple[Fault, ...], **job: Any) -> list[tuple[str, str]]:
    """Run the scripted job once elsewhere and return the points that it passes."""

    def plan(start: int, _journal: Journal) -> tuple[Fault, ...]:
        return (kills[start],) if start < len(kills) else ()

    with tempfile.TemporaryDirectory(prefix="perdure-rehearsal-") as folder:
        rehearsal = Job(Path(folder), model="scripted", say=lambda _: None, **job)
        rehearsal.run(plan, observe=True)
        return rehearsal.hits()


def kill_points(**job: Any) -> list[str]:
    """Every fault point that the job passes, recovery included, by name."""
    hits = rehearse((), **job) + rehearse((REACH_RECOVERY,), **job)
    return sorted({point for point, _ in hits})


def empty_folder(wanted: str | None) -> Path:
    """The folder to work in: the one given, which must be empty, or a new one."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    folder = Path(wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise Misuse(
            f"--dir {wanted}: {error.strerror}; give a folder to write in"
        ) from None
    if occupied:
        raise Misuse(f"--dir {wanted} is not empty; give an empty folder or a new one")
    return folder


def _wait(child: subprocess.Popen[bytes], follower: Follower) -> int:
    until = time.monotonic() + CHILD_TIMEOUT
    while time.monotonic() < until:
        follower.catch_up()
        try:
            return child.wait(POLL)
        except subprocess.TimeoutExpired:
            continue
    raise Missed(f"the runtime's process did not end within {CHILD_TIMEOUT:g} s")


def _described(fault: Fault) -> str:
    where = fault.point or f"at the {fault.nth}. fault point"
    if fault.subject:
        where += f" of {fault.subject}"
    return where + (f" after {fault.after}" if fault.after else "")
