"""Mailbox, stop and flag on real threads that are switched as often as possible.

What a few threads can do in a few steps is tried whole in `test_interleavings.py`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.supervision import Actor, ActorStopped, Promise, System

PATIENCE = 30.0  # seconds; only a failing test waits that long


class Does(Actor):
    def receive(self, message: Any) -> None:
        message(self)


@pytest.fixture(autouse=True)
def hasty_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(count: int, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)


def test_an_actor_never_runs_on_two_threads_and_keeps_each_senders_order(
    pool_system: System,
) -> None:
    class Jealous(Actor):
        def __init__(self) -> None:
            super().__init__()
            self.inside = threading.Lock()
            self.last: dict[int, int] = {}

        def receive(self, message: Any) -> None:
            if not self.inside.acquire(blocking=False):
                overlaps.append(message)
                return
            if callable(message):
                message(self)
            else:
                sender, number = message
                disorder.extend([message] * (self.last.get(sender, -1) >= number))
                self.last[sender] = number
            self.inside.release()

    overlaps: list[Any] = []
    disorder: list[Any] = []
    address = pool_system.spawn("a", Jealous)
    in_threads(4, lambda n: [address.tell((n, i)) for i in range(3000)])
    last: dict[int, int] = address.ask(
        lambda promise: lambda actor: promise.set(actor.last), timeout=PATIENCE
    )
    assert (overlaps, disorder) == ([], [])
    assert last == dict.fromkeys(range(4), 2999)


def test_each_tell_that_races_a_stop_is_received_or_counted(
    pool_system: System,
) -> None:
    received: list[int] = []

    class Counts(Actor):
        def receive(self, message: Any) -> None:
            received.append(message)

    sent = 0
    for _ in range(30):
        address = pool_system.spawn("a", Counts)

        def work(n: int, address: Any = address) -> None:
            for i in range(200):
                if n == 0 and i == 100:
                    pool_system.stop("a")
                address.tell(i)

        in_threads(3, work)
        sent += 3 * 200
        assert pool_system.join("a", PATIENCE)
    assert len(received) + pool_system.dead_letters == sent


def test_each_ask_that_races_a_stop_is_answered(pool_system: System) -> None:
    promises: list[Promise] = []
    for _ in range(30):
        address = pool_system.spawn("a", Does)

        def work(n: int, address: Any = address) -> None:
            for i in range(50):
                if n == 0 and i == 25:
                    pool_system.stop("a")
                promises.append(address.send_ask(lambda p: lambda actor: p.set(1)))

        in_threads(3, work)
        assert pool_system.join("a", PATIENCE)
    outcomes = set()
    for promise in promises:
        try:
            outcomes.add(promise.result(PATIENCE))
        except ActorStopped:
            outcomes.add("stopped")
    assert outcomes <= {1, "stopped"}
