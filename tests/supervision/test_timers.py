from __future__ import annotations

from typing import Any

from perdure.supervision import Actor, SimulatedDispatcher, System, Timer


class Alarm(Actor):
    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard = heard
        self.timer: Timer | None = None

    def receive(self, message: Any) -> None:
        match message:
            case "set":
                self.timer = self.after(10.0, "rang")
            case "cancel" if self.timer is not None:
                self.timer.cancel()
            case _:
                self.heard.append((self.system.clock.monotonic(), message))


def test_a_message_comes_after_its_delay(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard: list[Any] = []
    system.spawn("a", lambda: Alarm(heard)).tell("set")
    sim.run()
    assert heard == [(10.0, "rang")]


def test_a_timer_dies_with_its_incarnation(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard: list[Any] = []
    system.spawn("a", lambda: Alarm(heard)).tell("set")
    sim.run_for(1.0)
    system.stop("a")
    sim.run_for(1.0)
    system.spawn("a", lambda: Alarm(heard))
    sim.run()
    assert heard == []


def test_a_timer_that_dies_is_no_dead_letter_and_waits_for_nothing(
    system: System, sim: SimulatedDispatcher
) -> None:
    system.spawn("a", lambda: Alarm([])).tell("set")
    sim.run_for(2.0)
    system.stop("a")
    sim.run()
    assert (system.dead_letters, sim.clock.monotonic()) == (0, 2.0)


def test_a_cancelled_message_is_not_received(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard: list[Any] = []
    address = system.spawn("a", lambda: Alarm(heard))
    address.tell("set")
    address.tell("cancel")
    sim.run()
    assert heard == []


def test_cancel_reaches_a_message_that_is_in_the_mailbox(
    system: System, sim: SimulatedDispatcher
) -> None:
    heard: list[Any] = []
    timers: list[Timer] = []

    class Early(Alarm):
        def started(self) -> None:
            timers.append(self.after(0.0, "rang"))

    system.spawn("a", lambda: Early(heard))
    sim.step()
    sim.step()
    assert sim.trace[-1].startswith("timer")
    timers[0].cancel()
    sim.run()
    assert heard == []


def test_a_timer_unread_in_the_mailbox_is_no_dead_letter(
    system: System, sim: SimulatedDispatcher
) -> None:
    class Early(Alarm):
        def started(self) -> None:
            self.after(0.0, "rang")

    system.spawn("a", lambda: Early([]))
    sim.step()
    sim.step()
    assert sim.trace[-1].startswith("timer")
    system.stop("a")
    sim.run()
    assert system.dead_letters == 0
