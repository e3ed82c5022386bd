"""Summaries: asked for before exchanges leave, checked, swapped in; or cut by rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from perdure import Agent, Budget, NotSent, tool
from perdure.actors.events import (
    CallModel,
    DecisionMade,
    EffectRecorded,
    EffectRegistered,
    RequestBuilt,
    Reserved,
    Settled,
    SummaryRefused,
    SummaryTaken,
    TaskPaused,
)
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.actors.task.summarised import Summarised
from perdure.actors.tool import ToolContext
from perdure.errors import Misuse
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.runs import fold_of, sound
from tests.actors.world import (
    House,
    Stuck,
    declaration,
    decode,
    quick,
    standing,
    unbalanced,
)

LIMIT = 16_000
ROUNDS = 48
GOAL = "Add up the orders of May 2023"
CONSTRAINT = "never touch production"


def order_of(words: int) -> Any:
    """A tool whose results have so many words; every third call of it fails."""

    @tool(effect="read")
    def order(number: int, ctx: ToolContext) -> str:
        """Read an order."""
        if number == 1:
            ctx.anchor("table_id", "tbl_77")
        if number % 3 == 0:
            raise ValueError(f"order {number}: gate E42 is shut")
        return f"order {number}: {number * 37} in tbl_77 {'word ' * words}"

    return order


def summary_of(request: ModelRequest) -> dict[str, Any]:
    """What a careful model makes of what it is given, and of nothing else."""
    data = standing(request)
    before = data["before"] or {"facts": [], "failures": []}
    facts, failures = before["facts"], before["failures"]
    for exchange in data["exchanges"]:
        for call in exchange["calls"]:
            said = re.sub("(word )+", "", call["result"]).strip()
            if said.startswith("error"):
                one = {
                    "what": said,
                    "why": "it is shut",
                    "evidence": [call["evidence"]],
                }
                failures.append(one)
            else:
                facts.append({"text": said, "evidence": [call["evidence"]]})
    ids = [exchange["evidence"] for exchange in data["exchanges"]]
    kept = [f"{name} {value}" for name, value in data["keep"]["anchors"].items()]
    if kept and not any(one["text"] in kept for one in facts):
        facts.append({"text": kept[0], "evidence": ids[:1]})
    return {
        "goal": data["goal"],
        "constraints": data["constraints"],
        "facts": facts,
        "decisions": [],
        "failures": failures,
        "open": ["the orders after them"],
    }


class Clerk:
    """Reads one order after the other, and sums up what it is asked to."""

    def __init__(
        self,
        words: Callable[[ModelRequest], Any] = summary_of,
        rounds: int = ROUNDS,
    ) -> None:
        self.words = words
        self.rounds = rounds
        self.requests: list[ModelRequest] = []
        self.asked: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        kind = standing(request)["kind"]
        if kind == "recovery":
            return ModelReply(content=declaration(request))
        if kind == "summarise":
            self.asked.append(request)
            said = self.words(request)
            return ModelReply(
                content=said if isinstance(said, str) else json.dumps(said)
            )
        self.requests.append(request)
        text = json.dumps([request.messages], ensure_ascii=False)
        seen = max(map(int, re.findall(r"order (\d+):", text)), default=0)
        if seen >= self.rounds:
            return ModelReply(content="done")
        arguments = json.dumps({"number": seen + 1})
        return ModelReply(
            tool_calls=(ToolCall(id="c", name="order", arguments=arguments),)
        )


def house_of(clerk: Clerk, *, on: bool = True, **options: Any) -> House:
    agent = Agent(
        name="agent",
        instructions="Read the orders.",
        tools=[order_of(options.pop("words", 150))],
        model=options.pop("model", None) or Scripted(clerk),
        recall=False,
        summaries=on,
        recovery=options.pop("recovery", "declare"),
    )
    rules: dict[str, Any] = {
        "request_limit": LIMIT,
        "query_retries": 0,
        "rounds_without_plan": 200,
    }
    rules.update(options.pop("rules", {}))
    return House(agent, baseline=quick(**rules), **options)


def submit(house: House, **options: Any) -> str:
    return house.submit(goal=GOAL, constraints=[CONSTRAINT], **options).id


def asked(house: House, task: str) -> list[int]:
    """The operations that were decided as summaries."""
    return [
        one.op
        for one in house.of(f"task/{task}", DecisionMade)
        if isinstance(one.action, CallModel) and one.action.purpose == "summarise"
    ]


def refusals(house: House, task: str) -> list[str]:
    return [one.why for one in house.of(f"task/{task}", SummaryRefused)]


def state_of(house: House, task: str) -> Any:
    kind, fold = fold_of(f"task/{task}")  # type: ignore[misc]
    state = kind()
    for record in house.store.streams[f"task/{task}"]:
        state = fold(state, decode(record))
    return state


def read(request: ModelRequest) -> list[tuple[str, str]]:
    """What a request says, without the numbers of operations."""
    return [
        (one["role"], re.sub(r"op\d+", "op", one["content"] or ""))
        for one in request.messages
    ]


def told(request: ModelRequest) -> list[str]:
    """The summaries that a request shows."""
    texts = (one.get("content") or "" for one in request.messages)
    return [text for text in texts if text.startswith("Summary of exchanges")]


def test_what_would_be_cut_is_summed_up_first_and_no_figure_is_lost() -> None:
    # A93 A94 A106 B12 B13 B17 D3
    clerk = Clerk()
    house = house_of(clerk)
    task = submit(house)
    assert house.finish(task).status == "completed"
    assert refusals(house, task) == []
    taken = house.of(f"task/{task}", SummaryTaken)
    assert len(taken) == len(clerk.asked) >= 2
    last = clerk.requests[-1]
    (shown,) = told(last)
    whole = json.dumps(last.messages)
    for number in range(1, ROUNDS + 1):
        assert f"order {number}: " in whole
        assert number % 3 == 0 or str(number * 37) in whole
    for value in ("tbl_77", "E42"):
        assert value in shown
        assert value in taken[0].kept
    assert "table_id" in taken[0].kept
    assert all(f'"{one}"' in shown for one in ("op2", "op4")), "evidence of the results"
    assert GOAL not in shown, "it stands in the task layer"
    assert "omitted" not in whole, "nothing was left out without a word"
    sound(house)


def test_it_is_asked_of_what_would_leave_and_of_nothing_else() -> None:
    clerk = Clerk()
    house = house_of(clerk)
    task = submit(house)
    house.finish(task)
    first = standing(clerk.asked[0])
    assert (first["goal"], first["constraints"]) == (GOAL, [CONSTRAINT])
    assert first["before"] is None
    taken = house.of(f"task/{task}", SummaryTaken)
    assert tuple(one["evidence"] for one in first["exchanges"]) == taken[0].replaced
    second = standing(clerk.asked[1])
    assert second["before"] == json.loads(taken[0].text)
    assert [one["evidence"] for one in second["exchanges"]] == list(taken[1].replaced)
    assert not set(taken[0].replaced) & set(taken[1].replaced)
    assert clerk.asked[0].tools == []
    limits = {one.op: one for one in house.of(f"task/{task}", RequestBuilt)}
    assert all(one.characters <= LIMIT for one in limits.values())


def test_the_prefix_changes_only_where_a_summary_is_swapped_in() -> None:
    # K17
    clerk = Clerk()
    house = house_of(clerk)
    task = submit(house)
    house.finish(task)
    aside = asked(house, task)
    built = house.of(f"task/{task}", RequestBuilt)
    shrunk = [one.shrunk for one in built if one.op not in aside]
    swaps = 0
    sent = list(zip(clerk.requests, shrunk, strict=True))
    for (before, old), (after, new) in pairwise(sent):
        prefix = before.messages[:-1]
        same = after.messages[: len(prefix)] == prefix
        assert same == (told(before) == told(after) and old == new)
        swaps += told(before) != told(after)
    assert swaps == len(house.of(f"task/{task}", SummaryTaken)) >= 2


def test_every_request_renders_again_to_what_was_sent() -> None:
    # A40
    clerk = Clerk()
    house = house_of(clerk)
    task = submit(house)
    house.finish(task)
    sent = house.of(f"task/{task}", RequestBuilt)
    for one in sent:
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert again.digest == one.digest
    # The last one says that a summary stands where its oldest exchanges did.
    taken = house.of(f"task/{task}", SummaryTaken)[-1]
    dropped = [fate for fate in again.fates if fate.fate == "dropped"]
    summed = [fate.block for fate in dropped if "summary" in fate.why]
    assert summed == [n.block for n in dropped if n.block <= taken.until] != []
    op = asked(house, task)[0]
    again = house.runtime._reading.read(lambda reader: render_again(reader, task, op))
    assert again.messages == clerk.asked[0].messages


def test_without_it_no_model_is_asked_and_the_cut_is_the_same_each_time() -> None:
    # A41
    def run() -> list[list[dict[str, Any]]]:
        clerk = Clerk()
        house = house_of(clerk, on=False)
        task = submit(house)
        assert house.finish(task).status == "completed"
        assert clerk.asked == []
        assert house.of(f"task/{task}", SummaryTaken) == []
        return [one.messages for one in clerk.requests]

    first = run()
    assert "Earlier messages omitted" in json.dumps(first[-1])
    assert first == run()


def test_what_a_summary_costs_is_charged_and_shown_under_its_purpose() -> None:
    from perdure.views_spend import spend

    clerk = Clerk()
    house = house_of(clerk)
    task = submit(house)
    result = house.finish(task)
    calls = len(clerk.requests) + len(clerk.asked)
    assert result.spent["model_calls"] == calls
    lines = house.runtime._reading.read(
        lambda reader: spend(reader, task, "tool")
    ).lines
    shown = {line.name: line.attempts for line in lines}
    assert shown["model (summarise)"] == len(clerk.asked)
    assert shown["model"] == len(clerk.requests)
    ops = asked(house, task)
    books = {one.book for one in house.of(f"task/{task}/account", Reserved)}
    settled = [one.op for one in house.of(f"task/{task}/account", Settled)]
    assert books == {"spent"}
    assert all(settled.count(op) == 1 for op in ops)
    assert unbalanced(house.store) == []


# ── what goes wrong ──────────────────────────────────────────────────────────────


def longer(request: ModelRequest) -> Any:
    said = summary_of(request)
    said["open"] = ["words and words " * 600]
    return said


def changed(**fields: Any) -> Callable[[ModelRequest], Any]:
    return lambda request: {**summary_of(request), **fields}


def without(value: str) -> Callable[[ModelRequest], Any]:
    return lambda request: json.dumps(summary_of(request)).replace(value, "it")


def raising(error: BaseException) -> Callable[[ModelRequest], Any]:
    def raise_it(request: ModelRequest) -> Any:
        raise error

    return raise_it


def invented(request: ModelRequest) -> Any:
    said = summary_of(request)
    said["facts"].append(
        {"text": "999 in all", "evidence": said["facts"][0]["evidence"]}
    )
    return said


BAD: dict[str, tuple[Callable[[ModelRequest], Any], str]] = {
    "nothing": (lambda request: "", "it is empty"),
    "words": (lambda request: "all is well", "not of the form"),
    "list": (lambda request: '{"goal": []}', "not of the form"),
    "raises": (raising(ConnectionError("gone")), "the model call failed"),
    "bug": (raising(ValueError("bug")), "the model call failed"),
    "not sent": (raising(NotSent("full")), "the model call failed"),
    "longer": (longer, " characters"),
    "code": (without("E42"), "leaves out the error codes E42"),
    "anchor": (without("tbl_77"), "leaves out the anchors table_id=tbl_77"),
    "goal": (changed(goal="Add up"), "goal is not the task's"),
    "constraints": (changed(constraints=[]), "constraints are not the task's"),
    "silent": (changed(facts=[], failures=[], open=[]), "it says nothing"),
    "figure": (invented, "numbers that what it replaces does not: 999"),
}


@pytest.mark.parametrize("kind", BAD)
def test_where_it_fails_the_history_is_cut_by_rule_and_after_two_none_is_asked(
    kind: str,
) -> None:
    # K15 A41
    words, why = BAD[kind]
    plain = Clerk()
    expected = house_of(plain, on=False)
    expected.finish(submit(expected))
    clerk = Clerk(words)
    house = house_of(clerk)
    task = submit(house)
    assert house.finish(task).status == "completed"
    assert len(asked(house, task)) == 2, "no third call"
    said = refusals(house, task)
    assert len(said) == 2
    assert all(why in one for one in said)
    lines = house.log.of("summary.refused")
    assert [line["why"] for line in lines] == said
    assert house.of(f"task/{task}", SummaryTaken) == []
    assert list(map(read, clerk.requests)) == list(map(read, plain.requests))
    assert all(one.status != "open" for one in state_of(house, task).ops.values())
    sound(house)


def test_a_success_begins_the_count_anew_and_a_person_closes_the_breaker() -> None:
    # K15
    tries: list[int] = []

    def words(request: ModelRequest) -> Any:
        tries.append(1)
        return "" if len(tries) in (1, 3, 4) else summary_of(request)

    clerk = Clerk(words)
    house = house_of(clerk, rules={"request_limit": 13_000})
    task = submit(house)
    assert house.until(lambda: len(tries) == 4)
    assert house.until(lambda: len(refusals(house, task)) == 3)
    assert state_of(house, task).summary.failures == 2
    handle = house.runtime.task(task)
    handle.pause()
    assert house.finish(task).reason == "operator"
    assert len(tries) == 4
    handle.resume()
    result = house.finish(task)
    assert (result.status, result.detail) == ("completed", "")
    assert len(tries) > 4


def test_the_breaker_stays_open_over_a_restart() -> None:
    # K15
    clerk = Clerk(lambda request: "")
    house = house_of(clerk)
    task = submit(house)
    assert house.until(lambda: len(refusals(house, task)) == 2)
    house.kill()
    house.reopen()
    result = house.finish(task)
    assert (result.status, result.detail) == ("completed", "")
    assert len(clerk.asked) == 2


def test_a_model_that_hangs_is_given_up_and_the_task_goes_on() -> None:
    # K15
    stuck = Stuck("model")

    def hanging(request: ModelRequest) -> Any:
        stuck.hang()
        return summary_of(request)

    clerk = Clerk(hanging)
    house = house_of(clerk, dispatcher=stuck)
    task = submit(house)
    assert house.finish(task).status == "completed"
    stuck.let_go()
    assert len(clerk.asked) == 2
    assert all("the model call failed" in one for one in refusals(house, task))
    assert unbalanced(house.store) == []


def test_where_the_budget_refuses_it_the_request_is_cut_and_the_floor_kept() -> None:
    calm = house_of(Clerk())
    task = submit(calm)
    until_asked(calm, task)
    (op,) = asked(calm, task)
    account = f"task/{task}/account"
    assert calm.until(lambda: calm.of(account, Reserved)[-1].op == op)
    (aside,) = [one.amounts for one in calm.of(account, Reserved) if one.op == op]
    used = [one.amounts.get("tokens", 0) for one in calm.of(account, Settled)]
    enough = (sum(used) + aside["tokens"]) * 10 // 9 - 100  # with a floor of a tenth
    house = house_of(Clerk())
    task = submit(house, budget=Budget(tokens=enough))
    assert house.until(lambda: bool(refusals(house, task)))
    assert "it cannot be paid: tokens" in refusals(house, task)[0]
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "budget")
    kinds = house.kinds(f"task/{task}")
    refused = kinds.index("SummaryRefused")
    assert kinds[refused + 1] == "RequestBuilt", "the work is asked for before a pause"
    (pause,) = house.of(f"task/{task}", TaskPaused)
    assert pause.reason == "budget"
    house.runtime.task(task).extend(Budget(tokens=1_000_000))
    assert house.finish(task).status == "completed"
    assert unbalanced(house.store) == []


def test_schemas_alone_over_the_limit_are_refused_without_a_summary() -> None:
    # K14
    clerk = Clerk()
    house = house_of(clerk, rules={"request_limit": 300})
    task = submit(house)
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "context")
    assert "schemas of the tools" in result.detail
    assert (asked(house, task), clerk.requests, clerk.asked) == ([], [], [])


def test_a_new_step_begins_without_it() -> None:
    state = Summarised(text="{}", since=1, until=9, failures=1, plain=3)
    from perdure.actors.task.summarised import forgotten

    assert forgotten(state) == Summarised(failures=1)


def test_what_is_no_bool_is_refused() -> None:
    with pytest.raises(Misuse, match="summaries='yes' must be True or False"):
        Agent(
            name="a",
            instructions="",
            model=Scripted(Clerk()),
            summaries="yes",  # type: ignore[arg-type]
        )


# ── crashes, and what comes meanwhile ────────────────────────────────────────────


def until_asked(house: House, task: str) -> None:
    assert house.until(lambda: bool(asked(house, task)))


def ended_well(house: House, task: str, clerk: Clerk) -> None:
    """Every figure was read, every summary charged once, and none asked for twice."""
    result = house.finish(task)
    assert (result.status, result.detail) == ("completed", "")
    settled = [one.op for one in house.of(f"task/{task}/account", Settled)]
    registered = house.of(f"task/{task}/ledger", EffectRegistered)
    recorded = house.of(f"task/{task}/ledger", EffectRecorded)
    for op in asked(house, task):
        attempts = [one.attempt for one in registered if one.op == op]
        done = [one.op for one in recorded if one.status == "completed"]
        assert done.count(op) <= 1
        assert settled.count(op) == len(attempts)
    ends = [one.op for one in house.of(f"task/{task}", SummaryTaken)]
    ends += [one.op for one in house.of(f"task/{task}", SummaryRefused)]
    assert sorted(ends) == asked(house, task)
    assert house.log.crashes() == []
    sound(house)


@pytest.mark.parametrize("part", range(6))
def test_a_kill_at_any_step_of_it_loses_no_history_and_pays_nothing_twice(
    part: int,
) -> None:
    # K15
    for steps in range(part, 36, 12):
        clerk = Clerk(rounds=32)
        house = house_of(clerk, seed=steps)
        task = submit(house)
        until_asked(house, task)
        for _ in range(steps):
            house.sim.step()
        house.kill()
        house.reopen()
        ended_well(house, task, clerk)


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_a_crash_of_any_actor_of_the_task_in_it_is_survived(which: int) -> None:
    from tests.actors.runs import actors_of

    for steps in range(1, 24, 8):
        clerk = Clerk(rounds=32)
        house = house_of(clerk, seed=steps)
        task = submit(house)
        until_asked(house, task)
        for _ in range(steps):
            house.sim.step()
        house.sim.crash(actors_of(task)[which])
        ended_well(house, task, clerk)


def test_a_summary_that_was_paid_for_before_a_kill_is_used_after_it() -> None:
    clerk = Clerk(rounds=32)
    house = house_of(clerk, seed=1)
    task = submit(house)
    until_asked(house, task)
    (op,) = asked(house, task)
    assert house.until_hit("effect.recorded", op=op)
    assert house.of(f"task/{task}", SummaryTaken) == []
    house.kill()
    house.reopen()
    house.finish(task)
    taken = house.of(f"task/{task}", SummaryTaken)
    assert taken[0].op == op
    recovered = next(one for one in clerk.requests if told(one))
    assert taken[0].text in told(recovered)[0]
    for one in house.of(f"task/{task}", RequestBuilt):
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert again.digest == one.digest
    ended_well(house, task, clerk)


@pytest.mark.parametrize("order", ["pause", "cancel", "close"])
@pytest.mark.parametrize("seed", range(3))
def test_what_comes_in_the_middle_of_it_is_not_lost(order: str, seed: int) -> None:
    clerk = Clerk(rounds=32)
    house = house_of(clerk, seed=seed)
    handle = house.submit(goal=GOAL, constraints=[CONSTRAINT])
    until_asked(house, handle.id)
    for _ in range(4 * seed):
        house.sim.step()
    if order == "close":
        house.runtime.close()
        house.reopen()
        handle = house.runtime.task(handle.id)
    elif order == "pause":
        handle.pause()
        assert house.finish(handle.id).reason == "operator"
        handle.resume()
    else:
        handle.cancel()
        assert house.finish(handle.id).status == "cancelled"
        ends = len(house.of(f"task/{handle.id}", SummaryTaken))
        ends += len(house.of(f"task/{handle.id}", SummaryRefused))
        assert ends == len(asked(house, handle.id))
        assert unbalanced(house.store) == []
        return
    ended_well(house, handle.id, clerk)
