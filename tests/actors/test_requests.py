from __future__ import annotations

from typing import Any

import pytest

from perdure.actors.requests import BACKSTOP, Overdue, Requests
from perdure.supervision import Actor, SimulatedDispatcher, System, Up


class Server(Actor):
    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard = heard

    def receive(self, message: Any) -> None:
        if message == "die":
            raise ValueError(message)
        self.heard.append(message)


class Client(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.requests = Requests(self)

    def receive(self, message: Any) -> None:
        match message:
            case ("send", key, text):
                to = self.system.address("server")
                self.requests.send(key, to, text)
            case ("answered", key, answers):
                answers.append(self.requests.answered(key))
            case ("timers", timers):
                timers.append(list(self._cell.timers))
            case ("open", counts):
                counts.append(self.requests.open())
            case Up(name=name):
                self.requests.up(name)
            case Overdue():
                self.requests.overdue()


class Pair:
    def __init__(self) -> None:
        self.sim = SimulatedDispatcher(seed=4)
        self.system = System(self.sim, lambda event, **fields: None)
        self.heard: list[Any] = []
        self.system.spawn("client", Client)

    def serve(self) -> None:
        self.system.spawn("server", lambda: Server(self.heard))
        self.settle()

    def tell(self, message: Any, to: str = "client") -> None:
        self.system.address(to).tell(message)
        self.settle()

    def settle(self) -> None:
        self.sim.run(until=lambda: self.sim.idle)

    def timers(self) -> list[Any]:
        """The client's timers that are still to ring."""
        found: list[Any] = self.ask("timers")
        return found

    def ask(self, *message: Any) -> Any:
        answers: list[Any] = []
        self.tell((*message, answers))
        return answers[0]


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_request_is_sent_again_when_the_other_side_comes_up(pair: Pair) -> None:
    pair.tell(("send", "k", "please"))
    assert pair.heard == []
    pair.serve()
    assert pair.heard == ["please"]
    pair.tell("die", to="server")
    pair.serve()
    assert pair.heard == ["please", "please"]


def test_an_answered_request_is_not_sent_again_and_answered_once(pair: Pair) -> None:
    pair.serve()
    pair.tell(("send", "k", "please"))
    assert pair.ask("answered", "k") is True
    assert pair.ask("answered", "k") is False
    pair.tell("die", to="server")
    pair.serve()
    pair.sim.run_for(3 * BACKSTOP)
    assert pair.heard == ["please"]
    assert pair.ask("open") == 0


def test_an_unanswered_request_is_sent_again_after_a_while(pair: Pair) -> None:
    pair.serve()
    pair.tell(("send", "k", "please"))
    pair.sim.run_for(BACKSTOP + 1)
    assert pair.heard == ["please", "please"]
    pair.sim.run_for(BACKSTOP)
    assert pair.heard == ["please"] * 3
    assert pair.ask("open") == 1


def test_all_requests_share_a_timer_that_is_not_set_again_for_none(pair: Pair) -> None:
    pair.serve()
    for key in range(3):
        pair.tell(("send", key, "please"))
    assert len(pair.timers()) == 1
    for key in range(3):
        pair.ask("answered", key)
    pair.sim.run_for(BACKSTOP + 1)
    assert pair.timers() == []


def test_a_later_request_has_its_own_time(pair: Pair) -> None:
    pair.serve()
    pair.tell(("send", "first", 1))
    pair.sim.run_for(BACKSTOP / 2)
    pair.tell(("send", "second", 2))
    pair.ask("answered", "first")
    pair.sim.run_for(BACKSTOP / 2 + 1)
    assert pair.heard == [1, 2]
    pair.sim.run_for(BACKSTOP / 2)
    assert pair.heard == [1, 2, 2]
