"""`crash_everywhere`: your agent and your tools, killed at every commit and every act.

It runs in this process, on a simulated dispatcher with a journal in memory: your tools
really run, and the "process" is lost with all that was not flushed. Only what a kill
does is shown; hanging, slow or racing code is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..actors.agent import Agent
from ..actors.budget.account import Budget
from ..result import Result
from ..supervision.faults import FaultPlan, installed
from ..supervision.simulation import SimulatedDispatcher
from .trial import NO_PROBE, UNLIKE, Job, Trial, completed

__all__ = ["CrashReport", "Finding", "crash_everywhere"]

POINTS = ("journal.flush.after", "effect.executed")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at. `kill` is the number of the kill that showed it first."""

    tool: str
    what: str
    kill: int
    times: int

    def __str__(self) -> str:
        where = f"tool {self.tool}: " if self.tool else ""
        return f"{where}{self.what} (kill {self.kill}, {self.times} in all)"


class CrashReport(msgspec.Struct, frozen=True, kw_only=True):
    """What killing everywhere showed; `safe` where there is nothing to look at.

    `undisturbed` is the result without a kill, `kills` how many runs had one.
    """

    undisturbed: Result
    kills: int
    findings: tuple[Finding, ...]

    @property
    def safe(self) -> bool:
        """Whether every killed run ended as the undisturbed one did."""
        return not self.findings

    def __str__(self) -> str:
        head = f"{self.kills} kills: "
        if self.safe:
            return head + "every run ended as if nothing had happened"
        return "\n".join([head + "look at", *(f"- {one}" for one in self.findings)])


def crash_everywhere(
    agent: Agent,
    goal: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    reset: Callable[[], None] | None = None,
    world: Callable[[], Any] | None = None,
    every: int = 1,
    seed: int = 0,
) -> CrashReport:
    """Run a task once undisturbed, then once for each place where a kill may fall.

    A kill falls behind each commit, and behind each call of a tool or model before its
    outcome is recorded. The runtime is opened again and the task runs to its stop.

    Args:
        agent, goal, inputs, budget: as for `Runtime.submit`.
        reset: puts the outside world back to its beginning before each run.
        world: says what the outside world holds, comparable with ``==``; each killed
            run must leave what the undisturbed one left.
        every: only every n-th place.
        seed: of the schedule.

    Raises AssertionError when the undisturbed run does not complete.
    """
    job = Job(
        agent=agent, goal=goal, inputs=inputs, budget=budget, reset=reset, world=world
    )
    undisturbed = _Run(job, seed).until(None)
    left = job.left()
    found: dict[tuple[str, str], list[int]] = {}
    kills = 0
    for place in range(1, undisturbed.passed + 1, every):
        run = _Run(job, seed).until(place)
        kills += 1
        for key in run.faults(undisturbed):
            found.setdefault(key, []).append(place)
        if run.result.status == "completed" and job.left() != left:
            found.setdefault((run.killed_in, UNLIKE), []).append(place)
    findings = tuple(
        Finding(tool=tool, what=what, kill=places[0], times=len(places))
        for (tool, what), places in found.items()
    )
    return CrashReport(undisturbed=undisturbed.result, kills=kills, findings=findings)


class _Run:
    """One run of the task, killed at most once."""

    result: Result

    def __init__(self, job: Job, seed: int) -> None:
        self.passed = 0
        self.killed_in = ""
        self._trial = Trial(job)
        self._seed = seed

    def until(self, place: int | None) -> _Run:
        """Run to the stop; with a place, lose the process there and go on.

        Raises AssertionError where it was not killed and does not complete.
        """
        trial = self._trial
        dispatcher = SimulatedDispatcher(self._seed)
        killed = False

        def observe(point: str, subject: str) -> None:
            nonlocal killed
            if point in POINTS:
                self.passed += 1
                if self.passed == place:
                    killed = True
                    named = subject in trial.job.agent.tools
                    self.killed_in = subject if named else ""

        with installed(FaultPlan((), observe)):
            trial.open(dispatcher)
            dispatcher.run(until=lambda: killed or trial.stopped())
        if killed:
            trial.die()
            again = SimulatedDispatcher(self._seed + 1, clock=dispatcher.clock)
            trial.open(again)
            again.run(until=trial.stopped)
        trial.close()
        result = trial.final if killed else completed(trial)
        assert result is not None
        self.result = result
        return self

    def faults(self, undisturbed: _Run) -> list[tuple[str, str]]:
        """What this run did that the undisturbed one did not, by tool."""
        found: list[tuple[str, str]] = []
        if self.result.status != "completed":
            what = f"the task stood at {self.result.status}: {self.result.reason}"
            if self.result.reason == "unknown_effect":
                what = NO_PROBE
            found.append((self.killed_in, what))
        elif self.result.output != undisturbed.result.output:
            found.append((self.killed_in, "the task's output is another one"))
        return found
