"""What ended tasks need no more goes after a while, and all that is shown stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import Agent, Misuse, Runtime, tool
from perdure.actors.admission import trim
from perdure.actors.events import (
    EffectRecorded,
    EffectRegistered,
    ScratchDropped,
    TaskTrimmed,
)
from perdure.actors.ledger.places import outcome_of
from perdure.actors.names import EFFECT_KEYS, ENDED_ROWS
from perdure.actors.task.forked import CARRIED, LEFT
from perdure.actors.task.rows import ENDED
from perdure.actors.task.trimmed import KEPT
from perdure.doctor.examine import examine_reader
from perdure.export import export_task
from perdure.models import Scripted
from perdure.storage.erasure import moved
from perdure.storage.memory import MemoryBackend, MemoryReader, MemoryStore
from perdure.testing import SimulatedDispatcher, in_turn
from perdure.views import sheet
from perdure.views_checkpoint import checkpoint
from perdure.views_effects import effects
from perdure.views_effects import log as log_of
from perdure.views_request import RequestSheet, request
from perdure.views_spend import spend
from perdure.views_standing import plan
from tests.actors.runs import sound
from tests.actors.test_policies import wide
from tests.actors.world import (
    PLENTY,
    Calls,
    House,
    World,
    follow,
    handing_on,
    job,
    tools_of,
)

DAY = 86_400.0  # seconds
QUEUE = "services/admission"
KINDS = {"TaskSubmitted", "TaskTrimmed", "StepEnded", "TaskClosing", "TaskClosed"}
BIG = "chapter and verse; " * 2_000


def reader_of(house: House) -> MemoryReader:
    return MemoryReader(house.store, lambda *_: None)


def let_go(house: House, *tasks: str, days: float = 1.1) -> None:
    """Let so much time pass that the scratch of these tasks goes."""

    def over() -> bool:
        done = {one["task"] for one in house.log.of("retention.dropped") if one["over"]}
        return done >= set(tasks)

    assert house.until(over, days * DAY)
    assert house.log.strangers == []
    assert house.log.crashes() == []


def rendered(house: House, task: str) -> list[RequestSheet]:
    """The first two requests of a task, rendered again."""
    return [request(reader_of(house), task, place)[0] for place in (1, 2)]


def dropped(house: House) -> None:
    """Let time pass until some scratch has just gone."""
    have = len(house.log.of("retention.dropped"))
    more = house.until(lambda: len(house.log.of("retention.dropped")) > have, 2 * DAY)
    assert more


def shown(house: House, task: str) -> dict[str, Any]:
    """All that commands show of an ended task, but for what retention says itself."""
    reader = reader_of(house)
    lines = [
        msgspec.structs.replace(one, arguments="", result="", trimmed=False)
        for one in effects(reader, task)
    ]
    used = spend(reader, task, "tool")
    return {
        "sheet": msgspec.structs.replace(sheet(reader, task), trimmed=None),
        "effects": lines,
        "spend": (used.lines, used.total),
        "plan": plan(reader, task),
        "result": house.runtime.wait(task, timeout=1.0),
    }


def healthy(house: House) -> list[tuple[str, str]]:
    report = examine_reader(reader_of(house), "store", agents=house.agents)
    return [(one.kind, one.where) for one in report.findings]


def sized(store: MemoryStore) -> int:
    return sum(len(one.body) for one in store.log)


def reading(world: World, **options: Any) -> Agent:
    """An agent that reads something big, sends something big, and is done."""

    @tool(effect="read")
    def fetch(what: str) -> str:
        """Fetch a document."""
        return f"{what}: {BIG}"

    @tool(effect="once")
    def post(what: str) -> str:
        """Post a document."""
        world.sent.append(("", what))
        return f"posted {what}: {BIG}"

    calls: Calls = [("fetch", {"what": "a"}), ("post", {"what": "b"})]
    return Agent(
        name="agent",
        instructions="Read and send.",
        model=Scripted(follow({"task": [calls]})),
        tools=[fetch, post, *tools_of(world)],
        recovery="rules",
        **options,
    )


AGENTS = {
    "planned": lambda: job(World()),
    "policy": lambda: wide(World()),
    "plain": lambda: reading(World()),
    "failing": lambda: job(World(), accept=lambda *_: False),
}


@pytest.mark.parametrize("kind", AGENTS)
def test_all_that_is_shown_of_an_ended_task_stays(kind: str) -> None:
    house = House(AGENTS[kind](), retention="1d")
    task = house.submit(key="mine", inputs={"a": 1})
    house.finish(task.id)
    if task.status not in ENDED:
        task.cancel()
    house.sim.run_for(60.0)
    before, size = shown(house, task.id), sized(house.store)
    let_go(house, task.id)
    assert shown(house, task.id) == before
    assert healthy(house) == []
    assert sized(house.store) < 0.85 * size
    stream = reader_of(house).load(f"task/{task.id}").records
    assert [one.version for one in stream] == list(range(1, len(stream) + 1))
    assert house.submit(key="mine").id == task.id  # idempotent for good


def test_what_led_to_the_end_goes_and_what_was_done_stays() -> None:  # A40 B79
    house = House(reading(World()), retention="1d")
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    let_go(house, task.id)
    assert set(house.kinds(f"task/{task.id}")) == {
        "TaskSubmitted",
        "TaskTrimmed",
        "StepEnded",
        "TaskClosing",
        "TaskClosed",
    } - ({"StepEnded"} - set(house.kinds(f"task/{task.id}")))
    made = house.of(f"task/{task.id}/ledger", EffectRegistered)
    words = {one.op: (one.name, one.trimmed, bool(one.arguments)) for one in made}
    told = {
        words[one.op][0]: (bool(one.result), bool(one.blob), one.status)
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
    }
    assert told["fetch"] == (False, False, "completed")
    assert told["post"] == (True, True, "completed")
    assert ("fetch", True, False) in words.values()
    assert ("post", False, True) in words.values()
    (blob,) = house.store.blobs.values()
    assert blob.startswith(b"posted")
    read = {
        name: house.runtime._reading.read(
            lambda reader, op=op: outcome_of(
                reader, house.runtime._house.event_of, task.id, op
            )
        )
        for op, (name, _, _) in words.items()
    }
    assert {name for name, found in read.items() if found is not None} == {"post"}
    assert not house.store.rows.get(EFFECT_KEYS)
    assert not house.store.rows[ENDED_ROWS]


def test_nothing_goes_before_its_time() -> None:
    house = House(job(World()), retention="2d")
    task = house.submit()
    house.finish(task.id)
    house.sim.run_for(60.0)
    before = list(house.store.log)
    house.sim.run_for(1.9 * DAY)
    assert house.store.log == before
    house.sim.run_for(0.2 * DAY)
    assert "TaskTrimmed" in house.kinds(f"task/{task.id}")


@pytest.mark.parametrize("kept", [None, "forever"])
def test_everything_is_kept_where_the_host_says_so(kept: str | None) -> None:
    house = House(job(World()), retention=kept)
    task = house.submit()
    house.finish(task.id)
    house.sim.run_for(60.0)
    before = list(house.store.log)
    house.sim.run_for(400 * DAY)
    assert house.store.log == before
    house.runtime.close()
    house.reopen(retention="1d")  # what was kept until now is known
    let_go(house, task.id)


@pytest.mark.parametrize("span", [0, -1, "0d", "a month", "5w", True, float("nan"), []])
def test_a_retention_that_is_none_is_refused_when_it_is_built(span: Any) -> None:
    with pytest.raises(Misuse, match="retention="):
        Runtime(MemoryBackend(), dispatcher=SimulatedDispatcher(0), retention=span)


def test_what_came_due_while_nobody_had_the_store_goes_soon() -> None:
    house = House(job(World()), retention="1d")
    task = house.submit()
    house.finish(task.id)
    house.runtime.close()
    house.sim.clock.advance(40 * DAY)
    house.reopen()
    house.sim.run_for(30.0)
    assert "TaskTrimmed" in house.kinds(f"task/{task.id}")


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_between_two_parts_costs_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trim, "PART", 4)
    house = House(wide(World()), seed=seed, retention="1d")
    task = house.submit(key="mine")
    house.finish(task.id)
    before = shown(house, task.id)
    kills = 0
    while not any(one["over"] for one in house.log.of("retention.dropped")):
        dropped(house)
        house.kill()
        kills += 1
        house.reopen()
        assert healthy(house) == []
        assert shown(house, task.id) == before
    assert kills > 5
    assert shown(house, task.id) == before
    assert house.log.crashes() == []
    assert set(house.kinds(f"task/{task.id}")) <= KINDS


def test_each_part_is_small_and_others_run_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trim, "PART", 5)
    house = House(job(World()), retention="1d")
    first = house.submit()
    house.finish(first.id)
    dropped(house)
    second = house.submit()
    house.finish(second.id)
    parts = house.of(QUEUE, ScratchDropped)
    assert not any(one.over for one in parts)  # the task had its turns meanwhile
    let_go(house, first.id)
    parts = [one for one in house.of(QUEUE, ScratchDropped) if one.task == first.id]
    assert max(one.records + one.emptied for one in parts) <= 5
    assert sum(one.records for one in parts) > 25


def test_a_value_that_another_task_names_stays_until_that_one_lets_go() -> None:
    house = House(job(World()), retention="1d")
    first = house.submit()
    house.finish(first.id)
    house.sim.run_for(0.5 * DAY)
    second = house.submit()
    house.finish(second.id)
    (fixed,) = house.store.blobs
    let_go(house, first.id)
    assert list(house.store.blobs) == [fixed]
    house.runtime.close()
    house.reopen()
    let_go(house, second.id)
    assert list(house.store.blobs) == []
    assert healthy(house) == []


def test_values_of_tasks_that_are_due_together_go_with_the_last() -> None:
    house = House(reading(World()), retention="1d")
    tasks = [house.submit().id for _ in range(3)]
    for task in tasks:
        house.finish(task)
    let_go(house, *tasks)
    assert len(house.store.blobs) == 1  # what was posted
    assert healthy(house) == []


def test_sub_tasks_go_with_the_task_at_the_top() -> None:
    world = World()
    house = House(handing_on(*tools_of(world)), reading(world), retention="1d")
    task = house.submit("boss")
    assert house.finish(task.id).status == "completed"
    child = f"{task.id}.1"
    (child,) = sheet(reader_of(house), task.id).subtasks
    before = shown(house, task.id), shown(house, child)
    let_go(house, task.id)
    assert (shown(house, task.id), shown(house, child)) == before
    for one in (task.id, child):
        assert "TaskTrimmed" in house.kinds(f"task/{one}")
    assert len([one for one in house.of(QUEUE, ScratchDropped) if one.over]) == 1
    assert healthy(house) == []


def test_a_task_that_has_not_ended_keeps_all() -> None:
    house = House(job(World(), tools=tools_of(World())), retention="1d")
    task = house.submit(budget=msgspec.structs.replace(PLENTY, model_calls=2))
    assert house.finish(task.id).status == "paused"
    before = list(house.store.streams[f"task/{task.id}"])
    house.sim.run_for(40 * DAY)
    assert house.store.streams[f"task/{task.id}"] == before


def test_what_was_let_go_is_said_to_be_gone() -> None:
    house = House(job(World()), retention="1d")
    task = house.submit()
    house.finish(task.id)
    seq = house.store.streams[f"task/{task.id}"][10].seq
    let_go(house, task.id)
    asks: tuple[Callable[[], object], ...] = (
        lambda: request(reader_of(house), task.id, None),
        task.why,
        task.fork,
        lambda: task.fork(at=seq),
        lambda: checkpoint(reader_of(house), task.id, seq),
    )
    for ask in asks:
        with pytest.raises(Misuse, match="its scratch was let go at 20"):
            ask()
    now = checkpoint(reader_of(house), task.id)
    assert now.task_status.status == "completed"
    assert sheet(reader_of(house), task.id).trimmed is not None
    names = [one["event"] for one in log_of(reader_of(house), task.id)]
    assert names[0] in ("task.submitted", "queue.entered")
    assert "retention.dropped" in names


def test_a_fork_keeps_what_it_took_over() -> None:
    house = House(job(World()), retention="1d")
    task = house.submit()
    house.finish(task.id)
    at = next(
        one.seq
        for one in house.store.streams[f"task/{task.id}"]
        if one.type == "StepEnded"
    )
    fork = task.fork(at=at)
    house.finish(fork.id)
    house.sim.run_for(0.5 * DAY)
    requests = [one.digest for one in rendered(house, fork.id)]
    before = shown(house, fork.id)
    let_go(house, task.id, days=0.6)
    assert [one.digest for one in rendered(house, fork.id)] == requests
    let_go(house, fork.id)
    assert shown(house, fork.id) == before
    assert healthy(house) == []


def test_a_task_whose_scratch_went_can_be_erased() -> None:
    house = House(reading(World()), retention="1d")
    task = house.submit()
    house.finish(task.id)
    let_go(house, task.id)
    assert house.runtime.erase(task=task.id, by="an operator") is True
    assert not house.store.blobs
    assert house.kinds(f"task/{task.id}") == ["TaskErased"]
    assert healthy(house) == []


def test_an_erasure_between_two_parts_leaves_no_value_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trim, "PART", 3)
    house = House(reading(World()), retention="1d")
    tasks = [house.submit() for _ in range(3)]
    for task in tasks:
        house.finish(task.id)
    dropped(house)
    assert house.runtime.erase(task=tasks[0].id, by="an operator") is True
    let_go(house, tasks[1].id, tasks[2].id)
    assert len(house.store.blobs) == 1
    assert healthy(house) == []


def test_a_task_of_a_newer_perdure_is_left_as_it_is() -> None:
    house = House(job(World()), retention="1d")
    task, other = house.submit(), house.submit()
    for one in (task, other):
        house.finish(one.id)
    house.runtime.close()
    stream = house.store.streams[f"task/{task.id}/ledger"]
    stream[3] = newer = msgspec.structs.replace(stream[3], schema_version=99)
    stream[3] = moved(newer, newer.version)
    place = next(n for n, one in enumerate(house.store.log) if one.seq == newer.seq)
    house.store.log[place] = stream[3]
    house.sim.clock.advance(2 * DAY)
    house.reopen()
    let_go(house, task.id, other.id)
    assert "TaskTrimmed" not in house.kinds(f"task/{task.id}")
    assert "TaskTrimmed" in house.kinds(f"task/{other.id}")
    (said,) = [
        one["why"]
        for one in house.log.of("retention.dropped")
        if one["task"] == task.id and one["over"]
    ]
    assert "99" in said
    (again,) = house.store.rows[ENDED_ROWS]  # perhaps a later one knows it
    assert again.endswith(task.id)


def spoil(house: House, stream: str, place: int, **fields: Any) -> None:
    """Change a record, and leave its checksum as it was."""
    records = house.store.streams[stream]
    old, records[place] = (
        records[place],
        msgspec.structs.replace(records[place], **fields),
    )
    house.store.log[house.store.log.index(old)] = records[place]


def test_a_damaged_record_elsewhere_keeps_values_that_it_may_name() -> None:
    house = House(job(World()), handing_on(*tools_of(World())), retention="1d")
    task, other = house.submit(), house.submit()
    for one in (task, other):
        house.finish(one.id)
    house.runtime.close()
    spoil(house, f"task/{other.id}/account", 1, body=b"{}")
    house.sim.clock.advance(2 * DAY)
    house.reopen()
    let_go(house, task.id, other.id)
    whys = {one["why"] for one in house.log.of("retention.dropped") if one["over"]}
    assert all("checksum" in why for why in whys)
    assert house.store.blobs
    assert house.runtime.health()["admission"]


def test_a_history_that_does_not_fold_is_left_as_it_is() -> None:
    house = House(job(World()), retention="1d")
    task = house.submit()
    house.finish(task.id)
    house.runtime.close()
    stream = f"task/{task.id}"
    for snapshots in (house.store.snapshots, house.store.flushed_snapshots):
        snapshots.pop(stream, None)
    decided = next(
        n
        for n, one in enumerate(house.store.streams[stream])
        if one.type == "DecisionMade"
    )
    first = house.store.streams[stream][decided]
    spoil(house, stream, decided, type="TimerFired", body=b'{"op":77}')
    moved_ = moved(house.store.streams[stream][decided], first.version)
    spoil(house, stream, decided, checksum=moved_.checksum)
    house.sim.clock.advance(2 * DAY)
    house.reopen()
    let_go(house, task.id)
    (said,) = [one["why"] for one in house.log.of("retention.dropped") if one["over"]]
    assert said.startswith("KeyError")
    assert "TaskTrimmed" not in house.kinds(stream)


def test_accepted_results_are_still_found() -> None:
    house = House(job(World()), retention="1d")
    task = house.submit(goal="orchard report")
    house.finish(task.id)
    assert {one.kind for one in house.runtime.recall("hello")} == {"call"}
    found = {(one.kind, one.step) for one in house.runtime.recall("send")}
    assert ("step", "send") in {(kind, step) for kind, step in found} or found
    let_go(house, task.id)
    house.sim.run_for(60.0)
    left = {(one.kind, one.step) for one in house.runtime.recall("send")}
    assert left
    assert left <= found
    assert {one.kind for one in house.runtime.recall("hello")} == {"call"}  # was sent


def test_the_state_of_a_trimmed_task_is_of_parts_that_a_task_has() -> None:
    assert KEPT <= CARRIED | LEFT
    assert "trimmed" in LEFT


def test_an_export_holds_what_stays() -> None:
    house = House(job(World()), retention="1d")
    task = house.submit()
    house.finish(task.id)
    let_go(house, task.id)
    lines = list(export_task(reader_of(house), task.id))
    kinds = {one["type"] for one in lines if one["is"] == "record"}
    assert {"TaskTrimmed", "TaskSubmitted", "Settled", "EffectRecorded"} <= kinds


def test_a_task_that_ended_before_it_began_has_no_scratch() -> None:
    house = House(job(World()), active=1, retention="1d")
    first, second = house.submit(), house.submit()
    second.cancel()
    for one in (first, second):
        house.finish(one.id)
    before = house.kinds(f"task/{second.id}")
    let_go(house, first.id, second.id)
    after = house.kinds(f"task/{second.id}")
    assert [one for one in before if one in after] == after
    assert healthy(house) == []
    sound(house)


def test_the_mark_says_when_it_was_done() -> None:
    house = House(
        Agent(name="agent", instructions="Do.", model=in_turn(answer="done")),
        retention="1d",
    )
    task = house.submit()
    house.finish(task.id)
    let_go(house, task.id)
    (mark,) = house.of(f"task/{task.id}", TaskTrimmed)
    assert mark.trimmed_at == pytest.approx(house.sim.clock.time(), abs=60.0)
