"""Agents that decide by a function of their own, through a whole runtime."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import (
    Agent,
    Call,
    Calls,
    Finish,
    Misuse,
    Plan,
    PolicyView,
    Price,
    Step,
    Stop,
    tool,
)
from perdure.actors import names
from perdure.actors.events import (
    AnswerRefused,
    DecisionMade,
    EffectRegistered,
    LoopFound,
    PolicyFailed,
    TaskPaused,
)
from tests.actors.runs import MAILS, WIDE, disturb, sound
from tests.actors.world import (
    PLENTY,
    House,
    Stuck,
    World,
    comparable,
    quick,
    tools_of,
)

Decide = Callable[[PolicyView], Any]


def counting(view: PolicyView) -> Any:
    """Make the groups of calls of each step in turn, then finish it."""
    made = view.count
    for group in WIDE[view.step.id]:
        if made < len(group):
            calls = [Call(name, dict(arguments)) for name, arguments in group[made:]]
            return Calls(calls, why=f"call {made}", memo={"made": made})
        made -= len(group)
    return Finish({"step": view.step.id, "facts": sorted(view.facts)})


def wide(world: World, decide: Decide = counting, **options: Any) -> Agent:
    """The job with parallel calls of every effect class, and no model."""
    steps = tuple(Step(id=name, goal=f"{name} it") for name in WIDE)
    options.setdefault("plan", Plan(steps=steps))
    options.setdefault("tools", tools_of(world))
    return Agent(name="agent", policy=decide, **options)


def sending(world: World, decide: Decide, **options: Any) -> House:
    """A task without a plan."""
    return House(wide(world, decide, plan=None), **options)


def undisturbed() -> dict[str, Any]:
    return comparable(House(wide(World())).run())


EXPECTED = undisturbed()


def check(house: House, world: World, task: str) -> None:
    """All that must hold of a run, however often it was disturbed."""
    result = house.finish(task)
    assert result.status == "completed", result
    assert comparable(result) == EXPECTED  # P3
    assert sorted(text for _, text in world.sent) == MAILS  # P2
    sound(house)


def mail(n: int) -> Call:
    return Call("send", {"text": str(n)})


# ── what it gets, and what becomes of its word ───────────────────────────────────


def test_a_policy_drives_a_plan_without_a_model() -> None:
    world = World()
    house = House(wide(world))
    task = house.submit()
    check(house, world, task.id)
    assert house.of(f"task/{task.id}", DecisionMade)[-1].action.result == (
        '{"facts":["find","write"],"step":"send"}'
    )
    assert EXPECTED["model_calls"] is None


def test_one_call_takes_six_records() -> None:
    world = World()
    house = sending(world, lambda v: mail(v.count) if v.count < 9 else Finish(9))
    task = house.submit().id
    house.finish(task)
    kinds = [
        one
        for name in ("", "/ledger", "/account")
        for one in house.kinds(f"task/{task}{name}")
    ]
    for kind in (
        "Reserved",
        "EffectRegistered",
        "EffectRecorded",
        "Settled",
        "ActionObserved",
    ):
        assert kinds.count(kind) == 9
    assert kinds.count("DecisionMade") == 9 + 1  # the last one ends the step
    rest = [
        "TaskSubmitted",
        "StepStarted",
        "StepEnded",
        "TaskClosing",
        "TaskClosed",
        "GrantTaken",
        "AccountClosed",
    ]
    assert len(kinds) == 6 * 9 + 1 + len(rest)
    assert set(rest) < set(kinds)


def test_a_view_shows_the_newest_calls_in_the_order_they_were_asked_for() -> None:
    views: list[PolicyView] = []
    group = [("look", {"what": "a"}), ("send", {"text": "b"}), ("send", {"txt": ""})]

    def decide(view: PolicyView) -> Any:
        views.append(view)
        if view.count < 20:
            return Call("look", {"what": str(view.count)}, memo=view.count)
        if view.count == 20:
            return Calls([Call(*one) for one in group])
        return Finish("done")

    house = sending(World(), decide, seed=3)
    inputs, bounds = {"to": ["x"]}, ["be brief"]
    task = house.submit(goal="g", inputs=inputs, constraints=bounds)
    assert house.finish(task.id).output == "done"
    first, last = views[0], views[-1]
    assert (first.task, first.goal, first.inputs) == (task.id, "g", {"to": ["x"]})
    assert (first.constraints, first.last, first.memo) == (("be brief",), (), None)
    shown = [(one.tool, one.arguments, one.status) for one in last.last]
    assert shown == [
        ("look", {"what": "a"}, "completed"),
        ("send", {"text": "b"}, "completed"),
        ("send", {"txt": ""}, "failed"),
    ]
    assert [one.result for one in last.last] == ["saw a", "sent b", ""]
    assert "txt" in last.last[2].error
    assert (last.last[0].by, last.last[2].by) == ("run", "door")
    assert last.recent[-3:] == last.last
    assert [one.value for one in last.recent[:2]] == ["saw 7", "saw 8"]
    assert len(last.recent) == 16
    assert (last.count, last.memo, last.step.iteration) == (23, 19, 21)


def test_what_a_policy_does_to_its_view_reaches_nothing() -> None:
    seen: list[Any] = []

    def decide(view: PolicyView) -> Any:
        seen.append((dict(view.inputs), [dict(one.arguments) for one in view.recent]))
        view.inputs["more"] = 1
        for one in view.recent:
            one.arguments.clear()
        return mail(view.count) if view.count < 3 else Finish()

    house = sending(World(), decide)
    house.run(inputs={"a": 1})
    assert [inputs for inputs, _ in seen] == [{"a": 1}] * 4
    assert seen[-1][1] == [{"text": "0"}, {"text": "1"}, {"text": "2"}]


def test_what_a_policy_does_inside_of_an_argument_reaches_nothing() -> None:
    seen: list[Any] = []

    @tool(effect="read")
    def pick(names: list[str]) -> str:
        return names[0]

    def decide(view: PolicyView) -> Any:
        seen.append([list(one.arguments["names"]) for one in view.recent])
        for one in view.recent:
            one.arguments["names"].clear()
        return (
            Call("pick", {"names": [str(view.count)]}) if view.count < 3 else Finish()
        )

    house = House(Agent(name="agent", policy=decide, tools=[pick]))
    house.finish(house.submit().id)
    assert seen[-1] == [["0"], ["1"], ["2"]]


def test_a_refused_result_comes_back_as_a_note() -> None:
    views: list[PolicyView] = []

    def decide(view: PolicyView) -> Any:
        views.append(view)
        return Finish(len(views))

    step = Step(id="s", goal="g", accept=lambda n, _: n == 3 or f"{n} is not enough")
    house = House(wide(World(), decide, plan=[step]))
    task = house.submit()
    assert house.finish(task.id).output == 3
    assert [view.notes for view in views] == [
        (),
        ("1 is not enough",),
        ("1 is not enough", "2 is not enough"),
    ]
    assert len(house.of(f"task/{task.id}", AnswerRefused)) == 2


def test_an_async_policy_is_awaited() -> None:
    async def decide(view: PolicyView) -> Any:
        return mail(view.count) if view.count < 2 else Finish("ok")

    world = World()
    assert sending(world, decide).run().output == "ok"
    assert len(world.sent) == 2


def test_the_decision_log_has_its_reasons_and_what_was_learned() -> None:
    def decide(view: PolicyView) -> Any:
        match view.count:
            case 0:
                calls = [Call("send", {"text": "a"}, why="a first"), Call("send")]
                return Calls(calls, why="two")
            case 2:
                return mail(1)
        return Finish(1, why="both are out")

    house = sending(World(), decide)
    task = house.submit().id
    house.finish(task)
    made = house.of(f"task/{task}", DecisionMade)
    assert [one.why for one in made] == ["a first", "two", "", "both are out"]
    assert made[2].learned.startswith("send: ")
    assert "text" in made[2].learned, "what was wrong with the second"
    assert made[3].learned == "", "what went well stands in the record"


def test_a_step_that_is_done_again_begins_anew_and_repeats_no_effect() -> None:
    good = False
    views: list[PolicyView] = []

    def decide(view: PolicyView) -> Any:
        views.append(view)
        memo = view.memo or 0
        if memo < 3:
            return Call("send", {"text": str(memo)}, memo=memo + 1)
        return Finish(memo) if good else Stop("look")

    world = World()
    house = sending(world, decide)
    task = house.submit()
    assert house.finish(task.id).reason == "policy"
    good = True
    task.retry("task", by="an operator")
    assert house.finish(task.id).output == 3
    assert len(world.sent) == 3
    assert [one.by for one in views[-1].recent] == ["record"] * 3
    assert [view.memo for view in views] == [None, 1, 2, 3] * 2
    assert (views[-1].count, views[-1].step.attempt) == (3, 2)
    sound(house)


# ── crashes and kills ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", range(6))
def test_a_policy_cut_off_at_any_step_converges_to_the_same_end(part: int) -> None:
    # R3 B40
    for steps in range(1 + part, 300, 12):
        world = World()
        house = House(wide(world), seed=part)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.kill()
        house.reopen()
        check(house, world, task.id)


@pytest.mark.parametrize("seed", range(10))
def test_any_sequence_of_crashes_and_kills_costs_a_policy_nothing(seed: int) -> None:
    # R4
    chance = random.Random(seed)
    world = World()
    house = House(wide(world), seed=seed)
    task = house.submit()
    disturb(house, task.id, chance, 20, 100)
    check(house, world, task.id)


@pytest.mark.parametrize("snapshots", [1, 64])
@pytest.mark.parametrize("where", ["task.decided", "action.observed"])
def test_a_view_is_the_same_after_a_kill(where: str, snapshots: int) -> None:
    def recorded(kill: bool) -> dict[int, PolicyView]:
        views: dict[int, PolicyView] = {}

        def decide(view: PolicyView) -> Any:
            assert views.setdefault(view.count, view) == view
            if view.count < 24:
                texts = range(view.count, view.count + 3)
                return Calls([mail(n) for n in texts], memo=view.memo or [view.count])
            return Finish(view.memo)

        world = World()
        rules = quick(snapshot_events=snapshots)
        house = sending(world, decide, baseline=rules)
        task = house.submit(key="k", goal="g")
        for _ in range(4 if kill else 0):
            house.until_hit(where)
            house.kill()
            house.reopen()
            task = house.submit(key="k", goal="g")
        assert house.finish(task.id).output == [0]
        assert len(world.sent) == 24
        return views

    calm, killed = recorded(kill=False), recorded(kill=True)
    assert list(killed) == list(calm) == list(range(0, 25, 3))
    for count, view in killed.items():
        assert msgspec.structs.replace(view, task="") == msgspec.structs.replace(
            calm[count], task=""
        )


def test_a_decision_on_disk_is_not_asked_for_again() -> None:
    # A result that waits for acceptance, too.
    asked: list[int] = []

    def decide(view: PolicyView) -> Any:
        asked.append(view.count)
        return mail(view.count) if view.count < 2 else Finish("ok")

    house = sending(World(), decide)
    task = house.submit()
    for _ in range(3):
        house.until_hit("task.decided")
        house.kill()
        before = list(asked)
        house.reopen()
        house.until_hit("recovery.declared")
        assert asked == before
    assert house.finish(task.id).output == "ok"
    assert asked == [0, 1, 2]


def test_a_decision_that_was_lost_is_asked_for_again() -> None:
    asked: list[int] = []

    def decide(view: PolicyView) -> Any:
        asked.append(view.count)
        return mail(view.count) if view.count < 1 else Finish("ok")

    house = sending(World(), decide)
    task = house.submit()
    house.until(lambda: asked == [0])
    house.kill()
    house.reopen()
    assert house.finish(task.id).output == "ok"
    assert asked == [0, 0, 1]


# ── what is wrong is the policy's fault ──────────────────────────────────────────


def circular() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (None, "the policy returned None, a NoneType; return a Call"),
        ("send", "the policy returned 'send', a str"),
        (Call, "return a Call, Calls, Finish or Stop"),
        (Call("sent", {}), "Call.tool='sent' is no tool of the agent"),
        (Call(["send"], {}), "Call.tool=['send'] is no tool"),  # type: ignore[arg-type]
        (Call("send", "x"), "Call.arguments='x' must be a dict"),  # type: ignore[arg-type]
        (Call("send", {"text": object()}), "is no JSON value: Encoding objects"),
        (Call("send", {"text": float("nan")}), "Call.arguments="),
        (Call("send", {"text": "\ud800"}), "lone surrogate"),
        (Call("send", circular()), "Call.arguments="),
        (Call("send", {"text": "x" * 300_000}), "262144 are the most"),
        (Call("send", {}, why=3), "Call.why=3 must be text"),  # type: ignore[arg-type]
        (Calls([]), "Calls.calls=[] must be a list of 1 to 64"),
        (Calls([mail(1)] * 65), "must be a list of 1 to 64"),
        (Calls([mail(1), "x"]), "Calls.calls[1]='x' is no Call"),  # type: ignore[list-item]
        (Calls([mail(1), Call("no")]), "Calls.calls[1].tool='no' is no tool"),
        (Calls([Call("send", {}, memo=1)]), "Calls.calls[0].memo=1"),
        (Finish(object()), "Finish.result=<object object"),
        (Finish(1, memo={1, object()}), "Finish.memo="),
        (Finish(1, memo="x" * 20_000), "Finish.memo has 20002 characters"),
        (Stop(""), "Stop.why='' is empty"),
        (Stop(None), "Stop.why=None must be text"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_action_pauses_the_task(action: Any, said: str) -> None:
    house = sending(World(), lambda _: action)
    task = house.submit().id
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "policy_error")
    assert said in result.detail
    assert house.of(f"task/{task}", DecisionMade) == []
    assert len(house.of(f"task/{task}", PolicyFailed)) == 1 + 3
    sound(house)


class Nasty(BaseException):
    """No Exception, and it cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), Nasty()])
