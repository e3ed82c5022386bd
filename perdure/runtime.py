"""The runtime: opens a store, keeps its tasks alive, and lets go of them cleanly."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from .actors import names
from .actors.agent import Agent
from .actors.baseline import Baseline
from .actors.budget.account import Budget, limits_of
from .actors.events import EVENTS, StepPlan, TaskSubmitted
from .actors.executor.executor import Executor
from .actors.executor.loop import Loop
from .actors.house import House
from .actors.protocol import Cancel, Drain, Enlarge, Pause, Resume, Submit
from .actors.task.rows import TaskRow
from .errors import (
    Misuse,
    RuntimeClosed,
    RuntimeFailed,
    StoreBusy,
    StoreRefused,
    TaskNotFound,
    UseAsync,
)
from .handle import Handle
from .logs import open_sink
from .reading import Reading
from .result import ENDED, STOPPED, Result, result_of
from .storage.backend import Backend
from .storage.codec import Codec
from .storage.errors import StorageError, StoreLocked
from .storage.journal import Journal
from .storage.reader import Reader, open_reader
from .storage.sqlite import SqliteBackend
from .supervision.dispatch import Dispatcher, PoolDispatcher
from .supervision.faults import hit
from .supervision.lifecycle import ActorStopped
from .supervision.promise import Promise
from .supervision.supervisor import Supervisor
from .supervision.system import System
from .telling import Notices, Teller
from .tree import root_spec
from .waiters import Waiters
from .watch import FRONT, FrontDesk, Openings

__all__ = ["Runtime"]

LOOK_AGAIN = 1.0  # seconds until a waiter looks again at a store that did not answer
ASK_TIMEOUT = 30.0  # seconds for a call that only has to become durable
TASK_LIMIT = 500_000  # bytes of a submission as JSON


class Runtime:
    """Keeps the tasks of one store alive, in this process.

    Opening resumes every unfinished task whose agent is registered; leaving the block
    drains: nothing new is begun, what runs is recorded, and all goes on at the next
    opening. One process at a time owns a store; reading needs no ownership.

    Args:
        store: path of the store file; it is made where it does not exist. Tests give
            a back end of `perdure.testing`.
        agents: who may be given tasks; two of one name are refused.
        pool: limits that all tasks share.
        active: how many tasks run at once; the others wait in order.
        log: a path (JSON lines), a structlog logger, or None for the stdlib logger
            `perdure`.
        on_event: called with name and fields of pauses, parks, alerts and ends, on a
            thread of its own; what it raises is logged and nothing else.
        resume: False leaves unfinished tasks of earlier processes alone until each
            is resumed.
        baseline: the defaults in force.
        dispatcher: what actors run on; tests give a simulated one.

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
        active: int | None = None,
        log: Any = None,
        on_event: Callable[[str, Mapping[str, Any]], None] | None = None,
        resume: bool = True,
        baseline: Baseline | None = None,
        dispatcher: Dispatcher | None = None,
    ) -> None:
        self.baseline = _baseline(baseline, active)
        self._agents = _agents(agents)
        if pool is not None and not isinstance(pool, Budget):
            raise Misuse(f"pool={pool!r} is no Budget; give Budget(tokens=…)")
        self._store = store
        self._own_dispatcher = dispatcher is None
        self._dispatcher: Dispatcher = dispatcher or PoolDispatcher()
        self._pid = os.getpid()
        self._failed: RuntimeFailed | None = None
        self._closed = False
        self._closing = threading.RLock()
        self._codec = Codec(EVENTS)
        self._teller: Teller | None = None
        self._waiters = Waiters(self._dispatcher)
        self._reading = Reading(self._open_reader)
        journal = self._open_first()
        try:
            self._sink = open_sink(log)
            notices = None
            if on_event is not None:
                notices = Notices(on_event, self._dispatcher, self._log)
            teller = Teller(self._sink, self._waiters, notices)
            self._reading.read(lambda reader: teller.follow(journal, reader))
            self._teller = teller
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
        self._house = House(
            system=self._system,
            codec=self._codec,
            executor=self._executor,
            agents=self._agents,
            baseline=self.baseline,
            pool=pool or Budget(),
            new_id=lambda: f"t-{secrets.token_hex(6)}",
            resume=resume,
            open_journal=self._open_again,
            journal=journal,
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
            backend: Backend = SqliteBackend(Path(store), create=first)
        else:
            backend = store
        journal = Journal(
            backend,
            time=self._dispatcher.clock.time,
            background=self._dispatcher.background,
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
            return open_reader(store, warn=self._warn)
        return store.reader(self._warn)

    def _log(self, event: str, **fields: Any) -> None:
        self._sink.write(event, {"at": self._dispatcher.clock.time(), **fields})

    def _warn(self, event: str, fields: Mapping[str, object]) -> None:
        self._log(event, **fields)

    def _root_failed(self, reason: str) -> None:
        self._failed = RuntimeFailed(
            f"the runtime gave up: {reason}; what was durable is on disk, and a new "
            "Runtime on the store goes on from there"
        )
        self._openings.fail(self._failed)
        self._waiters.fail(self._failed)

    # ── tasks ────────────────────────────────────────────────────────────────────

    def submit(
        self,
        agent: str,
        goal: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        constraints: Sequence[str] = (),
        budget: Budget | None = None,
        group: str = "",
        priority: int = 0,
        key: str | None = None,
        deadline: float | None = None,
    ) -> Handle:
        """Queue a task and return its handle once it is durable.

        Args:
            agent: name of a registered agent.
            goal: what is wanted, kept verbatim and shown in every request.
            inputs: parameters, JSON values.
            constraints: what must hold throughout.
            budget: the task's limits; None limits nothing but the pool.
            group, priority: its place in the queue; higher goes first.
            key: submitting with the same key again gives the same task.
            deadline: second since the epoch after which no new operation begins.

        Raises:
            Misuse: naming the argument, the value and the fix.
            RuntimeClosed, RuntimeFailed, TimeoutError: it was not queued, or nobody can
            tell; submitting with a `key` again is safe.
            UseAsync: inside an event loop.
        """
        self.refuse_in_loop("submit", "`await runtime.asubmit(...)`")
        task = self._submission(
            agent, goal, inputs, constraints, budget, group, priority, key, deadline
        )
        return self._submit(task)

    async def asubmit(self, agent: str, goal: str, **options: Any) -> Handle:
        """`submit` for event loops; the same arguments."""
        return await asyncio.to_thread(self.submit, agent, goal, **options)

    def _submit(self, task: TaskSubmitted) -> Handle:
        found = self._ask(lambda promise: Submit(task=task, promise=promise))
        return Handle(self, found)

    def _submission(
        self,
        agent: str,
        goal: str,
        inputs: Mapping[str, Any] | None,
        constraints: Sequence[str],
        budget: Budget | None,
        group: str,
        priority: int,
        key: str | None,
        deadline: float | None,
    ) -> TaskSubmitted:
        found = self._agents.get(agent)
        if found is None:
            known = ", ".join(sorted(self._agents)) or "none"
            raise Misuse(f"no agent {agent!r} is registered (there are: {known})")
        if not isinstance(goal, str) or not goal.strip():
            raise Misuse(f"goal={goal!r}: say in words what is wanted")
        if budget is not None and not isinstance(budget, Budget):
            raise Misuse(f"budget={budget!r} is no Budget; give Budget(tokens=…)")
        if budget is not None and budget.cost is not None:
            raise Misuse(
                f"budget.cost={budget.cost!r}: no price is known for model "
                f"{found.model.name!r}; limit tokens or model_calls instead"
            )
        if isinstance(constraints, str):
            raise Misuse(f"constraints={constraints!r}: give a list of texts")
        if type(priority) is not int:
            raise Misuse(f"priority={priority!r} must be a whole number")
        task = TaskSubmitted(
            task=self._house.new_id(),
            agent=agent,
            agent_digest=found.digest(),
            baseline=self.baseline.id,
            goal=goal,
            inputs=dict(inputs or {}),
            constraints=tuple(constraints),
            budget=limits_of(budget or Budget()),
            group=group,
            priority=priority,
            key=key,
            deadline=deadline,
            steps=_steps(found, goal, self.baseline),
        )
        try:
            body = self._codec.encode(task)[2]
        except Exception as error:
            raise Misuse(f"the task cannot be stored: {error}") from None
        if len(body) > TASK_LIMIT:
            raise Misuse(
                f"the task has {len(body)} bytes with its inputs, {TASK_LIMIT} are "
                "allowed: put big inputs into a file and name it"
            )
        return task

    def task(self, task: str) -> Handle:
        """The handle of a task in the store. Raises TaskNotFound."""
        self.row(task)
        return Handle(self, task)

    def tasks(self) -> list[TaskRow]:
        """All tasks of the store with their status, by id."""
        self._refuse_if_forked()
        rows = self._reading.read(lambda reader: reader.rows(names.TASK_ROWS))
        return [msgspec.json.decode(row.value or b"", type=TaskRow) for row in rows]

    def row(self, task: str) -> TaskRow:
        """The row of a task. Raises TaskNotFound."""
        self._refuse_if_forked()
        found = self._reading.read(lambda reader: reader.row(names.TASK_ROWS, task))
        if found is None:
            raise TaskNotFound(f"no task {task!r} in the store; see `perdure ps`")
        return msgspec.json.decode(found, type=TaskRow)

    def result(self, task: str) -> Result | None:
        """The result of a task that stands at a stop, else None."""
        row = self.row(task)
        if row.status not in STOPPED:
            return None
        return result_of(row, self._agents.get(row.agent))

    def wait(
        self, task: str, timeout: float | None = None, *, ended: bool = False
    ) -> Result:
        """See `Handle.wait`; with `ended` only an end counts as a stop."""
        self.refuse_in_loop("wait", "`await handle`")
        clock = self._dispatcher.clock
        until = None if timeout is None else clock.monotonic() + timeout
        while True:
            self._refuse_if_forked()
            promise = self._waiters.next_stop(task)
            try:
                found, sure = self._look(task)
                if found is not None and (not ended or found.status in ENDED):
                    return found
                self._refuse_if_over()
                left = None if until is None else max(0.0, until - clock.monotonic())
                if not sure:
                    left = LOOK_AGAIN if left is None else min(left, LOOK_AGAIN)
                promise.result(left)
            except TimeoutError:
                if sure or (until is not None and clock.monotonic() >= until):
                    raise TimeoutError(
                        f"task {task} has not stopped within {timeout} s; it goes on"
                    ) from None
            finally:
                self._waiters.drop(task, promise)

    async def await_stop(self, task: str, *, ended: bool = False) -> Result:
        """`wait` for event loops: holds no thread."""
        loop = asyncio.get_running_loop()
        while True:
            self._refuse_if_forked()
            promise = self._waiters.next_stop(task)
            try:
                found, sure = await asyncio.to_thread(self._look, task)
                if found is not None and (not ended or found.status in ENDED):
                    return found
                self._refuse_if_over()
                stop = _as_future(promise, loop)
                if sure:
                    await stop
                else:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop, LOOK_AGAIN)
            finally:
                self._waiters.drop(task, promise)

    def _look(self, task: str) -> tuple[Result | None, bool]:
        """The result, if there is one, and whether the store could say so."""
        try:
            return self.result(task), True
        except StoreRefused:  # its journal has just failed and is opened again
            return None, False

    def pause(self, task: str, by: str) -> bool:
        """See `Handle.pause`."""
        self.refuse_in_loop("pause", "`await handle.apause()`")
        self.row(task)
        done: bool = self._ask(lambda p: Pause(task=task, by=by, promise=p))
        return done

    def resume(self, task: str, by: str) -> bool:
        """See `Handle.resume`."""
        self.refuse_in_loop("resume", "`await handle.aresume()`")
        self.row(task)
        done: bool = self._ask(lambda p: Resume(task=task, by=by, promise=p))
        return done

    def ask_cancel(self, task: str, by: str) -> bool:
        """Write down that a task is to end; True where it had not ended."""
        self.row(task)
        done: bool = self._ask(lambda p: Cancel(task=task, by=by, promise=p))
        return done

    def cancel(self, task: str, by: str, timeout: float | None) -> Result:
        """See `Handle.cancel`."""
        self.refuse_in_loop("cancel", "`await handle.acancel()`")
        self.ask_cancel(task, by)
        return self.wait(task, timeout, ended=True)

    def extend(self, task: str, budget: Budget) -> None:
        """See `Handle.extend`."""
        self.refuse_in_loop("extend", "`await handle.aextend(...)`")
        row = self.row(task)
        if row.status in ENDED:
            raise Misuse(f"task {task} has ended ({row.status}); nothing to extend")
        if not isinstance(budget, Budget):
            raise Misuse(f"budget={budget!r} is no Budget; give Budget(tokens=…)")
        amounts = limits_of(budget)
        first = self._reading.read(lambda r: r.records(0, 1, f"task/{task}"))[0]
        submitted = self._codec.decode(first)
        assert isinstance(submitted, TaskSubmitted)
        free = sorted(set(amounts) - set(submitted.budget))
        if free:
            raise Misuse(
                f"task {task} does not limit {', '.join(free)}: extend what it limits "
                f"({', '.join(sorted(submitted.budget)) or 'nothing'})"
            )
        grant = f"{task}/{self._house.new_id()}"
        refusal = self._ask(
            lambda p: Enlarge(task=task, grant=grant, amounts=amounts, promise=p),
            to=names.POOL,
        )
        if refusal is not None:
            raise Misuse(f"task {task} cannot be extended: {refusal}")
        if row.reason == "budget":
            self.resume(task, "extend")

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

    # ── asking ───────────────────────────────────────────────────────────────────

    def _ask(self, make: Callable[[Promise], Any], *, to: str = names.ADMISSION) -> Any:
        """Ask a service; a restart of it in between only makes the answer later."""
        clock = self._dispatcher.clock
        until = clock.monotonic() + ASK_TIMEOUT
        while True:
            self._refuse_if_over()
            left = max(0.0, until - clock.monotonic())
            self._openings.wait_for().result(left)
            try:
                return self._system.address(to).ask(make, left)
            except ActorStopped:
                if clock.monotonic() >= until:
                    raise

    def _refuse_if_over(self) -> None:
        self._refuse_if_forked()
        if self._closed:
            raise RuntimeClosed
        if self._failed is not None:
            raise self._failed

    def _refuse_if_forked(self) -> None:
        # First of all: a lock that another thread held at the fork stays held here.
        if os.getpid() != self._pid:
            raise RuntimeClosed(
                "this process was forked from the runtime's: open a Runtime here"
            )

    @staticmethod
    def refuse_in_loop(call: str, twin: str) -> None:
        """Raise UseAsync where a blocking call would block an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise UseAsync(call, twin)

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
        try:
            self._house.journal.close(self.baseline.shutdown_timeout)
        except StorageError as error:  # it rests as a kill leaves it
            self._log("journal.trouble", kind="close", detail=str(error), retry_in=0.0)
        self._openings.fail(over)
        self._waiters.fail(over)
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


def _baseline(baseline: Baseline | None, active: int | None) -> Baseline:
    found = baseline or Baseline()
    if active is None:
        return found
    if type(active) is not int or active < 1:
        raise Misuse(f"active={active!r} must be a whole number of at least 1")
    return msgspec.structs.replace(found, active_tasks=active)


def _agents(agents: Sequence[Agent]) -> dict[str, Agent]:
    found: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise Misuse(f"agents= holds {agent!r}, which is no Agent")
        if agent.name in found:
            raise Misuse(f"two agents are called {agent.name!r}: names must be unique")
        found[agent.name] = agent
    return found


def _steps(agent: Agent, goal: str, rules: Baseline) -> tuple[StepPlan, ...]:
    """The agent's plan as the task carries it; without one, one step: the goal."""
    if agent.plan is None:
        rounds = agent.max_rounds or rules.rounds_without_plan
        whole = StepPlan(
            id="task", goal=goal, done="", max_iterations=rounds, timeout=None
        )
        return (whole,)
    return tuple(
        StepPlan(
            id=step.id,
            goal=step.goal,
            done=step.done,
            max_iterations=step.max_iterations or rules.step_iterations,
            timeout=step.timeout,
        )
        for step in agent.plan.steps
    )


def _as_future(
    promise: Promise, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[None]:
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if future.done():
            return
        try:
            future.set_result(promise.get(0.0))
        except BaseException as error:
            future.set_exception(error)

    promise.add_done_callback(lambda _: loop.call_soon_threadsafe(settle))
    return future
