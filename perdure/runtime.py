"""The runtime: opens a store, keeps its tasks alive, and lets go of them cleanly."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from .actors import names
from .actors.agent import Agent
from .actors.baseline import Baseline
from .actors.budget.account import Budget
from .actors.events import EVENTS
from .actors.executor.executor import Executor
from .actors.executor.loop import Loop
from .actors.house import House
from .actors.memory.vectors import Vectors
from .actors.protocol import Drain
from .actors.upgrades import UPGRADERS
from .actors.windows.limit import RateLimit
from .erasing import ErasingCalls
from .errors import (
    Misuse,
    RuntimeClosed,
    RuntimeFailed,
    StoreBusy,
    StoreRefused,
    UseAsync,
)
from .logs import check_log, open_sink
from .objects import beside, is_unnamed, open_objects
from .reading import Reading
from .recalling import check_vectors, library_of
from .storage.address import backend_of
from .storage.backend import Backend
from .storage.codec import Codec
from .storage.errors import StorageError, StoreLocked
from .storage.journal import Journal
from .storage.reader import Reader, open_reader
from .submission import (
    agents_by_name,
    baseline_with,
    limits_by_service,
    retention_of,
)
from .submitting import Submitting
from .supervision.dispatch import Dispatcher
from .supervision.faults import hit
from .supervision.lifecycle import ActorStopped
from .supervision.pool import PoolDispatcher
from .supervision.supervisor import Supervisor
from .supervision.system import System
from .telling import Notices, Teller
from .tree import root_spec
from .waiters import Waiters
from .watch import FRONT, FrontDesk, Openings
from .watchers import Watchers

__all__ = ["Runtime"]


class Runtime(Submitting, ErasingCalls):
    """Keeps the tasks of one store alive, in this process.

    Opening resumes every unfinished task whose agent is registered; leaving the block
    drains: nothing new is begun, what runs is recorded, and all goes on at the next
    opening. One process at a time owns a store; reading needs no ownership.

    Args:
        store: where its store is: a file's path, ``dir:FOLDER`` for a folder of JSON
            files, or ``postgresql://HOST/DATABASE`` (extra ``postgres``); it is made
            where it does not exist. Tests give a back end of `perdure.testing`.
        agents: who may be given tasks; two of one name are refused.
        pool: limits that all tasks share.
        limits: how often services may be called: one `RateLimit` a service.
        active: how many tasks run at once; the others wait in order.
        log: a path (JSON lines), a structlog logger, or None for the stdlib logger
            `perdure`.
        on_event: called with name and fields of pauses, parks, alerts and ends, on a
            thread of its own; what it raises is logged and nothing else.
        resume: False leaves unfinished tasks of earlier processes alone until each
            is resumed.
        baseline: the defaults in force.
        dispatcher: what actors run on; tests give a simulated one.
        recall: a `Vectors`, which has `recall` search by meaning as well as by words.
        objects: where the bigger snapshots of tasks go, so that the store stays small:
            ``s3://BUCKET/PREFIX``, ``gs://…``, ``az://…`` or ``file:///FOLDER``
            (extra ``objects``). Credentials come from the environment.
        unknown_price: what a limit of cost does to a task whose agent has no price:
            ``refuse`` it, or ``warn`` in the log and leave its cost unlimited.
        retention: how long a task that ended keeps what is not its result, its effects
            or its books: seconds, or a text such as ``"30d"``; None or ``"forever"``
            keeps all.

    Raises:
        Misuse: naming the option, the value and the fix.
        StoreRefused: not a store, of a newer layout, or not to be written.
        StoreBusy: another process owns the store.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Backend = "tasks.db",
        *,
        agents: Sequence[Agent] = (),
        pool: Budget | None = None,
        limits: Sequence[RateLimit] = (),
        active: int | None = None,
        log: Any = None,
        on_event: Callable[[str, Mapping[str, Any]], None] | None = None,
        resume: bool = True,
        baseline: Baseline | None = None,
        dispatcher: Dispatcher | None = None,
        recall: Vectors | None = None,
        objects: str | None = None,
        unknown_price: Literal["refuse", "warn"] = "refuse",
        retention: float | str | None = "30d",
    ) -> None:
        self.baseline = baseline_with(baseline, active)
        self._agents = agents_by_name(agents, self.baseline)
        if pool is not None and not isinstance(pool, Budget):
            raise Misuse(f"pool={pool!r} is no Budget; give Budget(tokens=…)")
        limited = limits_by_service(limits)
        if unknown_price not in ("refuse", "warn"):
            raise Misuse(f"unknown_price={unknown_price!r}: give 'refuse' or 'warn'")
        if not isinstance(store, str | os.PathLike | Backend):
            raise Misuse(f"store={store!r} is no path; name the store's file")
        kept_for = retention_of(retention)
        check_log(log, store)
        check_vectors(recall)
        clock = time if dispatcher is None else dispatcher.clock
        self._objects = open_objects(objects, clock.monotonic)
        self._store = store
        self._own_dispatcher = dispatcher is None
        self._dispatcher: Dispatcher = dispatcher or PoolDispatcher()
        self._pid = os.getpid()
        self._failed: RuntimeFailed | None = None
        self._closed = False
        self._closing = threading.RLock()
        self._codec = Codec(EVENTS, UPGRADERS)
        self._teller: Teller | None = None
        self._waiters = Waiters(self._dispatcher)
        self._watchers = Watchers(self._dispatcher)
        self._reading = Reading(self._open_reader)
        journal = self._open_first()
        try:
            self._sink = open_sink(log, self._dispatcher)
            notices = None
            if on_event is not None:
                notices = Notices(on_event, self._dispatcher, self._log)
            teller = Teller(self._sink, self._waiters, self._watchers, notices)
            self._reading.read(lambda reader: teller.follow(journal, reader))
            self._teller = teller
            if self._reading.read(lambda reader: is_unnamed(reader, self._objects)):
                self._warn("objects.unnamed", {})
        except BaseException:
            journal.close(self.baseline.shutdown_timeout)
            self._let_dispatcher_go()
            raise
        self._system = System(self._dispatcher, self._log)
        self._executor = Executor(
            self._dispatcher,
            threads=self.baseline.tool_threads,
            loop=Loop() if self._own_dispatcher else None,
            log=self._log,
        )
        self._library = library_of(
            store, self._dispatcher, self._executor, self._open_reader, recall
        )
        self._house = House(
            system=self._system,
            codec=self._codec,
            executor=self._executor,
            library=self._library,
            agents=self._agents,
            baseline=self.baseline,
            pool=pool or Budget(),
            new_id=lambda: f"t-{self._dispatcher.token()}",
            resume=resume,
            open_journal=self._open_again,
            journal=journal,
            unknown_price=unknown_price,
            retention=kept_for,
            limits=limited,
            heard=self._watchers.say,
        )
        self._openings = Openings(self._dispatcher)
        self._system.spawn(
            FRONT,
            lambda: FrontDesk(
                self._openings,
                lambda: Supervisor(root_spec(self._house)),
                self._root_failed,
            ),
        )
        if self._own_dispatcher:
            atexit.register(self._close)

    # ── opening ──────────────────────────────────────────────────────────────────

    def _open_first(self) -> Journal:
        try:
            return self._open_again()
        except StoreLocked as error:
            self._let_dispatcher_go()
            raise StoreBusy(str(error)) from None
        except StorageError as error:
            self._let_dispatcher_go()
            raise StoreRefused(str(error)) from None
        except BaseException:
            self._let_dispatcher_go()
            raise

    def _let_dispatcher_go(self) -> None:
        if self._own_dispatcher:
            self._dispatcher.close(1.0)

    def _open_again(self) -> Journal:
        store = self._store
        if isinstance(store, str | os.PathLike):
            first = self._teller is None
            backend: Backend = backend_of(store, create=first)
        else:
            backend = store
        journal = Journal(
            beside(backend, self._objects, self._dispatcher, self._warn),
            time=self._dispatcher.clock.time,
            background=self._dispatcher.background,
            writing=self._dispatcher.when_idle,
            call_later=self._dispatcher.call_later,
            hit=hit,
        )
        journal.on_warning(self._warn)
        if self._teller is not None:
            self._reading.renew()
            try:
                reader = self._open_reader()
                with closing(reader):
                    self._teller.follow(journal, reader)
            except BaseException:
                journal.close(0.0)
                raise
            self._waiters.look_again()
        return journal

    def _open_reader(self) -> Reader:
        store = self._store
        if isinstance(store, str | os.PathLike):
            reader = open_reader(store, warn=self._warn)
        else:
            reader = store.reader(self._warn)
        reader.objects = self._objects
        return reader

    def _warn(self, event: str, fields: Mapping[str, object]) -> None:
        self._log(event, **fields)

    def _root_failed(self, reason: str) -> None:
        self._failed = RuntimeFailed(
            f"the runtime gave up: {reason}; what was durable is on disk, and a new "
            "Runtime on the store goes on from there"
        )
        self._openings.fail(self._failed)
        self._waiters.fail(self._failed)
        self._watchers.fail(self._failed)

    # ── tasks ────────────────────────────────────────────────────────────────────

    def health(self) -> dict[str, Any]:
        """Whether journal, tree and queue move, in one value."""
        journal = self._house.journal.health()
        return {
            "state": "failed" if self._failed else "closed" if self._closed else "open",
            "journal": msgspec.to_builtins(journal),
            "root": self._system.is_running(names.ROOT),
            "admission": self._system.is_running(names.ADMISSION),
            "running": self._executor.running(),
            "dead_letters": self._system.dead_letters,
        }

    # ── closing ──────────────────────────────────────────────────────────────────

    def close(self, timeout: float | None = None) -> None:
        """Drain and let the store go; again is a no-op, and so it is after a fork.

        Nothing new is begun, operations in flight are recorded if they end within
        `timeout` seconds (the baseline's 5 by default), the rest is as after a kill.
        A call while another thread closes returns when that is done.

        Raises UseAsync inside an event loop.
        """
        self.refuse_in_loop("close", "`await runtime.aclose()` or `async with`")
        self._close(timeout)

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - close's
        """`close` for event loops."""
        await asyncio.to_thread(self._close, timeout)

    def _close(self, timeout: float | None = None) -> None:
        if os.getpid() != self._pid:
            return
        with self._closing:
            if not self._closed:
                self._closed = True
                self._drain_and_let_go(timeout)

    def _drain_and_let_go(self, timeout: float | None) -> None:
        limit = self.baseline.shutdown_timeout if timeout is None else timeout
        hit("runtime.close.before")
        if self._failed is None:
            try:
                self._system.address(names.ADMISSION).ask(
                    lambda promise: Drain(promise=promise), limit
                )
            except TimeoutError:
                self._log("runtime.drain_incomplete", running=self._executor.running())
            except ActorStopped:  # it had not come up, or crashed just now
                if running := self._executor.running():
                    self._log("runtime.drain_incomplete", running=running)
        self._executor.close()
        self._system.stop(FRONT)  # first: it starts the root
        self._system.join(FRONT, self.baseline.shutdown_timeout)
        self._system.stop(names.ROOT)
        self._system.join(names.ROOT, self.baseline.shutdown_timeout)
        over = RuntimeClosed()
        self._reading.close(over)
        self._library.close(self.baseline.shutdown_timeout)
        try:
            self._house.journal.close(self.baseline.shutdown_timeout)
        except StorageError as error:  # it rests as a kill leaves it
            self._log("journal.trouble", kind="close", detail=str(error), retry_in=0.0)
        self._openings.fail(over)
        self._waiters.fail(over)
        self._watchers.fail(over)
        hit("runtime.close.after")
        self._let_dispatcher_go()
        self._sink.close()
        atexit.unregister(self._close)

    def __enter__(self) -> Self:
        try:
            self.refuse_in_loop("with Runtime(...)", "`async with Runtime(...)`")
        except UseAsync:
            self._close(0.0)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
