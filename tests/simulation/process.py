"""A simulated process: the runtime on seeded steps, with threads that can be slow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.supervision import SimulatedDispatcher, VirtualClock
from perdure.supervision.faults import FaultPlan, InjectedFault
from perdure.supervision.promise import Promise

if TYPE_CHECKING:
    from tests.simulation.run import Run

__all__ = ["Died", "Log", "Plan", "Simulation"]


class Died(BaseException):
    """The process that this code ran in is dead."""


class Log:
    """One process's log, as a structlog logger would be handed in; mute once it died.

    `hear(event, fields)` is told of every line.
    """

    def __init__(self, hear: Callable[[str, dict[str, Any]], None]) -> None:
        self.hear: Callable[[str, dict[str, Any]], None] | None = hear

    def bind(self, **fields: Any) -> Log:
        """Nothing is bound."""
        return self

    def log(self, level: int, event: str, **fields: Any) -> None:
        """Hand the line on."""
        if self.hear is not None:
            self.hear(event, fields)


class Plan(FaultPlan):
    """Hands every hit of a fault point to the run."""

    def __init__(self, run: Run) -> None:
        super().__init__(())
        self._run = run

    def hit(self, point: str, subject: str) -> None:
        """Raises InjectedFault or Died where the schedule says so."""
        if self._run.process.dead:
            raise Died
        self._run.passed(point)


class Simulation(SimulatedDispatcher):
    """Asks the run before each step; a tool's job may sleep on a thread of its own.

    Only one thread runs at any time: a job that sleeps hands the baton back, and a
    timer hands it over again, so that the order is the seed's alone.
    """

    def __init__(self, seed: int, clock: VirtualClock, run: Run) -> None:
        super().__init__(seed, clock)
        self.driver = run
        self.workers: list[Worker] = []

    def _step(self) -> bool:
        self.driver.before_step()
        return super()._step()

    def _run_job(self, name: str, job: Callable[[], None]) -> None:
        nap = self.driver.nap(name)
        if nap is None:
            super()._run_job(name, job)
            return
        worker = Worker(self, nap, lambda: super(Simulation, self)._run_job(name, job))
        self.workers.append(worker)
        worker.go_on()

    def wait(self, promise: Promise, timeout: float | None) -> Any:
        """Raises Died where the process ended meanwhile."""
        try:
            return super().wait(promise, timeout)
        except TimeoutError:
            if self.driver.process.sim is self and self.driver.process.dead:
                raise Died from None
            raise

    def end_workers(self) -> None:
        """Have the threads of a dead process end, without another act."""
        for worker in self.workers:
            worker.end()
        self.workers.clear()

    @property
    def asleep(self) -> bool:
        """Whether a tool's thread has not ended."""
        self.workers = [worker for worker in self.workers if not worker.over]
        return bool(self.workers)


class Worker:
    """A thread that runs only while it has the baton."""

    def __init__(
        self, sim: Simulation, nap: tuple[float, float], job: Callable[[], None]
    ) -> None:
        self.over = False
        self._sim = sim
        self._naps = list(nap)
        self._job = job
        self._dead = False
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._whole, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Let it run until it sleeps or ends; called by the simulation's thread."""
        if not self.over:
            sim = self._sim
            before, sim.driver.worker = sim.driver.worker, self
            self._go.release()
            self._back.acquire()
            sim.driver.worker = before

    def sleep(self) -> None:
        """Called by the tool on this thread: its next nap."""
        seconds = self._naps.pop(0) if self._naps else 0.0
        if self._dead:
            raise Died
        if seconds > 0:
            self._sim.call_later(seconds, self.go_on)
            self._back.release()
            self._go.acquire()
            if self._dead:
                raise Died

    def end(self) -> None:
        """Wake it for its death."""
        self._dead = True
        self.go_on()
        self._thread.join()

    def _whole(self) -> None:
        self._go.acquire()
        try:
            if not self._dead:
                self._job()
        finally:
            self.over = True
            self._back.release()


def injected(error: str) -> bool:
    """Whether the error of a crash is one that the schedule ordered."""
    ordered = ("simulated crash", "its supervisor", InjectedFault.__name__, "Died")
    return any(word in error for word in ordered)
