from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import tool
from perdure.actors.context.measure import canonical
from perdure.actors.events import (
    EffectProbed,
    EffectRecorded,
    EffectRegistered,
    TaskClosed,
)
from perdure.actors.ledger.entry import (
    KEPT,
    LedgerState,
    apply,
    effect_key,
    find_same,
)


@tool(effect="once")
def f(a: float, b: float = 2) -> None: ...


def key(arguments: dict[str, Any], **changes: Any) -> str:
    values = f.parse(json.dumps(arguments))
    named = {"task": "t", "step": "s", "tool": "f", "occurrence": 0, **changes}
    return effect_key(arguments=canonical(values), **named)


def registered(op: int, effect: str = "read", **fields: Any) -> EffectRegistered:
    return EffectRegistered(
        **{
            "op": op,
            "attempt": 1,
            "step": "s",
            "kind": "tool",
            "name": "f",
            "effect": effect,
            "key": f"k{op}",
            "arguments": "{}",
            "not_after": 0.0,
            **fields,
        }
    )


def recorded(op: int, status: str = "completed", **fields: Any) -> EffectRecorded:
    return EffectRecorded(
        **{"op": op, "attempt": 1, "status": status, "by": "run", **fields}
    )


def fold(*events: Any) -> LedgerState:
    state = LedgerState()
    for event in events:
        state = apply(state, event)
    return state


def test_equal_arguments_are_one_effect_whatever_their_order() -> None:
    # K24 B37
    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    assert key({"a": 1}) == key({"a": 1, "b": 2}), "a default is an argument too"
    assert key({"a": 1.5, "b": 2}) != key({"a": 1, "b": 2})


def test_whole_floats_are_what_the_tools_schema_makes_of_them() -> None:
    # K24: arguments are compared as the tool gets them, after parsing.
    assert key({"a": 1.0, "b": 2}) == effect_key(
        "t", "s", "f", canonical(f.parse('{"a": 1.0, "b": 2}')), 0
    )
    assert effect_key("t", "s", "f", '{"a":1.0}', 0) != effect_key(
        "t", "s", "f", '{"a":1}', 0
    )


@pytest.mark.parametrize(
    "change", [{"task": "u"}, {"step": "r"}, {"tool": "g"}, {"occurrence": 1}], ids=str
)
def test_another_task_step_tool_or_occurrence_is_another_effect(
    change: dict[str, Any],
) -> None:
    # K40
    assert key({"a": 1}, **change) != key({"a": 1})


def test_the_key_of_an_effect_never_changes() -> None:
    # Written into stores: another text here would repeat effects after an update.
    assert effect_key("t", "s", "f", '{"a":1}', 0) == (
        "7ea55b7b1b5a0108225bea928b526ac7"
    )
    assert registered(1, key="abc").request_id == "perdure-abc"


def test_the_newest_other_entry_of_a_key_is_found() -> None:
    state = fold(
        registered(1, "once", key="k"),
        recorded(1, "failed"),
        registered(2, "once", key="k"),
        registered(3, "once", key="k"),
    )
    same = find_same(state, "k", 3)
    assert same is not None
    assert same.op == 2
    assert find_same(state, "other", 3) is None


def test_a_record_says_how_the_newest_attempt_ended() -> None:
    state = fold(
        registered(1, "idempotent"),
        recorded(1, "unknown", by="recovery", error="cut"),
        registered(1, "idempotent", attempt=2),
    )
    assert (state.entries[1].status, state.entries[1].cut_off) == ("pending", False)
    state = apply(state, recorded(1, attempt=2, result="ok"))
    assert (state.entries[1].status, state.entries[1].result) == ("completed", "ok")


def test_an_attempt_that_a_crash_cut_off_stays_marked_when_it_is_decided() -> None:
    state = fold(
        registered(1, "once"),
        recorded(1, "unknown", by="recovery"),
        EffectProbed(op=1, attempt=1, answer="", again_at=0.0),
        recorded(1, "failed", by="probe"),
    )
    entry = state.entries[1]
    assert (entry.cut_off, entry.probes, entry.by) == (True, 1, "probe")


def test_closed_entries_leave_with_their_step_and_open_ones_stay() -> None:
    state = fold(
        registered(1, "once"),
        recorded(1),
        registered(2, "once"),
        recorded(2, "unknown"),
        registered(3, "once"),
        registered(4),
        recorded(4, "unknown"),
        registered(5, step="next"),
    )
    assert list(state.entries) == [2, 3, 5]


def test_a_long_step_keeps_its_newest_operations_and_those_that_are_open() -> None:
    events: list[Any] = [registered(0, "once"), recorded(0, "unknown")]
    for op in range(1, 400):
        effect = "read" if op % 2 else "once"
        status = "unknown" if op % 3 == 0 and op % 2 else "completed"
        events += [registered(op, effect), recorded(op, status)]
    state = fold(*events)
    assert list(state.entries) == [0, *range(401 - KEPT, 400)]


def test_a_step_that_left_effects_behind_and_stops_half_way_is_known() -> None:
    events: list[Any] = []
    for op in range(KEPT + 1):
        events += [registered(op, "once"), recorded(op)]
    running = fold(*events)
    assert (running.over, running.left) == (True, ())
    away = fold(*events, registered(999, "once", step="next", holds=("s",)))
    assert (away.over, away.left) == (False, ("s",))
    assert list(away.entries) == [*range(1, KEPT + 1), 999]


def test_events_of_other_streams_are_refused() -> None:
    with pytest.raises(TypeError, match="TaskClosed"):
        apply(LedgerState(), TaskClosed(status="completed"))
