"""The line of a record is that of its event's name and fields, byte for byte."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest

from perdure.actors.events import (
    EVENTS,
    EffectRecorded,
    Event,
    RecoveryBegan,
    Reserved,
)
from perdure.actors.rules import Rule
from perdure.events import line_of
from perdure.lines import TEXT_LIMIT, encode, encode_record
from perdure.storage.codec import Codec
from perdure.storage.records import Record

CODEC = Codec(EVENTS)
LEAVES: dict[Any, tuple[Any, ...]] = {
    Any: ({"b": [1, None, 2.5], "a": {"é": "\u2028"}}, "plain"),
    str: ("", 'né "quoted"\n'),
    bool: (False, True),
    int: (0, -(2**53)),
    float: (0.1, 1e22),
    type(None): (None,),
    Rule: (
        Rule(says="Never.", forbid=("prod",)),
        Rule(says="Not there.", tools=("send",), argument="to", allow=("x",)),
    ),
}


def samples(kind: Any) -> Iterator[Any]:
    """Some values of a field's type, of each kind that it may hold."""
    inside = get_args(kind)
    match get_origin(kind):
        case None if kind in LEAVES:
            yield from LEAVES[kind]
        case None:
            yield from structs(kind)
        case origin if origin is Literal:
            yield from inside
        case origin if origin in (Union, types.UnionType):
            for one in inside:
                yield from samples(one)
        case origin if origin is dict:
            yield {"z": next(samples(inside[1])), "a": [*samples(inside[1])][-1]}
        case origin if origin is tuple and inside[-1] is Ellipsis:
            yield tuple(samples(inside[0]))
        case origin if origin is tuple:
            yield tuple(next(samples(one)) for one in inside)
        case _:
            raise AssertionError(f"no values of {kind}")


def structs(kind: type[msgspec.Struct]) -> Iterator[Any]:
    """One with its least, and one for each value that a field may have."""
    fields = msgspec.structs.fields(kind)
    least = {one.name: next(samples(one.type)) for one in fields if one.required}
    yield kind(**least)
    for one in fields:
        for value in samples(one.type):
            yield kind(**{**least, one.name: value})


def record(event: Event, stream: str = "task/t-1/ledger", **more: Any) -> Record:
    name, version, body = CODEC.encode(event)
    fields: dict[str, Any] = {
        "seq": 7,
        "stream": stream,
        "version": 3,
        "type": name,
        "schema_version": version,
        "codec": "json",
        "at": 1_700_000_000.25,
        "epoch": 4,
        "incarnation": 2,
        "body": body,
        "checksum": 0,
    }
    return Record(**{**fields, **more})


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("stream", ["task/t-é/ledger", "admission"])
def test_a_records_line_is_that_of_its_event_and_fields(
    kind: type[Event], stream: str
) -> None:
    for event in structs(kind):
        said = record(event, stream)
        assert encode_record(said) == encode(*line_of(said))


def test_a_line_says_what_the_record_left_out() -> None:
    """Defaults are not in a record's JSON; its line has them."""
    event = EffectRecorded(op=3, result="done")
    line = msgspec.json.decode(encode_record(record(event)))
    assert list(line) == [
        "event",
        "at",
        "seq",
        "task",
        "epoch",
        *event.__struct_fields__,
    ]
    assert (line["task"], line["epoch"], line["seq"]) == ("t-1", 4, 7)


def test_a_line_has_amounts_in_full() -> None:
    call = {"milliseconds": 3, "tool:send": 1, "tool_calls": 1}
    said = record(Reserved(op=1, amounts=call))
    assert b"milliseconds" not in said.body
    assert encode_record(said) == encode(*line_of(said))
    assert msgspec.json.decode(encode_record(said))["amounts"] == call


def test_a_field_of_the_event_goes_before_that_of_the_record() -> None:
    began = RecoveryBegan(task="t-9", cause="process", epoch=9)
    line = msgspec.json.decode(encode_record(record(began)))
    assert (line["task"], line["epoch"]) == ("t-9", 9)


@pytest.mark.parametrize("size", [TEXT_LIMIT, TEXT_LIMIT + 1, 100_000])
def test_a_long_text_of_a_record_is_cut_in_its_line(size: int) -> None:
    said = record(EffectRecorded(op=3, result="ü" * size))
    line = encode_record(said)
    assert line == encode(*line_of(said))
    cut = msgspec.json.decode(line)["result"]
    assert cut.endswith(f"… ({size} characters)") == (size > TEXT_LIMIT)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "Unheard"},
        {"schema_version": 99},
        {"codec": "smoke"},
        {"body": b'{"op":"three"}'},
        {"body": b"{"},
        {"body": b'{"op":1,"amounts":{"\xff":1}}'},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_read_has_a_line_by_its_type(odd: Any) -> None:
    said = record(Reserved(op=1, amounts={"tokens": 5}), **odd)
    line = msgspec.json.decode(encode_record(said))
    assert line == {
        "event": "record.unknown",
        "at": said.at,
        "seq": 7,
        "task": "t-1",
        "epoch": 4,
        "type": said.type,
    }
