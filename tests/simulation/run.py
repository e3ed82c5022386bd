"""Runs one schedule to its end, and says what was wrong with it."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from perdure import Baseline, Budget, Runtime
from perdure.actors.budget.actor import Account
from perdure.actors.budget.pool import Pool
from perdure.actors.events import Alerted, PoolOpened
from perdure.storage.memory import MemoryBackend, MemoryStore
from perdure.supervision import VirtualClock
from perdure.supervision.faults import InjectedFault, install, uninstall
from perdure.testing.death import crash_one, cut_off
from tests.simulation.callers import Callers
from tests.simulation.calm import Calm
from tests.simulation.checker import check_all
from tests.simulation.ears import BACKOFF_FIRST, BACKOFF_LIMIT, Ears
from tests.simulation.findings import Findings
from tests.simulation.outside import LIMIT, Outside
from tests.simulation.people import People
from tests.simulation.process import Died, Log, Plan, Simulation, Worker
from tests.simulation.schedule import (
    CloseProcess,
    CrashActor,
    JumpClock,
    KillAt,
    KillProcess,
    Order,
    RaiseAt,
    Schedule,
)
from tests.simulation.script import agents_of
from tests.simulation.witness import Witness

__all__ = ["Run", "Verdict", "run"]

STEPS = 30_000


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run. `crashes` counts those of actors and of the process."""

    seed: int
    crashes: int
    checks: dict[str, int]
    wrong: list[tuple[str, str]]
    digest: str  # of the trace
    fired: int


class Process:
    """One life of the runtime."""

    def __init__(self) -> None:
        self.dead = True
        self.sim: Simulation = None  # type: ignore[assignment]
        self.runtime: Runtime = None  # type: ignore[assignment]
        self.log: Log = None  # type: ignore[assignment]


