"""`simulate`: your agent and your tools under seeded crashes, many runs of them.

Each run draws from its seed the order of all that happens, and one to three crashes:
of an actor, of the whole process between two steps, or of the process right before or
behind a call of a tool or model. A tool returns before the process dies; hanging, slow
or racing code is not shown.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from ..actors.agent import Agent
from ..actors.budget.account import Budget
from ..actors.errors import Misuse
from ..errors import RuntimeFailed
from ..result import Result
from ..supervision import threads
from ..supervision.clock import VirtualClock
from ..supervision.faults import FaultPlan, installed
from ..supervision.simulation import SimulatedDispatcher
from .death import crash_one
from .trial import Job, Trial, completed
from .verdicts import wrongs

__all__ = ["SimulationFinding", "SimulationReport", "simulate"]

STEPS = 50_000  # of one run
CRASHES = (1, 2, 2, 3)  # of one run, drawn
REACHED = (0.0, 0.5, 1.0)  # what a kill leaves of the records that wait for a flush


class SimulationFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at. `seed` is the first that showed it, `times` how many."""

    tool: str
    what: str
    seed: int
    times: int

    def __str__(self) -> str:
        where = f"tool {self.tool}: " if self.tool else ""
        return f"{where}{self.what} (seed {self.seed}, {self.times} in all)"


class SimulationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs showed; `safe` where there is nothing to look at.

    Args:
        undisturbed: the result of the calm run.
        runs: how many seeds were run.
        crashes: how many crashes of actors, and `kills` of the process, befell them.
        findings: what went wrong, by tool where one can be named.
        trace: with ``trace=True``, each step and each crash of the runs, in order.
    """

    undisturbed: Result
    runs: int
    crashes: int
    kills: int
    findings: tuple[SimulationFinding, ...]
    trace: tuple[str, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether every run ended as the calm one did."""
        return not self.findings

    def __str__(self) -> str:
        head = f"{self.runs} runs, {self.crashes} crashes, {self.kills} kills: "
        if self.safe:
            return head + "every run ended as if nothing had happened"
        told = "\n".join(f"- {one}" for one in self.findings)
        replay = f"simulate(..., seeds=[{self.findings[0].seed}], trace=True)"
        return f"{head}look at\n{told}\nreplay the first with {replay}"


def simulate(
    agent: Agent,
    goal: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    reset: Callable[[], None] | None = None,
    world: Callable[[], Any] | None = None,
    seeds: Iterable[int] = range(50),
    trace: bool = False,
) -> SimulationReport:
    """Run a task once calmly, then once for each seed with the crashes of that seed.

    What is compared with the calm run: whether the task completes, its output, what
    each `once` and `idempotent` tool did, the budget, and the `world`. The model must
    answer alike each time, as `Scripted` does.

    Args:
        agent, goal, inputs, budget: as for `Runtime.submit`.
        reset: puts the outside world back to its beginning before each run.
        world: says what the outside world holds, comparable with ``==``; each run must
            leave what the calm one left.
        seeds: one run each; the same seed is the same run.
        trace: whether the report tells each step.

    Raises:
        Misuse: there are no seeds.
        AssertionError: the calm run does not complete.
    """
    chosen = list(seeds)
    if not chosen:
        raise Misuse("seeds= is empty: give at least one, as in seeds=range(50)")
    job = Job(
        agent=agent, goal=goal, inputs=inputs, budget=budget, reset=reset, world=world
    )
    calm = _Run(job, 0, ())
    calm.whole()
    undisturbed = completed(calm.trial)
    left = job.left()
    found: dict[tuple[str, str], list[int]] = {}
    total: Counter[str] = Counter()
    told: list[str] = []
    for seed in chosen:
        run = _Run(job, seed, _faults(seed, calm.steps, calm.calls))
        run.whole()
        total.update(run.befell)
        for key in wrongs(run.trial, run.stuck, calm.trial, left):
            found.setdefault(key, []).append(seed)
        if trace:
            told.extend([f"seed {seed}", *run.trace])
    return SimulationReport(
        undisturbed=undisturbed,
        runs=len(chosen),
        crashes=total["crash"],
        kills=total["kill"],
        findings=tuple(
            SimulationFinding(tool=tool, what=what, seed=seen[0], times=len(seen))
            for (tool, what), seen in found.items()
        ),
        trace=tuple(told),
    )


