"""A desk that books, pays and takes back, for tests of compensation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure import Agent, DidNotHappen, Effect, Happened, tool
from perdure.actors import names
from perdure.actors.events import ContextRebuilt
from perdure.models import Scripted
from tests.actors.runs import not_reproduced
from tests.actors.world import Calls, House, follow, unbalanced

__all__ = ["Desk", "agent", "taken_back", "waiting"]

CALLS: Sequence[Calls] = [
    [("book", {"what": "flight"}), ("look", {"what": "sky"})],
    [("book", {"what": "hotel"})],
    [("pay", {"what": "both"})],
    [("wait", {})],
]


class Desk:
    """What was booked and what was taken back, in order; it outlives every process."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []  # request id, what
        self.undone: list[tuple[str, str]] = []  # request id of the undo, what
        self.told: list[tuple[Effect, str]] = []
        self.trouble: Callable[[str], None] = lambda what: None
        self.refunds: list[str] = []  # request ids


def agent(desk: Desk, **options: Any) -> Agent:
    calls = options.pop("calls", CALLS)

    def unbook(effect: Effect, result: str, *, request_id: str) -> str:
        """Take a booking back."""
        what = effect.arguments["what"]
        desk.trouble(what)
        if request_id not in [key for key, _ in desk.undone]:
            desk.undone.append((request_id, what))
        desk.told.append((effect, result))
        return f"{what} is free again"

    def was_refunded(effect: Effect) -> Any:
        there = effect.request_id in desk.refunds
        return Happened("refunded") if there else DidNotHappen()

    refund_options = {"effect": "once", "probe": was_refunded, **options}

    @tool(**refund_options)
    def refund(effect: Effect, *, request_id: str) -> str:
        """Pay it back."""
        desk.refunds.append(request_id)
        desk.undone.append((request_id, effect.arguments["what"]))
        desk.trouble("refund")
        return "refunded"

    @tool(effect="idempotent", undo=unbook)
    def book(what: str, *, request_id: str) -> str:
        """Book something."""
        if request_id not in [key for key, _ in desk.done]:
            desk.done.append((request_id, what))
        return f"{what} is booked"

    def was_paid(effect: Effect) -> Any:
        there = effect.request_id in [key for key, _ in desk.done]
        return Happened("paid") if there else DidNotHappen()

    @tool(effect="once", probe=was_paid, undo=refund)
    def pay(what: str, *, request_id: str) -> str:
        """Pay for something."""
        desk.done.append((request_id, what))
        return f"{what} is paid"

    @tool(effect="read")
    def look(what: str) -> str:
        """Look at something."""
        return f"{what} is fine"

    @tool(effect="once", approval=True)
    def wait() -> str:
        """Wait for a person."""
        raise AssertionError("nobody approves it")

    return Agent(
        name="agent",
        instructions="Book, pay, wait.",
        model=Scripted(follow({"task": calls})),
        tools=[book, pay, look, wait],
        recovery="rules",
    )


def waiting(desk: Desk, **options: Any) -> tuple[House, str]:
    """A task that has done all it can, and waits for a person."""
    house = House(agent(desk, **options))
    task = house.submit("agent")
    assert house.finish(task.id).reason == "approval"
    return house, task.id


def taken_back(house: House, desk: Desk, task: str) -> None:
    """All that must hold at the end, however often it was disturbed."""
    result = house.runtime.wait(task, 24 * 3600.0, until="ended")
    assert (result.status, result.reason) == (
        "cancelled",
        "cancelled by operator; effects taken back: 3",
    )
    assert [what for _, what in desk.undone] == ["both", "hotel", "flight"]
    assert len({key for key, _ in desk.undone}) == 3
    assert house.store.rows.get(names.UNDOS, {}) == {}
    rebuilt = house.of(f"task/{task}", ContextRebuilt)
    assert all(one.facts_until >= 6 for one in rebuilt)  # an undo is of no exchange
    assert unbalanced(house.store) == []
    assert house.log.crashes() == []
    assert house.log.strangers == []
    house.runtime.close()
    assert not_reproduced(house.store) == []