class Run:
    """One schedule under way."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.findings = Findings()
        self.store = MemoryStore()
        self.witness = Witness(self.store)
        self.clock = VirtualClock()
        self.ears = Ears(self.findings, self.store, self.clock)
        self.outside = Outside(
            self.findings, self.witness, self.clock.monotonic, schedule.lags
        )
        self.outside.sleep_before = self.outside.sleep_after = self._sleep
        self.agents = agents_of(self.outside, rules=schedule.rules)
        self.callers = Callers(self)
        self.people = People(self)
        self.process = Process()
        self.processes = 0
        self.step = 0
        self.calm = False
        self.crashes = 0
        self.fired: set[int] = set()
        self.worker: Worker | None = None
        self.jobs = 0
        self.hits: Counter[str] = Counter()
        self.trace: list[str] = []
        self.tasks: dict[int, str] = {}  # number -> id
        self.waiting: list[Order] = []
        self.straggler: Any = None
        self.zombies: dict[str, Any] = {}  # instances of crashed actors, by name

    # ── the process ──────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Start the next process on the store."""
        self.processes += 1
        process = self.process = Process()
        self.ears.reset()
        self.zombies.clear()
        process.log = Log(self.ears.hear)
        process.sim = Simulation(
            self.schedule.seed * 1000 + self.processes, self.clock, self
        )
        process.dead = False
        with suppress(InjectedFault, Died):
            process.runtime = Runtime(
                MemoryBackend(self.store),
                agents=self.agents,
                log=process.log,
                dispatcher=process.sim,
                pool=Budget(model_calls=420, tool_calls=300),
                retention=None,  # its own tests kill it; here it would move all seeds
                baseline=Baseline(
                    id="simulation",
                    request_limit=LIMIT,
                    active_tasks=self.schedule.active,
                    snapshot_events=self.schedule.snapshot_events,
                    backoff_first=BACKOFF_FIRST,
                    backoff_limit=BACKOFF_LIMIT,
                ),
            )
            return
        if not process.dead:
            self.die(0.0)

    def die(self, reached: float, *, straggling: bool = False) -> None:
        """End the process here and now, in whatever turn it is."""
        process = self.process
        process.dead = True
        process.log.hear = None
        process.sim.halt()
        self.crashes += 1
        self.witness.look()
        self.straggler = cut_off(
            self.store, process.runtime, reached, straggling=straggling
        )
        self.trace.append(f"died at step {self.step}")

    def bury(self) -> None:
        """End the threads of the dead, and see that nothing durable is gone."""
        process = self.process
        process.sim.end_workers()
        self.trace.extend(process.sim.trace)
        self.witness.compare()

    def close(self) -> None:
        """Close the process as a host would."""
        process = self.process
        try:
            process.runtime.close()
        except BaseException as error:
            if not self.over(error):
                self.note("live_after_faults", f"close raised {error!r}")
        if not process.dead:
            process.dead = True
            process.log.hear = None
            process.sim.halt()
            if self.store.owner is not None:
                self.store.cut()
        self.bury()

    def over(self, error: BaseException) -> bool:
        """Whether what a call raised is explained by the end of the process."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        return self.process.dead or isinstance(error, InjectedFault)

    # ── faults ───────────────────────────────────────────────────────────────────

    def before_step(self) -> None:
        """Called before each step of the simulation: count it, and break something."""
        self.step += 1
        if self.step > STEPS:
            msg = f"no end after {STEPS} steps"
            raise RuntimeError(msg)
        self._zombies_act()
        if self.calm:
            return
        for place, fault in enumerate(self.schedule.faults):
            if place in self.fired or getattr(fault, "step", self.step + 1) > self.step:
                continue
            self.fired.add(place)
            match fault:
                case CrashActor(which=which):
                    crashed = crash_one(self.process.sim, which)
                    self.crashes += bool(crashed)
                    self.zombies.update(crashed)
                case KillProcess(reached=reached, straggling=straggling):
                    self.die(reached, straggling=straggling)
                case JumpClock(seconds=seconds):
                    self.clock.set_time(self.clock.time() + seconds)
                    self.process.sim.trace.append(f"clock set by {seconds:g} s")
                case CloseProcess():
                    self.waiting.insert(0, Order(step=0, what="close", task=0))

    def _zombies_act(self) -> None:
        """A turn that hung when its actor was given up runs on, beside the next one."""
        for name in self.ears.woken:
            zombie = self.zombies.pop(name, None)
            event: Any = None
            if isinstance(zombie, Account):
                event = Alerted(dimension="zombie", granted=0, available=0)
            elif isinstance(zombie, Pool):
                event = PoolOpened(limits=zombie.state.limits)
            if event is not None:
                before, self.calm = self.calm, True
                with suppress(BaseException):
                    zombie.append(event)
                self.calm = before
        self.ears.woken.clear()

    def passed(self, point: str) -> None:
        """Called at each hit of a fault point."""
        if self.calm:
            return
        self.hits[point] += 1
        for place, fault in enumerate(self.schedule.faults):
            match fault:
                case RaiseAt(point=wanted, nth=nth) | KillAt(point=wanted, nth=nth):
                    if place in self.fired or (wanted, nth) != (
                        point,
                        self.hits[point],
                    ):
                        continue
                case _:
                    continue
            self.fired.add(place)
            self.process.sim.trace.append(f"fault at {point}, hit {nth}")
            if isinstance(fault, KillAt):
                self.die(fault.reached)
                raise Died
            self.crashes += 1
            msg = f"injected at {point}"
            raise InjectedFault(msg)

    def nap(self, name: str) -> tuple[float, float] | None:
        """How long the tool of the next job sleeps, if it does."""
        if self.calm or name not in ("look", "write", "send", "erase"):
            return None
        self.jobs += 1
        for slow in self.schedule.slow:
            if slow.job == self.jobs:
                return slow.before, slow.after
        return None

    def _sleep(self) -> None:
        if self.process.dead:
            raise Died
        if self.worker is not None:
            self.worker.sleep()

    def note(self, invariant: str, text: str) -> None:
        """Note a violation."""
        self.findings.check(invariant, False, lambda: text)

    # ── the course of a run ──────────────────────────────────────────────────────

    def whole(self) -> Verdict:
        """Run it; check it."""
        install(Plan(self))
        try:
            self._storm()
            Calm(self).last()
        except RuntimeError as error:
            self.note("live_after_faults", repr(error))
        finally:
            self.calm = True
            if not self.process.dead:
                self.close()
            uninstall()
        check_all(self.findings, self.witness, self.outside, self.store, self.schedule)
        return Verdict(
            seed=self.schedule.seed,
            crashes=self.crashes,
            checks=dict(self.findings.checks),
            wrong=self.findings.wrong,
            digest=hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16],
            fired=len(self.fired),
        )

    def _storm(self) -> None:
        schedule = self.schedule
        self.waiting = [
            *(
                Order(step=spec.step, what="submit", task=number)
                for number, spec in enumerate(schedule.tasks)
            ),
            *schedule.orders,
        ]
        self.waiting.sort(key=lambda order: order.step)
        self.open()
        while self.step < schedule.storm:
            if self.live_on() or self._order_due() or self.people.act():
                continue
            if self.all_ended() and not self.waiting:
                break
            if not self.process.sim.step() and not self.process.dead:
                break
        for order in self.waiting:  # that nobody came to
            if order.what == "submit":
                self.live_on()
                self.callers.call("submit", order.task)

    def live_on(self) -> bool:
        """Whether the process had to be opened anew."""
        process = self.process
        if not process.dead and process.runtime._failed is None:
            return False
        if not process.dead:
            self.die(0.0)
        self.bury()
        self.people.act_while_down()
        if not self.calm and self.processes <= len(self.schedule.away):
            self.clock.advance(self.schedule.away[self.processes - 1])
        self.open()
        if self.straggler is not None and not self.process.dead:
            old, self.straggler = self.straggler, None
            before, self.calm = self.calm, True  # its fault points are nobody's
            with suppress(BaseException):
                old.commit_batch()
            self.calm = before
        return True

    def _order_due(self) -> bool:
        if not self.waiting or self.waiting[0].step > self.step:
            return False
        order = self.waiting.pop(0)
        if order.what in ("submit", "close"):
            self.callers.call(order.what, order.task)
        elif order.task in self.tasks:
            task = self.tasks[order.task]
            if order.part is not None:
                parts = self.witness.parts(task)
                if not parts:
                    return True
                task = parts[order.part % len(parts)]
            self.callers.call(order.what, order.task, task)
        return True

    def all_ended(self) -> bool:
        """Whether every task of the schedule has left, and every sub-task."""
        self.witness.look()
        begun = len(self.tasks) == len(self.schedule.tasks)
        known = {*self.tasks.values(), *self.witness.parents}
        return begun and known <= set(self.witness.ended)


def run(schedule: Schedule) -> tuple[Verdict, list[str]]:
    """Run a schedule; return what came of it, and the trace."""
    one = Run(schedule)
    verdict = one.whole()
    return verdict, one.trace
