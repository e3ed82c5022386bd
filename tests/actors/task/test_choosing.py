"""How the state of a task follows its policy's decisions."""

from __future__ import annotations

from typing import Any

from perdure.actors.events import (
    AnswerRefused,
    CallTool,
    DecisionMade,
    FinishStep,
    PauseTask,
    PolicyFailed,
    StepEnded,
    TaskResumed,
)
from perdure.actors.task.choosing import Choice, by_policy
from perdure.actors.task.commands import AskModel, AskPolicy, StopFor
from tests.actors.task.support import fold, observed, started, submitted


def chose(op: int, action: Any, memo: str | None = None) -> DecisionMade:
    return DecisionMade(op=op, step="a", action=action, why="w", learned="", memo=memo)


def call(op: int, first: int) -> DecisionMade:
    action = CallTool(
        tool="t", arguments="{}", call_id="", parent=first, index=op - first
    )
    return chose(op, action, "1" if op == first else None)


BEGUN = (submitted("a"), started("a"))


def test_a_decision_of_several_calls_counts_once_and_drops_those_before() -> None:
    state = fold(*BEGUN, call(1, 1), observed(1), call(2, 2), call(3, 2))
    assert list(state.ops) == [2, 3]
    assert (state.next_op, state.steps[0].iterations) == (4, 2)
    assert state.choice == Choice(memo="1", since=1, exchange=2, finished=1)
    state = fold(*BEGUN, call(1, 1), call(2, 1), observed(2), observed(1))
    assert state.choice.finished == 2


def test_a_result_waits_in_the_state_until_it_is_judged() -> None:
    asked = (*BEGUN, chose(1, FinishStep(result="7"), "[2]"))
    state = fold(*asked)
    assert (state.answer, state.choice.result, state.choice.memo) == (1, "7", "[2]")
    assert (state.ops, state.next_op, state.steps[0].iterations) == ({}, 2, 1)
    refused = fold(*asked, AnswerRefused(op=1, step="a", why="no"))
    assert (refused.answer, refused.choice.result) == (0, "")
    done = StepEnded(
        step="a", status="completed", reason="", result="7", evidence=(), op=1
    )
    assert fold(*asked, done).choice == Choice(memo="[2]", since=1)


def test_a_stop_stands_until_somebody_resumes() -> None:
    state = fold(*BEGUN, chose(1, PauseTask(), "3"))
    due = AskModel("a", 2)
    assert by_policy(state, due) == StopFor("policy", "w", "resume")
    resumed = fold(*BEGUN, chose(1, PauseTask(), "3"), TaskResumed(by="x"))
    assert by_policy(resumed, due) == AskPolicy("a", 2)
    assert resumed.choice.memo == "3"


def test_failures_count_until_there_is_a_decision_or_somebody_resumes() -> None:
    failed = PolicyFailed(step="a", why="no")
    assert fold(*BEGUN, failed, failed).choice.failures == 2
    assert fold(*BEGUN, failed, call(1, 1)).choice.failures == 0
    assert fold(*BEGUN, failed, chose(1, FinishStep(result="7"))).choice.failures == 0
    assert fold(*BEGUN, failed, TaskResumed(by="x")).choice.failures == 0
    again = TaskResumed(by="x", anew=False)
    assert fold(*BEGUN, failed, again).choice.failures == 1
