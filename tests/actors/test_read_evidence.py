"""`read_evidence` opens what a request does not show any more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from perdure import Agent, tool
from perdure.actors.events import EffectRecorded, EffectRegistered
from perdure.actors.memory.evidence import PIECE
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.world import House, as_calls, outcomes, quick

LONG = "".join(f"{line:09d}\n" for line in range(1_200))  # 12,000 characters
BLOB = LONG * 2  # over 16 KiB
Asked = Mapping[str, Any]


def told(request: ModelRequest) -> list[str]:
    return [one["content"] for one in request.messages if one["role"] == "tool"]


def agent_of(
    text: str,
    asked: list[Asked],
    heard: list[str] | None = None,
    name: str = "agent",
    look: Callable[[], str] | None = None,
) -> Agent:
    """Look once (op2), then read evidence (op4, op6, ...) as asked."""

    def reply(request: ModelRequest) -> ModelReply:
        done = len(outcomes(request))
        if heard is not None:
            heard[:] = told(request)[1:]
        if done == 0:
            return ModelReply(content="I look.", tool_calls=as_calls([("see", {})]))
        if done <= len(asked):
            return ModelReply(tool_calls=as_calls([("read_evidence", asked[done - 1])]))
        return ModelReply(content=json.dumps("done"))

    def found() -> str:
        """See it."""
        return text if look is None else look()

    return Agent(
        name=name,
        instructions="Read.",
        tools=[tool(effect="read", name="see")(found)],
        model=Scripted(reply),
        recovery="rules",
    )


def read(text: str, *asked: Asked, **options: Any) -> list[str]:
    """What the model was told, with requests long enough to show it whole."""
    heard: list[str] = []
    agent = agent_of(text, list(asked), heard, **options)
    house = House(agent, baseline=quick(request_limit=200_000))
    assert house.run().status == "completed"
    return heard


@pytest.mark.parametrize("text", [LONG, BLOB], ids=["recorded", "blob"])
def test_pieces_of_a_result_are_the_whole_result(text: str) -> None:  # A40
    count = len(text) // PIECE
    asked = [{"id": "op2", "start": PIECE * place} for place in range(count)]
    pieces = read(text, *asked)
    assert "".join(one.partition("\n")[2] for one in pieces) == text
    first, last = pieces[0].partition("\n")[0], pieces[-1].partition("\n")[0]
    assert first == (
        f"op2 see: characters 0 to 4000 of {len(text)}; "
        "the next piece begins at start=4000"
    )
    assert (
        last == f"op2 see: characters {len(text) - PIECE} to {len(text)} of {len(text)}"
    )


def test_a_piece_is_bounded_whatever_is_asked_for() -> None:
    (piece,) = read(BLOB, {"id": "op2", "start": 10, "end": 20_000})
    assert piece.partition("\n")[2] == BLOB[10 : 10 + PIECE]


@pytest.mark.parametrize("name", ["op2", "2", "op2#1"])
def test_an_operation_may_be_named_in_several_ways(name: str) -> None:
    assert read("a little", {"id": name}) == ["op2 see: all 8 characters\na little"]


def test_a_model_call_shows_what_the_model_said_and_called() -> None:
    assert read("x", {"id": "op1"}) == [
        "op1 model: all 15 characters\nI look.\nsee({})"
    ]


def test_a_failed_call_shows_its_error() -> None:
    def boom() -> str:
        raise ValueError("E42: no such table")

    (heard,) = read("", {"id": "op2"}, look=boom)
    assert heard.endswith("error: ValueError: E42: no such table")


@pytest.mark.parametrize(
    "asked", [{"start": -1}, {"start": 8}, {"start": 4, "end": 4}, {"end": -2}]
)
def test_a_range_that_is_none_is_refused_with_the_size(asked: Asked) -> None:
    (heard,) = read("a little", {"id": "op2", **asked})
    assert heard.startswith("error: op2 see has 8 characters: give a start from 0 to 7")


def test_an_empty_result_can_be_opened() -> None:
    assert read("", {"id": "op2"}) == ["op2 see: all 0 characters\n"]


@pytest.mark.parametrize("name", ["op99", "other:2", "the first", ""])
def test_an_unknown_id_is_answered_with_those_that_are_near(name: str) -> None:
    (heard,) = read("x", {"id": name})
    assert heard == (
        f"error: this task has no recorded result '{name}'; the newest is op3"
        + ("" if name == "op99" else "; near it: op1, op2, op3")
    )


def test_another_tasks_results_are_never_shown() -> None:
    heard: list[str] = []
    asked: list[Asked] = []
    house = House(agent_of("secret", []), agent_of("mine", asked, heard, name="b"))
    first = house.submit().id
    house.finish(first)
    asked += [{"id": f"{first}:2"}, {"id": f"{first}:op2"}, {"id": "op2"}]
    assert house.run("b").status == "completed"
    assert [one.startswith("error: this task has no") for one in heard] == [
        True,
        True,
        False,
    ]
    assert "secret" not in "".join(heard)


def test_what_was_read_survives_a_kill_and_is_read_by_the_next_process() -> None:
    heard: list[str] = []
    seen: list[int] = []

    def look() -> str:
        seen.append(1)
        return LONG

    house = House(agent_of("", [{"id": "op2", "start": 11_990}], heard, look=look))
    task = house.submit().id
    assert house.until_hit("effect.recorded", op=2)
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    (mine,) = [
        one
        for one in house.of(f"task/{task}/ledger", EffectRecorded)
        if one.result.startswith("op2 see")
    ]
    assert mine.result == (
        f"op2 see: characters 11990 to 12000 of 12000\n{LONG[11_990:]}"
    )
    assert len(seen) == 1


def test_reading_costs_no_outside_call_and_is_on_record() -> None:
    house = House(agent_of("x", [{"id": "op2"}]))
    task = house.submit().id
    house.finish(task)
    made = house.of(f"task/{task}/ledger", EffectRegistered)
    assert [one.name for one in made] == [
        "model",
        "see",
        "model",
        "read_evidence",
        "model",
    ]
