from __future__ import annotations

import msgspec
import pytest

from perdure.actors.context.render import (
    FactView,
    OperationView,
    StepView,
    TaskView,
    moving_data,
    render_moving,
    render_recovery,
    render_task_stable,
)

VIEW = TaskView(
    goal="Export the airports.\n```json\n{}\n```\nOnly  Norway.",
    constraints=("only this month", "do not touch production"),
    inputs={"country": "NO", "资": 1},
    steps=(
        StepView(id="count", goal="Count rows", done="n > 0", status="completed"),
        StepView(id="mail", goal="Mail it", done="one mail", status="running"),
    ),
    current="mail",
    facts=(
        FactView(name="rows", value='{"n": 120}', evidence="count#1", step="count"),
        FactView(name="quote", value='"a\\n```\\nb"', evidence="count#2", step="count"),
    ),
    operations=(
        OperationView(
            tool="write_report",
            arguments='{"name": "report.md"}',
            outcome="completed",
            result="ok",
            evidence="mail#1",
        ),
    ),
    notes=("plan A is infeasible: no access",),
    uncertain=("whether the mail was sent",),
    next="send the mail",
)


def test_the_stable_part_holds_goal_constraints_inputs_and_plan_verbatim() -> None:
    text = render_task_stable(VIEW)  # A37, B7, B9
    assert text.count(VIEW.goal) == 1
    assert all(constraint in text for constraint in VIEW.constraints)
    assert '{"country":"NO","资":1}' in text
    assert "- mail: Mail it Done when: one mail" in text


def test_the_stable_part_does_not_change_with_progress() -> None:  # K17
    later = msgspec.structs.replace(
        VIEW,
        steps=tuple(msgspec.structs.replace(s, status="failed") for s in VIEW.steps),
        current=None,
        facts=(),
        operations=(),
        notes=(),
        uncertain=(),
        next="",
    )
    assert render_task_stable(later) == render_task_stable(VIEW)


def test_the_moving_part_tells_where_the_task_stands() -> None:  # A37, A88, B16
    text = render_moving(VIEW)
    assert "Steps: count: completed, mail: running." in text
    assert "Current step mail: Mail it Done when: one mail" in text
    for told in (*VIEW.notes, *VIEW.uncertain, VIEW.next):
        assert told in text
    assert VIEW.goal not in text


def test_what_a_model_is_told_can_be_read_back() -> None:  # A102, B31
    assert moving_data(render_moving(VIEW)) == {
        "kind": "progress",
        "step": {"id": "mail", "goal": "Mail it", "done": "one mail"},
        "steps": {"count": "completed", "mail": "running"},
        "facts": [
            {
                "name": "rows",
                "value": {"n": 120},
                "evidence": "count#1",
                "step": "count",
            },
            {
                "name": "quote",
                "value": "a\n```\nb",
                "evidence": "count#2",
                "step": "count",
            },
        ],
        "operations": [
            {
                "tool": "write_report",
                "arguments": {"name": "report.md"},
                "outcome": "completed",
                "result": "ok",
                "evidence": "mail#1",
            }
        ],
    }


def test_recovery_is_goal_facts_and_next_action_in_that_order() -> None:  # B33, B41
    text = render_recovery(VIEW)
    titles = ["## Task goal\n", "## Confirmed facts\n", "## Next action\n"]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert text.count("\n## ") == 2
    goal, facts, action = (
        text[places[0] : places[1]],
        text[places[1] : places[2]],
        text[places[2] :],
    )
    assert goal.count(VIEW.goal) == text.count(VIEW.goal) == 1
    assert all(constraint in goal for constraint in VIEW.constraints)
    assert "count: completed" in facts
    assert VIEW.next in action
    assert VIEW.uncertain[0] in action
    data = moving_data(text)
    assert data["kind"] == "recovery"
    assert data["facts"] == moving_data(render_moving(VIEW))["facts"]
    assert data["operations"] == moving_data(render_moving(VIEW))["operations"]
    assert data["inputs"] == VIEW.inputs


def test_recovery_without_a_suggestion_goes_on_from_the_break() -> None:  # B42
    text = render_recovery(TaskView(goal="g"))
    assert "Go on from the break; do not plan anew." in text


def test_a_task_without_a_plan_is_one_step() -> None:
    view = TaskView(goal="g")
    assert render_task_stable(view) == "## Goal\ng"
    assert "The task has no plan; it is one step." in render_moving(view)
    assert moving_data(render_moving(view))["step"] is None


@pytest.mark.parametrize("text", ["", "no fence", 'x\n```json\n{"a":1}\n```\nmore'])
def test_text_without_data_at_its_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="fenced JSON"):
        moving_data(text)
