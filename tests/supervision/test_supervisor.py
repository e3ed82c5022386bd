from __future__ import annotations

from typing import Any

import pytest

from perdure.supervision import (
    Actor,
    Backoff,
    Crash,
    Exited,
    Shutdown,
    SimulatedDispatcher,
    Started,
    Supervisor,
    SupervisorSpec,
    System,
)

STEADY = Backoff(first=1.0, factor=1.0, jitter=0.0)


class Unready(Actor):
    ready_when_started = False

    def __init__(self, diary: list[str], moods: list[str]) -> None:
        super().__init__()
        self.diary = diary

    def started(self) -> None:
        self.diary.append(f"start {self.name}")

    def receive(self, message: Any) -> None:
        self.ready()


class Stubborn(Unready):
    ready_when_started = True

    def asked_to_stop(self, reason: Any) -> None:
        self.diary.append(f"deaf {self.name}")


@pytest.mark.parametrize(
    ("restart", "how", "again"),
    [
        ("permanent", "normal", True),
        ("permanent", "shutdown", True),
        ("permanent", "crash", True),
        ("transient", "normal", False),
        ("transient", "shutdown", False),
        ("transient", "crash", True),
        ("temporary", "normal", False),
        ("temporary", "shutdown", False),
        ("temporary", "crash", False),
    ],
)
def test_restart_types_decide_as_in_otp(
    family: Any, restart: str, how: str, again: bool
) -> None:
    family.raise_up(family.kid("a", restart=restart))
    family.tell("a", how)
    assert family.is_up("a") == [False]
    family.wait(60.0)
    assert family.is_up("a", "sup") == [again, True]


@pytest.mark.parametrize(
    ("strategy", "diary"),
    [
        ("one_for_one", ["start b"]),
        ("one_for_all", ["stop c", "stop a", "start a", "start b", "start c"]),
        ("rest_for_one", ["stop c", "start b", "start c"]),
    ],
)
def test_strategies_restart_whom_they_name_in_order(
    family: Any, strategy: str, diary: list[str]
) -> None:
    kids = [family.kid(name) for name in "abc"]
    family.raise_up(*kids, strategy=strategy)
    assert family.take_diary() == ["start a", "start b", "start c"]
    family.tell("b", "crash")
    family.wait(10.0)
    assert family.take_diary() == diary


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_children_stop_in_reverse_order(family: Any, strategy: str) -> None:
    family.raise_up(*(family.kid(name) for name in "abc"), strategy=strategy)
    family.take_diary()
    family.system.stop("sup")
    family.sim.run()
    assert family.take_diary() == ["stop c", "stop b", "stop a"]
    assert family.is_up("a", "b", "c", "sup") == [False] * 4


def test_the_next_child_starts_when_the_one_before_is_up(family: Any) -> None:
    family.raise_up(family.kid("a", kind=Unready), family.kid("b"))
    assert family.take_diary() == ["start a"]


class Parent(Actor):
    """Starts "sup" itself, and keeps what it hears of it."""

    def __init__(self, spec: SupervisorSpec, heard: list[Any]) -> None:
        super().__init__()
        self.spec = spec
        self.heard = heard

    def started(self) -> None:
        self.system.spawn("sup", lambda: Supervisor(self.spec), self.address)

    def receive(self, message: Any) -> None:
        self.heard.append(message)


def under_parent(family: Any, *children: Any, **options: Any) -> list[Any]:
    heard: list[Any] = []
    spec = SupervisorSpec(children=children, **options)
    family.system.spawn("parent", lambda: Parent(spec, heard))
    family.sim.run(until=family.settled)
    return heard


def test_a_crash_during_the_first_start_does_not_hurry_the_next_child(
    family: Any,
) -> None:
    family.raise_up(
        family.kid("a"), family.kid("b", kind=Unready), family.kid("c"), backoff=STEADY
    )
    family.tell("a", "crash")
    family.wait(2.0)
    family.take_diary()
    family.tell("b", "go")
    assert sorted(family.take_diary()) == ["start a", "start c"]


