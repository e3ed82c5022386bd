from __future__ import annotations

import msgspec
import pytest

from perdure.actors.context.drift import ACTS_KEPT
from perdure.actors.context.layers import Window
from perdure.actors.events import (
    Anchor,
    AnswerRefused,
    CancelRequested,
    ContextRebuilt,
    EffectsVerified,
    RecoveryLoaded,
    RequestBuilt,
    TaskPaused,
    TaskQueued,
    TaskResumed,
)
from perdure.actors.task.observing import NOTES_KEPT
from perdure.actors.task.state import TaskState, apply
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
PAUSED = TaskPaused(reason="service", detail="", ends_with="resume", epoch=1)
LOADED = RecoveryLoaded(number=1, snapshot=0, replayed=0)


def test_closed_operations_leave_with_the_next_question_to_the_model() -> None:
    state = fold(*RUNNING, ask(1), observed(1, calls=1), call(2, 1), observed(2))
    assert sorted(state.ops) == [1, 2]
    assert sorted(fold_on(state, ask(3)).ops) == [3]


def fold_on(state: TaskState, *events: object) -> TaskState:
    for event in events:
        state = apply(state, event)  # type: ignore[arg-type]
    return state


def test_a_declaration_forgets_nothing_of_an_exchange_that_is_under_way() -> None:
    state = fold(
        *RUNNING,
        ask(1),
        observed(1, calls=2),
        call(2, 1),
        call(3, 1),
        observed(2),
        LOADED,
        ask(4, "declare"),
    )
    assert sorted(state.ops) == [1, 2, 3, 4]
    assert state.recovery is not None
    assert state.recovery.declares == 4


def test_the_state_does_not_grow_with_the_number_of_iterations() -> None:
    state = fold(*RUNNING)
    sizes = []
    for op in range(1, 400, 2):
        state = fold_on(
            state, ask(op), observed(op, calls=1), call(op + 1, op), observed(op + 1)
        )
        sizes.append(len(msgspec.json.encode(state)))
    full = sizes[ACTS_KEPT:]  # from here on as many actions as are kept
    assert max(full) - min(full) < 60


def test_a_retry_counts_and_an_attempt_cut_off_by_a_crash_does_not() -> None:
    # B47 B82
    state = fold(*RUNNING, ask(1), observed(1, "failed", again=True, retry=True))
    assert (state.ops[1].tries, state.ops[1].attempt) == (1, 2)
    state = fold_on(state, observed(1, "unknown", again=True, attempt=2))
    assert (state.ops[1].tries, state.ops[1].attempt) == (1, 3)


def test_resuming_gives_every_count_of_retries_back() -> None:
    failed = observed(1, "failed", again=True, retry=True)
    state = fold(*RUNNING, ask(1), failed, ended("a", again=True, status="limited"))
    assert state.retries == 1
    state = fold_on(state, ask(2), observed(2, "failed", again=True, retry=True))
    state = fold_on(state, PAUSED, TaskResumed(by="me"))
    assert (state.retries, state.ops[2].tries, state.ops[2].attempt) == (0, 0, 2)
    assert (state.status, state.pause) == ("running", None)


def test_only_replies_of_work_are_iterations() -> None:
    state = fold(*RUNNING, LOADED, ask(1, "declare"), observed(1))
    assert state.steps[0].iterations == 0
    assert state.answer == 0
    state = fold(*RUNNING, ask(1), observed(1, "failed", again=True, retry=True))
    assert state.steps[0].iterations == 0


def test_anchors_stay_until_the_end_and_notes_are_bounded() -> None:
    state = fold(*RUNNING, ask(1), observed(1, calls=1), call(2, 1))
    kept = {"id": Anchor(value="E42", evidence=2, by="tool f")}
    state = fold_on(state, observed(2, anchors=kept), ended("a"), started("b"))
    more = {"name": Anchor(value="x", evidence=4, by="model")}
    later = fold_on(state, ask(3, step="b"), call(4, 3), observed(4, anchors=more))
    assert later.anchors == {**kept, **more}
    for op in range(3, 23):
        refused = AnswerRefused(op=op, step="b", why=f"why {op}")
        state = fold_on(state, ask(op, step="b"), observed(op), refused)
    assert state.notes == tuple(f"why {op}" for op in range(23 - NOTES_KEPT, 23))


def test_notes_of_a_step_end_with_it() -> None:
    refused = AnswerRefused(op=1, step="a", why="no")
    state = fold(*RUNNING, ask(1), observed(1), refused)
    assert state.notes == ("no",)
    assert fold_on(state, ended("a")).notes == ()


def test_a_new_step_shows_no_exchange_of_the_last_one() -> None:
    built = RequestBuilt(
        op=1,
        attempt=1,
        digest="",
        view=1,
        facts_until=0,
        blocks=(),
        window=5,
        omitted=9,
        characters=1,
        limit=1,
    )
    state = fold(*RUNNING, ask(1), built, observed(1))
    assert state.window == Window(start=5, omitted=9)
    state = fold_on(state, ended("a"), started("b"))
    assert (state.window, state.facts_until, state.ops) == (Window(), 1, {})


def test_progress_is_an_operation_or_a_step_after_recovery() -> None:
    # R24: what the pipeline itself does is none.
    state = fold(*RUNNING, ask(1), LOADED)
    assert not state.progressed
    rebuilt = ContextRebuilt(facts=(), next="a", facts_until=0)
    state = fold_on(state, rebuilt, EffectsVerified(decided={}))
    state = fold_on(state, ask(2, "declare"), observed(2))
    assert not state.progressed
    again = observed(1, "unknown", again=True)
    assert not fold_on(state, again).progressed
    assert fold_on(state, observed(1)).progressed
    assert fold_on(state, ended("a")).progressed


def test_an_open_declaration_is_kept_over_the_next_recovery() -> None:
    again = RecoveryLoaded(number=2, snapshot=0, replayed=0)
    state = fold(*RUNNING, LOADED, ask(1, "declare"), again)
    assert state.recovery is not None
    assert (state.recovery.declares, state.recovery.stage) == (1, "loaded")
    assert state.recoveries == 2


def test_a_request_to_cancel_ends_a_pause() -> None:
    state = fold(*RUNNING, PAUSED, CancelRequested(by="me"))
    assert (state.pause, state.cancelled_by) == (None, "me")


def test_a_completed_step_is_kept_with_result_and_evidence() -> None:
    state = fold(*RUNNING, ended("a", result='{"n":1}', op=7))
    step = state.steps[0]
    assert (step.status, step.result, step.evidence) == ("completed", '{"n":1}', 7)


def test_events_of_other_streams_are_refused() -> None:
    event = TaskQueued(task="t", agent="a", group="", priority=0, key=None)
    with pytest.raises(TypeError, match="TaskQueued"):
        apply(TaskState(), event)


def test_a_state_survives_json_byte_for_byte() -> None:
    state = fold(*RUNNING, ask(1), observed(1, calls=1), call(2, 1), LOADED, PAUSED)
    body = msgspec.json.encode(state)
    assert msgspec.json.encode(msgspec.json.decode(body, type=TaskState)) == body
