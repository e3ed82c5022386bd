"""What calls usually take: learned, bounded, kept, and used by later reservations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Agent, Budget, Happened, Price, delegate, tool
from perdure.actors import names
from perdure.actors.budget.estimates import (
    KEPT,
    LEAST,
    NAMES,
    fitted,
    lessons,
    merged,
    ratio,
    usual,
)
from perdure.actors.budget.pool import PoolState, apply_pool
from perdure.actors.context.tally import Tally
from perdure.actors.events import (
    EffectRecorded,
    EstimatesLearned,
    Granted,
    Reserved,
    Settled,
)
from perdure.actors.model import ModelReply, ModelRequest, Usage
from perdure.actors.price import cost_of
from perdure.models import Scripted
from tests.actors.desk import Desk, waiting
from tests.actors.world import House, follow, unbalanced
from tests.perdure.agents import one_step

LOOK = ("look", {})
PRICE = Price(input="2.50", output="10")

values = st.lists(st.integers(0, 10**9), min_size=LEAST, max_size=KEPT).map(tuple)
names_ = st.sampled_from(("tool:a", "tool:b", "model:m", "input:model:m"))


# ── arithmetic ───────────────────────────────────────────────────────────────────


@given(values)
def test_nine_of_ten_samples_are_not_above_the_estimate(found: tuple[int, ...]) -> None:
    estimate = usual({"tool:a": found}, "tool:a")
    assert estimate in found
    within = sum(value <= estimate for value in found)
    below = sum(value < estimate for value in found)
    assert 10 * within >= 9 * len(found) > 10 * below


@given(values, st.data())
def test_a_longer_call_never_makes_the_estimate_smaller(
    found: tuple[int, ...], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(found) - 1))
    more = data.draw(st.integers(0, 10**6))
    longer = (*found[:place], found[place] + more, *found[place + 1 :])
    before, after = usual({"n": found}, "n"), usual({"n": longer}, "n")
    assert before is not None
    assert after is not None
    assert after >= before


def test_two_samples_say_nothing() -> None:
    assert usual({"tool:a": (5, 5)}, "tool:a") is None
    assert usual({"tool:a": (5, 5, 6)}, "tool:a") == 6
    assert usual({}, "tool:a") is None


@given(st.lists(st.dictionaries(names_, values), max_size=8))
def test_the_newest_samples_of_a_name_are_kept(
    lessons_: list[dict[str, tuple[int, ...]]],
) -> None:
    samples: dict[str, tuple[int, ...]] = {}
    for more in lessons_:
        samples = merged(samples, more)
    for name in {name for more in lessons_ for name in more}:
        all_of_it = tuple(n for more in lessons_ for n in more.get(name, ()))
        assert samples[name] == all_of_it[-KEPT:]


def test_names_not_heard_of_for_long_are_forgotten() -> None:
    samples = merged({}, {f"tool:{n}": (n,) for n in range(NAMES)})
    samples = merged(samples, {"tool:0": (7,)})
    samples = merged(samples, {"tool:new": (1,)})
    assert len(samples) == NAMES
    assert "tool:1" not in samples
    assert (samples["tool:0"], samples["tool:new"]) == ((0, 7), (1,))


@given(st.integers(0, 10**6), st.integers(0, 10**5), values)
def test_input_and_what_follows_from_it_are_scaled_together_within_bounds(
    written: int, answer: int, found: tuple[int, ...]
) -> None:
    asked = {
        "model_calls": 1,
        "input_tokens": written,
        "output_tokens": answer,
        "tokens": written + answer,
        "cost": 1,
    }
    samples = {"input:model:m": found}
    made = fitted(samples, "model:m", asked, PRICE, timed=False)
    scale = ratio(samples, "model:m")
    assert scale is not None
    assert written <= 2 * made["input_tokens"]
    assert made["input_tokens"] <= 2 * written
    assert 0 <= made["input_tokens"] * 1000 - written * scale < 1000
    assert made["output_tokens"] == answer, "its reply is limited by it"
    assert made["tokens"] == made["input_tokens"] + answer
    usage = Usage(input_tokens=made["input_tokens"], output_tokens=answer)
    assert made["cost"] == cost_of(PRICE, usage)
    assert made["model_calls"] == 1


def test_estimated_figures_teach_no_ratio() -> None:
    asked, used = {"input_tokens": 200}, {"input_tokens": 150, "milliseconds": 9}
    assert lessons("model:m", asked, used, reported=False) == {"model:m": (9,)}
    assert lessons("model:m", asked, used, reported=True) == {
        "model:m": (9,),
        "input:model:m": (750,),
    }


# ── time ─────────────────────────────────────────────────────────────────────────


class Slow:
    """A tool that takes ten seconds, and who used it."""

    def __init__(self) -> None:
        self.calls = 0
        self.advance: Callable[[float], Any] = lambda seconds: None
        self.trouble: list[Exception] = []

    def agent(self, *calls: tuple[str, dict[str, Any]], **options: Any) -> Any:
        @tool(effect="read")
        def look() -> str:
            """Look for long."""
            self.calls += 1
            self.advance(10.0)
            if self.trouble:
                raise self.trouble.pop(0)
            return "seen"

        options.setdefault("recovery", "rules")
        return one_step(*calls, tools=[look], **options)

    def house(self, *calls: tuple[str, dict[str, Any]], **options: Any) -> House:
        house = House(self.agent(*calls, **options))
        self.advance = house.sim.clock.advance
        return house


def samples(house: House) -> dict[str, tuple[int, ...]]:
    state = PoolState()
    for event in house.events(names.POOL):
        state = apply_pool(state, event)
    return state.samples


def settle_down(house: House) -> None:
    house.sim.run_for(1.0)


def test_a_call_that_usually_takes_longer_than_what_is_left_is_not_begun() -> None:
    # B62 B77
    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK)
    assert house.run(budget=Budget(seconds=1000)).status == "completed"
    settle_down(house)
    task = house.submit(budget=Budget(seconds=29))
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "budget",
        "extend",
    )
    assert "milliseconds: 10000 wanted, 9000 left of 29000" in result.detail
    assert slow.calls == 5, "three that taught it, two that fitted in"
    task.extend(Budget(seconds=2))
    assert house.finish(task.id).status == "completed"
    assert slow.calls == 6
    assert unbalanced(house.store) == []


def test_a_task_uses_what_its_own_calls_took() -> None:
    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK, LOOK)
    result = house.run(budget=Budget(seconds=39))
    assert "milliseconds: 10000 wanted, 9000 left of 39000" in result.detail
    assert slow.calls == 3


def test_what_was_learned_outlives_the_process() -> None:
    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK)
    house.run(budget=Budget(seconds=1000))
    settle_down(house)
    house.kill()
    house.reopen()
    assert "10000 wanted, 9000 left" in house.run(budget=Budget(seconds=9)).detail
    assert slow.calls == 3


def test_parallel_calls_reserve_their_time_side_by_side() -> None:
    # K29
    def both(request: ModelRequest) -> ModelReply:
        return follow({"task": [[LOOK, LOOK]]})(request)

    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK)
    house.run(budget=Budget(seconds=1000))
    settle_down(house)
    house.kill()
    house.reopen(slow.agent(model=Scripted(both)))
    task = house.submit(budget=Budget(seconds=19))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "budget")
    assert slow.calls == 4
    asides = house.of(f"task/{task.id}/account", Reserved)
    times = [one.amounts.get("milliseconds") for one in asides]
    assert times.count(10_000) == 1
    assert unbalanced(house.store) == []


def test_without_a_limit_of_time_none_is_set_aside() -> None:
    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK, LOOK)
    task = house.submit()
    house.finish(task.id)
    for aside in house.of(f"task/{task.id}/account", Reserved):
        assert "milliseconds" not in aside.amounts


def test_calls_that_failed_teach_nothing() -> None:
    slow = Slow()
    slow.trouble = [ConnectionError("no"), ConnectionError("no")]
    house = slow.house(LOOK, LOOK, LOOK)
    house.run()
    settle_down(house)
    assert samples(house)["tool:look"] == (10_000,)


def test_a_sub_task_is_no_sample() -> None:
    hand = ("delegate", {"agent": "agent", "goal": "look"})
    slow = Slow()
    model = Scripted(follow({"task": [[hand]]}))
    boss = Agent(name="boss", instructions="Hand on.", model=model, tools=[delegate])
    house = House(slow.agent(LOOK), boss)
    slow.advance = house.sim.clock.advance
    house.run("boss")
    settle_down(house)
    assert slow.calls == 1
    assert sorted(samples(house)) == ["model:scripted", "tool:look"]


def test_an_undo_is_no_sample_and_so_never_refused_by_one() -> None:
    house, task = waiting(Desk())
    house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    settle_down(house)
    assert sorted(samples(house)) == [
        "model:scripted",
        "tool:book",
        "tool:look",
        "tool:pay",
    ]


def test_a_call_whose_outcome_a_probe_found_out_is_no_sample() -> None:
    @tool(effect="once", probe=lambda effect: Happened("sent"))
    def send() -> str:
        """Send something, and never hear of it."""
        raise TimeoutError

    house = House(one_step(("send", {}), tools=[send], recovery="rules"))
    task = house.submit().id
    assert house.finish(task).status == "completed"
    settle_down(house)
    sent = house.of(names.ledger(task), EffectRecorded)[-2]
    assert (sent.status, sent.by) == ("completed", "probe")
    assert "tool:send" not in samples(house)


# ── tokens ───────────────────────────────────────────────────────────────────────


class Counted:
    """A model whose provider counts 600 tokens where 1,000 are estimated."""

    name = "counted"

    def __init__(self) -> None:
        self.output_limits: list[int] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.output_limits.append(request.max_output_tokens)
        expected = Tally().tokens(request.messages, request.tools)
        usage = Usage(input_tokens=expected * 600 // 1000, output_tokens=9)
        return ModelReply(content='"done"', usage=usage)


@pytest.mark.parametrize("seed", range(3))
def test_later_reservations_of_a_model_are_nearer_to_the_truth(seed: int) -> None:
    model = Counted()
    house = House(one_step(model=model, price=PRICE, recovery="rules"), seed=seed)
    off = []
    for _ in range(LEAST + 1):
        task = house.submit(budget=Budget(cost=1, tokens=100_000))
        assert house.finish(task.id).status == "completed"
        settle_down(house)
        (aside,) = house.of(f"task/{task.id}/account", Reserved)
        (paid,) = house.of(f"task/{task.id}/account", Settled)
        off.append(aside.amounts["input_tokens"] - paid.amounts["input_tokens"])
        answer = aside.amounts["output_tokens"]
        assert aside.amounts["tokens"] == aside.amounts["input_tokens"] + answer
        written = aside.amounts["input_tokens"] * 2_500_000
        assert aside.amounts["cost"] == written + answer * 10_000_000
    assert off[0] > 50
    assert off[LEAST - 1] > 50
    assert 0 <= off[LEAST] <= 2
    assert len(set(model.output_limits)) == 1, "replies are not cut"
    assert unbalanced(house.store) == []


# ── kept ─────────────────────────────────────────────────────────────────────────


def test_an_account_writes_once_what_all_its_calls_taught() -> None:
    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK, LOOK)
    task = house.submit()
    house.finish(task.id)
    settle_down(house)
    (learned,) = house.of(names.POOL, EstimatesLearned)
    assert learned.task == task.id
    assert learned.samples["tool:look"] == (10_000,) * 4
    assert len(learned.samples["model:scripted"]) == 5


def test_a_crash_loses_samples_and_nothing_else() -> None:
    slow = Slow()
    house = slow.house(LOOK, LOOK, LOOK)
    task = house.submit(budget=Budget(seconds=1000))
    assert house.until(
        lambda: len(house.of(names.ledger(task.id), EffectRecorded)) >= 4
    )
    house.kill()
    assert house.of(names.POOL, EstimatesLearned) == []
    house.reopen()
    result = house.finish(task.id)
    settle_down(house)
    assert result.status == "completed"
    assert result.spent["seconds"] == 30
    assert len(samples(house).get("tool:look", ())) < 3
    assert unbalanced(house.store) == []


def test_the_pools_snapshot_stays_small_whatever_is_called() -> None:
    state = PoolState()
    for n in range(3 * NAMES):
        event = EstimatesLearned(
            task=f"t{n}", samples={f"tool:{n}": (3_600_000,) * KEPT}
        )
        state = apply_pool(state, event)
    assert len(msgspec.json.encode(state)) < 256 * 1024
    assert state.version == 3 * NAMES


def test_what_is_learned_moves_no_money() -> None:
    granted = Granted(grant="t/first", task="t", amounts={"tokens": 5})
    before = apply_pool(PoolState(), granted)
    after = apply_pool(before, EstimatesLearned(task="t", samples={"tool:a": (1,)}))
    assert after.out == before.out