def test_a_supervisor_is_up_when_its_last_child_is(family: Any) -> None:
    heard = under_parent(family, family.kid("a"), family.kid("b", kind=Unready))
    assert heard == []
    family.tell("b", "go")
    assert [type(message) for message in heard] == [Started]


def test_a_failed_first_start_stops_those_already_started(family: Any) -> None:
    family.moods["c"] = ["ill"]
    heard = under_parent(family, *(family.kid(name) for name in "abc"))
    assert family.take_diary() == ["start a", "start b", "ill c", "stop b", "stop a"]
    (exited,) = heard
    assert isinstance(exited, Exited)
    assert exited.reason.error.endswith("c did not start: ValueError: ill at start")


def test_a_start_that_hangs_counts_as_failed(family: Any) -> None:
    heard = under_parent(
        family, family.kid("a"), family.kid("b", kind=Unready, start_timeout=7.0)
    )
    family.wait(6.9)
    assert (heard, family.is_up("a", "b")) == ([], [True, True])
    family.wait(0.2)
    assert family.take_diary() == ["start a", "start b", "stop a"]
    assert "its start took over 7 s" in str(family.log.of("actor.crashed")[0]["error"])
    assert isinstance(heard[-1].reason, Crash)


def test_a_restart_that_hangs_counts_as_a_failed_attempt(family: Any) -> None:
    kinds = [family.Kid, Unready, family.Kid]

    def next_kind(*args: Any) -> Actor:
        kid: Actor = kinds.pop(0)(*args)
        return kid

    family.raise_up(family.kid("a", kind=next_kind, start_timeout=7.0), backoff=STEADY)
    family.tell("a", "crash")
    family.wait(1.0 + 7.0 + 1.0)
    counts = [event["count"] for event in family.log.of("supervisor.restarting")]
    assert (counts, family.is_up("a")) == ([1, 2], [True])


def test_a_child_that_does_not_stop_is_killed_after_its_time(family: Any) -> None:
    family.raise_up(family.kid("a"), family.kid("b", kind=Stubborn, shutdown=3.0))
    family.take_diary()
    family.system.stop("sup")
    family.wait(2.9)
    assert (family.take_diary(), family.is_up("b")) == (["deaf b"], [True])
    family.wait(0.2)
    assert (family.take_diary(), family.is_up("b", "sup")) == (
        ["stop a"],
        [False, False],
    )


def test_a_child_with_no_time_to_stop_is_killed_at_once(family: Any) -> None:
    family.raise_up(family.kid("a", shutdown=0))
    family.take_diary()
    family.system.stop("sup")
    family.sim.run(until=family.settled)
    assert (family.take_diary(), family.is_up("a", "sup")) == ([], [False, False])


def test_restarts_wait_for_their_backoff(family: Any) -> None:
    family.raise_up(family.kid("a"), backoff=Backoff(jitter=0.0))
    for delay in (1.0, 2.0, 4.0):
        family.tell("a", "crash")
        family.wait(delay - 0.01)
        assert family.is_up("a") == [False]
        family.wait(0.02)
        assert family.is_up("a") == [True]


def test_a_long_run_resets_the_backoff(family: Any) -> None:
    family.raise_up(family.kid("a"), backoff=Backoff(jitter=0.0))
    for _ in range(3):
        family.tell("a", "crash")
        family.wait(10.0)
    family.wait(600.0)
    for _ in range(2):
        family.tell("a", "crash")
        family.wait(10.0)
    delays = [event["delay"] for event in family.log.of("supervisor.restarting")]
    assert delays == [1, 2, 4, 1, 2]


def test_failed_attempts_after_a_long_run_back_off_too(family: Any) -> None:
    family.raise_up(family.kid("a"), backoff=Backoff(jitter=0.0))
    family.wait(700.0)
    family.moods["a"] += ["ill", "ill"]
    family.tell("a", "crash")
    family.wait(10.0)
    delays = [event["delay"] for event in family.log.of("supervisor.restarting")]
    assert delays == [1, 2, 4]