def test_a_policy_that_raises_pauses_its_task_and_goes_on(error: BaseException) -> None:
    broken = True

    def decide(view: PolicyView) -> Any:
        if broken and view.count == 1:
            raise error
        return mail(view.count) if view.count < 2 else Finish("ok")

    world = World()
    house = sending(world, decide)
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "policy_error")
    assert type(error).__name__ in result.detail
    broken = False
    task.resume()
    assert house.finish(task.id).output == "ok"
    assert len(world.sent) == 2
    sound(house)


def test_a_policy_that_fails_now_and_then_goes_on() -> None:
    calls = 0

    def decide(view: PolicyView) -> Any:
        nonlocal calls
        calls += 1
        if calls % 3:
            raise ConnectionError
        return mail(view.count) if view.count < 4 else Finish("ok")

    house = sending(World(), decide)
    assert house.run().output == "ok"
    sound(house)


def test_a_policy_that_hangs_is_given_up() -> None:
    stuck = Stuck("policy")

    def decide(view: PolicyView) -> Any:
        stuck.hang()
        return Finish("too late")

    house = sending(World(), decide, dispatcher=stuck)
    result = house.run()
    assert (result.status, result.reason) == ("paused", "policy_error")
    assert "30" in result.detail
    stuck.let_go()
    house.sim.run(lambda: False)
    assert house.runtime.result(result.task).status == "paused"
    sound(house)


