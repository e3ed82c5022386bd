"""Plans that a model writes and looks at again, in whole runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import (
    Agent,
    Baseline,
    Budget,
    Planner,
    RateLimit,
    Step,
    accept,
    tool,
    views,
)
from perdure.actors.events import (
    CallModel,
    DecisionMade,
    Event,
    PlanChecked,
    PlanKept,
    PlanMade,
    PlanRefused,
    PlanRevised,
    RequestBuilt,
    StepEnded,
    StepStarted,
)
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.actors.plan.proposal import digest_of
from perdure.actors.task.state import TaskState, apply
from perdure.models import Scripted
from perdure.replay import render_again, rounds
from perdure.turns import Turn
from perdure.views_text import sheet_text
from tests.actors.runs import sound
from tests.actors.world import House, declaration, standing, taken, unbalanced

GOAL = "导出2023年5月销售数据, and tell the owner"
KEEP = {"keep": True, "why": "it still leads there"}
TWO = {"steps": [{"id": "a", "goal": "find it"}, {"id": "b", "goal": "tell it"}]}
Says = Callable[[ModelRequest], Any]


class Model:
    """Answers planning calls in turn with `plans`, the last one ever after.

    Work is answered by `work`, by default with a result that names the step.
    """

    def __init__(self, *plans: Any, work: Says | None = None) -> None:
        self.plans = list(plans)
        self.work = work
        self.asked: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        data = standing(request)
        if data["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        if data["kind"] == "plan":
            self.asked.append(request)
            said = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
            if isinstance(said, Exception):
                raise said
            if isinstance(said, ModelReply):
                return said
            return ModelReply(
                content=said if isinstance(said, str) else json.dumps(said)
            )
        if self.work is not None:
            said = self.work(request)
            if isinstance(said, ModelReply):
                return said
            return ModelReply(content=json.dumps(said))
        return ModelReply(content=json.dumps({"step": data["step"]["id"]}))


@tool(effect="read")
def look(what: str) -> str:
    """Look at something."""
    if what == "shut":
        raise ValueError("the gate is shut")
    return f"saw {what}"


def agent(model: Any, planner: Planner | None = None, **options: Any) -> Agent:
    options.setdefault("tools", [look])
    return Agent(
        name="agent",
        instructions="Work.",
        model=Scripted(model),
        planner=planner or Planner(),
        **options,
    )


def of(house: House, task: str, kind: type[Event]) -> list[Any]:
    return house.of(f"task/{task}", kind)


def state_at(house: House, task: str, upto: int | None = None) -> TaskState:
    """The state after the first so many events of a task; by default after all."""
    state = TaskState()
    for event in house.events(f"task/{task}")[:upto]:
        state = apply(state, event)
    return state


def place(house: House, task: str, kind: type[Event]) -> int:
    """Where the first event of a kind stands in the task's stream."""
    events = house.events(f"task/{task}")
    return next(n for n, one in enumerate(events) if isinstance(one, kind))


def ended_well(house: House, task: str) -> None:
    """Each request renders again as it was sent, and what must hold of a store does."""
    newest = {one.op: one for one in of(house, task, RequestBuilt)}
    for one in newest.values():
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert again.digest == one.digest
    sound(house)


def steps_run(house: House, task: str) -> list[str]:
    return [one.step for one in of(house, task, StepStarted)]


def host(*names: str, **fields: Any) -> list[Step]:
    return [Step(id=name, goal=f"do {name}", **fields) for name in names]


def test_a_task_without_a_plan_has_it_written_before_anything_else() -> None:
    # A86, A87
    model = Model(TWO, KEEP)
    house = House(agent(model))
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    assert result.status == "completed"
    assert result.output == {"step": "b"}
    assert result.steps == {"a": "completed", "b": "completed"}
    kinds = house.kinds(f"task/{task.id}")
    assert kinds[:3] == ["TaskSubmitted", "PlanChecked", "DecisionMade"]
    assert kinds.index("PlanMade") < kinds.index("StepStarted")
    (made,) = of(house, task.id, PlanMade)
    assert made.digest == digest_of(made.steps)
    asked = standing(model.asked[0])
    assert asked["plan"] == []
    assert {"name": "look", "description": "Look at something."} in asked["tools"]
    assert GOAL in model.asked[0].messages[-1]["content"]
    assert model.asked[0].tools == []


