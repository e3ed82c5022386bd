"""Acceptance in whole runs: who judges, what is recorded, and what is no pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import Agent, Misuse, Rule, Step, View, tool
from perdure.accept import Verdict, all_of, any_of, judge, regex, schema
from perdure.actors.accepting import matching
from perdure.actors.context.judging import AGAIN
from perdure.actors.events import (
    ActionObserved,
    AnswerJudged,
    AnswerRefused,
    CallTool,
    StepEnded,
    TaskClosing,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.actors.task import failing
from perdure.actors.task.parts import Op
from perdure.models import Scripted
from perdure.replay import render_again, rounds
from perdure.storage.memory import MemoryReader
from perdure.views import sheet
from perdure.views_text import sheet_text
from tests.actors.world import (
    ROUND_AND_ROUND,
    House,
    Stuck,
    declaration,
    follow,
    quick,
    standing,
    unbalanced,
)
from tests.perdure.agents import calling, done, one_step


def stepped(accept: Any, model: Any = None, **options: Any) -> Agent:
    """One step `s` with an acceptance; its answer is `"first"`, then `"better"`."""
    plan = [Step(id="s", goal="g", done="it is good", accept=accept)]
    return one_step(model=model or Scripted(improving()), plan=plan, **options)


def improving() -> Callable[[ModelRequest], ModelReply]:
    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        text = request.messages[-1]["content"]
        return done('"better"' if "not good enough" in text else '"first"')

    return reply


def is_question(request: ModelRequest) -> bool:
    return "You judge whether" in str(request.messages[0]["content"])


def asked(request: ModelRequest) -> dict[str, Any]:
    text = request.messages[-1]["content"]
    found: dict[str, Any] = json.loads(text.removeprefix(f"{AGAIN}\n\n"))
    return found


def judged_by(
    verdicts: Callable[[dict[str, Any]], str], questions: list[dict[str, Any]]
) -> Scripted:
    """A model that works as `improving` does, and judges by `verdicts`."""
    work = improving()

    def reply(request: ModelRequest) -> ModelReply:
        if not is_question(request):
            return work(request)
        questions.append(asked(request))
        return ModelReply(content=verdicts(questions[-1]))

    return Scripted(reply)


def by_word(question: dict[str, Any]) -> str:
    verdict = "pass" if question["result"] == "better" else "fail"
    return json.dumps({"verdict": verdict, "why": f"not good enough: {verdict}"})


def rulings(house: House, task: str) -> list[list[tuple[str, str, bool]]]:
    """Of each verdict on a step, in order: who, what they are, and what they said."""
    kinds = (AnswerRefused, StepEnded)
    found = [one for one in house.events(f"task/{task}") if isinstance(one, kinds)]
    return [[(one.who, one.by, one.ok) for one in event.judged] for event in found]


# ── functions ──────────────────────────────────────────────────────────────────


async def patient(result: Any, view: View) -> bool | str:
    return True if result == "better" else "not good enough"


class Judge:
    async def __call__(self, result: Any, view: View) -> bool:
        return result == "better"


def test_an_async_function_judges() -> None:
    # B46
    house = House(stepped(patient))
    task = house.submit()
    assert house.finish(task.id).output == "better"
    assert rulings(house, task.id) == [
        [("patient", "function", False)],
        [("patient", "function", True)],
    ]


def test_an_object_that_is_called_as_one_judges_too() -> None:
    model = Scripted(lambda _: done("2"))
    house = House(stepped(all_of(Judge(), patient), model, recovery="rules"))
    result = house.run()
    assert result.status == "paused" and result.reason == "limited"


def test_a_coroutine_that_nobody_awaited_is_no_pass() -> None:
    house = House(stepped(lambda result, view: patient("better", view)))
    task = house.submit()
    assert house.finish(task.id).status == "paused"
    refused = house.of(f"task/{task.id}", AnswerRefused)[0]
    assert "answered coroutine, not True" in refused.why
    assert "async def" in refused.why


@pytest.mark.parametrize("answer", [None, 1, {"ok": True}, Verdict(ok=1)])  # type: ignore[arg-type]
def test_what_is_not_true_is_no_pass(answer: Any) -> None:
    house = House(stepped(lambda result, view: answer))
    task = house.submit()
    assert house.finish(task.id).status == "paused"
    why = house.of(f"task/{task.id}", AnswerRefused)[0].why
    assert why.startswith("acceptance answered") and why.endswith("not True")


def test_an_async_function_that_raises_is_no_pass() -> None:
    async def broken(result: Any, view: View) -> bool:
        raise ConnectionResetError("gone")

    house = House(stepped(broken), baseline=quick(task_retries=0))
    task = house.submit()
    result = house.finish(task.id)
    # K48 A36
    assert (result.status, result.reason) == ("paused", "acceptance_error")
    (ended,) = house.of(f"task/{task.id}", StepEnded)
    assert [(one.ok, one.why) for one in ended.judged] == [
        (False, "ConnectionResetError: gone")
    ]


def test_what_a_verdict_rests_on_is_on_record_and_bounded() -> None:
    def counted(result: Any, view: View) -> Verdict:
        if result == "first":
            return Verdict(
                ok=False, why="not good enough", evidence={"rows": "x" * 9_000}
            )
        return Verdict(ok=True, evidence={"rows": 3})

    house = House(stepped(counted))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (refused,) = house.of(f"task/{task.id}", AnswerRefused)
    assert len(json.dumps(refused.judged[0].evidence)) < 2_100
    (ended,) = house.of(f"task/{task.id}", StepEnded)
    assert ended.judged[0].evidence == {"rows": 3}


def test_a_plain_verdict_takes_no_bytes_for_evidence() -> None:
    house = House(stepped(lambda result, view: True))
    task = house.submit()
    house.finish(task.id)
    record = next(
        one for one in house.store.streams[f"task/{task.id}"] if one.type == "StepEnded"
    )
    (ruling,) = msgspec.json.decode(record.body)["judged"]
    assert ruling.keys() == {"who", "ok"}


# ── together ───────────────────────────────────────────────────────────────────


def test_the_first_that_refuses_says_why() -> None:
    late: list[Any] = []

    def never(result: Any, view: View) -> bool:
        late.append(result)
        return True

    house = House(stepped(all_of(schema(str), patient, never)))
    task = house.submit()
    assert house.finish(task.id).output == "better"
    assert late == ["better"]  # not asked of what was refused before
    assert rulings(house, task.id)[0] == [
        ("schema(str)", "check", True),
        ("patient", "function", False),
    ]


def test_one_that_accepts_is_enough() -> None:
    house = House(stepped(any_of(schema(int), all_of(schema(str), patient))))
    task = house.submit()
    assert house.finish(task.id).output == "better"
    why = house.of(f"task/{task.id}", AnswerRefused)[0].why
    assert why.startswith("none of these: it is not a int")
    assert why.endswith("; not good enough")


def test_a_part_that_raises_is_no_pass_of_the_whole() -> None:
    def broken(result: Any, view: View) -> bool:
        raise ZeroDivisionError

    house = House(
        stepped(any_of(broken, lambda result, view: True)),
        baseline=quick(task_retries=0),
    )
    # K48
    assert house.run().reason == "acceptance_error"


def test_a_pattern_judges_in_a_run() -> None:
    house = House(stepped(any_of(regex("^better$"), patient)))
    task = house.submit()
    assert house.finish(task.id).output == "better"
    assert [one[0][1:] for one in rulings(house, task.id)] == [
        ("check", False),
        ("check", True),
    ]


@pytest.mark.parametrize("accept", [3, "yes", [schema(str)]])
def test_what_cannot_judge_is_refused_when_built(accept: Any) -> None:
    with pytest.raises(Misuse, match="accept="):
        stepped(accept)
    with pytest.raises(Misuse, match="accept="):
        one_step(accept=accept)


# ── a failed call, then an answer ──────────────────────────────────────────────


@tool(effect="read")
def fetch(what: str) -> str:
    """Fetch it."""
    if what == "bad":
        raise ValueError("no such thing")
    return f"got {what}"


def test_an_answer_right_after_a_failed_call_is_not_complete_on_words() -> None:
    # A35 A110
    script = {"task": [[("fetch", {"what": "bad"})]]}
    house = House(
        one_step(
            model=Scripted(follow(script)), tools=[fetch], max_rounds=3, accept=None
        ),
        baseline=quick(task_retries=0, **ROUND_AND_ROUND),
        words=True,
    )
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "limited")
    refused = house.of(f"task/{task.id}", AnswerRefused)[0]
    assert "fetch failed: ValueError: no such thing" in refused.why
    assert refused.judged[0].evidence == {"failed": ["op2"]}


def test_a_call_made_good_another_way_lets_it_complete() -> None:
    script = {"task": [[("fetch", {"what": "bad"})], [("fetch", {"what": "good"})]]}
    house = House(one_step(model=Scripted(follow(script)), tools=[fetch]), words=True)
    assert house.run().status == "completed"


def test_acceptance_knows_what_failed_and_may_accept_it() -> None:
    # A35
    seen: list[Any] = []

    def knowing(result: Any, view: View) -> bool:
        seen.append([(one.tool, one.status, one.newest) for one in view.failed])
        return True

    script = {
        "s": [[("fetch", {"what": "bad"})], [("fetch", {"what": "good"})]],
    }
    house = House(stepped(knowing, Scripted(follow(script)), tools=[fetch]))
    assert house.run().status == "completed"
    assert seen == [[("fetch", "failed", False)]]


# ── a model judges ─────────────────────────────────────────────────────────────


def test_a_model_judges_what_its_criterion_asks() -> None:
    questions: list[dict[str, Any]] = []
    house = House(stepped(judge("It is better."), judged_by(by_word, questions)))
    task = house.submit(inputs={"rows": 3})
    result = house.finish(task.id)
    assert result.output == "better"
    assert [one["result"] for one in questions] == ["first", "better"]
    assert questions[0]["criterion"] == "It is better."
    assert questions[0]["step"] == {"id": "s", "goal": "g", "done": "it is good"}
    assert questions[0]["inputs"] == {"rows": 3}
    assert rulings(house, task.id) == [
        [("judge('It is better.')", "model", False)],
        [("judge('It is better.')", "model", True)],
    ]
    why = house.of(f"task/{task.id}", AnswerRefused)[0].why
    assert why == "judged by a model: not good enough: fail"


def test_its_calls_are_budgeted_and_rendered_again() -> None:
    questions: list[dict[str, Any]] = []
    house = House(stepped(judge("It is better."), judged_by(by_word, questions)))
    task = house.submit()
    result = house.finish(task.id)
    assert result.spent["model_calls"] == 4  # B48: none after the verdict
    assert unbalanced(house.store) == []
    reader = MemoryReader(house.store, lambda *_: None)
    again = [render_again(reader, task.id, op) for op in rounds(reader, task.id)]
    assert [one.purpose for one in again] == ["work", "judge", "work", "judge"]


def test_the_judge_sees_nothing_of_what_was_said_on_the_way() -> None:
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        requests.append(request)
        if is_question(request):
            return ModelReply(content='{"verdict": "pass", "why": "fine"}')
        if len(requests) == 1:
            return msgspec.structs.replace(
                calling(("fetch", {"what": "good"})), content="PERSUASION"
            )
        return done()

    house = House(stepped(judge("It is done."), Scripted(reply), tools=[fetch]))
    assert house.run().status == "completed"
    question = next(one for one in requests if is_question(one))
    assert "PERSUASION" not in json.dumps(question.messages)
    assert question.tools == []


def test_functions_are_asked_before_a_model() -> None:
    questions: list[dict[str, Any]] = []
    house = House(
        stepped(all_of(judge("It is better."), patient), judged_by(by_word, questions))
    )
    task = house.submit()
    assert house.finish(task.id).output == "better"
    assert len(questions) == 1  # the first answer was refused without one
    assert [by for _, by, _ in rulings(house, task.id)[1]] == ["function", "model"]


def test_a_function_is_not_asked_again_for_the_models_sake() -> None:
    calls: list[Any] = []

    def counted(result: Any, view: View) -> bool:
        calls.append(result)
        return True

    house = House(
        stepped(all_of(counted, judge("It is better.")), judged_by(by_word, []))
    )
    assert house.run().output == "better"
    assert calls == ["first", "better"]


@pytest.mark.parametrize(
    "words", ["fine!", '{"verdict": "PASS", "why": "x"}', '{"verdict": "pass"}', "{"]
)
def test_an_answer_that_cannot_be_read_is_no_pass(words: str) -> None:
    house = House(
        stepped(judge("It is better."), judged_by(lambda _: words, [])),
        baseline=quick(task_retries=0),
    )
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "acceptance_error")
    said = house.of(f"task/{task.id}", AnswerJudged)
    assert [one.verdict for one in said] == ["", "", ""]


def test_one_that_is_readable_the_second_time_counts() -> None:
    answers = ["fine!", '{"verdict": "pass", "why": "x"}']
    house = House(
        stepped(judge("It is better."), judged_by(lambda _: answers.pop(0), []))
    )
    task = house.submit()
    assert house.finish(task.id).output == "first"
    reader = MemoryReader(house.store, lambda *_: None)
    texts = [
        render_again(reader, task.id, op).messages[-1]["content"]
        for op in rounds(reader, task.id)
    ]
    assert [text.startswith(AGAIN) for text in texts] == [False, False, True]


def test_a_judges_tool_calls_are_no_verdict() -> None:
    def reply(request: ModelRequest) -> ModelReply:
        if is_question(request):
            return calling(("fetch", {"what": "good"}))
        return done()

    house = House(
        stepped(judge("It is done."), Scripted(reply), tools=[fetch]),
        baseline=quick(task_retries=0),
    )
    assert house.run().reason == "acceptance_error"


@pytest.mark.parametrize("seed", range(4))
def test_a_verdict_on_record_is_not_asked_for_again(seed: int) -> None:
    # A second judge is being asked when the process dies: the first has answered.
    questions: list[dict[str, Any]] = []

    def verdicts(question: dict[str, Any]) -> str:
        return '{"verdict": "pass", "why": "fine"}'

    accept = all_of(judge("It is short."), judge("It is kind."))
    agent = stepped(accept, judged_by(verdicts, questions))
    house = House(agent, seed=seed)
    task = house.submit()
    assert house.until(lambda: any(q["criterion"] == "It is kind." for q in questions))
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    criteria = [one["criterion"] for one in questions]
    assert criteria.count("It is short.") == 1
    reader = MemoryReader(house.store, lambda *_: None)
    for op in rounds(reader, task.id):
        render_again(reader, task.id, op)


def test_a_refusal_after_a_crash_renders_again() -> None:
    questions: list[dict[str, Any]] = []
    house = House(stepped(judge("It is better."), judged_by(by_word, questions)))
    task = house.submit()
    assert house.until(lambda: bool(questions))
    house.kill()
    house.reopen()
    assert house.finish(task.id).output == "better"
    reader = MemoryReader(house.store, lambda *_: None)
    for op in rounds(reader, task.id):
        render_again(reader, task.id, op)


def test_a_result_that_does_not_fit_is_not_judged_in_part() -> None:
    long = json.dumps("x" * 20_000)

    def reply(request: ModelRequest) -> ModelReply:
        assert not is_question(request)
        return done(long)

    house = House(stepped(judge("It is long."), Scripted(reply)))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "context")


@pytest.mark.parametrize("criterion", ["", " ", 3, "x" * 2_001, "\ud800"])
def test_what_is_no_criterion_is_refused(criterion: Any) -> None:
    with pytest.raises(Misuse, match="criterion="):
        judge(criterion)


# ── the whole task ─────────────────────────────────────────────────────────────


def whole(accept: Any, model: Any = None, **options: Any) -> Agent:
    return one_step(model=model or Scripted(improving()), accept=accept, **options)


@pytest.mark.parametrize(
    "accept", [patient, all_of(schema(str), patient), judge("It is better.")]
)
def test_the_whole_task_is_repaired_until_it_passes(accept: Any) -> None:
    # B45 B73
    house = House(whole(accept, judged_by(by_word, [])))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.output) == ("completed", "better")
    (closing,) = house.of(f"task/{task.id}", TaskClosing)
    assert closing.judged[-1].ok
    failed = house.of(f"task/{task.id}", StepEnded)[1]
    assert failed.status == "failed" and not failed.judged[-1].ok
    reader = MemoryReader(house.store, lambda *_: None)
    for op in rounds(reader, task.id):
        render_again(reader, task.id, op)


def test_it_is_verified_four_times_then_it_pauses() -> None:
    # K28 B47
    calls: list[Any] = []

    def never(result: Any, view: View) -> str:
        calls.append(result)
        return "no"

    house = House(whole(never))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "acceptance")
    assert len(calls) == 4


def test_the_loop_survives_a_crash_in_between() -> None:
    calls: list[Any] = []

    def never(result: Any, view: View) -> str:
        calls.append(result)
        return "no"

    house = House(whole(never))
    task = house.submit()
    assert house.until(lambda: len(house.of(f"task/{task.id}", StepEnded)) == 4)
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "acceptance")
    ended = house.of(f"task/{task.id}", StepEnded)
    assert [one.status for one in ended].count("failed") == 3


def test_acceptance_of_the_task_that_raises_is_named_as_that() -> None:
    # K48
    def broken(result: Any, view: View) -> bool:
        raise ZeroDivisionError("oh")

    house = House(whole(broken))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "acceptance_error")
    ended = house.of(f"task/{task.id}", StepEnded)
    assert [one.status for one in ended if one.again] == ["acceptance_error"] * 3


class Report(msgspec.Struct):
    rows: int


def test_a_task_with_an_output_type_is_judged_by_it_first() -> None:
    def counted(result: Any, view: View) -> bool:
        return isinstance(result, Report) and result.rows == 3

    answers = ['"three"', '{"rows": 3}']
    model = Scripted(
        lambda _: done(answers[0] if len(answers) == 1 else answers.pop(0))
    )
    house = House(whole(counted, model, output=Report))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (closing,) = house.of(f"task/{task.id}", TaskClosing)
    assert [one.who for one in closing.judged] == [
        "output(Report)",
        "test_a_task_with_an_output_type_is_judged_by_it_first.<locals>.counted",
    ]


def test_who_judged_is_shown_with_what_it_rests_on() -> None:
    def counted(result: Any, view: View) -> Verdict:
        return Verdict(ok=result == "better", why="not good enough", evidence={"n": 1})

    house = House(
        stepped(all_of(counted, judge("It is better.")), judged_by(by_word, [])),
    )
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    reader = MemoryReader(house.store, lambda *_: None)
    found = sheet(reader, task.id)
    assert [(one.step, one.by, one.ok) for one in found.judged] == [
        ("s", "function", True),
        ("s", "model", True),
    ]
    text = "\n".join(sheet_text(found))
    assert re.search(r"s +model +judge\('It is better.'\) +pass", text)
    assert '{"n":1}' in text.replace(" ", "")
    lines = house.log.of("step.ended")
    said = [one.get("by", "function") for one in lines[-1]["judged"]]
    assert said == ["function", "model"]
    assert house.log.strangers == []


def test_what_was_said_of_the_task_is_told_apart_from_its_step() -> None:
    house = House(whole(patient))
    task = house.submit()
    assert house.until(lambda: len(house.of(f"task/{task.id}", StepEnded)) == 2)
    reader = MemoryReader(house.store, lambda *_: None)
    (line,) = sheet(reader, task.id).judged
    assert (line.step, line.who, line.ok) == ("", "patient", False)
    house.finish(task.id)
    (line,) = sheet(reader, task.id).judged
    assert (line.step, line.who, line.ok) == ("", "patient", True)


@pytest.mark.parametrize("of_the_task", [False, True])
def test_acceptance_that_hangs_is_timed_out(of_the_task: bool) -> None:
    # K48
    stuck = Stuck("accept")

    def hanging(result: Any, view: View) -> bool:
        stuck.hang()
        return True

    agent = whole(hanging) if of_the_task else stepped(hanging)
    house = House(agent, dispatcher=stuck, baseline=quick(task_retries=0))
    task = house.submit()
    try:
        result = house.finish(task.id)
    finally:
        stuck.let_go()
    assert (result.status, result.reason) == ("paused", "timed_out")
    assert "no answer within 30 s" in result.detail


def test_a_check_that_was_ended_is_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # K48
    monkeypatch.setattr(matching, "SECONDS", 0.2)
    model = Scripted(lambda _: done(json.dumps("a" * 40 + "b")))
    agent = stepped(regex("^(a+)+$"), model)
    house = House(agent, baseline=quick(task_retries=0))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "timed_out")


def test_a_call_that_a_rule_forbids_has_not_failed() -> None:
    rule = Rule(says="no bad", tools=("fetch",), argument="what", forbid=("bad",))
    script = {"task": [[("fetch", {"what": "bad"})]]}
    model = Scripted(follow(script))
    house = House(one_step(model=model, tools=[fetch], rules=[rule]), words=True)
    assert house.run().status == "completed"


def test_a_call_that_cannot_be_made_has_failed() -> None:
    # A110
    script = {"task": [[("fly", {})]]}
    model = Scripted(follow(script))
    house = House(
        one_step(model=model, tools=[fetch], max_rounds=3),
        baseline=quick(task_retries=0, **ROUND_AND_ROUND),
        words=True,
    )
    assert house.run().reason == "limited"


@pytest.mark.parametrize(
    ("reason", "fails"),
    [
        ("look: limit: tool_calls", False),
        ("look: the rule 'x' forbids this call", False),
        ("look: blocked: look did the same 3 times over", False),
        ("look: there is no tool 'look'", True),
    ],
)
def test_what_kept_a_call_back_neither_fails_it_nor_makes_it_good(
    reason: str, fails: bool
) -> None:
    # K36
    call = CallTool(tool="look", arguments="{}", call_id="", parent=5, index=0)
    op = Op(op=6, step="s", action=call)
    event = ActionObserved(
        op=6, attempt=1, status="failed", reason=reason, refused=True
    )
    assert bool(failing.observed(failing.Failing(), op, event).calls) is fails
    ran = msgspec.structs.replace(event, reason="look: it broke", refused=False)
    broken = failing.observed(failing.Failing(), op, ran)
    later = msgspec.structs.replace(op, action=msgspec.structs.replace(call, parent=9))
    (left,) = failing.shown(failing.observed(broken, later, event))
    assert left.newest  # an answer now still comes right after it