def test_an_awaitable_of_a_sync_policy_is_no_action() -> None:
    async def other() -> Any:
        return Finish(1)

    made: list[Any] = []

    def decide(view: PolicyView) -> Any:
        made.append(other())
        return made[-1]

    result = sending(World(), decide).run()
    assert "a coroutine; return a Call" in result.detail
    for one in made:
        one.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"policy": "decide"}, "policy='decide' is no function"),
        ({"policy": None}, "model=None and policy=None"),
        ({"model": "gpt"}, "model='gpt' is for an agent with a model"),
        ({"instructions": "Do."}, "instructions='Do.' is for"),
        ({"recovery": "declare"}, "recovery='declare' is for"),
        ({"recovery": "guess"}, "recovery='guess'"),
        ({"summaries": True}, "summaries=True is for"),
        ({"max_rounds": 3}, "max_rounds=3 is for"),
        ({"request_limit": 3}, "request_limit=3 is for"),
        ({"measure": "estimate"}, "measure='estimate' is for"),
        ({"price": Price(input="1", output="1")}, "price=Price("),
    ],
    ids=str,
)
def test_what_concerns_models_is_refused_with_a_policy(
    options: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misuse) as caught:
        Agent(**{"name": "a", "policy": counting, **options})
    assert named in str(caught.value)


