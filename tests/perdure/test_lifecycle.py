"""The life of a runtime on real threads and files: failures, crashes, and its end."""

from __future__ import annotations

import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Budget,
    Result,
    RuntimeClosed,
    RuntimeFailed,
    tool,
)
from perdure.actors.events import EVENTS, Granted
from perdure.actors.names import ADMISSION, JOURNAL, POOL, SERVICES, TASKS
from perdure.storage.codec import Codec
from perdure.storage.errors import StoreFailed
from perdure.storage.reader import open_reader
from perdure.storage.sqlite_reader import SqliteReader
from perdure.supervision.faults import Fault
from perdure.supervision.lifecycle import Crash
from tests.actors.world import World
from tests.perdure.hosting import (
    BUDGET,
    LONG,
    Gate,
    Told,
    calls,
    faults,
    gone,
    opened,
    reporter,
)

CODEC = Codec(EVENTS)
FAMILY = ("", "/ledger", "/account", "/context", "/task")


def run_one(path: Path, world: World, **options: Any) -> Result:
    """One task from its submission to its stop, on a runtime of its own."""
    with opened(path, reporter(world), **options) as runtime:
        return runtime.submit("agent", "do it", budget=BUDGET).wait(LONG)


def hits_of_a_run(folder: Path) -> list[tuple[str, str]]:
    hits: list[tuple[str, str]] = []
    with faults(observe=lambda point, subject: hits.append((point, subject))):
        run_one(folder / "rehearsal.db", World(), log=Told())
    return hits


def events(store: Path, kind: type[Any]) -> list[Any]:
    with open_reader(store) as reader:
        return [
            CODEC.decode(record)
            for record in reader.records(limit=100_000)
            if record.type == kind.__name__
        ]


def whole_and_once(result: Result, world: World, log: Told) -> None:
    """It completed as if nothing had happened, and each line is in the catalogue."""
    assert result.status == "completed", result
    assert [text for _, text in world.sent] == ["hello"]
    assert log.strangers == []


# ── the journal fails ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["journal.flush.before", "journal.flush.after"])
@pytest.mark.parametrize(
    "kind",
    [
        "TaskSubmitted",
        "EffectRegistered",
        "ActionObserved",
        "StepEnded",
        "TaskClosed",
    ],
)
def test_a_journal_that_fails_is_opened_again_and_the_handle_gets_its_result(
    tmp_path: Path, world: World, point: str, kind: str
) -> None:
    # P1 P6. After the flush: written, and nobody heard of it.
    log, heard = Told(), []
    told = threading.Event()

    def on_event(name: str, fields: Any) -> None:
        heard.append(name)
        told.set()

    with faults(Fault(point=point, subject=kind, action="raise")):
        result = run_one(tmp_path / "t.db", world, log=log, on_event=on_event)
        assert told.wait(LONG)
    whole_and_once(result, world, log)
    assert heard == ["task.closed"]
    restarts = log.wait_for("supervisor.restarting", child=JOURNAL)
    assert len(restarts) == 1


