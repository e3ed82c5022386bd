"""A runtime for one test: a store in memory, virtual time, one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..actors.agent import Agent
from ..actors.errors import Misuse
from ..handle import Handle
from ..result import Result
from ..runtime import Runtime
from ..storage.memory import MemoryBackend, MemoryStore
from ..supervision.clock import VirtualClock
from ..supervision.faults import InjectedFault
from ..supervision.simulation import SimulatedDispatcher

__all__ = ["Harness"]

DAY = 24 * 3600.0  # seconds
# Errors of crashes that a test asked for, and of what went down with them.
ORDERED = ("simulated crash", "its supervisor", InjectedFault.__name__)


class Harness:
    """Opens runtimes on one store in memory, one after another, in virtual time.

    ``harness.open(agent).submit(...)``, then `finish`; `kill` and `open` again are the
    next process. Not the tools: they really run. `close` at the end of the test.
    """

    def __init__(self, seed: int = 0) -> None:
        self.store = MemoryStore()
        self.clock = VirtualClock()
        self.lines: list[tuple[str, dict[str, Any]]] = []  # of the log, all processes
        self._seed = seed
        self._agents: tuple[Agent, ...] = ()
        self._crashes: list[str] = []
        self._runtime: Runtime | None = None
        self._dispatcher: SimulatedDispatcher | None = None

    @property
    def dispatcher(self) -> SimulatedDispatcher:
        """The one of the open runtime. Raises Misuse where none is open."""
        if self._dispatcher is None:
            raise Misuse("no runtime is open: call open(agent) first")
        return self._dispatcher

    def open(self, *agents: Agent, **options: Any) -> Runtime:
        """Open a runtime on the store, with the agents of last time if none is given.

        Takes the options of `Runtime`. Raises Misuse where one is open.
        """
        if self._runtime is not None:
            raise Misuse("a runtime is open on this store: kill() or close() it first")
        self._agents = agents or self._agents
        self._dispatcher = SimulatedDispatcher(self._seed, self.clock)
        self._seed += 1  # of the next process: its ids must be others
        self._runtime = Runtime(
            MemoryBackend(self.store),
            agents=self._agents,
            dispatcher=self._dispatcher,
            log=_Log(self._hear),
            **options,
        )
        return self._runtime

    def finish(self, task: Handle | str, timeout: float = DAY) -> Result:
        """Take steps until the task stops, `timeout` virtual seconds at most.

        Takes the handle of an earlier process, too. Raises TimeoutError, and Misuse
        where no runtime is open.
        """
        if self._runtime is None:
            raise Misuse("no runtime is open: call open() first")
        return self._runtime.wait(
            task.id if isinstance(task, Handle) else task, timeout
        )

    def until(self, condition: Callable[[], bool]) -> bool:
        """Take steps until `condition()` holds; False if there are none left."""
        return self.dispatcher.run(until=condition)

    def advance(self, seconds: float) -> None:
        """Take all steps of the next `seconds` of virtual time."""
        self.dispatcher.run_for(seconds)

    def kill(self) -> None:
        """Lose the process, and all that it had not flushed."""
        self.dispatcher.halt()
        self._runtime = self._dispatcher = None
        self.store.cut()

    def crashes(self) -> list[str]:
        """Crashes of actors since the last call, but for those the test ordered.

        Name and traceback of each. A test that expects some asks here.
        """
        taken, self._crashes = self._crashes, []
        return taken

    def close(self) -> None:
        """Close what is open. Raises AssertionError where crashes went unnoticed."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = self._dispatcher = None
        if unnoticed := self.crashes():
            raise AssertionError(
                "actors crashed and the test did not ask for crashes():\n"
                + "\n".join(unnoticed)
            )

    def _hear(self, event: str, fields: dict[str, Any]) -> None:
        self.lines.append((event, fields))
        if event == "actor.crashed" and not any(
            one in fields["error"] for one in ORDERED
        ):
            told = fields["traceback"] or fields["error"]
            self._crashes.append(f"{fields['name']}: {told}")


class _Log:
    """Hands each line on, as a structlog logger would be told of it."""

    def __init__(self, hear: Callable[[str, dict[str, Any]], None]) -> None:
        self._hear = hear

    def bind(self, **_fields: Any) -> _Log:
        """Nothing is bound."""
        return self

    def log(self, _level: int, event: str, **fields: Any) -> None:
        """Hand the line on."""
        self._hear(event, fields)
