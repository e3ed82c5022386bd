"""A step of very many calls: what it costs does not grow, what it did is remembered."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Call, Finish, PolicyView, tool
from perdure.actors import names
from perdure.actors.events import EffectRecorded, EffectRegistered
from perdure.actors.ledger import entry
from perdure.actors.ledger.entry import LEAVES
from perdure.storage.memory import MemoryBackend
from tests.actors.runs import sound
from tests.actors.world import House

PAYLOAD = 500  # bytes of each result
KEPT = 20  # operations of a step in the state, here
MANY = 3 * KEPT


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "KEPT", KEPT)


class Sender:
    """A policy that makes `calls` one after the other, by their number."""

    def __init__(self, *calls: int, **options: Any) -> None:
        self.calls = calls
        self.sent: list[int] = []
        self.seen: list[PolicyView] = []

        @tool(effect="once", **options)
        def send(n: int) -> str:
            """Send number n."""
            self.sent.append(n)
            return f"{n}".ljust(PAYLOAD, "x")

        self.agent = Agent(name="a", policy=self.decide, tools=[send], recall=False)

    def decide(self, view: PolicyView) -> Any:
        self.seen.append(view)
        if view.count == len(self.calls):
            return Finish("ok")
        return Call("send", {"n": self.calls[view.count]})


@pytest.mark.parametrize("kill", [False, True])
def test_a_call_of_long_ago_is_answered_from_the_record(kill: bool) -> None:
    # P2: although it is not in the state of its step any more.
    sender = Sender(*range(MANY), 0, 1, MANY - 1, MANY)
    house = House(sender.agent)
    task = house.submit("a")
    house.until_hit("effect.recorded", op=MANY)
    if kill:
        house.kill()
        house.reopen()
    assert house.finish(task.id).output == "ok"
    assert sender.sent == [*range(MANY), MANY]
    assert [one.by for one in sender.seen[-1].recent[-4:]] == [
        "record",
        "record",
        "record",
        "run",
    ]
    shown = [one.result[:3].strip("x") for one in sender.seen[-1].recent[-4:]]
    assert shown == ["0", "1", str(MANY - 1), str(MANY)]
    reused = [
        one.reused
        for one in house.of(f"task/{task.id}/ledger", EffectRegistered)
        if one.reused is not None
    ]
    assert reused == [1, 2, MANY]
    sound(house)


def test_a_crash_while_a_call_of_long_ago_is_looked_up_costs_nothing() -> None:
    for steps in range(0, 40, 3):
        sender = Sender(*range(KEPT + 9), 0, 1)
        house = House(sender.agent, seed=steps)
        task = house.submit("a")
        house.until_hit("effect.recorded", op=KEPT + 9)
        for _ in range(steps):
            house.sim.step()
        house.sim.crash(names.ledger(task.id))
        assert house.finish(task.id).output == "ok"
        assert sender.sent == list(range(KEPT + 9))
        sound(house)


def test_a_call_that_is_meant_to_be_repeated_leaves_no_row() -> None:
    for repeat in (True, False):
        sender = Sender(*range(KEPT + 2 * LEAVES + 9), repeat=repeat)
        house = House(sender.agent)
        assert house.run("a").output == "ok"
        left = house.store.rows.get(names.EFFECT_KEYS, {})
        assert len(left) == (0 if repeat else 2)


@pytest.mark.parametrize("more", range(KEPT, KEPT + 3 * LEAVES, 7))
def test_no_call_of_long_ago_is_made_again_wherever_its_key_is_kept(more: int) -> None:
    sender = Sender(*range(more), *range(0, more, 5))
    house = House(sender.agent)
    task = house.submit("a")
    house.until_hit("effect.recorded", op=more)
    house.sim.crash(names.ledger(task.id))
    assert house.finish(task.id).output == "ok"
    assert sender.sent == list(range(more))
    sound(house)


def test_erasing_a_task_erases_the_keys_of_its_effects() -> None:
    sender = Sender(*range(KEPT + LEAVES + 9))
    house = House(sender.agent)
    task = house.submit("a")
    assert house.finish(task.id).output == "ok"
    assert house.store.rows.get(names.EFFECT_KEYS)
    house.runtime.erase(task=task.id, by="an operator")
    assert not house.store.rows.get(names.EFFECT_KEYS)


def test_a_call_of_a_policy_costs_as_many_bytes_late_as_early() -> None:
    # R8: six records, and the payload once.
    many = 18 * KEPT
    sender = Sender(*range(many))
    house = House(sender.agent)
    task = house.submit("a")
    sizes: list[int] = []
    snapshots: list[int] = []
    for op in (2 * KEPT, 10 * KEPT, 18 * KEPT):
        house.until_hit("effect.recorded", op=op)
        sizes.append(sum(len(record.body) for record in house.store.log))
        streams = (names.ledger(task.id), f"task/{task.id}")
        newest = [house.store.snapshots[name][-1][0] for name in streams]
        snapshots.append(sum(len(one.body) for one in newest))
    assert house.finish(task.id).output == "ok"
    early, late = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert late < 1.02 * early
    assert late < 8 * KEPT * (PAYLOAD + 1_000)
    assert snapshots[2] < 1.05 * snapshots[1]
    told = house.of(f"task/{task.id}/ledger", EffectRecorded)
    assert [len(one.result) for one in told] == [PAYLOAD] * many


def test_snapshots_of_a_big_state_write_no_more_than_its_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B75 B84: a `once` effect is next again and again, and the record of 96 is big.
    written: list[int] = []
    write = MemoryBackend.write_snapshots

    def counting(backend: MemoryBackend, snapshots: Any) -> Any:
        written.extend(
            len(one.body) for one in snapshots if one.stream.endswith("/ledger")
        )
        return write(backend, snapshots)

    monkeypatch.setattr(MemoryBackend, "write_snapshots", counting)
    sender = Sender(*range(4 * KEPT))
    house = House(sender.agent)
    task = house.submit("a")
    assert house.finish(task.id).output == "ok"
    ledger = [one for one in house.store.log if one.stream == names.ledger(task.id)]
    assert len(written) > 2
    assert sum(written[:-1]) <= sum(len(one.body) for one in ledger)
