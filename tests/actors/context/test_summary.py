"""What a summary must hold before it may stand for anything."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.agent import FixedLayer
from perdure.actors.context.blocks import Block
from perdure.actors.context.measure import request_characters
from perdure.actors.context.render import moving_data
from perdure.actors.context.summary import (
    Checked,
    Subject,
    check_summary,
    matters,
)
from perdure.actors.context.summing import summing
from perdure.actors.context.values import codes_of, holds, numbers
from perdure.actors.errors import ContextBudgetError

GOAL = "Add up the orders"
FILL = "and so on " * 60


def block(op: int, *results: str) -> Block:
    made = [
        {
            "id": f"{op}.{n}",
            "type": "function",
            "function": {"name": "look", "arguments": f'{{"n":{op}}}'},
        }
        for n in range(len(results))
    ]
    answers = [
        {"role": "tool", "tool_call_id": f"{op}.{n}", "content": text}
        for n, text in enumerate(results)
    ]
    asked = {"role": "assistant", "content": None, "tool_calls": made}
    return Block(
        id=op,
        layer="scratch",
        origin="model",
        evidence=f"op{op}",
        messages=(asked, *answers),
        sources=tuple(f"op{op + 1 + n}" for n in range(len(results))),
    )


def subject(*blocks: Block, **fields: Any) -> Subject:
    whole: dict[str, Any] = {
        "goal": GOAL,
        "constraints": ("no guessing",),
        "anchors": {},
        "before": "",
        "blocks": blocks,
    }
    return Subject(**{**whole, **fields})


def said(*facts: str, evidence: str = "op1", **fields: Any) -> str:
    return json.dumps(
        {
            "goal": GOAL,
            "constraints": ["no guessing"],
            "facts": [{"text": text, "evidence": [evidence]} for text in facts],
            **fields,
        },
        ensure_ascii=False,
    )


def check(about: Subject, text: str, limit: int = 16_000) -> Checked | str:
    return check_summary(about, text, first=1, last=9, limit=limit)


def refused(about: Subject, text: str, limit: int = 16_000) -> str:
    found = check(about, text, limit)
    assert isinstance(found, str)
    return found


ONE = subject(block(1, f"12 boats {FILL}"), block(3, f"error: Gate E42 {FILL}"))


def test_a_summary_that_holds_what_matters_is_taken_without_goal_and_constraints() -> (
    None
):
    # A94 B13
    found = check(ONE, said("12 boats, then E42"))
    assert isinstance(found, Checked)
    assert json.loads(found.text)["facts"] == [
        {"text": "12 boats, then E42", "evidence": ["op1"]}
    ]
    assert GOAL not in found.text
    assert found.kept == ("E42",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("so it was", "not of the form asked for"),
        ("[1]", "not of the form asked for"),
        ("{" * 100_000, "not of the form asked for"),
        (said("E42", goal="add up the orders"), "its goal is not the task's"),
        (said("E42", constraints=[]), "its constraints are not the task's"),
        (said(), "it says nothing"),
        (said("E42", evidence="op7"), "evidence that it does not replace: op7"),
        (said("E42", facts=[{"text": "E42"}]), "no evidence of the fact: E42"),
        (said("13 boats, E42"), "numbers that what it replaces does not: 13"),
        (said("12 boats"), "leaves out the error codes E42"),
        (said("12 boats, E421"), "numbers that what it replaces does not: 421"),
        (said("E42 " + FILL * 3), "no shorter than what it replaces"),
    ],
)
def test_each_thing_that_is_wrong_with_it_has_its_own_reason(
    text: str, why: str
) -> None:
    # K15
    assert why in refused(ONE, text)


def test_one_longer_than_a_quarter_of_a_request_is_refused() -> None:
    long = subject(block(1, "x" * 9_000))
    assert "a summary may take 1000, a quarter" in refused(
        long, said("y" * 1_500), limit=4_000
    )


def test_an_anchor_that_the_exchanges_hold_must_survive_by_name_and_value() -> None:
    # A94
    about = subject(
        block(1, f"created tbl-七 {FILL}"),
        anchors={"table_id": "tbl-七", "other": "not there"},
    )
    assert matters(about).anchors == {"table_id": "tbl-七"}
    assert "anchors table_id=tbl-七" in refused(about, said("made tbl-七"))
    assert "anchors table_id=tbl-七" in refused(about, said("made the table_id"))
    assert isinstance(check(about, said("表 table_id是tbl-七。")), Checked)


def test_values_of_the_summary_before_must_survive_the_next_one() -> None:
    # A106
    before = check(ONE, said("12 boats, then E42", "in dock 12.b/77"))
    assert isinstance(before, str), "77 stands nowhere"
    first = check(ONE, said("12 boats, then E42"))
    assert isinstance(first, Checked)
    about = subject(block(5, f"all fine {FILL}"), before=first.text)
    assert matters(about).values == ("12", "E42")
    why = "leaves out values of the summary before: 12"
    assert why in refused(about, said("fine, E42", evidence="op5"))
    assert isinstance(check(about, said("12, E42, fine")), Checked)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("error: ORA-00942: no table", ["ORA-00942"]),
        ("error: HTTP 404 NOT_FOUND", ["404", "NOT_FOUND"]),
        ("(edited by approver)\nerror: ECONNREFUSED", ["ECONNREFUSED"]),
        ("错误 error: E42", []),
        ("all fine, E42 in the text", []),
        ("error: 网关E42关闭", ["E42"]),
    ],
)
def test_error_codes_are_those_of_results_that_failed(
    text: str, codes: list[str]
) -> None:
    assert codes_of(text) == codes


def test_a_number_has_one_form() -> None:
    assert list(numbers("007 and 12.50")) == ["7", "12.5"]
    assert list(numbers("1,234,567", whole=True)) == ["1234567"]
    assert {"1234567", "1", "234", "567"} <= set(numbers("1,234,567"))
    assert list(numbers("\uff11\uff12")) == ["12"]
    assert list(numbers("10.0")) == ["10"]
    assert not holds("E421", "E42")
    assert holds("门E42关", "E42")


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    st.integers(0, 10**6),
    st.sampled_from(["total {}", "共{}件", "x={},", "{}%"]),
)
def test_a_figure_is_taken_only_where_it_stands_in_what_is_replaced(
    there: list[int], figure: int, form: str
) -> None:
    # A93 A106
    about = subject(block(1, *(f"{form.format(one)} {FILL}" for one in there)))
    found = check(about, said(form.format(figure)))
    known = {1, *there}  # the call itself says 1
    known |= {int(one[2:]) for item in about.blocks for one in item.sources}
    assert isinstance(found, Checked) == (figure in known)


_WORDS = st.text(alphabet="abc 12E4_-,.{}\"'数表", max_size=40)


@given(
    st.lists(_WORDS, min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(["id", "表", "n"]), _WORDS, max_size=2),
    st.lists(_WORDS, max_size=3),
)
def test_whatever_is_taken_is_shorter_portable_and_holds_what_matters(
    results: list[str], anchors: dict[str, str], words: list[str]
) -> None:
    # A94
    about = subject(
        block(1, *(f"error: {text} {FILL}" for text in results)), anchors=anchors
    )
    keep = matters(about)
    listed = [f"{name} {value}" for name, value in keep.anchors.items()]
    found = check(about, said(*words, *listed, " ".join(keep.codes) or "none"))
    if isinstance(found, Checked):
        told = [fact["text"] for fact in json.loads(found.text)["facts"]]
        for value in (*keep.anchors, *keep.anchors.values(), *keep.codes):
            assert holds("\n".join(told), value)
        replaced = sum(len(json.dumps(one)) for one in about.blocks[0].messages)
        assert len(found.text) < replaced
        again = msgspec.structs.replace(about, before=found.text)
        assert isinstance(check(again, said(*told)), Checked), "it can be carried on"


# ── what is asked ────────────────────────────────────────────────────────────────

LAYER = FixedLayer(instructions="Be exact.", tools=[])


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=12), st.integers(0, 9_000))
def test_a_summary_is_asked_of_as_many_of_the_oldest_as_fit(
    sizes: list[int], limit: int
) -> None:
    about = subject(*(block(2 * n + 1, "r" * size) for n, size in enumerate(sizes)))
    try:
        made = summing(LAYER, about, limit=limit)
    except ContextBudgetError:
        alone = msgspec.structs.replace(about, blocks=about.blocks[:1])
        with pytest.raises(ContextBudgetError):
            summing(LAYER, alone, limit=limit)
        return
    assert request_characters(made.messages, []) <= limit
    asked = moving_data(made.messages[-1]["content"])["exchanges"]
    ids = [one["evidence"] for one in asked]
    assert ids == [one.evidence for one in about.blocks][: len(ids)]
    assert made.kept == ((1, about.blocks[len(ids) - 1].id),)
    if len(ids) < len(sizes):
        more = msgspec.structs.replace(about, blocks=about.blocks[: len(ids) + 1])
        assert summing(LAYER, more, limit=limit).kept == made.kept


def test_the_request_shows_each_result_with_its_evidence_and_bulky_ones_in_short() -> (
    None
):
    about = subject(block(1, "a", "b" * 30_000), anchors={"x": "a"})
    data = moving_data(summing(LAYER, about, limit=16_000).messages[-1]["content"])
    assert (data["goal"], data["constraints"]) == (GOAL, ["no guessing"])
    assert data["keep"] == {"anchors": {"x": "a"}, "codes": [], "values": []}
    first, second = data["exchanges"][0]["calls"]
    assert (first["result"], first["evidence"]) == ("a", "op2")
    assert second["evidence"] == "op3"
    assert "(cut: 30000 characters)" in second["result"]
    assert len(second["result"]) < 5_000
