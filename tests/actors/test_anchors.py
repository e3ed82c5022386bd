from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Misuse, tool
from perdure.actors.anchors import ANCHORS, MODEL, admit, anchored, fields
from perdure.actors.builtin import anchor
from perdure.actors.context.measure import canonical
from perdure.actors.events import Anchor

RESULT = (
    '{"table_id": "T-42", "rows": [{"id": 7, "ok": true}], "none": null, "n": 1.50}'
)


def of(op: int, value: str = "v", by: str = "tool f") -> Anchor:
    return Anchor(value=value, evidence=op, by=by)


def test_declared_fields_are_found_by_their_paths() -> None:
    paths = ("table_id", "rows.0.id", "rows.0", "n")
    assert fields(RESULT, paths) == {
        "table_id": "T-42",
        "rows.0.id": "7",
        "rows.0": '{"id": 7, "ok": true}',
        "n": "1.50",
    }


@pytest.mark.parametrize(
    "path", ["rows.1.id", "rows.-1", "rows.id", "none", "absent", "table_id.x", "n.x"]
)
def test_a_field_that_is_not_there_is_no_error(path: str) -> None:
    assert fields(RESULT, (path,)) == {}


@pytest.mark.parametrize("text", ["", "plain words", "[1", "7", "null", "[" * 5_000])
def test_a_result_that_is_no_object_has_no_fields(text: str) -> None:
    assert fields(text, ("table_id", "0.id")) == {}


def test_a_long_number_keeps_every_digit() -> None:
    assert fields('{"id": 12345678901234567890.10}', ("id",)) == {
        "id": "12345678901234567890.10"
    }


def test_an_anchor_says_who_put_it_there() -> None:
    @tool(effect="read", anchors=["table_id", "n"])
    def query() -> str:
        return ""

    assert anchored(query, RESULT, {"n": "two"}, 3) == {
        "table_id": of(3, "T-42", "schema of query"),
        "n": of(3, "two", "tool query"),
    }
    assert anchored(anchor, "", {"owner": "sales"}, 4) == {
        "owner": of(4, "sales", MODEL)
    }


@pytest.mark.parametrize(
    ("anchors", "named"),
    [
        ("table_id", "is no list"),
        (7, "is no list"),
        ([7], "holds 7"),
        ([""], "holds ''"),
        (["a..b"], "holds 'a..b'"),
        (["a", "a"], "different paths"),
        (["x" * 65], "of 65 characters"),
        ([str(n) for n in range(ANCHORS + 1)], "32 at most"),
    ],
)
def test_wrong_paths_are_refused_where_they_are_declared(
    anchors: Any, named: str
) -> None:
    with pytest.raises(Misuse, match=named):
        tool(effect="read", anchors=anchors, name="f")(lambda: "")


def test_the_same_name_takes_the_newer_value_and_an_older_one_changes_nothing() -> None:
    have = {"id": of(5, "new")}
    assert admit(have, {"id": of(6)}, names=1, characters=99) == ({"id": of(6)}, {})
    assert admit(have, {"id": of(4)}, names=1, characters=99) == ({}, {})


def test_beyond_the_names_a_task_keeps_the_new_one_is_refused_and_no_old_one_lost() -> (
    None
):
    have = {"a": of(1), "b": of(2)}
    new = {"c": of(3), "b": of(3)}
    kept, refused = admit(have, new, names=2, characters=999)
    assert kept == {"b": of(3)}
    assert refused == {"c": "the task keeps 2 names at most"}


def test_a_new_value_without_room_leaves_the_old_one_and_says_which_stands() -> None:
    kept, refused = admit({"a": of(1)}, {"a": of(2, "x" * 50)}, names=9, characters=40)
    assert kept == {}
    assert refused == {
        "a": "the task keeps 40 characters at most; its value of op1 stands"
    }


@pytest.mark.parametrize(
    ("name", "value"), [("", "v"), (" ", "v"), ("n" * 65, "v"), ("n", "v" * 1_001)]
)
def test_what_is_too_long_is_refused_not_cut(name: str, value: str) -> None:
    kept, refused = admit({}, {name: of(1, value)}, names=9, characters=9_999)
    assert (kept, len(refused)) == ({}, 1)


def test_a_call_that_puts_too_many_is_told_so() -> None:
    new = {str(n): of(1) for n in range(ANCHORS + 1)}
    kept, refused = admit({}, new, names=99, characters=9_999)
    assert (len(kept), list(refused)) == (ANCHORS, [str(ANCHORS)])


@given(
    st.lists(
        st.dictionaries(st.text(max_size=3), st.text(max_size=20), max_size=5),
        max_size=12,
    )
)
def test_whatever_is_put_in_view_stays_within_its_limits_and_none_is_lost(
    calls: list[dict[str, str]],
) -> None:
    have: dict[str, Anchor] = {}
    for op, call in enumerate(calls):
        new = {name: of(op, value) for name, value in call.items()}
        kept, refused = admit(have, new, names=4, characters=60)
        assert kept.keys() | refused.keys() == new.keys()
        after = {**have, **kept}
        assert have.keys() <= after.keys()
        have = after
    assert len(have) <= 4
    assert sum(len(canonical([n, a.value])) for n, a in have.items()) <= 60
    assert json.dumps([one.value for one in have.values()])
