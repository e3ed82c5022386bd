"""Events to JSON and back."""

from __future__ import annotations

import threading
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.storage.codec import Codec
from perdure.storage.errors import NewerSchema, NoUpgradePath, Rejected, Undecodable
from perdure.storage.records import JSON_CODEC, Record


class Color(Enum):
    RED = "red"


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    cost: Decimal
    ratio: float = 0.0


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    text: str = ""
    count: int = 0
    inner: tuple[Inner, ...] = ()
    color: Color = Color.RED
    data: Any = None


class Tagged(msgspec.Struct, frozen=True, kw_only=True, tag="tagged"):
    n: int


class Stepped(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: ClassVar[int] = 3
    current_step: str


def record(type_name: str, schema_version: int, body: bytes, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "seq": 5,
        "stream": "task/1",
        "version": 2,
        "type": type_name,
        "schema_version": schema_version,
        "codec": JSON_CODEC,
        "at": 0.0,
        "epoch": 1,
        "incarnation": 1,
        "body": body,
        "checksum": 0,
    }
    return Record(**fields | changes)


def round_trip(codec: Codec, event: msgspec.Struct) -> msgspec.Struct:
    return codec.decode(record(*codec.encode(event)))


def test_an_event_comes_back_equal() -> None:
    event = Noted(
        text="Zürich 数据",
        count=3,
        inner=(Inner(cost=Decimal("0.10"), ratio=0.1),),
        data={"b": [1, None, 2.5], "a": {"deep": True}},
    )
    assert round_trip(Codec([Noted]), event) == event


def test_a_type_is_named_by_its_tag_else_by_its_class() -> None:
    codec = Codec([Noted, Tagged])
    assert codec.encode(Tagged(n=1))[:2] == ("tagged", 1)
    assert codec.encode(Noted())[:2] == ("Noted", 1)
    assert round_trip(codec, Tagged(n=1)) == Tagged(n=1)


def test_two_classes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'Noted'"):
        Codec([Noted, msgspec.defstruct("Noted", [])])


def test_equal_events_give_equal_bytes() -> None:
    codec = Codec([Noted])
    one = codec.encode(Noted(data={"a": 1, "b": {"x": 1, "y": 2}}))
    two = codec.encode(Noted(data={"b": {"y": 2, "x": 1}, "a": 1}))
    assert one == two


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (Noted(data={"f": float("nan")}), "Noted.data['f']"),
        (Noted(data=[1, float("inf")]), "Noted.data[1]"),
        (Noted(inner=(Inner(cost=Decimal("NaN")),)), "Noted.inner[0].cost"),
        (Noted(data={"b": b"x"}), "Noted.data['b']"),
        (Noted(data={1: 2}), "Noted.data"),
        (Noted(data={"s": "\ud800"}), "Noted.data['s']"),
        (Noted(data={"\ud800": 1}), "Noted.data"),
        (Noted(data=threading.Lock()), "Noted.data"),
        (Noted(data=[{"x": lambda: None}]), "Noted.data[0]['x']"),
        (Noted(data={1, 2}), "Noted.data"),
    ],
)
def test_what_has_no_json_is_refused_with_its_path(event: Noted, path: str) -> None:
    # R29
    with pytest.raises(Rejected) as caught:
        Codec([Noted]).encode(event)
    assert caught.value.subject == path


def test_a_value_that_its_type_would_not_read_back_is_refused() -> None:
    # R29: a struct does not check its fields when it is made.
    with pytest.raises(Rejected, match=r"\$\.count"):
        Codec([Noted]).encode(Noted(count="three"))  # type: ignore[arg-type]


def test_an_event_of_an_unregistered_class_is_refused() -> None:
    with pytest.raises(Rejected, match="Tagged"):
        Codec([Noted]).encode(Tagged(n=1))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values)
def test_every_json_value_comes_back_equal(value: Any) -> None:
    event = Noted(data=value)
    codec = Codec([Noted])
    back = round_trip(codec, event)
    assert back == event
    assert codec.encode(back) == codec.encode(event)


def rename(old: str, new: str) -> Any:
    return lambda value: {new: value.pop(old), **value}


UPGRADERS = {
    ("Stepped", 1): rename("step", "current"),
    ("Stepped", 2): rename("current", "current_step"),
}


@pytest.mark.parametrize(
    ("version", "field"), [(1, "step"), (2, "current"), (3, "current_step")]
)
def test_every_older_version_is_upgraded_step_by_step(version: int, field: str) -> None:
    # B29, K44
    body = msgspec.json.encode({field: "step_4"})
    event = Codec([Stepped], UPGRADERS).decode(record("Stepped", version, body))
    assert event == Stepped(current_step="step_4")


def test_a_missing_step_is_named() -> None:
    # R11
    codec = Codec([Stepped], {("Stepped", 1): UPGRADERS["Stepped", 1]})
    with pytest.raises(NoUpgradePath) as caught:
        codec.decode(record("Stepped", 1, b'{"step":"step_4"}'))
    assert caught.value.reason == "no path 2->3"


def test_a_newer_version_is_refused() -> None:
    # K44
    with pytest.raises(NewerSchema) as caught:
        Codec([Stepped], UPGRADERS).decode(record("Stepped", 4, b"{}"))
    assert (caught.value.found, caught.value.known) == (4, 3)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record("Gone", 1, b"{}"), "'Gone' is not known"),
        (record("Noted", 1, b"{}", codec="pickle"), "'pickle' is not known"),
        (record("Noted", 1, b'{"count":"x"}'), r"\$\.count"),
        (record("Noted", 1, b"\xff"), "record 5"),
        (record("Stepped", 2, b"{}"), "upgrader failed with KeyError"),
    ],
)
def test_what_cannot_be_read_says_which_record_and_why(
    bad: Record, reason: str
) -> None:
    with pytest.raises(Undecodable, match=reason):
        Codec([Noted, Stepped], UPGRADERS).decode(bad)
