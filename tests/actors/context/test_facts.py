"""What is kept of an exchange that a request no longer shows whole."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.context.blocks import Block
from perdure.actors.context.facts import (
    BULLET,
    SAID,
    VALUES,
    Finding,
    findings_of,
    line,
    merged,
    room_for,
)
from perdure.actors.context.render import FactView, TaskView, render_moving


def block(
    *texts: str, said: str | None = None, name: str = "look", arguments: str = "{}"
) -> Block:
    calls = [
        {
            "id": f"c{place}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for place in range(len(texts))
    ]
    return Block(
        id=4,
        layer="scratch",
        origin="model",
        evidence="op4",
        messages=(
            {"role": "assistant", "content": said, "tool_calls": calls},
            *(
                {"role": "tool", "tool_call_id": f"c{place}", "content": text}
                for place, text in enumerate(texts)
            ),
        ),
        sources=tuple(f"op{place + 5}" for place in range(len(texts))),
    )


def lines(given: Block) -> list[str]:
    return [line(one) for one in findings_of(given)]


def test_conclusions_and_conditions_are_kept_and_format_goes() -> None:  # B13
    text = "| - | - |\n数据源A已确认 region=华东 共120行。" + "-" * 200
    assert lines(block(text, said="Data source A is confirmed. Next I count.")) == [
        "op4: Data source A is confirmed. Next I count.",
        "op5 look: region=华东; 120行",
    ]


def test_numbers_codes_ids_and_fields_are_kept() -> None:  # A93, A106
    text = (
        "Found 120 rows in orders_2023, total of 4,512.50 EUR; status: late. "
        "Error E42: no such table. HTTP 404 for ORD-7. " + "and so on " * 40
    )
    assert lines(block(text)) == [
        "op5 look: Found 120 rows; orders_2023; total of 4,512.50 EUR; status=late; "
        "E42: no such table; HTTP 404; ORD-7"
    ]


def test_json_is_kept_by_its_keys_and_the_heaviest_come_first() -> None:
    data = {
        **{f"word{place}": "text" for place in range(20)},
        "table_id": "T77",
        "rows": [{"id": 1, "v": 2.5}, {"id": 2}, {"id": 3}],
        "ok": True,
        "long": "x" * 500,
    }
    (found,) = findings_of(block(json.dumps(data)))
    assert len(found.values) == VALUES
    assert found.values[-6:] == (
        ("table_id", "T77"),
        ("rows.length", "3"),
        ("rows[0].id", "1"),
        ("rows[0].v", "2.5"),
        ("rows[1].id", "2"),
        ("ok", "true"),
    )


def test_a_reason_is_kept_with_its_decision() -> None:  # A22
    said = "Plan A is infeasible, since the API is closed. I take plan B. " + "w " * 200
    kept = "Plan A is infeasible, since the API is closed. I take plan B."
    assert lines(block("", said=said)) == [f"op4: {kept}"]


def test_errors_are_kept_in_their_words() -> None:
    assert lines(
        block("error: KeyError: 'region' is missing\n" + "at line 7\n" * 40)
    ) == [
        "op5 look: "
        + ("error: KeyError: 'region' is missing" + " at line 7" * 40)[:SAID]
    ]


def test_a_short_result_is_its_own_conclusion_and_names_its_call() -> None:
    given = block("wrote  f\n", arguments='{"name": "f", "parts": [1]}')
    assert lines(given) == ["op5 look(name=f): wrote f"]


def test_each_result_of_an_exchange_has_its_own_evidence() -> None:  # A102
    assert lines(block("one", "two")) == ["op5 look: one", "op6 look: two"]
    given = block("one", "two", said="I look.")
    assert [one.evidence for one in findings_of(given)] == ["op4", "op5", "op6"]


def test_what_was_read_from_the_record_is_not_found_twice() -> None:
    assert (
        lines(block("op2 look: all 9 characters\ncount=120", name="read_evidence"))
        == []
    )


def test_the_newest_are_kept_whole_and_the_oldest_go() -> None:
    found = [Finding(f"op{op}", said="x" * 20) for op in (2, 10, 3)]
    size = len(line(found[1])) + BULLET
    assert merged(found, (), 2 * size) == (found[2], found[1])
    assert merged(found, (), 2 * size - 2) == (found[1],)
    assert merged(found, (), 3 * size) == (found[0], found[2], found[1])


def test_a_later_finding_of_the_same_evidence_takes_its_place() -> None:
    old, new = Finding("op2", said="a"), Finding("op2", said="b")
    assert merged([old, Finding("op3", said="c")], [new], 99) == (
        new,
        Finding("op3", said="c"),
    )


@given(
    st.lists(
        st.builds(
            Finding,
            st.integers(1, 99).map(lambda op: f"op{op}"),
            said=st.text("ab c", max_size=40),
        )
    ),
    st.lists(st.builds(Finding, st.just("op7"), said=st.text("xy", max_size=9))),
    st.integers(0, 400),
)
def test_findings_never_take_more_than_their_room(
    known: list[Finding], new: list[Finding], room: int
) -> None:
    kept = merged(known, new, room)
    assert sum(len(line(one)) + BULLET for one in kept) <= room
    assert merged(kept, (), room) == kept


@given(st.text(max_size=2_000))
def test_whatever_a_tool_returned_can_be_looked_through(text: str) -> None:
    for one in findings_of(block(text, said=text)):
        assert "\n" not in line(one)
        assert len(line(one)) < 2_000


def test_findings_take_a_tenth_of_the_limit_and_no_more_than_4000_characters() -> None:
    assert [room_for(limit) for limit in (16_000, 64_000)] == [1_600, 4_000]


def test_a_finding_never_repeats_what_an_anchor_says() -> None:  # A39
    view = TaskView(
        goal="g",
        facts=(FactView(name="table_id", value='"T77"', evidence="anchor"),),
        findings=(
            Finding("op5", "look", "", (("rows", "3"), ("table", "T77"))),
            Finding("op7", "look", "", (("table_id", "T78"),)),
        ),
    )
    text = render_moving(view)
    assert "- op5 look: rows=3\n" in text
    assert "op7" not in text


def test_only_a_model_that_can_open_them_is_told_how() -> None:
    view = TaskView(goal="g", findings=(Finding("op5", said="a"),))
    assert "read_evidence" in render_moving(view, opens=True)
    assert "read_evidence" not in render_moving(view)
    assert "in short" not in render_moving(TaskView(goal="g"), opens=True)
