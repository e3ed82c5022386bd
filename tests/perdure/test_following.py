"""Following a task as a host does it: threads, event loops, real files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import (
    Handle,
    Runtime,
    RuntimeClosed,
    StoreRefused,
    TaskEvent,
    UseAsync,
    tool,
)
from perdure.cli import main
from perdure.following import Following
from perdure.models import Scripted
from perdure.storage.errors import StoreFailed
from perdure.storage.reader import open_reader
from perdure.storage.sqlite_reader import SqliteReader
from perdure.supervision.faults import Fault
from tests.actors.world import World, follow
from tests.perdure.hosting import (
    BUDGET,
    LONG,
    Gate,
    Told,
    calls,
    faults,
    opened,
    own_threads,
    reporter,
)


def seqs(store: Path, task: str) -> list[int]:
    with open_reader(store) as reader:
        return [one.seq for one in reader.records(0, 10_000, f"task/{task}")]


def holding(world: World, gate: Gate, **options: Any) -> Any:
    @tool(effect="read")
    def hold(what: str) -> str:
        """Stand in the gate."""
        gate.stand()
        return what

    return reporter(world, hold, script=calls("look", "hold", "look"), **options)


def watches(runtime: Runtime) -> list[Any]:
    assert len(runtime._watchers._all) == len(runtime._watchers.alive)
    return list(runtime._watchers.alive)


def on_a_thread(task: Handle, **options: Any) -> tuple[list[TaskEvent], Any]:
    """Follow on a thread of its own; what it saw, and the thread."""
    seen: list[TaskEvent] = []
    thread = threading.Thread(target=lambda: seen.extend(task.events(**options)))
    thread.start()
    return seen, thread


def test_a_thread_follows_a_task_that_runs(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        seen, thread = on_a_thread(task)
        late, other = on_a_thread(task, after=10)
        gate.left.set()
        thread.join(LONG)
        other.join(LONG)
        stored = seqs(tmp_path / "t.db", task.id)
        assert [one.seq for one in seen] == stored
        assert [one.seq for one in late] == [seq for seq in stored if seq > 10]
        assert watches(runtime) == []


def test_a_timeout_ends_one_wait_and_not_the_watch(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        events = task.events(timeout=0.05)
        seen: list[int] = []

        def see() -> None:
            for one in events:
                seen.append(one.seq)  # noqa: PERF401 - what it saw is kept

        with pytest.raises(TimeoutError, match="nothing new of task"):
            see()
        gate.left.set()
        while not events._cursor.over:
            with suppress(TimeoutError):
                see()
        assert seen == seqs(tmp_path / "t.db", task.id)


def test_closing_it_from_another_thread_ends_the_loop(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        events = task.events()
        thread = threading.Thread(target=lambda: list(events))
        thread.start()
        while not waits(runtime):
            thread.join(0.001)
        events.close()
        thread.join(LONG)
        assert not thread.is_alive()
        assert watches(runtime) == []
        gate.left.set()


def waits(runtime: Runtime) -> bool:
    """Whether a watch has read all there is, and waits."""
    return any(one._promise is not None for one in runtime._watchers.alive)


def test_whoever_waits_hears_that_the_runtime_was_closed(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    runtime = opened(tmp_path / "t.db", holding(world, gate))
    task = runtime.submit("agent", "hold", budget=BUDGET)
    assert gate.entered.wait(LONG)
    events = task.events()
    told: list[BaseException] = []

    def watch() -> None:
        try:
            list(events)
        except RuntimeClosed as error:
            told.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    while not waits(runtime):
        thread.join(0.001)
    gate.left.set()
    runtime.close()
    thread.join(LONG)
    assert len(told) == 1
    with pytest.raises(RuntimeClosed):
        next(task.events())


def test_a_journal_that_fails_is_watched_over(tmp_path: Path, world: World) -> None:
    log = Told()
    store = tmp_path / "t.db"
    fault = Fault(point="journal.flush.after", subject="StepEnded", action="raise")
    with faults(fault), opened(store, reporter(world), log=log) as runtime:
        task = runtime.submit("agent", "do it", budget=BUDGET)
        seen = [one.seq for one in task.events()]
        assert seen == seqs(store, task.id)
    assert log.wait_for("supervisor.restarting", child="journal")


def test_a_store_that_cannot_be_read_just_now_is_read_again(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([StoreFailed("t.db", "disk I/O error")] * 3)
    stretch = SqliteReader._stretch

    def failing(reader: SqliteReader, *arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return stretch(reader, *arguments)

    monkeypatch.setattr(SqliteReader, "_stretch", failing)
    with opened(tmp_path / "t.db", reporter(world)) as runtime:
        task = runtime.submit("agent", "do it", budget=BUDGET)
        assert [one.seq for one in task.events()] == seqs(tmp_path / "t.db", task.id)


def test_a_damaged_record_ends_the_watch_and_is_named(
    tmp_path: Path, world: World
) -> None:
    store = tmp_path / "t.db"
    with opened(store, reporter(world)) as runtime:
        task = runtime.submit("agent", "do it", budget=BUDGET)
        assert task.wait(LONG).status == "completed"
    damaged = seqs(store, task.id)[-2]
    with closing(apsw.Connection(str(store))) as other:
        other.execute("UPDATE records SET at = at + 1 WHERE seq = ?", [damaged])
    assert main(["watch", task.id, "--store", str(store)]) == 2
    with opened(store, reporter(world)) as runtime:
        events = runtime.task(task.id).events()
        with pytest.raises(StoreRefused, match=f"record {damaged} "):
            list(events)


# ── event loops ──────────────────────────────────────────────────────────────────


def test_inside_a_loop_the_blocking_form_names_its_twin(
    tmp_path: Path, world: World
) -> None:
    async def host() -> None:
        async with opened(tmp_path / "t.db", reporter(world)) as runtime:
            task = await runtime.asubmit("agent", "do it", budget=BUDGET)
            with pytest.raises(UseAsync, match="aevents"):
                task.events()

    asyncio.run(host())


def test_two_hundred_watchers_need_no_thread_each(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    # P12
    async def follow_it(task: Handle) -> list[int]:
        return [one.seq async for one in task.aevents()]

    async def host() -> None:
        async with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
            tasks = [
                await runtime.asubmit("agent", f"hold {n}", budget=BUDGET)
                for n in range(4)
            ]
            watching = [
                asyncio.ensure_future(follow_it(tasks[n % 4])) for n in range(200)
            ]
            while not all_wait(runtime, 200):  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0)
            assert threading.active_count() < 60
            assert len(own_threads()) < 25
            gate.left.set()
            found = await asyncio.gather(*watching)
            stored = [seqs(tmp_path / "t.db", one.id) for one in tasks]
            assert found == [stored[n % 4] for n in range(200)]
            assert watches(runtime) == []

    asyncio.run(host())


def all_wait(runtime: Runtime, count: int) -> bool:
    found = runtime._watchers.alive
    return sum(one._promise is not None for one in found) == count


def test_watchers_of_a_task_that_rests_read_nothing(
    tmp_path: Path, world: World, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    # P12: they are woken by what is flushed of their task, and by nothing else.
    reads: list[str] = []
    stretch = SqliteReader._stretch

    def counted(reader: SqliteReader, stream: str, after: int, limit: int) -> Any:
        reads.append(stream)
        return stretch(reader, stream, after, limit)

    monkeypatch.setattr(SqliteReader, "_stretch", counted)

    async def host() -> None:
        agent = holding(world, gate)
        busy = reporter(world, script=calls("look"))
        busy.name = "busy"
        async with opened(tmp_path / "t.db", agent, busy) as runtime:
            task = await runtime.asubmit("agent", "hold", budget=BUDGET)
            events = task.aevents()
            waiting = asyncio.ensure_future(drain(events))
            await asyncio.to_thread(gate.entered.wait, LONG)
            journal = runtime._house.journal
            while journal.backlog or not all_wait(runtime, 1):  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0)
            before = len(reads)
            other = await runtime.asubmit("busy", "look", budget=BUDGET)
            assert (await other).status == "completed"
            mine = f"task/{task.id}"
            assert not [one for one in reads[before:] if one.startswith(mine)]
            gate.left.set()
            assert await waiting > 10

    asyncio.run(host())


async def drain(events: Any) -> int:
    return len([one async for one in events])


def test_leaving_the_loop_or_cancelling_it_frees_it_at_once(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    # P12
    async def host() -> None:
        async with opened(tmp_path / "t.db", holding(world, gate)) as runtime:
            task = await runtime.asubmit("agent", "hold", budget=BUDGET)
            await asyncio.to_thread(gate.entered.wait, LONG)
            async for _ in task.aevents():
                break
            assert watches(runtime) == []
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(drain(task.aevents()), 0.01)
            assert watches(runtime) == []
            events = task.aevents()
            waiting = asyncio.ensure_future(drain(events))
            while not all_wait(runtime, 1):  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0)
            await events.aclose()
            assert await waiting > 0
            assert watches(runtime) == []
            gate.left.set()

    asyncio.run(host())


def test_a_cancelled_wait_loses_no_event(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    async def host() -> list[int]:
        async with opened(tmp_path / "t.db", reporter(world)) as runtime:
            task = await runtime.asubmit("agent", "do it", budget=BUDGET)
            events, seen = task.aevents(), []
            wait: float = 0.0
            while True:
                wait = min(wait + 0.000_1, 1.0)
                try:
                    one = await asyncio.wait_for(anext(events), wait)
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    break
                seen.append(one.seq)
            assert seen == seqs(tmp_path / "t.db", task.id)
            return seen

    assert asyncio.run(host())


def test_what_was_read_for_a_cancelled_wait_is_read_again(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()
    next_page = Following.next_page

    def slow(*arguments: Any) -> Any:
        reading.set()
        assert go_on.wait(LONG)
        return next_page(*arguments)

    async def host() -> None:
        async with opened(tmp_path / "t.db", reporter(world)) as runtime:
            task = await runtime.asubmit("agent", "do it", budget=BUDGET)
            assert (await task).status == "completed"
            monkeypatch.setattr(Following, "next_page", slow)
            events = task.aevents()
            waiting = asyncio.ensure_future(drain(events))
            await asyncio.to_thread(reading.wait, LONG)
            waiting.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            count = await asyncio.wait_for(drain(events), LONG)
            assert count == len(seqs(tmp_path / "t.db", task.id))

    asyncio.run(host())


def test_words_reach_an_event_loop_before_their_reply_is_recorded(
    tmp_path: Path, world: World
) -> None:
    heard = asyncio.Event()

    class Waiting:
        """Goes on once somebody has heard its first words."""

        name = "waiting"

        def __init__(self) -> None:
            self.inner = Scripted(follow(calls("look")), stream=True)

        async def complete(self, request: Any) -> Any:
            pytest.fail("it streams")

        async def complete_streaming(
            self, request: Any, said: Callable[[str], None]
        ) -> Any:
            said("Let me see. ")
            await asyncio.wait_for(asyncio.to_thread(let_on.wait, LONG), LONG)
            return await self.inner.complete(request)

    let_on = threading.Event()

    async def host() -> None:
        agent = reporter(world, script=calls("look"), model=Waiting())
        async with opened(tmp_path / "t.db", agent) as runtime:
            task = await runtime.asubmit("agent", "look", budget=BUDGET)
            async for one in task.aevents(partial=True):
                if one.provisional and not heard.is_set():  # the next call is let on
                    assert one.fields["text"] == "Let me see. "
                    assert not any(
                        record.op == one.fields["op"]
                        for record in recorded(tmp_path / "t.db", task.id)
                    )
                    heard.set()
                    let_on.set()

    asyncio.run(host())
    assert heard.is_set()


def recorded(store: Path, task: str) -> list[Any]:
    from tests.actors.world import decode

    with open_reader(store) as reader:
        records = reader.records(0, 10_000, f"task/{task}/ledger")
    return [decode(one) for one in records if one.type == "EffectRecorded"]
