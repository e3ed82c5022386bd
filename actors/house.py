"""What every actor of one runtime shares: the journal, the executor, the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from ..storage.codec import Codec
from ..storage.journal import Journal
from ..storage.records import Record
from ..supervision.address import Address
from ..supervision.system import System
from .agent import Agent
from .baseline import Baseline
from .budget.account import Budget
from .events import Event
from .executor.executor import Executor
from .memory.library import Library
from .speech import Piece
from .windows.limit import RateLimit
from .withdrawn import Withdrawn

__all__ = ["House"]


class House:
    """Handed to each actor when it is made; only the journal ever changes.

    Args:
        system: names, mailboxes, the log of the supervision room.
        codec: the events of `actors.events`.
        executor: where user code runs; it outlives every actor.
        library: searches the record, off the actors; it outlives them too.
        agents: by name.
        baseline: the defaults in force.
        pool: the limits shared by all tasks.
        limits: how often services may be called, by service.
        new_id: makes ids of tasks; the only source of randomness.
        resume: start the unfinished tasks of earlier processes, or hold them.
        journal, open_journal: the open store, and how to open it again after it failed.
        retention: for how many seconds ended tasks keep their scratch; None: for good.
        unknown_price: what becomes of a model call whose price nobody gave, where cost
            is limited.
        heard: told what models say while they still write; must be short.
    """

    def __init__(
        self,
        *,
        system: System,
        codec: Codec,
        executor: Executor,
        library: Library,
        agents: Mapping[str, Agent],
        baseline: Baseline,
        pool: Budget,
        new_id: Callable[[], str],
        resume: bool,
        open_journal: Callable[[], Journal],
        journal: Journal,
        heard: Callable[[Piece], None],
        unknown_price: Literal["refuse", "warn"] = "refuse",
        limits: Mapping[str, RateLimit] | None = None,
        retention: float | None = None,
    ) -> None:
        self.system = system
        self.codec = codec
        self.executor = executor
        self.library = library
        self.agents = dict(agents)
        self.baseline = baseline
        self.pool = pool
        self.limits = dict(limits or {})
        self.new_id = new_id
        self.resume = resume
        self.unknown_price = unknown_price
        self.retention = retention
        self.heard = heard
        self.held: set[str] | None = None  # by admission, when it first starts
        self.withdrawn = Withdrawn()
        self.open_journal = open_journal
        self._journal = journal

    @property
    def journal(self) -> Journal:
        """The journal of the moment; a crash of its actor replaces it."""
        return self._journal

    def take_journal(self) -> Journal:
        """The open journal, for its actor; opens the store anew after a failure.

        Raises StorageError where it cannot be opened just now, and where a thread is
        still inside the failed one; it may be asked again.
        """
        if self._journal.health().state in ("failed", "closed"):
            self._journal.close(0.0)
            self._journal = self.open_journal()
            self.withdrawn.clear()
        return self._journal

    def event_of(self, record: Record) -> Event:
        """Decode a record; raises Undecodable where this code does not know it."""
        event = self.codec.decode(record)
        assert isinstance(event, Event)
        return event

    def now(self) -> float:
        """Seconds since the epoch, by the dispatcher's clock."""
        return self.system.clock.time()

    def monotonic(self) -> float:
        """Seconds that no setting of the host's clock moves."""
        return self.system.clock.monotonic()

    def address(self, name: str) -> Address:
        """The stable address of a name in this runtime."""
        return self.system.address(name)
