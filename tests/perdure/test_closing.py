"""Leaving a runtime: what is drained, what is let go, and what the next one finds."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Baseline,
    Budget,
    DidNotHappen,
    Happened,
    Misuse,
    Runtime,
    RuntimeClosed,
    tool,
)
from perdure.actors.events import RecoveryBegan, RecoveryDeclared
from perdure.storage.errors import StoreFailed
from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend
from tests.actors.world import World
from tests.perdure.hosting import (
    BUDGET,
    LONG,
    Gate,
    Told,
    calls,
    gone,
    opened,
    own_threads,
    reporter,
)

PATIENT = Baseline(id="patient", shutdown_timeout=LONG, backoff_first=0.01)


def kinds(store: Path) -> list[str]:
    with open_reader(store) as reader:
        return [record.type for record in reader.records(limit=100_000)]


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize("is_async", [False, True])
def test_closing_waits_for_a_running_tool_and_the_next_opening_just_goes_on(
    tmp_path: Path, world: World, is_async: bool
) -> None:
    gate, log = Gate(), Told()

    @tool(effect="once")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    @tool(effect="once", name="hold")
    async def hold_async(what: str) -> str:
        await asyncio.to_thread(gate.stand)
        return "held"

    agent = reporter(
        world, hold_async if is_async else hold, script=calls("hold", "look")
    )
    runtime = opened(tmp_path / "t.db", agent, log=log, baseline=PATIENT)
    task = runtime.submit("agent", "hold", budget=BUDGET)
    assert gate.entered.wait(LONG)
    with ThreadPoolExecutor(1) as pool:
        closed = pool.submit(runtime.close)
        while runtime.health()["state"] == "open":
            assert not closed.done()
        with pytest.raises(RuntimeClosed):
            runtime.submit("agent", "hold")
        assert not closed.done()
        gate.left.set()
        closed.result(LONG)
    assert log.of("runtime.drain_incomplete") == []
    assert world.looks == 0, "begun after the close"
    with opened(tmp_path / "t.db", agent) as runtime:
        assert runtime.task(task.id).wait(LONG).status == "completed"
    assert world.looks >= 1
    found = kinds(tmp_path / "t.db")
    for recovery in (RecoveryBegan, RecoveryDeclared):
        assert recovery.__name__ not in found


def test_a_tool_that_does_not_end_is_left_behind_and_is_in_doubt(
    tmp_path: Path, world: World
) -> None:
    gate, log, times = Gate(), Told(), []

    def seen(effect: Any) -> Any:
        return Happened("held") if times else DidNotHappen()

    @tool(effect="once", probe=seen, settle=0.0)
    def hold(what: str) -> str:
        gate.stand()
        times.append(what)
        return "too late"

    agent = reporter(world, hold, script=calls("hold"))
    runtime = opened(tmp_path / "t.db", agent, log=log)
    task = runtime.submit("agent", "hold", budget=BUDGET)
    assert gate.entered.wait(LONG)
    runtime.close(0.0)
    (line,) = log.wait_for("runtime.drain_incomplete")
    assert line.fields["running"] == 1
    # P2: the store is free, and the worker still runs in this process: what has not
    # happened yet may happen, so the probe is not believed, and not even asked.
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        log.wait_for("effect.probed", answer="its worker still runs")
        gate.left.set()
        assert runtime.task(task.id).wait(LONG).status == "completed"
    assert times == ["x"]
    assert kinds(tmp_path / "t.db").count("RecoveryBegan") == 1


def test_every_closer_returns_when_the_store_is_free(
    tmp_path: Path, world: World
) -> None:
    for _ in range(5):
        runtime = opened(tmp_path / "t.db", reporter(world))
        runtime.submit("agent", "do it", budget=BUDGET)
        barrier = threading.Barrier(3)

        def close(runtime: Runtime = runtime, barrier: Any = barrier) -> None:
            barrier.wait(LONG)
            runtime.close()
            assert not (tmp_path / "t.db-wal").exists()

        with ThreadPoolExecutor(3) as pool:
            for closing in [pool.submit(close) for _ in range(3)]:
                closing.result(LONG)
        runtime.close()


def test_after_a_close_every_call_says_so(tmp_path: Path, world: World) -> None:
    runtime = opened(tmp_path / "t.db", reporter(world))
    task = runtime.submit("agent", "do it", budget=BUDGET)
    assert task.wait(LONG).status == "completed"
    runtime.close()
    for call in (
        lambda: runtime.submit("agent", "do it"),
        lambda: runtime.task(task.id),
        runtime.tasks,
        lambda: task.status,
        task.wait,
        task.result,
        task.pause,
        task.resume,
        task.cancel,
        lambda: task.extend(Budget(tool_calls=1)),
    ):
        with pytest.raises(RuntimeClosed):
            call()
    assert runtime.health()["state"] == "closed"


def test_a_waiter_hears_of_the_close(tmp_path: Path, world: World) -> None:
    gate = Gate()

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    runtime = opened(tmp_path / "t.db", reporter(world, hold, script=calls("hold")))
    task = runtime.submit("agent", "hold", budget=BUDGET)
    assert gate.entered.wait(LONG)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(task.wait)
        runtime.close(0.0)
        with pytest.raises(RuntimeClosed):
            waiting.result(LONG)
    gate.left.set()


def test_a_tool_or_a_callback_may_close_its_own_runtime(
    tmp_path: Path, world: World
) -> None:
    closed = threading.Event()

    @tool(effect="read")
    def close(what: str) -> str:
        runtime.close(0.0)
        closed.set()
        return "closed"

    runtime = opened(tmp_path / "t.db", reporter(world, close, script=calls("close")))
    runtime.submit("agent", "close", budget=BUDGET)
    assert closed.wait(LONG)
    closed.clear()

    def on_event(name: str, fields: Any) -> None:
        runtime.close()
        closed.set()

    runtime = opened(tmp_path / "u.db", reporter(world), on_event=on_event)
    runtime.submit("agent", "do it", budget=BUDGET)
    assert closed.wait(LONG)


def test_nothing_is_left_behind(tmp_path: Path, world: World) -> None:
    # P12, R26 in small: threads, descriptors and files return to what they were.
    def once(number: int) -> None:
        with opened(
            tmp_path / "t.db",
            reporter(world),
            log=tmp_path / "log.jsonl",
            on_event=lambda name, fields: None,
        ) as runtime:
            tasks = [runtime.submit("agent", "do it", budget=BUDGET) for _ in range(5)]
            for task in tasks:
                assert task.wait(LONG).status == "completed"
            mine = own_threads()
        assert gone(mine)

    once(0)
    before, threads = descriptors(), threading.active_count()
    for number in range(1, 4):
        once(number)
    assert descriptors() == before
    assert threading.active_count() == threads
    assert own_threads() == []
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log.jsonl", "t.db", "t.db.lock"]


def test_a_runtime_holds_no_more_after_many_tasks_than_after_few(
    tmp_path: Path, world: World
) -> None:
    # P12: no thread, timer, promise or outcome is kept of a task that has ended.
    with opened(tmp_path / "t.db", reporter(world)) as runtime:

        def some(count: int) -> None:
            tasks = [
                runtime.submit("agent", "do it", budget=BUDGET) for _ in range(count)
            ]
            for task in tasks:
                assert task.wait(LONG).status == "completed"
            assert runtime._system.join(f"task/{tasks[-1].id}", LONG)

        some(8)
        before = descriptors(), threading.active_count()
        some(60)
        assert descriptors() == before[0]
        assert threading.active_count() <= before[1] + 8
        assert runtime._executor._runs == {}
        assert runtime._waiters._waiting == {}


@pytest.mark.parametrize(
    ("options", "named"),
    [({"log": "no/such/folder/log.jsonl"}, "log="), ({"log": 5}, "log=")],
)
def test_a_runtime_that_is_refused_leaves_nothing_running(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    before = descriptors(), own_threads()
    with pytest.raises(Misuse, match=named):
        opened(tmp_path / "t.db", **options)
    assert own_threads() == before[1]
    assert descriptors() == before[0]
    opened(tmp_path / "t.db").close()


def test_a_store_that_fails_while_it_is_closed_keeps_nobody_waiting(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(backend: SqliteBackend) -> None:
        backend.abandon()
        raise StoreFailed(backend.path, "disk I/O error")

    log = Told()
    monkeypatch.setattr(SqliteBackend, "close", fail)
    runtime = opened(tmp_path / "t.db", reporter(world), log=log)
    mine = own_threads()
    runtime.close()
    assert gone(mine)
    assert log.wait_for("journal.trouble", kind="close")
