from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.actors.context.render import moving_data, render_moving, render_recovery
from perdure.actors.events import Anchor, RecoveryLoaded
from perdure.actors.ledger.entry import Entry
from perdure.actors.model import ModelReply, ToolCall
from perdure.actors.task.recovery import (
    FACT_LIMIT,
    FACTS_LIMIT,
    check_declaration,
    declaration_of,
    exchange,
    operations,
    view_of,
)
from perdure.actors.task.values import is_portable, parsed
from tests.actors.task.support import (
    ask,
    call,
    ended,
    fold,
    observed,
    started,
    submitted,
)

LOADED = RecoveryLoaded(number=1, snapshot=0, replayed=0)
STATE = fold(
    submitted("a", "b", "c"),
    started("a"),
    ended("a", result='{"n":1}', op=4),
    started("b"),
    ask(5, step="b"),
    observed(5, calls=1),
    call(6, 5, step="b"),
    LOADED,
)
DEEP = "[" * 5000 + "]" * 5000


def said(**fields: Any) -> str:
    return json.dumps({"done": ["a"], "next": "b", "uncertain": ["op6#1"], **fields})


def test_the_record_declares_itself() -> None:
    own = declaration_of(STATE)
    assert (own.done, own.next, own.uncertain) == (("a",), "b", ("op6#1",))


@pytest.mark.parametrize(
    "text",
    [
        said(),
        f"Here it is:\n```json\n{said()}\n```",
        said(uncertain=["op6#1", "op99"]),
        said(uncertain=["op6"]),
        said(uncertain=["op6#2"]),
    ],
)
def test_a_declaration_that_agrees_with_the_record_passes(text: str) -> None:
    # B35 B43
    assert check_declaration(STATE, text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (said(done=["a", "b"]), "not complete by the record: b"),
        (said(done=["a", "z"]), "not complete by the record: z"),
        (said(done=[]), "complete by the record, but left out: a"),
        (said(next="c"), "the next step is 'b', not 'c'"),
        (said(next=None), "the next step is 'b', not None"),
        (said(uncertain=[]), "not certain by the record: op6#1"),
        ("all is well", "not of the form"),
        ('{"done": "a", "next": "b"}', "not of the form"),
        ('{"next": "b"}', "not of the form"),
        ("", "not of the form"),
        (f'{{"x": {DEEP}}}', "not of the form"),
    ],
    ids=lambda text: text[:30],
)
def test_a_declaration_that_contradicts_the_record_is_refused(
    text: str, why: str
) -> None:
    # B80
    assert why in check_declaration(STATE, text)


def test_after_the_last_step_nothing_comes_next() -> None:
    state = fold(submitted("a"), started("a"), ended("a"))
    assert declaration_of(state).next is None
    assert check_declaration(state, '{"done": ["a"], "next": null}') == ""


def test_between_steps_the_next_one_comes_next() -> None:
    state = fold(submitted("a", "b"), started("a"), ended("a"), LOADED)
    assert declaration_of(state).next == "b"


def test_the_declarations_own_call_is_not_uncertain() -> None:
    asked = fold(submitted("a"), started("a"), LOADED, ask(1, "declare"))
    assert declaration_of(asked).uncertain == ()


def test_confirmed_facts_are_results_with_their_evidence() -> None:
    # B42
    view = view_of(STATE, ())
    (fact,) = view.facts
    assert (fact.name, fact.value, fact.evidence) == ("a", '{"n":1}', "op4")
    data = moving_data(render_recovery(view))
    assert data["facts"][0]["value"] == {"n": 1}
    assert data["uncertain"] == ["op6#1"]


def test_anchors_are_facts_too() -> None:
    # B14
    kept = {
        "ticket": Anchor(value="E42", evidence=2, by="tool f"),
        "owner": Anchor(value="## Goal", evidence=2, by="model"),
    }
    state = fold(
        submitted("a"),
        started("a"),
        ask(1),
        observed(1, calls=1),
        call(2, 1),
        observed(2, anchors=kept),
    )
    text = render_moving(view_of(state, ()))
    (fact,) = moving_data(text)["facts"]
    assert fact == {"name": "ticket", "value": "E42", "evidence": "op2", "by": "tool f"}
    said = 'Noted by you, confirmed by nobody\n- "owner": "## Goal" (op2)'
    assert said in text, "a claim is no fact"
    assert said.replace("\n", ":\n") in render_recovery(view_of(state, ()))