def test_a_planning_call_passes_the_same_door_and_the_same_books() -> None:
    # A81
    house = House(agent(Model(TWO, KEEP)))
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    calls = [
        one.op
        for one in of(house, task.id, DecisionMade)
        if isinstance(one.action, CallModel) and one.action.purpose == "plan"
    ]
    built = {one.op: one for one in of(house, task.id, RequestBuilt)}
    assert len(calls) == 2
    assert all(built[op].characters <= built[op].limit == 16_000 for op in calls)
    assert result.spent["model_calls"] == len(built)
    assert house.kinds(f"task/{task.id}/ledger").count("EffectRegistered") == 4
    assert unbalanced(house.store) == []


def test_a_first_plan_whose_request_does_not_fit_pauses_as_work_would() -> None:
    # A81
    house = House(agent(Model(TWO)), baseline=Baseline(id="tiny", request_limit=900))
    result = house.run(goal=GOAL)
    assert (result.status, result.reason) == ("paused", "context")


def test_a_look_whose_request_does_not_fit_leaves_the_plan_as_it_is() -> None:
    # A81, K49
    planner = Planner(triggers=("half",))
    fat = agent(
        Model({"steps": []}),
        planner,
        plan=host("a", "b"),
        request_limit=1_450,
        tools=[],
    )
    house = House(fat)
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    (refused,) = of(house, task.id, PlanRefused)
    assert refused.final
    assert "1450" in refused.why
    assert steps_run(house, task.id) == ["a", "b"]


def test_a_refused_first_plan_is_asked_for_again_with_the_reason_then_pauses() -> None:
    model = Model("no plan")
    house = House(agent(model))
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "plan",
        "resume",
    )
    assert result.detail == "no plan passed: it holds no JSON object"
    assert len(model.asked) == 4
    assert "Refused before" not in model.asked[0].messages[-1]["content"]
    for request in model.asked[1:]:
        assert "Refused before: it holds no JSON" in request.messages[-1]["content"]
    model.plans = [TWO, KEEP]
    house.runtime.resume(task.id, by="operator")
    assert house.finish(task.id).status == "completed"
    again = model.asked[4].messages[-1]["content"]
    assert "task: once; paused: plan: no plan passed: it holds no JSON object" in again


def test_tool_calls_in_a_planning_reply_are_ignored() -> None:
    called = ModelReply(
        content=json.dumps(TWO),
        tool_calls=(ToolCall(id="c", name="look", arguments='{"what": "x"}'),),
    )
    house = House(agent(Model(called, KEEP)))
    result = house.run(goal=GOAL)
    assert result.status == "completed"
    assert result.spent["tool_calls"] in ({}, 0)


