from __future__ import annotations

from typing import Any

import pytest

from perdure.actors.baseline import Baseline
from perdure.actors.events import (
    ActionObserved,
    AnswerRefused,
    CallModel,
    CallTool,
    CancelRequested,
    ContextRebuilt,
    DecisionMade,
    EffectsVerified,
    Event,
    RecoveryDeclared,
    RecoveryLoaded,
    StepEnded,
    StepStarted,
    TaskClosed,
    TaskClosing,
    TaskPaused,
    TaskResumed,
)
from perdure.actors.task.commands import (
    Abandon,
    AskModel,
    Close,
    Command,
    Conclude,
    Declare,
    Drive,
    EndStep,
    Judge,
    JudgeTask,
    Rebuild,
    StartStep,
    StopFor,
    VerifyEffects,
)
from perdure.actors.task.decide import decide
from perdure.actors.task.state import TaskState
from tests.actors.task.support import (
    ask,
    call,
    ended,
    fold,
    observed,
    started,
    submitted,
)

RUNNING = (submitted("a", "b"), started("a"))


def due(*events: Event, **options: Any) -> tuple[Command, ...]:
    return of(fold(*events), **options)


def of(state: TaskState, **options: Any) -> tuple[Command, ...]:
    given = {"now": 0.0, "rules": Baseline(), "judged": False}
    return decide(state, **{**given, **options})


def test_nothing_is_due_before_the_submission_and_after_the_end() -> None:
    assert of(TaskState()) == ()
    closing = TaskClosing(status="completed", output="1", reason="")
    for status in ("completed", "failed", "cancelled"):
        assert due(submitted("a"), closing, TaskClosed(status=status)) == ()


def test_steps_start_in_the_order_of_the_plan() -> None:
    assert due(submitted("a", "b")) == (StartStep("a", 1),)
    assert due(*RUNNING, ended("a")) == (StartStep("b", 1),)


def test_a_running_step_asks_the_model() -> None:
    assert due(*RUNNING) == (AskModel("a", 1),)


def test_every_open_operation_is_driven_before_anything_else() -> None:
    events = (*RUNNING, ask(1), observed(1, calls=2), call(2, 1), call(3, 1))
    assert due(*events) == (Drive(2, 1), Drive(3, 1))
    assert due(*events, observed(2)) == (Drive(3, 1),)
    assert due(*events, observed(2, "unknown", again=True)) == (
        Drive(2, 2),
        Drive(3, 1),
    )


def test_a_reply_without_calls_is_an_answer_to_be_judged() -> None:
    # B48
    assert due(*RUNNING, ask(1), observed(1)) == (Judge(1),)


def test_a_refused_answer_costs_an_iteration() -> None:
    # B44
    refused = AnswerRefused(op=1, step="a", why="no")
    assert due(*RUNNING, ask(1), observed(1), refused) == (AskModel("a", 2),)


def iterations(count: int, first: int = 1) -> list[Event]:
    events: list[Event] = []
    for op in range(first, first + 2 * count, 2):
        events += [ask(op), observed(op, calls=1), call(op + 1, op), observed(op + 1)]
    return events


def test_a_sixth_iteration_never_asks() -> None:
    # K28 B47 B55
    assert due(*RUNNING, *iterations(4)) == (AskModel("a", 5),)
    (end,) = due(*RUNNING, *iterations(5))
    assert end == EndStep(
        "a",
        "limited",
        "5 iterations without an accepted answer",
        again=True,
        condition="max_iterations",
    )


def test_the_calls_of_the_fifth_reply_are_still_carried_out() -> None:
    events = (*RUNNING, *iterations(4), ask(9), observed(9, calls=1), call(10, 9))
    assert due(*events) == (Drive(10, 1),)


def test_a_fifth_reply_that_answers_is_judged() -> None:
    assert due(*RUNNING, *iterations(4), ask(9), observed(9)) == (Judge(9),)


def test_a_step_is_retried_so_often_and_then_the_task_pauses() -> None:
    # K28 B47
    events = [*RUNNING, *[ended("a", "limited", again=True)] * 3, *iterations(5)]
    assert due(*events) == (
        EndStep(
            "a",
            "limited",
            "5 iterations without an accepted answer",
            again=False,
            condition="max_iterations",
        ),
    )
    (stop,) = due(*events, ended("a", "limited", reason="enough"))
    assert stop == StopFor("limited", "step a: enough", "resume")


def test_an_interrupted_step_is_recovered_before_it_is_tried_again() -> None:
    # B55
    loaded = RecoveryLoaded(number=1, snapshot=0, replayed=0)
    again = ended("a", "limited", again=True)
    assert due(*RUNNING, *iterations(5), again, loaded) == (Rebuild(),)


def test_time_over_ends_a_step_between_operations() -> None:
    late = (submitted("a"), started("a", deadline=10.0))
    assert due(*late, now=9.9) == (AskModel("a", 1),)
    (end,) = due(*late, now=10.0)
    assert (end.status, end.again) == ("timed_out", True)  # type: ignore[union-attr]
    assert due(*late, ask(1), now=10.0) == (Drive(1, 1),)


def test_a_step_that_is_tried_again_has_its_time_anew() -> None:
    again = ended("a", "timed_out", again=True, deadline=20.0)
    late = (submitted("a"), started("a", deadline=10.0), again)
    assert due(*late, now=19.0) == (AskModel("a", 1),)


def test_the_tasks_deadline_stops_new_operations_only() -> None:
    events = (submitted("a", deadline=5.0), started("a"))
    (stop,) = due(*events, now=5.0)
    assert stop == StopFor("deadline", "the task's deadline has passed", "cancel")
    assert due(*events, ask(1), now=5.0) == (Drive(1, 1),)
    assert due(*events, now=4.9) == (AskModel("a", 1),)


