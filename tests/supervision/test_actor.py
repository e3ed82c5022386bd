from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.supervision import (
    NORMAL,
    SHUTDOWN,
    Actor,
    ActorStopped,
    Crash,
    Exited,
    SimulatedDispatcher,
    Started,
    System,
)


class Script(Actor):
    """Keeps what it receives; a callable is called with the actor instead."""

    def __init__(self, seen: list[Any] | None = None) -> None:
        super().__init__()
        self.seen: list[Any] = [] if seen is None else seen

    def receive(self, message: Any) -> None:
        if callable(message):
            message(self)
        else:
            self.seen.append(message)


class Hooks(Script):
    def started(self) -> None:
        self.seen.append("started")

    def stopped(self) -> None:
        self.seen.append("stopped")


def throw(error: BaseException) -> Callable[..., None]:
    def hook(*_: Any) -> None:
        raise error

    return hook


def watched(system: System, factory: Callable[[], Actor]) -> list[Any]:
    """Spawn "child" under a parent; returns the list of what the parent hears."""
    heard: list[Any] = []
    parent = system.spawn("parent", lambda: Script(heard))
    system.spawn("child", factory, supervisor=parent)
    return heard


def exits(heard: list[Any]) -> list[Exited]:
    return [message for message in heard if isinstance(message, Exited)]


def test_hooks_run_in_order_around_the_messages(
    system: System, sim: SimulatedDispatcher
) -> None:
    seen: list[Any] = []
    address = system.spawn("a", lambda: Hooks(seen))
    address.tell("one")
    sim.run()
    system.stop("a")
    sim.run()
    assert seen == ["started", "one", "stopped"]


