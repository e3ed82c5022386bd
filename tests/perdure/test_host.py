"""A runtime inside a host: its actors, loops, threads, callbacks and logs are safe."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pykka
import pytest
import structlog

from perdure import Budget, RuntimeClosed, UseAsync, tool
from perdure.actors.events import EVENTS, EffectRecorded
from perdure.logs import CATALOGUE, open_sink, read_log
from perdure.storage.codec import Codec
from perdure.storage.reader import open_reader
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

CODEC = Codec(EVENTS)


def holding(world: World, gate: Gate) -> Any:
    """An agent whose task stands in a tool until the gate is opened."""

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    return reporter(world, hold, script=calls("hold"))


# ── the host's own actors, loops and threads ─────────────────────────────────────


class Greeter(pykka.ThreadingActor):
    def on_receive(self, message: Any) -> Any:
        if message == "exit":
            raise SystemExit(3)
        return f"hello {message}"


def test_the_hosts_actors_and_ours_do_not_know_each_other(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    # P8
    greeter = Greeter.start()
    with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        assert pykka.ActorRegistry.get_all() == [greeter]
        assert greeter.ask("host", timeout=LONG) == "hello host"
        pykka.ActorRegistry.stop_all(timeout=LONG)
        gate.left.set()
        assert task.wait(LONG).status == "completed"
        greeter = Greeter.start()
        greeter.tell("exit")  # pykka then stops every actor of its registry
        greeter.actor_stopped.wait(LONG)
        again = runtime.submit("agent", "hold", budget=BUDGET)
        assert again.wait(LONG).status == "completed"
        greeter = Greeter.start()
    assert greeter.ask("you", timeout=LONG) == "hello you"
    greeter.stop(timeout=LONG)


def test_two_runtimes_of_one_process_are_strangers(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    other, log = World(), Told()
    first = opened(tmp_path / "a.db", holding(world, gate))
    held = first.submit("agent", "hold", budget=BUDGET)
    assert gate.entered.wait(LONG)
    with opened(tmp_path / "b.db", reporter(other), log=log) as second:
        assert second.submit("agent", "do it", budget=BUDGET).wait(LONG)
        assert len(other.sent) == 1
        gate.left.set()
        assert held.wait(LONG).status == "completed"
        first.close()
        result = second.submit("agent", "do it", budget=BUDGET).wait(LONG)
        assert result.status == "completed"
        assert held.id not in {row.task for row in second.tasks()}
    assert log.crashes() == []


def test_a_loop_of_the_host_goes_on_beside_a_runtime(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    async def host() -> str:
        async with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
            task = await runtime.asubmit("agent", "hold", budget=BUDGET)
            waiting = asyncio.ensure_future(_result(task))
            while not gate.entered.is_set():  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0)
            # The loop runs: the waiting coroutine holds it up in no way.
            assert not waiting.done()
            gate.left.set()
            return (await waiting).status

    assert asyncio.run(host()) == "completed"


async def _result(task: Any) -> Any:
    return await task


# ── what user code may raise ─────────────────────────────────────────────────────


def too_deep() -> None:
    too_deep()


RAISED: list[Callable[[], BaseException]] = [
    lambda: SystemExit(3),
    KeyboardInterrupt,
    asyncio.CancelledError,
    MemoryError,
    RecursionError,
    GeneratorExit,
    lambda: BaseExceptionGroup("several", [SystemExit(1), ValueError("2")]),
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("make", RAISED)
def test_whatever_a_tool_raises_is_an_outcome(
    tmp_path: Path, world: World, make: Callable[[], BaseException], is_async: bool
) -> None:
    # P8
    times: list[int] = []

    def act() -> str:
        times.append(1)
        if len(times) == 1:
            raise make()
        return "fine"

    @tool(effect="idempotent")
    def bad(what: str) -> str:
        return act()

    @tool(effect="idempotent", name="bad")
    async def bad_async(what: str) -> str:
        return act()

    log = Told()
    agent = reporter(world, bad_async if is_async else bad, script=calls("bad", "look"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
    assert result.status == "completed"
    assert world.looks == 1
    assert log.crashes() == []
    assert log.of("job.failed") == []
    assert log.of("callback.failed") == []
    with open_reader(tmp_path / "t.db") as reader:
        outcomes = [
            CODEC.decode(one)
            for one in reader.records(limit=10_000)
            if one.type == EffectRecorded.__name__
        ]
    kind = type(make()).__name__
    assert any(one.error.startswith(kind) for one in outcomes if one.error)


def test_the_loop_of_models_survives_what_a_tool_leaves_on_it(
    tmp_path: Path, world: World
) -> None:
    left: list[Any] = []

    @tool(effect="read")
    async def leave(what: str) -> str:
        async def explode() -> None:
            raise SystemExit(3)

        left.append(asyncio.ensure_future(explode()))
        await asyncio.sleep(0)
        return "left"

    agent = reporter(world, leave, script=calls("leave", "look"))
    with opened(tmp_path / "t.db", agent) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
        assert result.status == "completed"
        assert isinstance(left[0].exception(), SystemExit)


@pytest.mark.parametrize("make", RAISED)
def test_whatever_acceptance_raises_is_no_pass_and_no_crash(
    tmp_path: Path, world: World, make: Callable[[], BaseException]
) -> None:
    log, asked = Told(), []

    def accept(result: Any, view: Any) -> bool:
        asked.append(1)
        if len(asked) == 1:
            raise make()
        return True

    agent = reporter(world, accept=accept)
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        runtime.submit("agent", "do it", budget=BUDGET).wait(LONG)
    assert len(asked) > 1
    assert log.crashes() == []


# ── the async twins ──────────────────────────────────────────────────────────────


def test_every_blocking_call_refuses_a_running_loop_and_names_its_twin(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    runtime = opened(tmp_path / "t.db", holding(world, gate))
    task = runtime.submit("agent", "hold", budget=BUDGET)
    more = Budget(tool_calls=1)
    forms: list[tuple[Callable[[], Any], str]] = [
        (lambda: runtime.submit("agent", "x"), "await runtime.asubmit"),
        (task.wait, "await handle"),
        (task.pause, "await handle.apause"),
        (task.resume, "await handle.aresume"),
        (task.cancel, "await handle.acancel"),
        (lambda: task.extend(more), "await handle.aextend"),
        (lambda: runtime.wait(task.id), "await handle"),
        (lambda: runtime.pause(task.id, "x"), "await handle.apause"),
        (lambda: runtime.resume(task.id, "x"), "await handle.aresume"),
        (lambda: runtime.cancel(task.id, "x", None), "await handle.acancel"),
        (lambda: runtime.extend(task.id, more), "await handle.aextend"),
        (runtime.close, "await runtime.aclose"),
    ]

    async def host() -> None:
        for form, twin in forms:
            with pytest.raises(UseAsync, match=twin):
                form()
        await runtime.aclose(0.0)

    asyncio.run(host())
    with pytest.raises(RuntimeClosed):
        runtime.submit("agent", "x")


def test_a_with_block_in_a_loop_is_refused_and_leaves_nothing_open(
    tmp_path: Path, world: World
) -> None:
    async def host() -> None:
        with (
            pytest.raises(UseAsync, match="async with"),
            opened(tmp_path / "t.db", reporter(world)),
        ):
            pytest.fail("entered")

    asyncio.run(host())
    opened(tmp_path / "t.db", reporter(world)).close()  # its lock is free


def test_the_twins_do_what_their_blocking_forms_do(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    async def host() -> list[Any]:
        async with opened(tmp_path / "t.db", holding(world, gate), active=1) as runtime:
            first = await runtime.asubmit("agent", "hold", budget=BUDGET)
            second = await runtime.asubmit("agent", "hold", budget=BUDGET)
            await asyncio.to_thread(gate.entered.wait, LONG)
            await first.aextend(Budget(tool_calls=1))
            cancelled = await second.acancel()
            paused = await first.apause()
            gate.left.set()
            stopped = await first
            resumed = await first.aresume()
            return [cancelled.status, paused, stopped.status, resumed, await first]

    cancelled, paused, stopped, resumed, result = asyncio.run(host())
    assert (cancelled, paused, stopped, resumed) == ("cancelled", True, "paused", True)
    assert result.status == "completed"


def test_two_hundred_coroutines_wait_without_a_thread_each(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    # P12
    async def host() -> list[str]:
        async with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
            task = await runtime.asubmit("agent", "hold", budget=BUDGET)
            await asyncio.to_thread(gate.entered.wait, LONG)
            waiting = [asyncio.ensure_future(_result(task)) for _ in range(200)]
            waiters = runtime._waiters._waiting
            while len(waiters.get(task.id, ())) < 200:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            # All of them have looked and wait now; looking takes a few threads.
            for _ in range(3):
                await asyncio.to_thread(int)
            assert threading.active_count() < 60
            gate.left.set()
            return [one.status for one in await asyncio.gather(*waiting)]

    assert asyncio.run(host()) == ["completed"] * 200


def test_a_coroutine_that_waits_no_more_leaves_nothing_behind(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    async def host() -> None:
        async with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
            task = await runtime.asubmit("agent", "hold", budget=BUDGET)
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(_result(task), 0.01)
            assert runtime._waiters._waiting == {}
            gate.left.set()
            assert (await task).status == "completed"

    asyncio.run(host())


def test_a_loop_that_closes_under_an_await_harms_nobody(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    log = Told()
    with opened(tmp_path / "t.db", holding(world, gate), log=log) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(_result(task))
        while not runtime._waiters._waiting.get(task.id):
            loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.run_until_complete(asyncio.sleep(0))
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        gate.left.set()
        assert task.wait(LONG).status == "completed"
        again = runtime.submit("agent", "hold", budget=BUDGET)
        assert again.wait(LONG).status == "completed"
    assert log.crashes() == []
    with pytest.raises(RuntimeError, match="closed"):
        waiting.get_loop().run_until_complete(waiting)


def test_two_threads_that_resume_one_task_have_it_run_once(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    # R7
    agent = holding(world, gate)
    with opened(tmp_path / "t.db", agent) as runtime, ThreadPoolExecutor(2) as pool:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        assert task.pause()
        gate.left.set()
        assert task.wait(LONG).status == "paused"
        barrier = threading.Barrier(2)

        def resume() -> tuple[bool, str]:
            barrier.wait(LONG)
            handle = runtime.task(task.id)
            woke = handle.resume()
            return woke, handle.wait(LONG).status

        both = [one.result(LONG) for one in [pool.submit(resume) for _ in range(2)]]
    assert sorted(both) == [(False, "completed"), (True, "completed")]
    with open_reader(tmp_path / "t.db") as reader:
        kinds = [one.type for one in reader.records(limit=10_000)]
    assert kinds.count("TaskWoken") == 1
    assert kinds.count("TaskClosed") == 1


# ── on_event ─────────────────────────────────────────────────────────────────────


def test_a_callback_that_raises_is_logged_and_is_called_again(
    tmp_path: Path, world: World
) -> None:
    log, heard = Told(), []

    def on_event(name: str, fields: Any) -> None:
        heard.append((name, fields["task"]))
        raise SystemExit(3)

    with opened(tmp_path / "t.db", reporter(world), log=log, on_event=on_event) as it:
        tasks = [it.submit("agent", "do it", budget=BUDGET) for _ in range(3)]
        for task in tasks:
            assert task.wait(LONG).status == "completed"
        failed = log.wait_for("callback.failed", count=3, where="on_event")
    assert "SystemExit" in failed[0].fields["error"]
    assert sorted(heard) == sorted(("task.closed", task.id) for task in tasks)
    assert log.strangers == []


def test_a_callback_that_blocks_holds_up_nothing_but_itself(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    heard: list[str] = []

    def on_event(name: str, fields: Any) -> None:
        gate.stand()
        heard.append(fields["task"])

    with opened(tmp_path / "t.db", reporter(world), on_event=on_event) as runtime:
        tasks = [runtime.submit("agent", "do it", budget=BUDGET) for _ in range(20)]
        for task in tasks:
            assert task.wait(LONG).status == "completed"
        callers = [one for one in own_threads() if "on_event" in one.name]
        assert len(callers) == 1
        gate.left.set()
    assert gone(callers)
    with open_reader(tmp_path / "t.db") as reader:
        closed = [
            one.stream.split("/")[1]
            for one in reader.records(limit=100_000)
            if one.type == "TaskClosed"
        ]
    assert heard == closed  # in the order of the log


# ── logs ─────────────────────────────────────────────────────────────────────────


def test_every_event_of_the_catalogue_passes_a_structlog_logger() -> None:
    seen: list[dict[str, Any]] = []

    def keep(logger: Any, method: str, event: dict[str, Any]) -> Any:
        seen.append(dict(event))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(
        None,
        processors=[keep],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    sink = open_sink(logger)
    for event, fields in CATALOGUE.items():
        sink.write(event, {"at": 1.0, **dict.fromkeys(fields, 1)})
    assert [one["event"] for one in seen] == list(CATALOGUE)


def test_every_event_of_the_catalogue_passes_the_stdlib_logger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="perdure")
    sink = open_sink(None)
    for event, fields in CATALOGUE.items():
        sink.write(event, {"at": 1.0, **dict.fromkeys(fields, 1)})
    names = [record.perdure["event"] for record in caplog.records]  # type: ignore[attr-defined]
    assert names == list(CATALOGUE)


def test_a_logger_of_the_host_that_raises_ends_nothing(
    tmp_path: Path, world: World
) -> None:
    class Angry:
        def bind(self, **fields: Any) -> Angry:
            return self

        def log(self, level: int, event: str, **fields: Any) -> None:
            raise SystemExit(event)

    with opened(tmp_path / "t.db", reporter(world), log=Angry()) as runtime:
        result = runtime.submit("agent", "do it", budget=BUDGET).wait(LONG)
        assert result.status == "completed"


def test_by_default_the_log_goes_to_the_stdlib_and_nowhere_else(
    tmp_path: Path,
    world: World,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    caplog.set_level(logging.INFO, logger="perdure")
    with opened(tmp_path / "t.db", reporter(world)) as runtime:
        task = runtime.submit("agent", "do it", budget=BUDGET)
        assert task.wait(LONG).status == "completed"
    assert (list(root.handlers), root.level) == before
    told = {record.getMessage().split()[0] for record in caplog.records}
    assert {"task.submitted", "task.closed"} <= told
    assert capfd.readouterr() == ("", "")


def test_a_log_file_has_a_line_for_each_record_once_and_in_order(
    tmp_path: Path, world: World
) -> None:
    # P11
    for _ in range(2):
        with opened(
            tmp_path / "t.db", reporter(world), log=tmp_path / "log.jsonl"
        ) as runtime:
            runtime.submit("agent", "do it", budget=BUDGET).wait(LONG)
    told = [one["seq"] for one in read_log(tmp_path / "log.jsonl") if "seq" in one]
    with open_reader(tmp_path / "t.db") as reader:
        assert told == list(range(1, reader.durable_seq + 1))
