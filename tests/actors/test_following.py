"""Following a task: every event once, in order, whatever dies in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure import (
    Baseline,
    Budget,
    Misuse,
    RuntimeFailed,
    TaskEvent,
    TaskNotFound,
    stands,
    tool,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.cursor import SAID
from perdure.events import NAMES
from perdure.feed import PAGE, Place, Wanted, read_page
from perdure.models import Scripted
from perdure.storage.memory import MemoryReader
from perdure.storage.records import Record, in_family
from perdure.waiters import LOOK_AGAIN
from tests.actors.world import HAND, JOB, House, World, follow, handing_on, job

STREAMED = Scripted(follow(JOB), stream=True)
PATIENT = Baseline(id="patient", park_without_progress=50, park_within_hour=50)


def stored(house: House, task: str, *, subtasks: bool = False) -> list[Record]:
    """What stands in the streams of a task, in the order of the log."""
    return [
        record
        for record in house.store.log
        if in_family(record.stream, f"task/{task}")
        or (subtasks and record.stream.startswith(f"task/{task}."))
    ]


def seqs(events: Sequence[TaskEvent]) -> list[int]:
    return [one.seq for one in events]


def whole(house: House, task: str, events: Sequence[TaskEvent]) -> None:
    """All of the task's events, each once, in the order of the log."""
    records = stored(house, task)
    assert seqs(events) == [one.seq for one in records]
    assert [one.type for one in events] == [NAMES[one.type] for one in records]
    assert [one.stream for one in events] == [one.stream for one in records]


def test_a_task_is_followed_from_its_first_event_to_its_last() -> None:
    house = House(job(World()))
    task = house.submit()
    events = list(task.events())
    whole(house, task.id, events)
    assert (events[0].type, events[-1].type) == ("task.submitted", "task.closed")
    assert {one.stream.partition("/")[2] for one in events} == {
        task.id,
        f"{task.id}/ledger",
        f"{task.id}/account",
    }
    assert house.runtime._watchers._all == {}


def test_an_event_says_what_the_log_says_of_it() -> None:
    house = House(job(World()))
    task = house.submit()
    (last,) = [one for one in task.events() if one.type == "task.closed"]
    (line,) = house.log.of("task.closed")
    fields = dict(line)
    assert (last.at, last.seq) == (fields.pop("at"), fields.pop("seq"))
    assert last.task == fields.pop("task") == task.id
    assert (last.fields, last.provisional) == (fields, False)


def test_behind_any_event_seen_it_goes_on_without_gap_or_double() -> None:
    house = House(job(World()))
    task = house.submit()
    events = list(task.events())
    assert len(events) > PAGE
    for seen in (0, *seqs(events)):
        assert seqs(list(task.events(after=seen))) == [
            seq for seq in seqs(events) if seq > seen
        ]


@pytest.mark.parametrize("seed", range(12))
def test_crashes_and_kills_leave_no_gap_and_no_double(seed: int) -> None:
    house = House(job(World()), seed=seed, baseline=PATIENT)
    task = house.submit().id
    seen: list[TaskEvent] = []
    after = 0
    for turn in range(6):
        events = house.runtime.task(task).events(after=after)
        for _ in range(3 + seed % 7):
            if (one := next(events, None)) is None:
                break
            seen.append(one)
        what = (seed + turn) % 4
        if what == 0:
            house.kill()
            house.reopen()
        else:
            victim = ("journal", f"task/{task}/task", f"task/{task}/ledger")[what - 1]
            house.sim.crash(victim)
            for _ in range(4):  # the same iterator goes on over it
                if (one := next(events, None)) is None:
                    break
                seen.append(one)
        after = seen[-1].seq
    seen += house.runtime.task(task).events(after=after)
    whole(house, task, seen)
    assert seen[-1].type == "task.closed"


def test_only_what_is_flushed_is_shown() -> None:
    # P1
    house = House(job(World()))
    task = house.submit()
    shown = 0
    for event in task.events():
        shown += 1
        assert event.seq <= house.runtime._house.journal.durable_seq
        assert event.seq in {one.seq for one in house.store.log}
    assert shown > PAGE