def test_over_the_limit_children_stop_and_the_supervisor_crashes(family: Any) -> None:
    kids = [family.kid(name) for name in "abc"]
    heard = under_parent(family, *kids, intensity=2, period=60.0, backoff=STEADY)
    for _ in range(2):
        family.tell("b", "crash")
        family.wait(1.0)
    family.take_diary()
    family.tell("b", "crash")
    assert family.take_diary() == ["stop c", "stop a"]
    exited = heard[-1]
    assert isinstance(exited.reason, Crash)
    assert "b: over 2 restarts in 60 s; ValueError: crash" in exited.reason.error
    assert [e["child"] for e in family.log.of("supervisor.gave_up")] == ["b"]


def test_restarts_outside_the_period_do_not_count(family: Any) -> None:
    family.raise_up(family.kid("a"), intensity=1, period=5.0, backoff=STEADY)
    for _ in range(4):
        family.tell("a", "crash")
        family.wait(6.0)
    assert family.is_up("a", "sup") == [True, True]


def test_failed_attempts_count_towards_the_limit(family: Any) -> None:
    family.raise_up(family.kid("a"), intensity=2, period=60.0, backoff=STEADY)
    family.moods["a"] += ["ill", "ill"]
    family.tell("a", "crash")
    family.wait(5.0)
    assert family.take_diary() == ["start a", "ill a", "ill a"]
    assert family.is_up("sup") == [False]


def test_a_failed_attempt_is_tried_again_whatever_the_restart_type(
    family: Any,
) -> None:
    family.raise_up(family.kid("a", restart="transient"), backoff=STEADY)
    family.moods["a"] += ["ill"]
    family.tell("a", "crash")
    family.wait(3.0)
    assert family.take_diary() == ["start a", "ill a", "start a"]


def test_an_escalation_is_restarted_by_the_supervisor_above(family: Any) -> None:
    inner = SupervisorSpec(children=(family.kid("a"),), intensity=0)
    family.raise_up(
        family.kid("inner", kind=lambda *_: Supervisor(inner)),
        family.kid("b"),
        strategy="rest_for_one",
        backoff=STEADY,
    )
    assert family.take_diary() == ["start a", "start b"]
    family.tell("a", "crash")
    family.wait(2.0)
    assert family.take_diary() == ["stop b", "start a", "start b"]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_a_sibling_that_fails_during_a_restart_starts_it_over(
    family: Any, strategy: str
) -> None:
    family.raise_up(
        *(family.kid(name) for name in "abc"), strategy=strategy, backoff=STEADY
    )
    family.take_diary()
    family.moods["b"] += ["ill"]
    family.tell("a", "crash")
    family.wait(3.0)
    again = {"one_for_all": ["stop a", "start a"], "rest_for_one": []}[strategy]
    assert family.take_diary() == [
        *("stop c", "stop b", "start a", "ill b"),
        *again,
        *("start b", "start c"),
    ]
    assert family.is_up("a", "b", "c") == [True] * 3


def test_a_sibling_that_crashes_instead_of_stopping_is_not_counted(
    family: Any,
) -> None:
    family.raise_up(
        *(family.kid(name) for name in "ab"),
        strategy="one_for_all",
        intensity=1,
        backoff=STEADY,
    )
    family.system.address("a").tell("crash")
    family.system.address("b").tell("crash")
    family.sim.run(until=family.settled)
    family.wait(5.0)
    assert family.is_up("a", "b", "sup") == [True] * 3


def test_nobody_of_one_for_all_starts_before_the_restart_is_due(family: Any) -> None:
    family.raise_up(
        *(family.kid(name) for name in "ab"), strategy="one_for_all", backoff=STEADY
    )
    family.take_diary()
    family.tell("b", "crash")
    family.wait(0.9)
    assert family.take_diary() == ["stop a"]