# ── limits, people, circles ──────────────────────────────────────────────────────


def test_a_stop_waits_for_somebody_and_its_memo_stays() -> None:
    def decide(view: PolicyView) -> Any:
        if view.memo is None:
            return Stop("look at the list", memo="asked")
        return Finish(view.memo)

    house = sending(World(), decide)
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "policy")
    assert (result.detail, result.ends_with) == ("look at the list", "resume")
    house.kill()
    house.reopen()
    assert house.runtime.result(task.id).status == "paused"
    house.runtime.resume(task.id, by="an operator")
    assert house.finish(task.id).output == "asked"
    assert len(house.of(f"task/{task.id}", TaskPaused)) == 1
    sound(house)


def test_its_budget_bounds_a_policy_and_nothing_else() -> None:
    def decide(view: PolicyView) -> Any:
        return mail(view.count)

    world = World()
    house = sending(world, decide)
    budget = PLENTY.__class__(tool_calls=150)
    result = house.run(budget=budget)
    assert (result.status, result.reason) == ("paused", "budget")
    assert len(world.sent) == 150
    sound(house)


def test_a_step_that_says_how_often_is_decided_so_often() -> None:
    step = Step(id="s", goal="g", max_iterations=3)
    world = World()
    agent = wide(world, lambda v: mail(v.count), plan=[step])
    house = House(agent, baseline=quick(task_retries=0))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "limited")
    assert len(world.sent) == 3