def test_a_supervisor_hears_the_start_and_the_normal_end(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard = watched(system, Script)
    system.address("child").tell(Actor.stop)
    sim.run()
    assert heard == [
        Started(child="child", incarnation=2),
        Exited(child="child", incarnation=2, reason=NORMAL),
    ]


ERRORS = [
    ValueError("x"),
    SystemExit(1),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    GeneratorExit(),
    MemoryError(),
    RecursionError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["factory", "started", "receive", "stopped"])
def test_anything_raised_anywhere_is_one_crash_of_that_actor_only(
    system: System, sim: SimulatedDispatcher, where: str, error: BaseException
) -> None:
    class Bad(Script):
        pass

    if where != "factory":
        setattr(Bad, where, throw(error))
    heard = watched(system, throw(error) if where == "factory" else Bad)
    neighbour = system.spawn("neighbour", Script)
    system.address("child").tell("go")
    if where == "stopped":
        sim.run(until=lambda: bool(heard))
        system.stop("child")
    sim.run()
    (exited,) = exits(heard)
    assert isinstance(exited.reason, Crash)
    assert type(error).__name__ in exited.reason.error
    assert neighbour.ask(lambda p: lambda _: p.set("alive"), timeout=1.0) == "alive"


def test_a_crash_is_logged_with_its_traceback(
    system: System, sim: SimulatedDispatcher, log: Any
) -> None:
    system.spawn("a", Script).tell(throw(ValueError("boom")))
    sim.run()
    (event,) = log.of("actor.crashed")
    assert (event["name"], event["incarnation"]) == ("a", 1)
    assert event["error"] == "ValueError: boom"
    assert "in receive" in event["traceback"]


def test_an_error_that_cannot_be_printed_is_still_a_crash(
    system: System, sim: SimulatedDispatcher
) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    heard = watched(system, Script)
    system.address("child").tell(throw(Unprintable()))
    sim.run()
    assert "Unprintable" in exits(heard)[0].reason.error


def test_nothing_more_runs_on_an_instance_that_crashed(
    system: System, sim: SimulatedDispatcher
) -> None:
    seen: list[Any] = []
    address = system.spawn("a", lambda: Hooks(seen))
    address.tell(throw(ValueError()))
    address.tell("later")
    sim.run()
    assert seen == ["started"]


def test_unread_tells_are_counted_and_logged_when_an_actor_ends(
    system: System, sim: SimulatedDispatcher, log: Any
) -> None:
    address = system.spawn("a", Script)
    address.tell(throw(ValueError()))
    for _ in range(3):
        address.tell("unread")
    sim.run()
    assert log.of("mailbox.dropped") == [{"name": "a", "incarnation": 1, "count": 3}]
    assert system.dead_letters == 3


def test_a_tell_to_nobody_is_counted_and_returns_false(system: System) -> None:
    assert system.address("nobody").tell("x") is False
    assert system.dead_letters == 1


def test_stop_overtakes_the_mailbox(system: System, sim: SimulatedDispatcher) -> None:
    seen: list[Any] = []
    address = system.spawn("a", lambda: Hooks(seen))
    sim.run()
    address.tell("queued")
    system.stop("a")
    sim.run()
    assert seen == ["started", "stopped"]


def test_a_stop_before_the_first_turn_makes_no_instance(
    system: System, sim: SimulatedDispatcher
) -> None:
    seen: list[Any] = []
    heard = watched(system, lambda: Hooks(seen))
    system.stop("child")
    sim.run()
    assert (seen, exits(heard)[0].reason) == ([], SHUTDOWN)


def test_stopping_itself_ends_after_the_message_in_hand(
    system: System, sim: SimulatedDispatcher
) -> None:
    seen: list[Any] = []

    def end(actor: Script) -> None:
        actor.stop()
        actor.seen.append("still here")

    address = system.spawn("a", lambda: Hooks(seen))
    address.tell(end)
    address.tell("queued")
    sim.run()
    assert seen == ["started", "still here", "stopped"]


def test_a_killed_actor_runs_no_hook(system: System, sim: SimulatedDispatcher) -> None:
    seen: list[Any] = []
    heard = watched(system, lambda: Hooks(seen))
    sim.run()
    assert system.kill("child", Crash(error="killed"))
    sim.run()
    assert seen == ["started"]
    assert exits(heard) == [
        Exited(child="child", incarnation=2, reason=Crash(error="killed"))
    ]


def test_a_second_kill_finds_nobody(system: System, sim: SimulatedDispatcher) -> None:
    heard = watched(system, Script)
    sim.run()
    killed = [system.kill("child", Crash(error="killed")) for _ in range(2)]
    sim.run()
    assert (killed, len(exits(heard))) == ([True, False], 1)


def test_an_address_reaches_each_incarnation_in_turn(
    system: System, sim: SimulatedDispatcher
) -> None:
    address = system.address("a")
    first: list[Any] = []
    second: list[Any] = []
    system.spawn("a", lambda: Script(first))
    address.tell("one")
    sim.run()
    system.stop("a")
    sim.run()
    system.spawn("a", lambda: Script(second))
    address.tell("two")
    sim.run()
    assert (first, second) == (["one"], ["two"])


def test_incarnations_only_grow(system: System, sim: SimulatedDispatcher) -> None:
    numbers: list[int] = []
    for _ in range(3):
        system.spawn("a", Script).tell(lambda a: numbers.append(a.incarnation))
        sim.run()
        system.stop("a")
        sim.run()
    assert numbers == sorted(set(numbers))


def test_a_name_is_borne_by_one_at_a_time(system: System) -> None:
    system.spawn("a", Script)
    with pytest.raises(ValueError, match="a#1 is running; stop it first"):
        system.spawn("a", Script)


def test_a_dead_supervisor_is_given_no_child(system: System) -> None:
    with pytest.raises(ActorStopped, match="parent is not running"):
        system.spawn("a", Script, supervisor=system.address("parent"))


def test_a_supervisor_that_ends_takes_its_children_along(
    system: System, sim: SimulatedDispatcher
) -> None:
    watched(system, Script)
    system.spawn("grandchild", Script, supervisor=system.address("child"))
    system.spawn("stranger", Script)
    sim.run()
    system.kill("parent", Crash(error="killed"))
    names = ("parent", "child", "grandchild", "stranger")
    assert [system.is_running(name) for name in names] == [False, False, False, True]


def test_an_actor_ended_during_its_turn_starts_nobody(
    system: System, sim: SimulatedDispatcher
) -> None:
    def last_words(actor: Script) -> None:
        actor.system.kill("a", Crash(error="killed"))
        actor.system.spawn("orphan", Script)

    system.spawn("a", Script).tell(last_words)
    sim.run()
    assert not system.is_running("orphan")


def test_a_factory_that_makes_no_actor_is_a_crash(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard = watched(system, lambda: 3)
    sim.run()
    assert "the factory of child made 3" in exits(heard)[0].reason.error


def test_an_init_without_super_is_named_in_the_crash(
    system: System, sim: SimulatedDispatcher
) -> None:
    class Forgetful(Actor):
        def __init__(self) -> None: ...

        def receive(self, message: Any) -> None: ...

    heard = watched(system, Forgetful)
    sim.run()
    assert "must call super().__init__()" in exits(heard)[0].reason.error


def test_a_log_that_raises_stops_nobody(sim: SimulatedDispatcher) -> None:
    system = System(sim, throw(SystemExit()))
    heard = watched(system, Script)
    system.address("child").tell(throw(ValueError()))
    sim.run()
    assert len(exits(heard)) == 1


def test_join_waits_for_the_end(system: System, sim: SimulatedDispatcher) -> None:
    system.spawn("a", Script)
    sim.run()
    assert system.join("a", timeout=1.0) is False
    system.stop("a")
    assert system.join("a", timeout=1.0) is True
    assert not system.is_running("a")


def test_a_crash_after_a_kill_in_the_same_turn_is_no_second_exit(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard = watched(system, Script)

    def killed_first(actor: Script) -> None:
        actor.system.kill("child", Crash(error="killed"))
        in_next_turn.append(True)
        raise ValueError

    in_next_turn: list[bool] = []
    system.address("child").tell(killed_first)
    sim.run()
    assert in_next_turn
    assert [exited.reason for exited in exits(heard)] == [Crash(error="killed")]


@pytest.mark.parametrize("seed", range(10))
def test_the_end_of_a_killed_child_is_heard_after_its_start(
    log: Any, seed: int
) -> None:
    sim = SimulatedDispatcher(seed)
    system = System(sim, log)
    heard = watched(system, Script)
    sim.run(until=lambda: bool(log.of("actor.started")[1:]))
    system.kill("child", Crash(error="killed"))
    sim.run()
    assert [type(message) for message in heard] in ([Started, Exited], [Exited])
