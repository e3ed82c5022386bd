from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.supervision import (
    Actor,
    ActorStopped,
    Address,
    PoolDispatcher,
    Promise,
    SimulatedDispatcher,
    System,
)


class Does(Actor):
    """Does what it is told: each message is a function of the actor."""

    def receive(self, message: Any) -> None:
        message(self)


def answer(value: Any) -> Callable[[Promise], Any]:
    return lambda promise: lambda actor: promise.set(value)


def keep_silent(promise: Promise) -> Any:
    return lambda actor: None


def crash(promise: Promise) -> Any:
    def message(actor: Actor) -> None:
        raise ValueError("boom")

    return message


@pytest.fixture
def address(system: System) -> Address:
    return system.spawn("a", Does)


def test_ask_returns_what_the_promise_is_set_to(address: Address) -> None:
    assert address.ask(answer(42), timeout=1.0) == 42


def test_ask_raises_what_the_promise_fails_with(address: Address) -> None:
    def fail(promise: Promise) -> Any:
        return lambda actor: promise.fail(KeyError("no such task"))

    with pytest.raises(KeyError, match="no such task"):
        address.ask(fail, timeout=1.0)


def test_ask_gives_up_after_its_timeout(
    address: Address, sim: SimulatedDispatcher
) -> None:
    with pytest.raises(TimeoutError, match=r"2\.5 s"):
        address.ask(keep_silent, timeout=2.5)
    assert sim.clock.monotonic() == 2.5


def test_an_answer_after_the_timeout_does_nothing(address: Address) -> None:
    promises: list[Promise] = []

    def late(promise: Promise) -> Any:
        promises.append(promise)
        return keep_silent(promise)

    with pytest.raises(TimeoutError):
        address.ask(late, timeout=1.0)
    assert promises[0].set("late") is False


def test_asking_nobody_fails_at_once(system: System) -> None:
    with pytest.raises(ActorStopped, match="b is not running"):
        system.address("b").ask(answer(1), timeout=60.0)


def test_an_ask_that_crashes_the_actor_fails_instead_of_hanging(
    address: Address,
) -> None:
    with pytest.raises(ActorStopped, match="a did not answer: ValueError: boom"):
        address.ask(crash, timeout=60.0)


def test_an_ask_in_the_mailbox_fails_when_the_actor_ends(
    system: System, address: Address, sim: SimulatedDispatcher
) -> None:
    sim.run()
    queued = address.send_ask(answer(1))
    system.stop("a")
    with pytest.raises(ActorStopped, match="it stopped"):
        queued.result(timeout=60.0)


def test_an_ask_received_and_not_answered_fails_when_the_actor_ends(
    system: System, address: Address, sim: SimulatedDispatcher
) -> None:
    open_ask = address.send_ask(keep_silent)
    sim.run()
    assert not open_ask.done
    system.stop("a")
    sim.run()
    with pytest.raises(ActorStopped):
        open_ask.result()


def test_answered_asks_are_not_kept(system: System, address: Address) -> None:
    kept: list[int] = []
    address.ask(answer(1), timeout=1.0)
    address.ask(
        lambda promise: (
            lambda actor: (promise.set(), kept.append(len(actor._cell.promises)))
        ),
        timeout=1.0,
    )
    assert kept == [0]


def test_actors_do_not_ask_each_other(
    system: System, address: Address, sim: SimulatedDispatcher
) -> None:
    errors: list[BaseException] = []

    def ask_other(actor: Actor) -> None:
        try:
            address.ask(answer(1), timeout=1.0)
        except RuntimeError as error:
            errors.append(error)

    system.spawn("b", Does).tell(ask_other)
    sim.run()
    assert str(errors[0]).startswith("ask(a) blocks, and b is in its turn")


def test_actors_do_not_wait_for_promises(
    system: System, sim: SimulatedDispatcher
) -> None:
    errors: list[BaseException] = []

    def wait(actor: Actor) -> None:
        try:
            Promise().result(timeout=0.0)
        except RuntimeError as error:
            errors.append(error)

    system.spawn("b", Does).tell(wait)
    sim.run()
    assert len(errors) == 1


def test_the_first_answer_counts() -> None:
    promise = Promise()
    outcomes = [promise.set(1), promise.set(2), promise.fail(ValueError())]
    assert (outcomes, promise.result()) == ([True, False, False], 1)


def test_callbacks_are_called_once_before_or_after_the_answer() -> None:
    called: list[str] = []
    promise = Promise()
    promise.add_done_callback(lambda p: called.append(f"before {p.result()}"))
    promise.set(1)
    promise.add_done_callback(lambda p: called.append(f"after {p.result()}"))
    promise.set(2)
    assert called == ["before 1", "after 1"]


def test_a_callback_that_raises_is_logged_and_the_actor_goes_on(
    address: Address, sim: SimulatedDispatcher, log: Any
) -> None:
    def closed_loop(promise: Promise) -> None:
        raise RuntimeError("Event loop is closed")

    def asked(promise: Promise) -> Any:
        promise.add_done_callback(closed_loop)
        return lambda actor: promise.set(1)

    address.send_ask(asked)
    sim.run()
    assert [event["where"] for event in log.of("callback.failed")] == ["promise"]
    assert address.ask(answer("alive"), timeout=1.0) == "alive"


def test_ask_works_from_a_thread_outside(pool_system: System) -> None:
    assert pool_system.spawn("a", Does).ask(answer(42), timeout=30.0) == 42


def test_ask_on_a_pool_gives_up_after_its_timeout(
    pool_system: System, pool: PoolDispatcher
) -> None:
    address = pool_system.spawn("a", Does)
    with pytest.raises(TimeoutError):
        address.ask(keep_silent, timeout=0.01)


def test_addresses_of_one_name_are_equal(system: System, log: Any) -> None:
    other = System(SimulatedDispatcher(2), log)
    assert system.address("x") == system.address("x")
    assert system.address("x") != other.address("x")
    assert len({system.address("x"), system.address("x")}) == 1