def test_a_policy_that_goes_round_in_circles_is_stopped() -> None:
    world = World()
    house = sending(world, lambda _: Call("look", {"what": "a"}))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "loop")
    assert house.of(f"task/{task.id}", LoopFound)[-1].stage == "stop"
    sound(house)


def test_a_call_that_needs_approval_waits_for_it() -> None:
    sent: list[str] = []

    @tool(effect="once", approval=True)
    def send(text: str) -> str:
        """Send it."""
        sent.append(text)
        return "ok"

    def decide(view: PolicyView) -> Any:
        if not view.last:
            return Call("send", {"text": "a"})
        return Finish([one.error or one.result for one in view.last])

    for approved in (True, False):
        house = House(wide(World(), decide, plan=None, tools=[send]))
        task = house.submit()
        result = house.finish(task.id)
        assert (result.status, result.reason) == ("paused", "approval")
        (asked,) = house.runtime.approvals()
        if approved:
            task.approve(asked.approval, by="an operator")
        else:
            task.reject(asked.approval, by="an operator", why="no")
        output = house.finish(task.id).output
        assert output == (["ok"] if approved else ["an operator rejected it: no"])
        sound(house)
    assert sent == ["a"]


def test_a_note_of_a_person_is_shown_to_the_next_decision() -> None:
    def decide(view: PolicyView) -> Any:
        if not view.notes:
            return mail(view.count)
        return Finish(list(view.notes))

    world = World()
    house = sending(world, decide)
    task = house.submit()
    house.until_hit("action.observed", op=3)
    task.steer("that is enough", by="an operator")
    assert house.finish(task.id).output == ["an operator says: that is enough"]
    assert 3 <= len(world.sent) <= 5
    sound(house)


def test_a_task_is_cancelled_while_its_policy_decides() -> None:
    world = World()
    house = sending(world, lambda v: mail(v.count))
    task = house.submit()
    house.until_hit("action.observed", op=5)
    task.cancel()
    assert house.finish(task.id).status == "cancelled"
    registered = house.of(f"task/{task.id}/ledger", EffectRegistered)
    assert len(world.sent) == len(registered)
    sound(house)


def test_a_decision_about_a_state_that_is_over_is_not_taken() -> None:
    for steps in range(60, 110):
        house = sending(World(), lambda v: mail(v.count))
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        task.cancel()
        assert house.finish(task.id).status == "cancelled"
        kinds = house.kinds(f"task/{task.id}")
        assert "DecisionMade" not in kinds[kinds.index("CancelRequested") :]


def test_a_crash_makes_a_policy_decide_once_more_at_most() -> None:
    for steps in range(60, 110):
        asked: list[int] = []

        def decide(view: PolicyView, asked: list[int] = asked) -> Any:
            asked.append(view.count)
            return mail(view.count) if view.count < 8 else Finish("ok")

        house = sending(World(), decide, seed=steps)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.sim.crash(names.task(task.id))
        assert house.finish(task.id).output == "ok"
        assert len(asked) <= 9 + 1


def test_a_deadline_holds_for_a_policy() -> None:
    world = World()
    house = sending(world, lambda v: mail(v.count))
    end = house.sim.clock.time()
    result = house.run(deadline=end)
    assert (result.status, result.reason) == ("paused", "deadline")
    assert world.sent == []
