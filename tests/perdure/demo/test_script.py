from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from perdure.actors.context.render import (
    OperationView,
    TaskView,
    moving_data,
    render_moving,
    render_recovery,
    render_task_stable,
)
from perdure.actors.context.units import refuse_strictly, units
from perdure.actors.model import Message, ModelReply, ModelRequest
from perdure.actors.task.recovery import DECLARATION_FORM, Declaration
from perdure.demo.script import reply


def ask(*messages: Message) -> ModelReply:
    return reply(
        ModelRequest(
            messages=list(messages), tools=[], max_output_tokens=2_048, timeout=30.0
        )
    )


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def going_on(view: TaskView, scratch: list[Message]) -> ModelReply:
    return ask(user(render_task_stable(view)), *scratch, user(render_moving(view)))


def recorded(scratch: list[Message], **changes: Any) -> tuple[OperationView, ...]:
    """The calls in these exchanges as the record tells them after a recovery."""
    calls = {
        call["id"]: call["function"]
        for message in scratch
        for call in message.get("tool_calls", ())
    }
    return tuple(
        OperationView(
            **{
                "tool": calls[message["tool_call_id"]]["name"],
                "arguments": calls[message["tool_call_id"]]["arguments"],
                "outcome": "completed",
                "result": message["content"],
                "evidence": f"op{number}",
            }
            | changes
        )
        for number, message in enumerate(scratch)
        if message["role"] == "tool"
    )


def after_recovery(view: TaskView, scratch: list[Message]) -> TaskView:
    return msgspec.structs.replace(view, operations=recorded(scratch))


def test_the_job_is_done_and_every_step_accepted(bench: Any) -> None:
    assert bench.verdicts == dict.fromkeys(
        ("survey", "collect", "check", "group", "export", "summarize", "send"), True
    )


def test_the_job_has_parallel_calls_and_steps_of_several_rounds(bench: Any) -> None:
    replies = [going_on(view, scratch) for view, scratch in bench.requests]
    assert max(len(answer.tool_calls) for answer in replies) == 2
    assert max(len(scratch) for _, scratch in bench.requests) == 5


def test_records_count_the_same_as_exchanges(bench: Any) -> None:
    for view, scratch in bench.requests:
        recovered = after_recovery(view, scratch)
        assert going_on(recovered, []) == going_on(view, scratch)


def test_the_recovery_part_alone_is_enough_to_go_on(bench: Any) -> None:
    for view, scratch in bench.requests:
        recovered = after_recovery(view, scratch)
        assert ask(user(render_recovery(recovered))) == going_on(view, scratch)


def test_half_a_round_on_record_is_completed_not_repeated(bench: Any) -> None:
    view, scratch = next(
        (view, scratch)
        for view, scratch in bench.requests
        if view.current == "check" and scratch
    )
    first, *_ = recorded(scratch)
    answer = going_on(msgspec.structs.replace(view, operations=(first,)), [])
    assert [call.id for call in answer.tool_calls] == ["check-no-region-1"]


def test_records_may_hold_the_defaults_of_arguments(bench: Any) -> None:
    view, scratch = next(
        (view, scratch)
        for view, scratch in bench.requests
        if view.current == "collect" and scratch
    )
    (done,) = recorded(scratch)
    filled = json.loads(done.arguments) | {"group_by": None, "limit": 50}
    done = msgspec.structs.replace(done, arguments=json.dumps(filled))
    answer = going_on(msgspec.structs.replace(view, operations=(done,)), [])
    assert answer == going_on(view, scratch)


def test_without_the_confirmed_facts_no_step_after_the_first_is_done(
    bench: Any,
) -> None:
    for view, scratch in bench.requests:
        answer = going_on(msgspec.structs.replace(view, facts=()), scratch)
        if view.current != "survey":
            assert "no confirmed fact" in (answer.content or "")
            assert answer.tool_calls == ()


def test_without_the_inputs_the_country_is_not_guessed(bench: Any) -> None:
    view, scratch = next(
        (view, scratch) for view, scratch in bench.requests if view.current == "collect"
    )
    answer = going_on(msgspec.structs.replace(view, inputs={}), scratch)
    assert answer.content == "I cannot go on: the request holds no input 'country'."


def test_the_same_request_gets_the_same_reply_and_stays_as_it_was(
    bench: Any,
) -> None:
    for view, scratch in bench.requests:
        kept = copy.deepcopy(scratch)
        assert going_on(view, scratch) == going_on(view, scratch)
        assert scratch == kept


@pytest.mark.parametrize("failure", ["connection lost", '{"error": "no such table"}'])
def test_a_failed_call_is_made_again_under_a_new_id(bench: Any, failure: str) -> None:
    view, scratch = next(
        (view, scratch)
        for view, scratch in bench.requests
        if view.current == "export" and scratch
    )
    failed = [scratch[0], scratch[1] | {"content": failure}]
    answer = going_on(view, failed)
    assert [call.id for call in answer.tool_calls] == ["export-csv-2"]
    again = failed + bench.exchange(answer)
    refuse_strictly(again)
    assert len(units(again)) == 2
    assert going_on(view, again).content == going_on(view, scratch).content


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
def test_only_a_completed_operation_is_a_result(bench: Any, outcome: str) -> None:
    view, scratch = next(
        (view, scratch)
        for view, scratch in bench.requests
        if view.current == "export" and scratch
    )
    operations = recorded(scratch, outcome=outcome)
    answer = going_on(msgspec.structs.replace(view, operations=operations), [])
    assert [call.id for call in answer.tool_calls] == ["export-csv-1"]


def test_a_declaration_is_given_when_one_is_asked_for(bench: Any) -> None:
    view, scratch = next(
        (view, scratch)
        for view, scratch in bench.requests
        if view.current == "group" and scratch
    )
    asked = msgspec.structs.replace(
        after_recovery(view, scratch), next=DECLARATION_FORM, uncertain=("op7#1",)
    )
    answer = ask(user(render_recovery(asked)))
    said = msgspec.json.decode(answer.content or "", type=Declaration)
    assert set(said.done) == {"survey", "collect", "check"}
    assert (said.next, said.uncertain) == ("group", ("op7#1",))


def test_between_two_steps_the_next_one_is_declared(bench: Any) -> None:
    view, _ = next(one for one in bench.requests if one[0].current == "group")
    between = msgspec.structs.replace(view, current=None, next=DECLARATION_FORM)
    answer = ask(user(render_recovery(between)))
    said = msgspec.json.decode(answer.content or "", type=Declaration)
    assert (said.next, said.uncertain) == ("group", ())


def test_after_the_last_step_nothing_is_declared_to_be_next(bench: Any) -> None:
    ended = msgspec.structs.replace(
        bench.view("send"), current=None, next=DECLARATION_FORM
    )
    answer = ask(user(render_recovery(ended)))
    said = msgspec.json.decode(answer.content or "", type=Declaration)
    assert (len(said.done), said.next) == (7, None)


def test_a_step_that_is_not_of_the_job_is_not_improvised(bench: Any) -> None:
    view, _ = bench.requests[0]
    other = msgspec.structs.replace(view.steps[0], id="other")
    changed = msgspec.structs.replace(view, steps=(other,), current="other")
    assert moving_data(render_moving(changed))["step"]["id"] == "other"
    answer = going_on(changed, [])
    assert answer == ModelReply(content="I cannot go on: I know no step 'other'.")


def test_a_request_that_says_nothing_of_the_task_gets_no_action() -> None:
    answer = ask(user("Export the airports of NO."))
    assert "does not say where the task stands" in (answer.content or "")
    assert answer.tool_calls == ()
