"""What pykka does by itself, and our actors do not."""

from __future__ import annotations

from typing import Any

import pykka
import pytest

from perdure.supervision import Actor, Address, Promise, System


class Ours(Actor):
    def receive(self, message: Any) -> None:
        if isinstance(message, Promise):
            message.set(self.actor_ref)
        else:
            raise message


@pytest.fixture
def ours(pool_system: System) -> Address:
    return pool_system.spawn("ours", Ours)


def reference(address: Address) -> pykka.ActorRef[Any]:
    ref: pykka.ActorRef[Any] = address.ask(lambda promise: promise, timeout=30.0)
    return ref


def is_alive(address: Address) -> bool:
    return reference(address).is_alive()


class Host(pykka.ThreadingActor):
    """An actor of the program that embeds us."""

    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        raise message


def test_our_actors_are_pykka_actors_outside_its_registry(ours: Address) -> None:
    ref = reference(ours)
    assert issubclass(ref.actor_class, pykka.Actor)
    assert ref not in pykka.ActorRegistry.get_all()


def test_stop_all_of_the_host_does_not_stop_ours(ours: Address) -> None:
    reference(ours)
    pykka.ActorRegistry.stop_all()
    assert is_alive(ours)


def test_a_foreign_stop_is_ignored_and_answered(ours: Address) -> None:
    assert reference(ours).stop(block=True, timeout=30.0) is False
    assert is_alive(ours)


def test_system_exit_in_a_host_actor_does_not_stop_ours(ours: Address) -> None:
    host = Host.start()
    host.tell(SystemExit())
    assert host.actor_stopped.wait(30.0)
    assert is_alive(ours)


def test_system_exit_in_our_actor_does_not_stop_the_hosts(
    pool_system: System, ours: Address
) -> None:
    host = Host.start()
    ours.tell(SystemExit())
    assert pool_system.join("ours", timeout=30.0)
    assert host.is_alive()
    host.stop()


def test_a_pykka_reference_sees_the_end(pool_system: System, ours: Address) -> None:
    ref = reference(ours)
    pool_system.stop("ours")
    assert pool_system.join("ours", timeout=30.0)
    assert not ref.is_alive()
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("x")


def test_a_pykka_tell_arrives(ours: Address) -> None:
    promise = Promise()
    reference(ours).tell(promise)
    assert promise.result(timeout=30.0).actor_class is Ours


def test_pykka_asks_and_proxies_are_refused_with_the_fix(ours: Address) -> None:
    with pytest.raises(TypeError, match=r"use Address\.ask"):
        reference(ours).ask("x", timeout=30.0)
    assert is_alive(ours)


def test_pykka_start_is_refused_and_leaves_no_trace() -> None:
    with pytest.raises(RuntimeError, match=r"use System\.spawn"):
        Ours.start()
    assert not pykka.ActorRegistry.get_by_class(Ours)