def test_a_task_is_complete_only_when_all_of_it_passed_acceptance() -> None:
    # K48
    done = (submitted("a"), started("a"), ended("a"))
    assert due(*done) == (JudgeTask(0),)
    (close,) = due(*done, judged=True)
    assert isinstance(close, Close)
    assert close.status == "completed"


@pytest.mark.parametrize("status", ["failed", "timed_out", "acceptance_error"])
def test_a_step_that_ended_badly_stops_the_task_until_it_is_resumed(
    status: str,
) -> None:
    events = (*RUNNING, ended("a", status, reason="why"))
    assert due(*events) == (StopFor(status, "step a: why", "resume"),)
    paused = TaskPaused(reason=status, detail="", ends_with="resume", epoch=1)
    assert due(*events, paused) == ()
    assert due(*events, paused, TaskResumed(by="me")) == (StartStep("a", 2),)


def test_a_closing_task_is_concluded() -> None:
    closing = TaskClosing(status="failed", output="", reason="")
    assert due(*RUNNING, ask(1), closing) == (Conclude(),)


def test_a_cancelled_task_lets_go_of_what_is_open_and_closes() -> None:
    cancel = CancelRequested(by="me")
    assert due(*RUNNING, ask(1), cancel) == (Abandon(1, 1),)
    (close,) = due(*RUNNING, cancel)
    assert close == Close("cancelled", "cancelled by me")


LOADED = RecoveryLoaded(number=1, snapshot=0, replayed=0)
REBUILT = ContextRebuilt(facts=(), next="a", facts_until=0)
VERIFIED = EffectsVerified(decided={})
DECLARING = DecisionMade(
    op=1,
    step="a",
    action=CallModel(purpose="declare"),
    why="",
    learned="",
)


def declared(accepted: bool) -> RecoveryDeclared:
    return RecoveryDeclared(accepted=accepted, by="model", declaration="", why="no")


def test_recovery_is_four_steps_in_one_order() -> None:
    # B36
    pipeline = (*RUNNING, LOADED)
    assert due(*pipeline) == (Rebuild(),)
    assert due(*pipeline, REBUILT) == (VerifyEffects(),)
    assert due(*pipeline, REBUILT, VERIFIED) == (Declare(0),)
    done = (*pipeline, REBUILT, VERIFIED, DECLARING, observed(1), declared(True))
    assert due(*done) == (AskModel("a", 1),)


def test_nothing_open_goes_on_before_the_declaration_passed() -> None:
    # B80
    pending = (
        submitted("a"),
        started("a"),
        ask(1),
        observed(1, calls=1),
        DecisionMade(
            op=2,
            step="a",
            action=CallTool(tool="f", arguments="", call_id="", parent=1, index=0),
            why="",
            learned="",
        ),
        LOADED,
    )
    assert due(*pending) == (Rebuild(),)
    assert due(*pending, REBUILT, VERIFIED) == (Declare(0),)
    asked = (*pending, REBUILT, VERIFIED, ask(3, "declare"))
    assert due(*asked) == (Drive(3, 1),)
    assert due(*asked, observed(3), declared(True)) == (Drive(2, 1),)


def test_a_refused_declaration_is_asked_for_again_and_then_a_person() -> None:
    events: list[Event] = [*RUNNING, LOADED, REBUILT, VERIFIED]
    for op in range(1, 4):
        events += [ask(op, "declare"), observed(op), declared(False)]
        assert due(*events) == (Declare(op),)
    events += [ask(4, "declare"), observed(4), declared(False)]
    (stop,) = due(*events)
    assert stop == StopFor(
        "recovery_mismatch", "the declaration contradicts the record: no", "resume"
    )
    paused = TaskPaused(reason="x", detail="", ends_with="resume", epoch=1)
    assert due(*events, paused, TaskResumed(by="me")) == (Declare(0),)


def test_a_cancelled_task_verifies_and_declares_nothing_more() -> None:
    cancel = CancelRequested(by="me")
    assert due(*RUNNING, ask(1), LOADED, cancel) == (Rebuild(),)
    verified = (*RUNNING, ask(1), LOADED, REBUILT, VERIFIED, cancel)
    assert due(*verified) == (Abandon(1, 1),)


def test_the_whole_task_refused_tries_its_last_step_again() -> None:
    again = StepEnded(
        step="a",
        status="failed",
        reason="",
        result="",
        evidence=(),
        op=1,
        again=True,
    )
    assert due(submitted("a"), started("a"), ended("a"), again) == (AskModel("a", 1),)


def test_a_resumed_step_has_the_time_that_its_resumption_says() -> None:
    paused = TaskPaused(reason="x", detail="", ends_with="resume", epoch=1)
    events = (submitted("a"), started("a", deadline=10.0), paused)
    resumed = TaskResumed(by="me", deadline=110.0)
    assert due(*events, resumed, now=100.0) == (AskModel("a", 1),)


def test_an_observation_names_the_attempt_that_goes_on() -> None:
    again = ActionObserved(op=1, attempt=3, status="failed", again=True)
    assert due(*RUNNING, ask(1), again) == (Drive(1, 4),)


def test_a_second_start_of_the_same_step_is_the_next_attempt() -> None:
    paused = TaskPaused(reason="x", detail="", ends_with="resume", epoch=1)
    failed = (*RUNNING, ended("a", "failed"), paused, TaskResumed(by="me"))
    restarted = StepStarted(step="a", attempt=2, deadline=None)
    assert fold(*failed, restarted).steps[0].attempt == 2