@pytest.mark.parametrize("seed", range(4))
def test_what_comes_while_it_is_read_comes_after_what_was_there(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(job(World()), seed=seed)
    task = house.submit()
    stretch = MemoryReader._stretch

    def busy(reader: MemoryReader, *arguments: Any) -> list[Record]:
        if not house.sim._stepping:  # it is the caller that reads, not the world
            for _ in range(25):  # which goes on between two streams of a page
                house.sim.step()
        return stretch(reader, *arguments)

    monkeypatch.setattr(MemoryReader, "_stretch", busy)
    events = list(task.events())
    whole(house, task.id, events)


def paused(house: House) -> Any:
    task = house.submit(budget=Budget(tool_calls=1))
    assert house.finish(task.id).reason == "budget"
    return task


def test_a_pause_ends_it_only_where_that_was_asked_for() -> None:
    house = House(job(World()))
    task = paused(house)
    stopped = list(task.events(until="stopped"))
    assert stopped[-1].type in ("task.paused", "effect.recorded", "account.settled")
    assert "task.paused" in {one.type for one in stopped}
    events = task.events(timeout=60.0)
    assert seqs([next(events) for _ in stopped]) == seqs(stopped)
    with pytest.raises(TimeoutError, match="nothing new of task"):
        next(events)
    task.extend(Budget(tool_calls=50))
    rest = list(events)  # it waits on after a timeout
    assert rest[-1].type == "task.closed"
    whole(house, task.id, [*stopped, *rest])


def test_a_park_is_a_stop_though_it_stands_in_no_stream_of_the_task() -> None:
    house = House(job(World()))
    task = house.submit().id
    events = house.runtime.task(task).events()
    next(events)
    house.kill()
    house.reopen(job(World(), name="another"))
    seen = list(house.runtime.task(task).events(until="stopped"))
    assert house.runtime.task(task).status == "parked"
    assert seen[-1].type != "task.paused"
    assert seqs(seen) == [one.seq for one in stored(house, task)]


def test_sub_tasks_are_followed_where_that_was_asked_for() -> None:
    house = House(handing_on(), job(World()))
    task = house.submit("boss")
    alone = list(task.events())
    whole(house, task.id, alone)
    child = f"{task.id}.1"
    both = list(task.events(subtasks=True))
    records = stored(house, task.id, subtasks=True)
    assert seqs(both) == [one.seq for one in records]
    assert {one.task for one in both} == {task.id, *{r.task for r in both}}
    assert any(one.task.startswith(f"{task.id}.") for one in both), child
    half = both[len(both) // 2].seq
    rest = list(task.events(half, subtasks=True))
    assert seqs(rest) == [seq for seq in seqs(both) if seq > half]


def test_sub_tasks_are_followed_live() -> None:
    house = House(handing_on(), job(World()))
    task = house.submit("boss")
    both = list(task.events(subtasks=True))
    records = stored(house, task.id, subtasks=True)
    assert seqs(both) == [one.seq for one in records]
    assert len({one.task for one in both}) == 2


def test_a_sub_task_goes_on_where_another_has_ended() -> None:
    world = World()
    longer: dict[str, Any] = {"agent": "longer", "goal": "the long part"}
    house = House(
        handing_on(also=[("delegate", longer)]),
        job(world),
        job(world, name="longer", model=Scripted(follow(twice(JOB)))),
    )
    task = house.submit("boss")
    both = list(task.events(subtasks=True))
    records = stored(house, task.id, subtasks=True)
    assert seqs(both) == [one.seq for one in records]
    assert len({one.task for one in both}) == 3


def twice(script: Any) -> dict[str, Any]:
    """The same calls, and then some others."""
    more = [[("look", {"what": f"{n}"})] for n in range(4)]
    return {step: [*groups, *more] for step, groups in script.items()}


def test_a_page_is_bounded_however_many_sub_tasks_there_are() -> None:
    # P12
    house = House(handing_on(also=[("delegate", {**HAND, "goal": "b"})]), job(World()))
    task = house.submit("boss").id
    house.finish(task)
    reader = MemoryReader(house.store, lambda *_: None)
    wanted, place = Wanted(task=task, subtasks=True), Place()
    sizes: list[int] = []
    while (page := read_page(reader, wanted, place)).more:
        sizes.append(len(page.events))
        place = page.place
    assert max(sizes) == PAGE
    assert len(sizes) > 2


def test_a_stop_that_somebody_has_asked_to_end_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(job(World()))
    task = paused(house)
    answers = iter([True] * 3)
    monkeypatch.setattr(stands, "is_asked", lambda *_: next(answers, False))
    began = house.sim.clock.monotonic()
    seen = list(task.events(until="stopped"))
    assert seqs(seen) == [one.seq for one in stored(house, task.id)]
    assert house.sim.clock.monotonic() - began == pytest.approx(3 * LOOK_AGAIN)


def test_who_leaves_the_loop_holds_nothing_more() -> None:
    # P12
    house = House(job(World()))
    task = house.submit()
    watches = house.runtime._watchers._all
    for _ in task.events():
        assert len(watches) == 1
        break
    assert watches == {}
    events = task.events()
    next(events)
    events.close()
    assert watches == {}
    assert list(events) == []


def test_a_reader_that_is_slow_holds_one_page() -> None:
    # P12
    house = House(job(World()))
    task = house.submit()
    events = task.events()
    first = next(events)
    house.finish(task.id)  # it does not hold the task up
    assert len(events._cursor._ready) < PAGE
    whole(house, task.id, [first, *events])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"after": -1}, "after=-1"),
        ({"after": "4"}, "after='4'"),
        ({"after": True}, "after=True"),
        ({"until": "paused"}, "until='paused'"),
        ({"subtasks": 1}, "subtasks=1"),
        ({"partial": "yes"}, "partial='yes'"),
        ({"timeout": -1.0}, "timeout=-1.0"),
        ({"timeout": "5"}, "timeout='5'"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(
    arguments: dict[str, Any], named: str
) -> None:
    house = House(job(World()))
    task = house.submit()
    with pytest.raises(Misuse, match=named):
        task.events(**arguments)


def test_a_task_that_is_not_there_is_said() -> None:
    house = House(job(World()))
    with pytest.raises(TaskNotFound):
        next(
            house.runtime.events(
                "t-none", 0, until="ended", subtasks=False, partial=False, timeout=None
            )
        )


def test_an_erased_task_ends_its_watch() -> None:
    house = House(job(World()))
    task = house.submit()
    events = task.events()
    seen = [next(events) for _ in range(3)]
    house.finish(task.id)
    house.runtime.erase(task=task.id, by="an operator")
    assert len([*seen, *events]) <= PAGE + 1
    assert [one.type for one in task.events()] == ["task.erased"]


# ── what a model says while it writes ────────────────────────────────────────────


def words(events: Sequence[TaskEvent]) -> list[TaskEvent]:
    return [one for one in events if one.provisional]


def test_what_a_model_says_comes_before_the_record_of_its_reply() -> None:
    house = House(job(World(), model=STREAMED))
    task = house.submit()
    events = list(task.events(partial=True))
    said = words(events)
    assert said, "nothing was said"
    assert {one.type for one in said} == {SAID}
    open_: set[tuple[int, int]] = set()
    texts: dict[tuple[int, int], str] = {}
    last = 0
    for one in events:
        key = one.fields.get("op", 0), one.fields.get("attempt", 0)
        if one.type == "effect.registered":
            open_.add(key)
        elif one.type == "effect.recorded":
            open_.discard(key)
        elif one.provisional:
            assert key in open_
            assert one.seq == last
            texts[key] = texts.get(key, "") + one.fields["text"]
        last = one.seq
    replies = {
        (one.fields["op"], one.fields["attempt"]): one.fields["result"]
        for one in events
        if one.type == "effect.recorded"
    }
    for key, text in texts.items():
        assert text in replies[key].replace('\\"', '"')
    whole(house, task.id, [one for one in events if not one.provisional])


def test_what_was_said_is_no_state_and_never_comes_again() -> None:
    loud = House(job(World(), model=STREAMED))
    quiet = House(job(World()))
    task, other = loud.submit(), quiet.submit()
    list(task.events(partial=True))
    list(other.events())
    assert words(list(task.events(partial=True))) == []
    assert loud.kinds(f"task/{task.id}") == quiet.kinds(f"task/{other.id}")
    assert not any(b"model.text" in one.body for one in loud.store.log)


def test_who_did_not_ask_for_it_hears_nothing_of_it() -> None:
    house = House(job(World(), model=STREAMED))
    task = house.submit()
    assert words(list(task.events())) == []


class Breaking:
    """Says half a sentence and loses its connection, once; then all of it."""

    name = "breaking"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        pytest.fail("it streams")

    async def complete_streaming(self, request: ModelRequest, said: Any) -> ModelReply:
        self.calls += 1
        said("so ")
        if self.calls == 1:
            raise ConnectionError("cut off")
        said("it is")
        return ModelReply(content='"so it is"')


def test_another_attempt_begins_anew_and_says_which_it_is() -> None:
    model = Breaking()
    house = House(job(World(), plan=None, model=model))
    task = house.submit()
    events = list(task.events(partial=True))
    said = [
        (one.fields["attempt"], one.fields["index"], one.fields["text"])
        for one in words(events)
    ]
    assert said == [(1, 0, "so "), (2, 0, "so "), (2, 1, "it is")]
    outcomes = [one.fields["status"] for one in events if one.type == "effect.recorded"]
    assert outcomes == ["unknown", "completed"]
    result = house.finish(task.id)
    assert (result.output, result.spent["model_calls"]) == ("so it is", 1)
    assert result.spent_unknown["model_calls"] == 1


class Talking:
    """Says a great deal before it answers."""

    name = "talking"

    async def complete(self, request: ModelRequest) -> ModelReply:
        pytest.fail("it streams")

    async def complete_streaming(self, request: ModelRequest, said: Any) -> ModelReply:
        for number in range(20_000):
            said(f"{number:09} ")
        said(10)
        said("\ud800" + "x" * 10_000)
        return ModelReply(content='"done"')


def test_a_listener_who_is_slow_misses_the_oldest_words() -> None:
    # P12
    house = House(job(World(), plan=None, model=Talking()))
    task = house.submit()
    events = task.events(partial=True)
    seen = [next(events)]
    house.finish(task.id)
    held = sum(len(one.text) for _, one in events._cursor._watch._pieces)
    assert 60_000 < held <= 65_536
    seen += events
    said = words(seen)
    assert sum(len(one.fields["text"]) for one in said) == held
    numbers = [one.fields["index"] for one in said]
    assert numbers == list(range(numbers[0], 20_003))
    assert said[-3].fields["text"] == "?" + "x" * 4_095  # it can be written anywhere
    assert said[-1].fields["text"] == "x" * (10_001 - 2 * 4_096)
    assert seqs(seen) == sorted(seqs(seen))


def test_a_word_after_the_outcome_is_not_heard() -> None:
    later: list[Any] = []

    class Late(Talking):
        async def complete_streaming(
            self, request: ModelRequest, said: Any
        ) -> ModelReply:
            later.append(said)
            return ModelReply(content='"done"')

    @tool(effect="read")
    def nothing() -> str:
        """Do nothing."""
        return ""

    house = House(job(World(), plan=None, model=Late(), tools=[nothing]))
    task = house.submit()
    events = task.events(partial=True)
    house.finish(task.id)
    later[0]("too late")
    assert words(list(events)) == []


def test_over_the_trees_limit_the_watch_ends_with_the_failure() -> None:
    house = House(job(World()))
    task = house.submit()
    events = task.events()
    seen = [next(events)]
    house.runtime._root_failed("boom")
    house.sim.halt()
    with pytest.raises(RuntimeFailed, match="boom"):
        seen += events
    again = task.events()
    on_disk = [next(again) for _ in stored(house, task.id)]
    assert on_disk
    with pytest.raises(RuntimeFailed):
        next(again)