def test_an_earlier_child_that_crashes_while_a_later_one_waits_goes_first(
    family: Any,
) -> None:
    family.raise_up(
        *(family.kid(name) for name in "abc"), strategy="rest_for_one", backoff=STEADY
    )
    family.take_diary()
    family.tell("b", "crash")
    family.wait(0.5)
    family.tell("a", "crash")
    family.wait(5.0)
    assert family.take_diary() == ["stop c", "start a", "start b", "start c"]


def test_group_restarts_leave_temporary_children_out(family: Any) -> None:
    family.raise_up(
        family.kid("a"),
        family.kid("b", restart="temporary"),
        family.kid("c", restart="transient"),
        strategy="one_for_all",
        backoff=STEADY,
    )
    family.tell("c", "normal")
    family.take_diary()
    family.tell("a", "crash")
    family.wait(2.0)
    assert family.take_diary() == ["stop b", "start a", "start c"]


def test_a_temporary_child_that_ended_stays_out_of_group_restarts(
    family: Any,
) -> None:
    family.raise_up(
        family.kid("a"),
        family.kid("b", restart="temporary"),
        strategy="one_for_all",
        backoff=STEADY,
    )
    family.tell("b", "normal")
    family.take_diary()
    family.tell("a", "crash")
    family.wait(2.0)
    assert family.take_diary() == ["start a"]


@pytest.mark.parametrize(
    ("auto_shutdown", "ended", "up"),
    [
        ("any_significant", ["a"], False),
        ("all_significant", ["a"], True),
        ("all_significant", ["a", "b"], False),
    ],
)
def test_auto_shutdown_follows_the_significant_children(
    family: Any, auto_shutdown: str, ended: list[str], up: bool
) -> None:
    heard = under_parent(
        family,
        family.kid("a", restart="transient", significant=True),
        family.kid("b", restart="transient", significant=True),
        family.kid("c"),
        auto_shutdown=auto_shutdown,
    )
    for name in ended:
        family.tell(name, "normal")
    assert family.is_up("sup", "c") == [up, up]
    if not up:
        assert heard[-1].reason == Shutdown(detail=f"{ended[-1]} ended")


def test_a_crash_of_a_significant_child_is_a_restart_and_no_end(family: Any) -> None:
    family.raise_up(
        family.kid("a", restart="transient", significant=True),
        auto_shutdown="any_significant",
    )
    family.tell("a", "crash")
    family.wait(5.0)
    assert family.is_up("a", "sup") == [True, True]


def test_children_of_a_killed_supervisor_do_not_outlive_it(family: Any) -> None:
    family.raise_up(family.kid("a"), family.kid("b"))
    family.sim.crash("sup")
    assert family.is_up("a", "b") == [False, False]


def test_a_taken_name_is_a_failed_start_and_its_bearer_stays(family: Any) -> None:
    family.system.spawn("b", lambda: Unready([], []))
    heard = under_parent(family, family.kid("a"), family.kid("b"))
    assert "b did not start: spawn('b'): b#1 is running" in heard[-1].reason.error
    assert family.is_up("a", "b") == [False, True]


def test_strange_messages_are_logged_and_ignored(family: Any) -> None:
    family.raise_up(family.kid("a"))
    family.tell("sup", "hello")
    assert family.log.of("message.unexpected") == [{"name": "sup", "kind": "str"}]
    assert family.is_up("sup") == [True]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_a_tree_under_random_crashes_is_whole_in_the_end(
    log: Any, strategy: Any, seed: int, make_family: Any
) -> None:
    sim = SimulatedDispatcher(seed)
    family = make_family(System(sim, log), sim, log)
    names = ["a", "b", "c", "d"]
    family.raise_up(*(family.kid(name) for name in names), strategy=strategy)
    for _ in range(30):
        sim.crash(names[int(sim.random() * 4)])
        sim.run(until=family.settled)
        family.wait(sim.random() * 3.0)
    family.wait(200.0)
    assert family.is_up(*names) == [True] * 4