def entry(op: int, **fields: Any) -> Entry:
    return Entry(
        **{
            "op": op,
            "attempt": 1,
            "step": "b",
            "kind": "tool",
            "name": "f",
            "effect": "read",
            "key": "",
            "arguments": '{"x":1}',
            "not_after": 0.0,
            "parent": 1,
            "status": "completed",
            "result": "ok",
            **fields,
        }
    )


def test_operations_up_to_a_call_are_shown_as_they_ended() -> None:
    entries = [
        entry(1, kind="model"),
        entry(2),
        entry(3, status="failed", error="no", result=""),
        entry(4, status="unknown", error="late", result=""),
        entry(5, status="pending"),
        entry(7, parent=6),
    ]
    shown = [
        (one.evidence, one.outcome, one.result)
        for one in operations(entries, until=5, limit=16_000)
    ]
    assert shown == [
        ("op2", "completed", "ok"),
        ("op3", "failed", "no"),
        ("op4", "unknown", "late"),
    ]


def test_results_are_bounded_each_and_together_the_newest_kept_whole() -> None:
    entries = [entry(op, result="x" * 3_900) for op in range(2, 8)]
    entries.append(entry(8, result="y" * 10_000))
    shown = operations(entries, until=9, limit=16_000)
    assert shown[-1].result == "y" * FACT_LIMIT + " (cut: 10000 characters)"
    assert [one.evidence for one in shown] == ["op7", "op8"]
    assert sum(len(one.result) for one in shown) < FACTS_LIMIT + 2 * 40


def test_very_many_operations_do_not_fill_the_request() -> None:
    shown = operations([entry(op) for op in range(2, 600)], until=600, limit=16_000)
    assert shown[-1].evidence == "op599"
    assert sum(len(one.arguments) + len(one.result) + 100 for one in shown) < 8_000


@pytest.mark.parametrize(
    "arguments",
    ["", "{", '{"x":NaN}', '{"x":1e999}', '{"x":"\\ud800"}', "[" * 450 + "]" * 450],
)
def test_what_a_model_wrote_that_is_no_json_can_still_be_shown(arguments: str) -> None:
    # R29: a fact that cannot be rendered would end every request of the task.
    view = view_of(
        STATE, operations([entry(2, arguments=arguments)], until=2, limit=16_000)
    )
    data = moving_data(render_moving(view))
    assert data["operations"][0]["arguments"] == {}
    data_after_a_crash = moving_data(render_recovery(view))
    assert data_after_a_crash["operations"][0]["arguments"] == {}


def test_arguments_are_bounded_too() -> None:
    arguments = json.dumps({"text": "x" * 50_000})
    (shown,) = operations([entry(2, arguments=arguments)], until=2, limit=16_000)
    assert json.loads(shown.arguments) == {"cut": arguments[:1_000]}


def test_an_exchange_pairs_each_call_with_its_result() -> None:
    reply = ModelReply(
        content="so",
        tool_calls=(
            ToolCall(id="x", name="f", arguments="{}"),
            ToolCall(id="x", name="g", arguments="{}"),
        ),
    )
    block = exchange(3, reply, [("3.0", "one"), ("3.1", "two")])
    assistant, first, second = block.messages
    assert [one["id"] for one in assistant["tool_calls"]] == ["3.0", "3.1"]
    assert [(one["tool_call_id"], one["content"]) for one in (first, second)] == [
        ("3.0", "one"),
        ("3.1", "two"),
    ]
    assert block.evidence == "op3"
    with pytest.raises(ValueError):
        exchange(3, reply, [("3.0", "one")])


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": [1]}', {"a": [1]}), ("1", 1), ("plain", "plain"), ("NaN", "NaN")],
)
def test_an_answer_is_json_where_it_is_json(text: str, value: Any) -> None:
    assert parsed(text) == value


def test_json_nested_without_end_is_text() -> None:
    assert parsed(DEEP) == DEEP
    assert parsed("[" * 65 + "]" * 65) == "[" * 65 + "]" * 65
    assert parsed("[" * 60 + "]" * 60) != "[" * 60 + "]" * 60
    assert not is_portable(DEEP)
    assert is_portable('{"x":[1,"é"]}')