_What: TypeAlias = Literal["crash", "kill", "before call", "behind call"]


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A crash of an actor or a kill before step `at`, or a kill around call `at`.

    `which` in [0, 1) says which actor, `reached` what of the unflushed is on disk.
    """

    what: _What
    at: int
    which: float
    reached: float


def _faults(seed: int, steps: int, calls: int) -> tuple[_Fault, ...]:
    """The crashes of a seed, within a run of so many steps and calls."""
    chance = random.Random(f"simulate {seed}")  # noqa: S311 -- a schedule, no secret
    faults: list[_Fault] = []
    for _ in range(chance.choice(CRASHES)):
        what: _What = chance.choice(get_args(_What))
        within = calls if what.endswith("call") else steps
        faults.append(
            _Fault(
                what=what,
                at=chance.randint(1, max(1, within)),
                which=chance.random(),
                reached=chance.choice(REACHED),
            )
        )
    return tuple(faults)


class _Process(SimulatedDispatcher):
    """One process's steps; asks before each whether something is to break."""

    def __init__(
        self, seed: int, clock: VirtualClock, before: Callable[[], None]
    ) -> None:
        super().__init__(seed, clock)
        self._before = before
        self.started = 0  # calls of tools and models that were handed out

    def start_job(self, name: str, job: threads.Job) -> None:
        """Count it; it runs in a later step."""
        self.started += 1
        super().start_job(name, job)

    def _step(self) -> bool:
        self._before()
        return super()._step()


class _Run:
    """One run of the job. `stuck` says why it came to no stop."""

    def __init__(self, job: Job, seed: int, faults: tuple[_Fault, ...]) -> None:
        self.trial = Trial(job)
        self.steps = 0
        self.calls = 0
        self.befell: Counter[str] = Counter()
        self.trace: list[str] = []
        self.stuck = ""
        self._seed = seed
        self._left = list(faults)
        self._clock = VirtualClock()
        self._dead = False
        self._processes = 0
        self._started = 0  # by earlier processes

    def whole(self) -> None:
        """Run until the task stops, opening the store again after each death."""
        with installed(FaultPlan((), self._passed)):
            try:
                while not self._live():
                    self._tell()
            except (RuntimeError, TimeoutError) as error:
                self.stuck = str(error)
            self._tell()
            self._left.clear()
            if self.stuck:
                self.trial.die()
            else:
                self.trial.close()

    def _live(self) -> bool:
        """One process, to its end; whether nothing is left to do."""
        self._processes += 1
        self._dead = False
        seed = self._seed * 1000 + self._processes
        self._process = _Process(seed, self._clock, self._before_step)
        try:
            self.trial.open(self._process)
            self._process.run(until=lambda: self._dead or self._over())
        except (TimeoutError, RuntimeFailed):
            if not self._dead and not self._gave_up():
                raise
        if not self._dead and self._gave_up():
            self._kill(0.0)
        return not self._dead

    def _over(self) -> bool:
        return self._gave_up() or self.trial.stopped()

    def _gave_up(self) -> bool:
        """Whether the runtime itself has, as it does over its restart limit."""
        runtime = self.trial.runtime
        return runtime is not None and runtime.health()["state"] == "failed"

    def _before_step(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise RuntimeError(f"it went on and on, {STEPS} steps of it")
        for fault in list(self._left):
            match fault.what:
                case "behind call":
                    reached = self.calls
                case "before call":
                    reached = self._started + self._process.started
                case _:
                    reached = self.steps
            if reached < fault.at or self._dead:
                continue
            self._left.remove(fault)
            if fault.what == "crash":
                self.befell["crash"] += bool(crash_one(self._process, fault.which))
            else:
                self._kill(fault.reached)

    def _kill(self, reached: float) -> None:
        self._dead = True
        self._started += self._process.started
        self.befell["kill"] += 1
        self._process.trace.append("the process dies")
        self.trial.die(reached)

    def _passed(self, point: str, _subject: str) -> None:
        self.calls += point == "effect.executed"

    def _tell(self) -> None:
        self.trace.extend(self._process.trace)