@pytest.mark.parametrize(("steps", "at"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_half_of_the_steps_sets_off_one_look_whatever_the_size_of_the_plan(
    steps: int, at: int
) -> None:
    # A99, K50
    names = [f"s{n}" for n in range(steps)]
    house = House(agent(Model(KEEP), Planner(triggers=("half",)), plan=host(*names)))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    (checked,) = of(house, task.id, PlanChecked)
    assert [one.why for one in checked.fired] == [
        f"{at} of {steps} steps are completed"
    ]


def test_a_finished_phase_sets_off_one_look() -> None:
    # A96
    plan = [*host("a", "b", phase="find"), *host("c", phase="tell"), *host("d")]
    house = House(agent(Model(KEEP), Planner(triggers=("phase",)), plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    fired = [one.fired[0].why for one in of(house, task.id, PlanChecked)]
    assert fired == ["done: find", "done: tell"]


def test_several_triggers_at_once_are_one_call_that_is_told_of_each() -> None:
    # A95
    plan = [*host("a", phase="find"), *host("b")]
    model = Model(KEEP)
    house = House(agent(model, plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    first = of(house, task.id, PlanChecked)[0]
    assert [one.trigger for one in first.fired] == ["phase", "half"]
    assert len(model.asked) == 1
    text = model.asked[0].messages[-1]["content"]
    assert "- phase: done: find\n- half: 1 of 2 steps are completed" in text


def failing_once(request: ModelRequest) -> Any:
    """One call that fails, then the answer."""
    data = standing(request)
    if any(one["role"] == "tool" for one in request.messages):
        return {"step": data["step"]["id"]}
    call = ToolCall(id="c", name="look", arguments='{"what": "shut"}')
    return ModelReply(tool_calls=(call,))


def test_a_failed_call_sets_off_a_look_before_the_model_is_asked_again() -> None:
    # A97
    model = Model(KEEP, work=failing_once)
    plan = host("a", accept=taken)
    house = House(agent(model, Planner(triggers=("result",)), plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    (checked,) = of(house, task.id, PlanChecked)
    assert "the gate is shut" in checked.fired[0].why
    assert "the gate is shut" in model.asked[0].messages[-1]["content"]
    assert place(house, task.id, PlanKept) < place(house, task.id, StepEnded)


def test_a_refused_answer_sets_off_a_look_before_the_model_is_asked_again() -> None:
    # A97
    said: list[Any] = []

    def twice(result: Any, _view: Any) -> bool | str:
        said.append(result)
        return len(said) > 1 or "it has no total"

    plan = [Step(id="a", goal="do a", accept=twice)]
    house = House(agent(Model(KEEP), Planner(triggers=("result",)), plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    (checked,) = of(house, task.id, PlanChecked)
    (fired,) = checked.fired
    assert fired.why == "the answer of step a was refused: it has no total"
    assert place(house, task.id, PlanKept) < place(house, task.id, StepEnded)


def test_a_step_that_ends_otherwise_sets_off_a_look() -> None:
    # A97
    def never(_result: Any, _view: Any) -> str:
        return "it has no total"

    plan = [Step(id="a", goal="do a", accept=never, max_iterations=1)]
    model = Model(KEEP)
    rules = Baseline(id="once", task_retries=0)
    house = House(agent(model, plan=plan), baseline=rules)
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "limited")
    fired = [one.fired[0].why for one in of(house, task.id, PlanChecked)]
    assert fired == [
        "step a ended limited: 1 iterations without an accepted answer: "
        "it has no total",
    ]


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        ("I'm not sure whether this is all.", "i'm not sure"),
        ("我不确定是否应该继续", "不确定"),
        ("mir unklar", "mir unklar"),
    ],
)
def test_doubt_in_the_models_words_sets_off_a_look(words: str, phrase: str) -> None:
    # A98
    def work(request: ModelRequest) -> Any:
        if any(one["role"] == "tool" for one in request.messages):
            return "done"
        call = ToolCall(id="c", name="look", arguments='{"what": "it"}')
        return ModelReply(content=words, tool_calls=(call,))

    planner = Planner(triggers=("unsure",), phrases=("mir unklar",))
    house = House(agent(Model(KEEP, work=work), planner, plan=host("a")))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    (checked,) = of(house, task.id, PlanChecked)
    assert checked.fired[0].why.endswith(repr(phrase))


def test_triggers_that_the_host_left_out_set_nothing_off() -> None:
    # A95
    plan = [*host("a", phase="find", accept=taken), *host("b", accept=taken)]
    model = Model(KEEP, work=failing_once)
    house = House(agent(model, Planner(triggers=()), plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    assert model.asked == []
    assert of(house, task.id, PlanChecked) == []


def test_a_revision_replaces_what_is_pending_and_leaves_what_is_done() -> None:
    # A83, A84
    new = {
        "steps": [{"id": "b", "goal": "do b otherwise"}, {"id": "c", "goal": "more"}],
        "why": "there is more to it",
    }
    model = Model(new, KEEP)
    house = House(agent(model, Planner(triggers=("half",)), plan=host("a", "b")))
    task = house.submit(goal=GOAL)
    assert house.until(lambda: bool(of(house, task.id, StepStarted)[1:]))
    result = house.finish(task.id)
    assert result.steps == {"a": "completed", "b": "completed", "c": "completed"}
    (revised,) = of(house, task.id, PlanRevised)
    assert (revised.number, revised.why) == (2, "there is more to it")
    at = place(house, task.id, PlanRevised)
    before, after = (state_at(house, task.id, upto) for upto in (at, at + 1))
    assert revised.before == digest_of(before.plan)
    assert msgspec.json.encode(before.steps[0]) == msgspec.json.encode(after.steps[0])
    assert msgspec.json.encode(before.plan[0]) == msgspec.json.encode(after.plan[0])
    assert after.plan[1].goal == "do b otherwise"
    planning = state_at(house, task.id).planning
    assert (planning.revised, planning.failed, planning.attempted) == (1, 0, 3)
    ended_well(house, task.id)


BAD = {
    "omits": ({"steps": [{"id": "b"}]}, "'c' is required, unfinished and left out"),
    "goal": ({"steps": [{"id": "b"}, {"id": "c"}], "goal": "else"}, "goal was changed"),
    "rewrites": (
        {"steps": [{"id": "a", "goal": "x"}, {"id": "b"}, {"id": "c"}]},
        "'a' is completed",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_revision_against_the_rules_leaves_everything_but_the_count_of_failures(
    case: str,
) -> None:
    # A83, A84, K49
    said, why = BAD[case]
    model = Model(said)
    house = House(agent(model, Planner(triggers=("half",)), plan=host("a", "b", "c")))
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    assert result.steps == {"a": "completed", "b": "completed", "c": "completed"}
    refused = of(house, task.id, PlanRefused)
    assert [one.final for one in refused] == [False, False, False, True]
    assert all(why in one.why for one in refused)
    events = house.events(f"task/{task.id}")
    last = max(n for n, one in enumerate(events) if isinstance(one, PlanRefused))
    before = state_at(house, task.id, place(house, task.id, PlanChecked))
    after = state_at(house, task.id, last + 1)
    assert (after.plan, after.steps) == (before.plan, before.steps)
    counted = "number", "revised", "failed", "attempted"
    counts = [[getattr(s.planning, one) for one in counted] for s in (before, after)]
    assert counts == [[1, 0, 0, 2], [1, 0, 1, 2]]
    ended_well(house, task.id)


def test_a_planner_that_raises_counts_as_a_revision_and_the_work_goes_on() -> None:
    # A84, K49
    model = Model(RuntimeError("overloaded"))
    planner = Planner(revisions=2, triggers=("phase",))
    plan = [step for n in range(4) for step in host(f"s{n}", phase=f"p{n}")]
    house = House(agent(model, planner, plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    refused = of(house, task.id, PlanRefused)
    assert [one.final for one in refused] == [True, True]
    assert "overloaded" in refused[0].why
    assert state_at(house, task.id).planning.failed == 2


def test_revisions_are_counted_over_all_plans_and_end() -> None:
    # A84
    def more(request: ModelRequest) -> ModelReply:
        """Always one more step behind those that are left."""
        data = standing(request)
        if data["kind"] != "plan":
            return ModelReply(content="1")
        left = [{"id": p["id"]} for p in data["plan"] if p["status"] == "pending"]
        name = f"n{len(data['plan'])}"
        steps = [*left, {"id": name, "goal": "more", "phase": name}]
        return ModelReply(content=json.dumps({"steps": steps}))

    planner = Planner(triggers=("phase",), revisions=3)
    house = House(agent(more, planner, plan=host("a", phase="first")))
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    assert result.status == "completed"
    assert len(of(house, task.id, PlanRevised)) == 3
    assert list(result.steps) == ["a", "n1", "n2", "n3"]
    assert state_at(house, task.id).planning.attempted == 4


def test_a_step_that_failed_for_good_may_be_planned_otherwise() -> None:
    # A97
    tries: list[Any] = []

    def twelve(result: Any, _view: Any) -> bool:
        tries.append(result)
        return bool(len(tries) > 1)

    plan = [Step(id="a", goal="do a", accept=twelve, max_iterations=1)]
    model = Model({"steps": [{"id": "a", "goal": "do a with more care"}]})
    rules = Baseline(id="once", task_retries=0)
    house = House(agent(model, plan=plan), baseline=rules)
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    started = of(house, task.id, StepStarted)
    assert [one.attempt for one in started] == [1, 2]
    assert len(tries) == 2


def test_written_steps_are_judged_by_the_check_they_name_or_by_the_planners() -> None:
    named: list[tuple[str, str]] = []

    def rows(result: Any, view: Any) -> bool | str:
        named.append(("rows", view.step))
        return True

    def usual(result: Any, view: Any) -> bool | str:
        named.append(("usual", view.step))
        return True

    said = {
        "steps": [{"id": "a", "goal": "x", "accept": "rows"}, {"id": "b", "goal": "y"}]
    }
    planner = Planner(triggers=(), accept=usual, checks={"rows": rows})
    model = Model(said)
    house = House(agent(model, planner))
    assert house.run(goal=GOAL).status == "completed"
    assert named == [("rows", "a"), ("usual", "b")]
    assert "judged by: rows" in model.asked[0].messages[-1]["content"]


def test_a_planners_checks_may_be_ready_made_and_ask_a_model() -> None:
    questions: list[str] = []
    model = Model(
        {
            "steps": [
                {"id": "a", "goal": "x", "accept": "step"},
                {"id": "b", "goal": "y"},
            ]
        }
    )

    def reply(request: ModelRequest) -> ModelReply:
        if not request.messages[0]["content"].startswith("You judge"):
            return model(request)
        asked = json.loads(request.messages[-1]["content"])
        questions.append(asked["step"]["id"])
        return ModelReply(content='{"verdict": "pass", "why": "it does"}')

    named = accept.all_of(accept.schema(dict[str, str]), accept.judge("It is short."))
    usual = accept.any_of(accept.regex("^no$"), accept.judge("It is kind."))
    planner = Planner(triggers=(), accept=usual, checks={"step": named})
    house = House(agent(reply, planner))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    judged = [
        [(one.by, one.ok) for one in event.judged]
        for event in of(house, task.id, StepEnded)
    ]
    assert judged == [
        [("check", True), ("model", True)],
        [("check", False), ("model", True)],
    ]
    assert questions == ["a", "b"]
    ended_well(house, task.id)


def test_a_check_that_the_planner_lost_is_no_pass() -> None:
    said = {"steps": [{"id": "a", "goal": "x", "accept": "rows"}]}
    planner = Planner(triggers=(), checks={"rows": lambda _r, _v: True})
    rules = Baseline(id="once", task_retries=0)
    house = House(agent(Model(said), planner), baseline=rules)
    task = house.submit(goal=GOAL)
    assert house.until(lambda: bool(of(house, task.id, PlanMade)))
    house.kill()
    house.reopen(agent(Model(said), Planner(triggers=()), adopt=True))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "acceptance_error")
    assert "lost the check 'rows'" in result.detail


@pytest.mark.parametrize("planner", [None, Planner(triggers=())])
def test_a_step_whose_agent_lost_its_plan_is_not_complete(planner: Any) -> None:
    # P7: what judged it is not there, and nothing is no acceptance.
    rules = Baseline(id="once", task_retries=0)
    judged = host("a", accept=lambda _result, _view: "not yet")
    house = House(agent(Model(KEEP), Planner(triggers=()), plan=judged), baseline=rules)
    task = house.submit(goal=GOAL)
    assert house.until(lambda: bool(of(house, task.id, StepStarted)))
    house.kill()
    kept: dict[str, Any] = {} if planner is None else {"planner": planner}
    model, tools = Scripted(Model(KEEP)), [look]
    house.reopen(
        Agent(
            name="agent",
            instructions="Work.",
            model=model,
            tools=tools,
            adopt=True,
            **kept,
        )
    )
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "acceptance_error")
    assert "the agent has no plan any more" in result.detail


def test_all_calls_of_one_plan_share_one_deadline() -> None:
    # A82
    @tool(effect="read")
    def nothing() -> str:
        """Nothing."""
        return ""

    model = Model("no plan")
    limits = [RateLimit("slow", 1, per="1m")]
    scripted = Scripted(model)
    scripted.service = "slow"  # type: ignore[attr-defined]
    one = Agent(
        name="agent",
        instructions="Work.",
        model=scripted,
        planner=Planner(timeout=90.0),
        tools=[nothing],
    )
    house = House(one, limits=limits)
    task = house.submit(goal=GOAL)
    began = house.sim.clock.monotonic()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "plan")
    late = "planning took longer than 90 s: slow takes no more calls now"
    assert result.detail == f"no plan passed: {late}"
    assert len(model.asked) == 2  # at once, and after a minute
    assert house.sim.clock.monotonic() - began < 90.0
    house.until(lambda: False, seconds=120.0)  # the slot that it gave up is free again
    house.runtime.resume(task.id, by="operator")
    model.plans = [TWO, KEEP]
    assert house.finish(task.id).status == "completed"


def test_a_look_waits_for_its_slot_where_that_comes_in_time() -> None:
    # A82
    scripted = Scripted(Model(KEEP))
    scripted.service = "slow"  # type: ignore[attr-defined]
    one = Agent(
        name="agent",
        instructions="Work.",
        model=scripted,
        planner=Planner(timeout=90.0, triggers=("half",)),
        plan=host("a", "b"),
    )
    house = House(one, limits=[RateLimit("slow", 1, per="1m")])
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    assert len(of(house, task.id, PlanKept)) == 1
    assert of(house, task.id, PlanRefused) == []


def test_a_planning_call_has_no_more_time_than_is_left_of_its_deadline() -> None:
    # A82
    model = Model(TWO, KEEP)
    house = House(agent(model, Planner(timeout=7.0)))
    house.run(goal=GOAL)
    assert all(0 < one.timeout <= 7.0 for one in model.asked)


def test_each_planning_request_renders_again_from_the_store_alone() -> None:
    model = Model("no", TWO, KEEP)
    house = House(agent(model))
    task = house.submit(goal=GOAL, constraints=["never touch production"])
    house.finish(task.id)
    op = rounds_of(house, task.id)[1]
    again = house.runtime._reading.read(
        lambda reader: render_again(reader, task.id, op)
    )
    assert again.purpose == "plan"
    assert again.messages == model.asked[1].messages
    assert "never touch production" in again.messages[-1]["content"]
    ended_well(house, task.id)


def rounds_of(house: House, task: str) -> list[int]:
    found: list[int] = house.runtime._reading.read(lambda reader: rounds(reader, task))
    return found


def test_a_first_plan_whose_call_fails_is_tried_again_as_work_is() -> None:
    model = Model(RuntimeError("overloaded"), RuntimeError("overloaded"), TWO, KEEP)
    house = House(agent(model))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    assert of(house, task.id, PlanRefused) == []
    ended_well(house, task.id)


def test_a_first_plan_that_never_comes_pauses_within_its_deadline() -> None:
    # A82
    house = House(agent(Model(RuntimeError("overloaded")), Planner(timeout=10.0)))
    result = house.run(goal=GOAL)
    assert (result.status, result.reason) == ("paused", "plan")
    assert "overloaded" in result.detail
    assert house.sim.clock.monotonic() < 10.0


def test_a_plan_that_money_refuses_waits_for_it_and_has_its_time_again() -> None:
    # A81, A82
    house = House(agent(Model(TWO, KEEP), Planner(timeout=50.0)))
    task = house.submit(goal=GOAL, budget=Budget(model_calls=0))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "budget")
    house.until(lambda: False, seconds=100.0)
    task.extend(Budget(model_calls=10))
    assert house.finish(task.id).status == "completed"
    ended_well(house, task.id)


def test_a_look_that_money_refuses_leaves_the_plan_and_counts() -> None:
    # A81, K49
    model = Model(KEEP)
    house = House(agent(model, Planner(triggers=("half",)), plan=host("a", "b")))
    task = house.submit(goal=GOAL, budget=Budget(model_calls=1))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "budget")
    assert model.asked == []
    (refused,) = of(house, task.id, PlanRefused)
    assert "cannot be paid" in refused.why
    assert state_at(house, task.id).planning.failed == 1


def test_a_task_cancelled_while_it_is_planned_just_ends() -> None:
    house = House(agent(Model(TWO, KEEP)))
    task = house.submit(goal=GOAL)
    assert house.until(lambda: bool(of(house, task.id, DecisionMade)))
    task.cancel(by="operator")
    assert house.finish(task.id).status == "cancelled"
    ended_well(house, task.id)


def test_an_agent_that_lost_its_planner_says_so() -> None:
    house = House(agent(Model(TWO, KEEP)))
    task = house.submit(goal=GOAL)
    house.kill()
    model = Scripted(Model(TWO))
    plain = Agent(name="agent", instructions="Work.", model=model, adopt=True)
    house.reopen(plain)
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "plan")
    assert result.detail == "no plan passed: the agent has no planner any more"
    house.kill()
    house.reopen(agent(Model(TWO, KEEP), adopt=True))
    house.runtime.resume(task.id, by="operator")
    assert house.finish(task.id).status == "completed"


DROPPING = {"steps": [], "drop": [{"id": "b", "why": "nobody reads it"}]}


def asks_to_drop(*plans: Any) -> tuple[House, str, Any]:
    """A task whose revision would drop the step `b`, at its question."""
    model = Model(*plans)
    house = House(agent(model, Planner(triggers=("half",)), plan=host("a", "b")))
    task = house.submit(goal=GOAL)
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "question")
    (question,) = house.runtime.questions()
    assert "b (do b), since: nobody reads it" in question.text
    assert question.choices == ("drop", "keep")
    return house, question.question, task


def test_dropping_a_required_step_waits_for_a_persons_consent() -> None:
    # A83
    house, question, task = asks_to_drop(DROPPING)
    assert of(house, task.id, PlanRevised) == []
    house.kill()
    house.reopen()
    assert house.finish(task.id).reason == "question"
    assert house.runtime.reply(task.id, question, "drop", "approver")
    result = house.finish(task.id)
    assert (result.status, result.steps) == ("completed", {"a": "completed"})
    (revised,) = of(house, task.id, PlanRevised)
    assert (revised.consent, revised.dropped[0].id) == ("approver", "b")
    ended_well(house, task.id)


def test_a_person_who_keeps_a_step_keeps_the_plan_and_the_look_counts() -> None:
    # A83, K49
    house, question, task = asks_to_drop(DROPPING)
    task.answer(question, "keep", by="approver")
    result = house.finish(task.id)
    assert result.steps == {"a": "completed", "b": "completed"}
    assert of(house, task.id, PlanRevised) == []
    (refused,) = of(house, task.id, PlanRefused)
    assert refused.why == "approver said that this is not to be dropped: b"
    assert state_at(house, task.id).planning.failed == 1
    ended_well(house, task.id)


def test_a_task_cancelled_at_that_question_ends_and_asks_no_more() -> None:
    house, _, task = asks_to_drop(DROPPING)
    task.cancel(by="operator")
    assert house.finish(task.id).status == "cancelled"
    assert house.runtime.questions() == []
    ended_well(house, task.id)


def test_what_a_plan_was_looked_at_for_and_what_came_of_it_is_shown() -> None:
    house, question, task = asks_to_drop("no plan", DROPPING)
    task.answer(question, "drop", by="approver")
    house.finish(task.id)
    sheet = house.runtime._reading.read(lambda reader: views.sheet(reader, task.id))
    half = "half: 1 of 2 steps are completed"
    assert [(one.what, one.number, one.final) for one in sheet.plans] == [
        ("refused", 1, False),
        ("asked", 1, True),
        ("revised", 2, True),
    ]
    assert all(one.fired == (half,) for one in sheet.plans)
    text = "\n".join(sheet_text(sheet))
    assert f"plan 2 revised (op3): {half}\n  steps: a\n" in text
    assert "  without b: nobody reads it, as approver agreed" in text


def test_why_tells_of_each_look_at_the_plan() -> None:
    model = Model(TWO, "no plan", {"steps": [{"id": "b"}, {"id": "c", "goal": "x"}]})
    house = House(agent(model, Planner(triggers=("half",))))
    task = house.submit(goal=GOAL)
    house.finish(task.id)
    story = house.runtime.why(task.id).story
    told = [one.says for one in story if isinstance(one, Turn) and "plan" in one.says]
    assert told == [
        "the plan is looked at: start: the task starts",
        "plan 1 is in force (a, b)",
        "the plan is looked at: half: 1 of 2 steps are completed",
        "no plan of operation 3: it holds no JSON object",
        "plan 2 is in force (a, b, c); for half: 1 of 2 steps are completed",
        "the plan is looked at: half: 2 of 3 steps are completed",
        "the plan stays: ",
    ]


def test_a_fork_counts_its_own_looks_and_has_none_for_what_was_done() -> None:
    plan = [*host("a", phase="find"), *host("b", "c")]
    house = House(agent(Model(KEEP), Planner(triggers=("phase", "half")), plan=plan))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    looked = [
        record.seq
        for record in house.store.streams[f"task/{task.id}"]
        if record.type == "PlanKept"
    ]
    fork = task.fork(at=looked[1])
    assert house.finish(fork.id).status == "completed"
    assert steps_run(house, fork.id) == ["c"]
    assert of(house, fork.id, PlanChecked) == []
    planning = state_at(house, fork.id).planning
    assert (planning.number, planning.attempted) == (1, 1)


def test_what_a_model_writes_at_length_is_kept_in_short() -> None:
    name = "x" * 60_000
    said = {"steps": [{"id": "a", "goal": "x", "needs": [name]}]}
    house = House(agent(Model(said)))
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).reason == "plan"
    assert max(len(one.why) for one in of(house, task.id, PlanRefused)) == 500
