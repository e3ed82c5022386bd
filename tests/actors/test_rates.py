"""Services that are limited, as the outside counts them: over kills, crashes, waits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import Agent, DidNotHappen, Happened, Misuse, RateLimit, tool, views
from perdure.actors import names
from perdure.actors.events import (
    EffectRecorded,
    RecoveryBegan,
    SlotDeferred,
    SlotPromised,
    SlotTaken,
    TaskActivated,
    TaskPaused,
    WindowsSet,
)
from perdure.models import ModelReply, Scripted, ServiceTrouble
from perdure.supervision.faults import DELIVERY, Fault, FaultPlan, installed
from perdure.views_text import sheet_text
from tests.actors.runs import SERVICES, actors_of, sound
from tests.actors.world import (
    Calls,
    House,
    follow,
    quick,
)

PER = 60.0  # seconds
LIMIT = RateLimit("smtp", 3, per="1m")
ONE: Sequence[Calls] = [[("mail", {"to": "a"})]]


class Post:
    """A mail server: the wall-clock second of each mail that reached it, by its id."""

    def __init__(self) -> None:
        self.house: House | None = None
        self.got: list[tuple[float, str]] = []
        self.refusals: list[float] = []  # what it answers first: seconds to wait
        self.takes = 0.0  # seconds that a mail takes

    def now(self) -> float:
        assert self.house is not None
        return self.house.sim.clock.time()

    @property
    def most(self) -> int:
        """The most mails in any minute."""
        times = [at for at, _ in self.got]
        return max(
            (sum(one <= at < one + PER for at in times) for one in times), default=0
        )


def mailer(post: Post, calls: Sequence[Calls] = ONE, **options: Any) -> Agent:
    def was_sent(effect: Any) -> Any:
        sent = [key for _, key in post.got]
        return Happened("sent") if effect.request_id in sent else DidNotHappen()

    @tool(effect="once", probe=was_sent, service="smtp")
    def mail(to: str, *, request_id: str) -> str:
        """Send a mail."""
        if post.refusals:
            seconds = post.refusals.pop(0)
            raise ServiceTrouble("busy", status=429, retry_after=seconds)
        post.got.append((post.now(), request_id))
        if post.takes:
            post.house.sim.clock.advance(post.takes)
        return "sent"

    return Agent(
        name="mailer",
        instructions="Send.",
        model=Scripted(follow({"task": calls})),
        tools=[mail],
        recovery="rules",
        **options,
    )


def open_house(post: Post, agent: Agent | None = None, **options: Any) -> House:
    options.setdefault("limits", [LIMIT])
    post.house = House(agent or mailer(post), **options)
    return post.house


def batched(keys: list[str]) -> list[list[str]]:
    """Those that get their slots at once."""
    return [keys[at : at + LIMIT.count] for at in range(0, len(keys), LIMIT.count)]


def gone(house: House, task: str) -> bool:
    """Nothing of the task runs."""
    return not house.runtime._system.is_running(names.family(task))


def all_sent(house: House, post: Post, tasks: list[str], mails: int) -> None:
    """All that must hold of tasks that sent mails, however often disturbed."""
    for task in tasks:
        assert house.finish(task).status == "completed"
    assert post.most <= LIMIT.count
    assert len(post.got) == len({key for _, key in post.got}) == mails  # P2
    assert house.store.rows.get(names.TIMER_ROWS, {}) == {}
    sound(house)


def test_twenty_tasks_send_three_mails_a_minute_and_no_more() -> None:
    post = Post()
    house = open_house(post)
    tasks = [house.submit("mailer").id for _ in range(20)]
    all_sent(house, post, tasks, 20)
    first, last = post.got[0][0], post.got[-1][0]
    assert last - first < 7 * (PER + 5.0)  # and no less, but for the leeway of a slot
    taken = house.of(names.WINDOWS, SlotTaken)
    assert len(taken) == 20


def test_a_task_that_waits_for_its_slot_holds_no_place_and_no_actor() -> None:
    post = Post()
    house = open_house(post, active=1, limits=[RateLimit("smtp", 1, per="1h")])
    first, second, third = (house.submit("mailer") for _ in range(3))
    assert house.finish(first.id).status == "completed"
    assert house.until(lambda: third.status == "waiting", 60.0)
    assert second.status == "waiting"
    for task in (second, third):
        assert house.until(lambda one=task: gone(house, one.id), 60.0)
    (paused,) = house.of(f"task/{second.id}", TaskPaused)
    (deferred,) = house.of(f"task/{second.id}", SlotDeferred)
    assert paused.reason == "rate"
    assert paused.detail.startswith("until ") and paused.detail.endswith("of smtp")
    assert house.finish(third.id).status == "completed"
    times = [at for at, _ in post.got]
    assert times[1] >= deferred.at >= times[0] + 3600.0
    assert times[2] >= times[1] + 3600.0


def test_show_says_until_when_a_task_waits_for_which_service() -> None:
    post = Post()
    house = open_house(post, limits=[RateLimit("smtp", 1, per="1h")])
    house.run("mailer")
    task = house.submit("mailer")
    assert house.until(lambda: task.status == "waiting")
    (deferred,) = house.of(f"task/{task.id}", SlotDeferred)
    until = datetime.fromtimestamp(deferred.at, UTC)
    sheet = house.runtime._reading.read(lambda reader: views.sheet(reader, task.id))
    text = "\n".join(sheet_text(sheet))
    assert f"until {until} for a slot of smtp" in text
    assert sheet.status == "waiting"


def test_slots_go_in_order_of_asking_and_each_waits_once() -> None:
    post = Post()
    house = open_house(post)
    tasks = [house.submit("mailer").id for _ in range(12)]
    for task in tasks:
        house.finish(task)
    promised = [one.key for one in house.of(names.WINDOWS, SlotPromised)]
    taken = [one.key for one in house.of(names.WINDOWS, SlotTaken)]
    assert [set(batch) for batch in batched(taken[3:])] == [
        set(batch) for batch in batched(promised)
    ]
    for task in tasks:
        # The simulation may deliver the end of a family before the word on it.
        recoveries = house.of(f"task/{task}/recovery", RecoveryBegan)
        recovered = {one.epoch for one in recoveries}
        orders = [
            one.order
            for one in house.of(names.ADMISSION, TaskActivated)
            if one.task == task and one.epoch not in recovered
        ]
        assert orders in (["run"], ["run", "again"])


def test_a_wait_for_a_slot_is_no_stop_to_whoever_waits_for_the_task() -> None:
    told: list[str] = []
    post = Post()
    calls = [[("mail", {"to": str(n)}) for n in range(5)]]
    house = open_house(
        post, mailer(post, calls), on_event=lambda name, _: told.append(name)
    )
    assert house.run("mailer").status == "completed"
    assert house.until(lambda: bool(told))
    assert told == ["task.closed"]
    assert post.most == 3


def test_a_task_that_waits_for_its_slot_can_be_cancelled() -> None:
    post = Post()
    house = open_house(post, limits=[RateLimit("smtp", 1, per="1h")])
    house.run("mailer")
    task = house.submit("mailer")
    assert house.until(lambda: task.status == "waiting")
    began = house.sim.clock.time()
    assert task.cancel().status == "cancelled"
    assert house.sim.clock.time() < began + 60.0
    assert house.store.rows[names.TIMER_ROWS] == {}
    assert len(post.got) == 1


def test_an_operation_of_no_limited_service_never_touches_a_window() -> None:
    post = Post()
    house = open_house(post, limits=[RateLimit("other", 1, per="1h")])
    tasks = [house.submit("mailer").id for _ in range(5)]
    for task in tasks:
        assert house.finish(task).status == "completed"
    assert house.kinds(names.WINDOWS) == [WindowsSet.__name__]


def test_limits_are_written_where_they_changed() -> None:
    post = Post()
    house = open_house(post)
    house.run("mailer")
    for limits in ([LIMIT], [RateLimit("smtp", 4, per=60)], []):
        house.runtime.close()
        house.reopen(limits=limits)
        house.run("mailer")
    said = [one.limits for one in house.of(names.WINDOWS, WindowsSet)]
    assert said == [{"smtp": (3, 60.0)}, {"smtp": (4, 60.0)}, {}]


# -- disturbed ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_kills_and_crashes_let_no_more_mails_out(seed: int) -> None:
    # R4
    chance = random.Random(seed)
    post = Post()
    house = open_house(post, seed=seed)
    tasks = [house.submit("mailer").id for _ in range(20)]
    for _ in range(chance.randint(4, 8)):
        for _ in range(chance.randint(30, 600)):
            house.sim.step()
        name = chance.choice(
            [*actors_of(chance.choice(tasks)), *SERVICES, *["kill"] * 5]
        )
        if name == "kill":
            house.kill()
            house.reopen()
        else:
            house.sim.crash(name)
    all_sent(house, post, tasks, 20)


@pytest.mark.parametrize("part", range(4))
def test_a_process_cut_off_at_any_step_sends_each_mail_once(part: int) -> None:
    # R3
    calls = [[("mail", {"to": str(n)}) for n in range(5)]]
    steps = part + 1
    while True:
        post = Post()
        house = open_house(post, mailer(post, calls), seed=part)
        task = house.submit("mailer")
        for _ in range(steps):
            house.sim.step()
        ended = task.status == "completed"
        house.kill()
        house.reopen()
        all_sent(house, post, [task.id], 5)
        if ended:
            return
        steps += 8


@pytest.mark.parametrize("action", ["drop", "duplicate"])
def test_a_message_to_or_from_the_window_that_is_lost_or_doubled_costs_time_only(
    action: Any,
) -> None:
    for nth in range(1, 12):
        post = Post()
        house = open_house(post, mailer(post))
        task = house.submit("mailer")
        to = names.WINDOWS if nth == 1 else names.task(task.id)
        fault = Fault(point=DELIVERY, nth=max(nth - 1, 1), subject=to, action=action)
        with installed(FaultPlan((fault,), sleep=house.sim.clock.advance)):
            all_sent(house, post, [task.id], 1)
        taken = house.of(names.WINDOWS, SlotTaken)
        assert len(taken) <= 2


def test_a_sleep_over_a_process_that_was_away_is_not_waited_for_again() -> None:
    post = Post()
    house = open_house(post)
    tasks = [house.submit("mailer").id for _ in range(9)]
    assert house.until(lambda: len(post.got) == 3)
    assert house.until(lambda: len(house.of(names.WINDOWS, SlotPromised)) == 6)
    house.runtime.close()
    house.sim.clock.advance(3600.0)
    house.reopen()
    began = house.sim.clock.time()
    all_sent(house, post, tasks, 9)
    assert post.got[5][0] < began + 30.0


# -- what starts late ---------------------------------------------------------


def test_a_call_that_is_not_begun_in_the_moment_of_its_slot_takes_another() -> None:
    # All get a slot at once, and one thread that each call holds for two seconds.
    post = Post()
    house = open_house(
        post,
        limits=[RateLimit("smtp", 6, per="1m")],
        baseline=quick(tool_threads=1),
    )
    post.takes = 2.0
    tasks = [house.submit("mailer").id for _ in range(6)]
    for task in tasks:
        assert house.finish(task).status == "completed"
    assert len(post.got) == len({key for _, key in post.got}) == 6
    assert post.most <= 6
    late = [
        one
        for task in tasks
        for one in house.of(f"task/{task}/ledger", EffectRecorded)
        if one.status == "failed"
    ]
    assert late
    assert {one.error for one in late} == {"its slot was over before it started"}
    assert all(one.usage == {} for one in late)  # it costs nothing
    assert len(house.of(names.WINDOWS, SlotTaken)) == 6 + len(late)


# -- what is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    ("per", "seconds"),
    [(60, 60.0), ("30s", 30.0), ("1m", 60.0), ("1.5h", 5400.0), ("1d", 86_400.0)],
)
def test_a_span_is_seconds_or_a_text(per: Any, seconds: float) -> None:
    assert RateLimit("smtp", 1, per=per).seconds == seconds


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("service", ("", 1, 1)),
        ("service", (" smtp", 1, 1)),
        ("service", (None, 1, 1)),
        ("count", ("smtp", 0, 1)),
        ("count", ("smtp", True, 1)),
        ("count", ("smtp", 1.5, 1)),
        ("count", ("smtp", 10_001, 1)),
        ("per", ("smtp", 1, 0)),
        ("per", ("smtp", 1, "1w")),
        ("per", ("smtp", 1, "m")),
        ("per", ("smtp", 1, float("inf"))),
        ("per", ("smtp", 1, float("nan"))),
        ("per", ("smtp", 1, True)),
        ("per", ("smtp", 1, "999d")),
    ],
)
def test_a_limit_that_is_none_names_the_field(
    field: str, values: tuple[Any, Any, Any]
) -> None:
    with pytest.raises(Misuse, match=f"RateLimit: {field}="):
        RateLimit(*values)


@pytest.mark.parametrize("limits", [LIMIT, "smtp", ["smtp"], [LIMIT, LIMIT]])
def test_limits_that_are_none_are_refused(limits: Any) -> None:
    with pytest.raises(Misuse, match="limits"):
        House(mailer(Post()), limits=limits)


@pytest.mark.parametrize("service", ["", " x", 7, "a\nb"])
def test_a_service_without_a_name_is_refused(service: Any) -> None:
    with pytest.raises(Misuse, match="service="):
        tool(effect="read", name="look", service=service)(lambda: None)


def test_a_model_whose_service_has_no_name_is_refused() -> None:
    model = Scripted(lambda request: ModelReply(content="x"))
    model.service = " x"  # type: ignore[attr-defined]
    with pytest.raises(Misuse, match="service="):
        Agent(name="asker", instructions="Ask.", model=model)