def test_a_journal_that_fails_at_a_read_is_opened_again(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Told()
    failures = iter([StoreFailed("t.db", "disk I/O error")])
    whole = SqliteReader._stretch

    def stretch(reader: SqliteReader, stream: str, after: int, limit: int) -> Any:
        if stream.startswith("task/"):
            for failure in failures:
                raise failure
        return whole(reader, stream, after, limit)

    monkeypatch.setattr(SqliteReader, "_stretch", stretch)
    result = run_one(tmp_path / "t.db", world, log=log)
    whole_and_once(result, world, log)
    assert log.wait_for("supervisor.restarting", child=JOURNAL)


def test_a_once_effect_that_runs_while_the_journal_fails_stays_at_one(
    tmp_path: Path,
) -> None:
    # P2: the executor keeps its outcome until a record of it is flushed.
    gate, log, paid = Gate(), Told(), []

    @tool(effect="once")
    def pay(what: str) -> str:
        paid.append(what)
        gate.stand()
        return "paid"

    agent = reporter(World(), pay, script=calls("pay"))
    plan = Fault(
        point="journal.flush.before", subject="TaskSubmitted", action="raise", nth=2
    )
    with faults(plan), opened(tmp_path / "t.db", agent, log=log) as runtime:
        task = runtime.submit("agent", "pay", budget=BUDGET)
        assert gate.entered.wait(LONG)
        with pytest.raises(TimeoutError):
            task.wait(0.0)
        # The next submission's flush fails, under the running tool.
        second = runtime.submit("agent", "pay", budget=BUDGET)
        log.wait_for("supervisor.restarting", child=JOURNAL)
        log.wait_for("actor.started", count=2, name=TASKS)
        gate.left.set()
        assert task.wait(LONG).status == "completed"
        assert second.wait(LONG).status == "completed"
    assert len(paid) == 2  # once for each task


def test_over_the_roots_limit_every_waiter_and_later_call_hears_of_it(
    tmp_path: Path, world: World
) -> None:
    gate, log = Gate(), Told()

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    agent = reporter(world, hold, script=calls("hold"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(task.wait, LONG) for _ in range(3)]
            for count in range(1, 5):  # the limit is 3 in 60 s
                log.wait_for("actor.started", count=count, name=TASKS)
                runtime._system.kill(JOURNAL, Crash(error="disk on fire"))
            for one in waiting:
                with pytest.raises(RuntimeFailed, match="disk on fire"):
                    one.result(LONG)
        for call in (task.wait, task.resume, task.cancel, task.pause):
            with pytest.raises(RuntimeFailed):
                call()
        with pytest.raises(RuntimeFailed):
            runtime.submit("agent", "one more")
        assert runtime.health()["state"] == "failed"
        assert task.status == "running"  # what is on disk can still be read
        gate.left.set()
    agent = reporter(world, hold, script=calls("hold"))
    with opened(tmp_path / "t.db", agent) as runtime:
        assert runtime.task(task.id).wait(LONG).status == "completed"


def test_a_store_that_is_away_is_waited_for_and_no_other_is_made_in_its_place(
    tmp_path: Path, world: World
) -> None:
    store, away, log = tmp_path / "t.db", tmp_path / "away.db", Told()

    def take_away(point: str, subject: str) -> None:
        first = not away.exists() and not log.of("journal.trouble")
        if first and (point, subject) == ("journal.flush.before", "EffectRegistered"):
            store.rename(away)

    plan = Fault(
        point="journal.flush.before", subject="EffectRegistered", action="raise"
    )
    with (
        faults(plan, observe=take_away),
        opened(store, reporter(world), log=log) as runtime,
    ):
        task = runtime.submit("agent", "do it", budget=BUDGET)
        log.wait_for("journal.trouble", count=6, kind="open")
        assert not store.exists()
        assert runtime.health()["admission"] is False
        away.rename(store)
        whole_and_once(task.wait(LONG), world, log)
    # Six attempts in vain, and one restart: the limit is three.
    assert len(log.wait_for("supervisor.restarting", child=JOURNAL)) == 1
    pauses = [line.fields["retry_in"] for line in log.wait_for("journal.trouble")]
    assert max(pauses) <= 30.0


def test_a_store_that_another_process_took_is_waited_for(
    tmp_path: Path, world: World
) -> None:
    log, held = Told(), []

    def take(point: str, subject: str) -> None:
        # The failed journal has let its lock go when it is opened again.
        failed = bool(log.of("supervisor.restarting"))
        if failed and point == "journal.open.before" and not held:
            held.append(os.open(tmp_path / "t.db.lock", os.O_RDWR))
            fcntl.flock(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)

    plan = Fault(point="journal.flush.before", nth=3, action="raise")
    with (
        faults(plan, observe=take),
        opened(tmp_path / "t.db", reporter(world), log=log) as runtime,
    ):
        task = runtime.submit("agent", "do it", budget=BUDGET)
        log.wait_for("journal.trouble", count=3, kind="open")
        os.close(held[0])
        whole_and_once(task.wait(LONG), world, log)


def test_a_failed_journal_with_a_read_stuck_in_it_is_given_up_when_that_ends(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, log = Gate(), Told()
    stretch = SqliteReader._stretch

    def slow(reader: SqliteReader, stream: str, after: int, limit: int) -> Any:
        if stream.startswith("task/") and not gate.entered.is_set():
            gate.stand()
        return stretch(reader, stream, after, limit)

    monkeypatch.setattr(SqliteReader, "_stretch", slow)
    with opened(tmp_path / "t.db", reporter(world), log=log) as runtime:
        task = runtime.submit("agent", "do it", budget=BUDGET)
        assert gate.entered.wait(LONG)
        plan = Fault(point="journal.flush.before", action="raise")
        with faults(plan), ThreadPoolExecutor(1) as pool:
            # The read stands in the way of the reopening, not of its failure.
            second = pool.submit(runtime.submit, "agent", "do it", budget=BUDGET)
            log.wait_for("journal.trouble", kind="open")
            gate.left.set()
            assert second.result(LONG).wait(LONG).status == "completed"
        assert task.wait(LONG).status == "completed"
    assert len(world.sent) == 2


def test_a_runtime_closes_while_its_store_is_away(tmp_path: Path, world: World) -> None:
    store, log = tmp_path / "t.db", Told()

    def take_away(point: str, subject: str) -> None:
        if point == "journal.flush.before" and store.exists():
            store.rename(tmp_path / "away.db")

    runtime = opened(store, reporter(world), log=log)
    plan = Fault(point="journal.flush.before", action="raise")
    with faults(plan, observe=take_away), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(runtime.submit, "agent", "do it")
        log.wait_for("journal.trouble", kind="open")
        runtime.close()
        with pytest.raises(RuntimeClosed):
            asked.result(LONG)
    assert not store.exists()


# ── actors crash ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("share", [0.02, 0.2, 0.4, 0.6, 0.8])
@pytest.mark.parametrize(
    "actor",
    [ADMISSION, POOL, SERVICES, TASKS, JOURNAL, *(f"task/ID{one}" for one in FAMILY)],
)
def test_a_crash_of_any_actor_at_any_time_costs_no_task_anything(
    tmp_path: Path, world: World, actor: str, share: float
) -> None:
    # P6 P8
    log, count, lock = Told(), [0], threading.Lock()
    at = round(share * len(hits_of_a_run(tmp_path)))
    crashed: list[threading.Thread] = []

    def crash() -> None:
        found = [row.task for row in runtime.tasks()]
        name = actor.replace("ID", found[0] if found else "none")
        runtime._system.kill(name, Crash(error="a test's crash"))

    def observe(point: str, subject: str) -> None:
        with lock:
            count[0] += 1
            if count[0] != at:
                return
            crashed.append(threading.Thread(target=crash))
        crashed[0].start()

    with opened(tmp_path / "t.db", reporter(world), log=log) as runtime:
        with faults(observe=observe):
            result = runtime.submit("agent", "do it", budget=BUDGET).wait(LONG)
            assert gone(crashed)
        whole_and_once(result, world, log)


POINTS = [
    *[("admission.append.after", kind) for kind in ("TaskQueued", "TaskActivated")],
    *[("admission.queued", "agent"), ("admission.activated", "agent")],
    *[("pool.append.after", "Granted"), ("pool.append.after", "GrantReturned")],
    *[("account.append.after", kind) for kind in ("Reserved", "Settled")],
    *[("ledger.append.after", f"Effect{how}") for how in ("Registered", "Recorded")],
    *[("task.append.after", kind) for kind in ("DecisionMade", "StepEnded")],
    *[("effect.recorded", "send"), ("effect.settled", "send")],
    *[("task.closing", ""), ("journal.append.after", "TaskSubmitted")],
]


@pytest.mark.parametrize(("point", "subject"), POINTS)
def test_an_actor_that_raises_between_its_append_and_its_message_costs_nothing(
    tmp_path: Path, world: World, point: str, subject: str
) -> None:
    log, hits = Told(), []
    plan = Fault(point=point, subject=subject, action="raise")
    with faults(plan, observe=lambda *hit: hits.append(hit)):
        result = run_one(tmp_path / "t.db", world, log=log)
    assert (point, subject) in hits
    whole_and_once(result, world, log)


def test_callers_go_on_through_crashes_of_what_they_ask(
    tmp_path: Path, world: World
) -> None:
    # Eight threads submit and wait while admission and tasks crash again and again.
    log = Told()
    with (
        opened(tmp_path / "t.db", reporter(world), log=log, active=4) as runtime,
        ThreadPoolExecutor(8) as pool,
    ):
        log.wait_for("actor.started", name=TASKS)

        def one(number: int) -> str:
            task = runtime.submit("agent", "do it", budget=BUDGET, key=f"k{number}")
            return task.wait(LONG).status

        asked = [pool.submit(one, number) for number in range(24)]
        for number in range(3):
            for name in (ADMISSION, TASKS)[: 1 + (number == 1)]:
                asked[number * 5].result(LONG)
                runtime._system.kill(name, Crash(error="a test's crash"))
                log.wait_for("supervisor.restarting", child=name)
        assert [one.result(LONG) for one in asked] == ["completed"] * 24
        assert len(runtime.tasks()) == 24
    assert len(world.sent) == 24
    assert len({key for key, _ in world.sent}) == 24


def test_a_resume_that_crashes_on_its_way_still_wakes_the_task(
    tmp_path: Path, world: World
) -> None:
    gate, log = Gate(), Told()

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    agent = reporter(world, hold, script=calls("hold", "look"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        assert task.pause()
        gate.left.set()
        assert task.wait(LONG).status == "paused"
        plan = Fault(
            point="admission.append.after", subject="TaskWoken", action="raise"
        )
        with faults(plan):
            task.resume()
        assert task.wait(LONG).status == "completed"


def test_a_cancel_that_crashes_on_its_way_still_ends_the_task(
    tmp_path: Path, world: World
) -> None:
    gate, log = Gate(), Told()

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    agent = reporter(world, hold, script=calls("hold", "look"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        plan = Fault(
            point="admission.append.after", subject="TaskWoken", action="raise"
        )
        with faults(plan), ThreadPoolExecutor(1) as pool:
            ended = pool.submit(task.cancel, "a test", LONG)
            log.wait_for("actor.started", count=2, name=ADMISSION)
            gate.left.set()
            assert ended.result(LONG).status == "cancelled"
    assert world.looks == 0


def test_an_extension_that_crashes_on_its_way_is_granted_once(
    tmp_path: Path, world: World
) -> None:
    # P3
    gate, log = Gate(), Told()

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    agent = reporter(world, hold, script=calls("hold"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        with faults(
            Fault(point="pool.append.after", subject="Granted", action="raise")
        ):
            task.extend(Budget(tool_calls=7))
        gate.left.set()
        assert task.wait(LONG).status == "completed"
    more = events(tmp_path / "t.db", Granted)[1:]
    assert [one.amounts for one in more] == [{"tool_calls": 7}]


# ── submitted once, found again ──────────────────────────────────────────────────


def test_a_key_names_one_task_for_all_threads_and_after_a_restart(
    tmp_path: Path, world: World
) -> None:
    barrier = threading.Barrier(4)
    with (
        opened(tmp_path / "t.db", reporter(world)) as runtime,
        ThreadPoolExecutor(4) as pool,
    ):

        def submit() -> str:
            barrier.wait(LONG)
            return runtime.submit("agent", "do it", budget=BUDGET, key="k").id

        asked = [pool.submit(submit) for _ in range(4)]
        (task,) = {one.result(LONG) for one in asked}
    with opened(tmp_path / "t.db", reporter(world)) as runtime:
        assert runtime.submit("agent", "do it", key="k").id == task
        assert runtime.task(task).wait(LONG).status == "completed"
        assert runtime.submit("agent", "do it", key="k").id == task
    assert len(world.sent) == 1
