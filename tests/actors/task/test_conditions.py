"""The conditions that stop a task's loop: each by name, before every iteration."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.baseline import Baseline
from perdure.actors.events import (
    AnswerRefused,
    ApprovalAsked,
    CallModel,
    CancelRequested,
    DecisionMade,
    Event,
    LoopFound,
    PlanStep,
)
from perdure.actors.guard.detect import Finding
from perdure.actors.task.commands import AskModel, StopFor
from perdure.actors.task.conditions import (
    CONDITIONS,
    Moment,
    condition_of,
    first_held,
)
from perdure.actors.task.decide import decide
from perdure.actors.task.state import TaskState
from perdure.actors.task.tries import tries_left
from tests.actors.task.support import (
    ask,
    call,
    ended,
    fold,
    observed,
    started,
    submitted,
)

NAMES = (
    "cancelled",
    "budget",
    "deadline",
    "person",
    "context",
    "satisfied",
    "loop",
    "tool_errors",
    "step_timeout",
    "max_calls",
    "max_iterations",
)
RUNNING = (submitted("a"), started("a"))


def circle(kind: Any) -> LoopFound:
    found = Finding(kind=kind, actions=("x",), ops=(1,), says="so it is")
    return LoopFound(stage="stop", found=found)


def iterations(count: int) -> list[Event]:
    events: list[Event] = []
    for op in range(1, 1 + 2 * count, 2):
        events += [ask(op), observed(op, calls=1), call(op + 1, op), observed(op + 1)]
    return events


def limited(calls: int) -> Any:
    (step,) = submitted("a").steps
    step = msgspec.structs.replace(step, max_calls=calls)
    return msgspec.structs.replace(submitted("a"), steps=(step,))


ASKED = ApprovalAsked(approval="x", op=2, tool="f", arguments="{}", at=1.0)
SHORT = DecisionMade(
    op=1, step="a", action=CallModel(purpose="closing"), why="tokens", learned=""
)
CONTEXT = StopFor("context", "the goal alone is too long", "resume")


HOLDS: dict[str, tuple[list[Event], dict[str, Any], str]] = {
    "cancelled": ([*RUNNING, CancelRequested(by="me")], {}, "cancelled by me"),
    "budget": ([*RUNNING, SHORT, observed(1)], {}, "tokens"),
    "deadline": (
        [submitted("a", deadline=9.0), started("a")],
        {"now": 9.0},
        "the task's deadline has passed",
    ),
    "person": (
        [*RUNNING, ask(1), observed(1, calls=1), call(2, 1), ASKED],
        {},
        "a person's word is waited for: x",
    ),
    "context": ([*RUNNING], {"refused": CONTEXT}, "the goal alone is too long"),
    "satisfied": ([*RUNNING, ended("a")], {}, "every step passed acceptance"),
    "loop": ([*RUNNING, circle("repeat")], {}, "repeat: so it is (operations 1)"),
    "tool_errors": (
        [*RUNNING, circle("errors")],
        {},
        "errors: so it is (operations 1)",
    ),
    "step_timeout": (
        [submitted("a"), started("a", deadline=9.0)],
        {"now": 9.0},
        "its time is over",
    ),
    "max_calls": (
        [
            limited(1),
            started("a"),
            *iterations(1),
            ask(3),
            observed(3, calls=1),
            call(4, 3),
            observed(4, "failed"),
        ],
        {},
        "it asked for more than its 1 tool calls",
    ),
    "max_iterations": (
        [*RUNNING, *iterations(5)],
        {},
        "5 iterations without an accepted answer",
    ),
}


def due(state: TaskState, **options: Any) -> Any:
    given = {"now": 1.0, "rules": Baseline(), "judged": False}
    return decide(state, **{**given, **options})


def test_every_condition_has_a_name_and_a_place() -> None:
    assert (
        tuple(one.name for one in CONDITIONS)
        == NAMES
        == tuple(sorted(HOLDS, key=NAMES.index))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_condition_says_by_name_that_it_holds_and_nobody_asks_the_model(
    name: str,
) -> None:
    # B49 B50 B51 B52
    events, options, why = HOLDS[name]
    state = fold(*events)
    at = Moment(state, options.get("now", 1.0), options.get("refused"))
    assert first_held(at) == (name, why)
    assert not any(isinstance(one, AskModel) for one in due(state, **options))


def test_a_circle_of_one_step_is_none_of_the_next_however_often_that_was_tried() -> (
    None
):
    stuck = (submitted("a", "b"), started("a"), circle("repeat"), ended("a", "failed"))
    assert fold(*stuck, started("a", attempt=2)).guard.stage == "stop"
    assert fold(*stuck, started("b", attempt=2)).guard.stage is None


@pytest.mark.parametrize("name", NAMES)
def test_without_what_makes_it_hold_the_loop_goes_on(name: str) -> None:
    events, options, _ = HOLDS[name]
    before = {
        "deadline": ([submitted("a", deadline=9.0), started("a")], {"now": 8.9}),
        "step_timeout": ([submitted("a"), started("a", deadline=9.0)], {"now": 8.9}),
        "max_calls": ([limited(2), *events[1:]], options),
        "max_iterations": ([*RUNNING, *iterations(4)], options),
    }.get(name, ([*RUNNING], {}))
    state = fold(*before[0])
    assert first_held(Moment(state, before[1].get("now", 1.0))) is None
    assert any(isinstance(one, AskModel) for one in due(state, **before[1]))


@given(st.data())
def test_the_model_is_asked_exactly_where_no_condition_holds(data: Any) -> None:
    # B52
    first = data.draw(
        st.sampled_from([submitted("a"), submitted("a", deadline=5.0), limited(1)])
    )
    deadline = data.draw(st.sampled_from([None, 5.0]))
    events: list[Event] = [first, started("a", deadline=deadline)]
    events += iterations(data.draw(st.integers(0, 5)))
    if data.draw(st.booleans()):
        kinds = st.sampled_from(["repeat", "errors", "service"])
        events.append(circle(data.draw(kinds)))
    state = fold(*events)
    now = data.draw(st.sampled_from([1.0, 5.0]))
    refused = data.draw(st.sampled_from([None, CONTEXT]))
    asks = due(state, now=now, refused=refused)
    held = first_held(Moment(state, now, refused))
    assert any(isinstance(one, AskModel) for one in asks) == (held is None)


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("approval", "person"),
        ("unknown_effect", "person"),
        ("budget", "budget"),
        ("context", "context"),
        ("deadline", "deadline"),
        ("loop", "loop"),
        ("service", "tool_errors"),
        ("tool_errors", "tool_errors"),
        ("completed", "satisfied"),
        ("cancelled", "cancelled"),
        ("operator", ""),
        ("rate", ""),
    ],
)
def test_a_pause_is_reported_by_the_name_of_its_condition(
    reason: str, name: str
) -> None:
    assert condition_of(reason) == name


def of_kind(kind: Any, *, tries: int = 0, retries: int = 0) -> TaskState:
    step = PlanStep(id="a", goal="a", done="", max_iterations=5, kind=kind)
    state = fold(
        msgspec.structs.replace(submitted("a"), steps=(step,)),
        started("a"),
        *[ended("a", "limited", again=True)] * tries,
    )
    return msgspec.structs.replace(state, retries=retries or state.retries)


@pytest.mark.parametrize(
    ("kind", "left"), [("query", 3), ("generate", 3), ("downstream", 1), (None, 3)]
)
def test_a_step_is_tried_again_as_its_kind_allows(kind: Any, left: int) -> None:
    # B47 B82 B83: and never more often than the task as a whole
    assert tries_left(of_kind(kind), Baseline()) == left
    assert tries_left(of_kind(kind, tries=1), Baseline()) == left - 1
    assert tries_left(of_kind(kind, retries=3), Baseline()) == 0
    more = Baseline(task_retries=9)
    assert tries_left(of_kind("generate"), more) == 5
    assert tries_left(of_kind("query"), more) == 3


def test_a_step_that_nobody_accepted_says_why_its_newest_answer_was_refused() -> None:
    answered = [ask(9), observed(9), AnswerRefused(op=9, step="a", why="no total")]
    (end,) = due(fold(*RUNNING, *iterations(4), *answered))
    assert end.reason == "5 iterations without an accepted answer: no total"
    early = [ask(1), observed(1), AnswerRefused(op=1, step="a", why="no total")]
    (end,) = due(fold(*RUNNING, *early, *iterations(5)[4:]))
    assert end.reason == "5 iterations without an accepted answer"  # long ago
