"""What counts as going round in circles, and what does not. Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.guard.detect import LoopRules, detect
from perdure.actors.guard.seen import (
    FREE,
    INFRA,
    REFUSED,
    WROTE,
    Seen,
    action_of,
    seen_of,
    similarity,
    stable,
)
from tests.actors.guard.traces import (
    TRACES,
    Bad,
    Busy,
    Call,
    Trace,
    c,
    first_finding,
    seen,
)

LONG = "a page of text that says something about the work"


def found(*calls: Call) -> tuple[int, str] | None:
    """The call at which the detector spoke first, and the kind that it named."""
    first = first_finding(calls)
    return None if first is None else (first[0], first[1].kind)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_circles_are_found_and_meant_repetition_is_not(trace: Trace) -> None:
    # A20 B53 B57
    assert (first_finding(trace.calls) is not None) is trace.loop


# ── equal calls with equal results ───────────────────────────────────────────────


def test_the_third_equal_call_with_an_equal_result_is_a_circle() -> None:
    # R20 B54
    call = c("read", LONG, path="x")
    assert found(call, call) is None
    assert found(*[call] * 10) == (3, "repeat")


def test_a_job_whose_result_changes_is_waited_for() -> None:
    # K19
    calls = [c("status", f"running {n}0%", job=9) for n in range(1, 6)]
    assert found(*calls) is None


def test_a_poll_may_say_the_same_for_its_patience_and_no_longer() -> None:
    # K19: five times, 5 s apart; then on until 60 s have passed since the first
    assert found(*[c("wait_job", "running", job=9)] * 5) is None
    assert found(*[c("wait_job", "running", job=9)] * 14) == (13, "poll_timeout")


def test_a_poll_that_says_something_new_has_all_its_patience_again() -> None:
    early, late = c("wait_job", "queued", job=9), c("wait_job", "running", job=9)
    assert found(*[early] * 10, *[late] * 12) is None
    assert found(*[early] * 10, *[late] * 13) == (23, "poll_timeout")


def test_another_argument_is_another_call() -> None:
    assert found(*[c("read", f"{n}: {LONG}", page=n) for n in range(20)]) is None


def test_what_came_between_makes_it_no_repeat() -> None:
    look = c("read", LONG, path="x")
    between = [c("write", "ok", path=f"p{n}") for n in range(5)]
    calls = [one for write in between for one in (look, write)]
    assert found(*calls) is None


def test_a_poll_between_two_calls_hides_no_repeat() -> None:
    look, poll = c("read", LONG, path="x"), c("wait_job", "running", job=9)
    assert found(look, poll, look, poll, look) == (5, "repeat")


# ── circles of several calls ─────────────────────────────────────────────────────


def test_a_build_and_an_edit_that_mends_nothing_are_a_circle_of_two() -> None:
    # K21 B57
    pair = [c("build", Bad("CompileError: E1")), c("edit", "ok", file="f", line=1)]
    assert found(*pair * 3) == (6, "period")


def test_a_build_that_gets_on_is_none() -> None:
    # K21
    results = [Bad("CompileError: E1"), Bad("CompileError: E2"), "passed"]
    calls = [
        one
        for n, result in enumerate(results)
        for one in (c("build", result), c("edit", "ok", file="f", line=n))
    ]
    assert found(*calls) is None


def test_a_circle_of_three_is_found_as_it_comes_round_the_third_time() -> None:
    # K22
    ring = [c("read", f"{LONG} {name}", path=name) for name in "ABC"]
    assert found(*ring * 3) == (9, "period")
    assert found(*(ring * 3)[:8]) is None


@given(st.integers(2, 5), st.integers(0, 9))
def test_each_period_is_found_by_its_third_time(length: int, before: int) -> None:
    work = [c("read", f"{LONG} {n}", page=n) for n in range(before)]
    ring = [c("look", f"{LONG} {n}", place=n) for n in range(length)]
    first = first_finding([*work, *ring * 3])
    assert first is not None
    place, finding = first
    assert (place, finding.kind) == (before + 3 * length, "period")
    assert len(finding.actions) == length
    assert len(finding.ops) == 3 * length


def test_longer_circles_than_the_rules_name_are_none() -> None:
    ring = [c("look", f"{LONG} {n}", place=n) for n in range(5)]
    assert first_finding(ring * 3, LoopRules(period=4)) is None


@given(st.lists(st.sampled_from(["read", "status", "fetch"]), max_size=40))
def test_results_that_all_differ_are_never_a_circle(tools: list[str]) -> None:
    assert found(*[c(name, f"{LONG} no {n}") for n, name in enumerate(tools)]) is None


# ── failures ─────────────────────────────────────────────────────────────────────


def test_four_different_calls_in_a_row_that_fail_are_a_streak() -> None:
    # B49
    calls = [c(name, Bad(f"{name}Error: no"), x=name) for name in "abcd"]
    assert found(*calls) == (4, "errors")
    assert found(*calls[:3], c("e", LONG), calls[3]) is None


def test_the_retries_of_one_call_are_one_failure_of_a_streak() -> None:
    # B82: how often one call may fail is for its kind to say
    again = c("a", Bad("aError: no"), x=1), c("a", Bad("aError: not now"), x=1)
    others = [c(name, Bad(f"{name}Error: no"), x=name) for name in "bc"]
    assert found(*again, *others) is None
    assert found(*again, *others, c("d", Bad("dError: no"))) == (5, "errors")


def test_the_trouble_of_a_service_is_no_failure_of_a_streak() -> None:
    # K26
    busy = [c(name, Busy("ServiceTrouble: 503"), x=name) for name in "abc"]
    assert found(*busy, c("d", Bad("dError: no"))) is None


def failed(text: str, flags: int, op: int = 1) -> Seen:
    one = seen_of(tool="t", arguments="{}", status="failed", text=text, flags=flags)
    return msgspec.structs.replace(one, op=op, tool="t", status="failed")


def test_a_call_within_its_retries_is_no_circle() -> None:
    # B82
    assert detect([failed("ValueError: no", FREE)] * 9, LoopRules()) is None
    assert detect([failed("ValueError: no", 0)] * 3, LoopRules()) is not None


def test_the_trouble_of_a_service_is_never_a_circle() -> None:
    # K26
    assert detect([failed("ServiceTrouble: 429", INFRA)] * 15, LoopRules()) is None


def test_what_is_refused_since_its_service_failed_it_is_named_so() -> None:
    # K26
    calls = [failed("ServiceTrouble: 429", INFRA)] * 4
    refused = [failed("used up", REFUSED)] * 3
    finding = detect([*calls, *refused], LoopRules())
    assert finding is not None
    assert finding.kind == "service"
    own = [failed("ValueError: no", 0), *refused]
    finding = detect(own, LoopRules())
    assert finding is not None
    assert finding.kind == "repeat"


# ── nearly the same ──────────────────────────────────────────────────────────────


def test_one_date_in_one_form_after_another_is_nearly_the_same() -> None:
    # B56
    forms = "2023-05-01", "2023/05/01", "2023.05.01", "2023_05_01"
    failing = [c("parse", Bad("ValueError: no date"), text=text) for text in forms]
    assert found(*failing) == (4, "near")
    idle = [c("parse", "May in the year 2023, a month", text=text) for text in forms]
    assert found(*idle) == (4, "near")
    assert found(*idle[:3], c("parse", LONG, text=forms[3])) is None


def test_nearly_equal_calls_that_change_something_are_work() -> None:
    said = "saved; the file is as it was asked to be"
    assert found(*[c("edit", said, file=f"f{n}", line=1) for n in range(9)]) is None
    assert found(*[c("view", said, file=f"f{n}", line=1) for n in range(9)]) is not None


def test_similarity_is_the_share_of_arguments_with_the_same_shape() -> None:
    # B56
    one, two = seen([c("t", LONG, a="x1", b="y", d=1), c("t", LONG, a="z9", b=2, d=3)])
    assert similarity(one, one) == 1.0
    assert similarity(one, two) == pytest.approx(2 / 3)
    other, failing = seen([c("u", LONG, a="x1"), c("t", Bad("E: no"), a="x1")])
    assert similarity(one, other) == similarity(one, failing) == 0.0


def test_how_near_is_near_is_for_the_rules_to_say() -> None:
    calls = [c("list", LONG, limit=n, by=n if n % 2 else "x") for n in range(4)]
    assert first_finding(calls) is None
    assert first_finding(calls, LoopRules(similar=0.5)) is not None


# ── what an action is ────────────────────────────────────────────────────────────


def test_the_order_of_arguments_says_nothing_and_numbers_are_as_json_writes_them() -> (
    None
):
    # K24 B54
    first = action_of("t", '{"a":1,"b":2}')
    assert action_of("t", '{"b":2,"a":1}') == first
    assert action_of("t", '{"a":1.0,"b":2}') != first
    assert action_of("u", '{"a":1,"b":2}') != first


def test_arguments_that_change_each_time_say_nothing() -> None:
    def named(**values: Any) -> str:
        return action_of("t", json.dumps(values), volatile=["page_token"])

    assert named(a=1, request_id="x", page_token="p") == named(a=1, request_id="y")
    assert named(a=1, other="x") != named(a=1, other="y")


def test_of_a_tool_with_a_loop_key_only_that_says_what_is_done() -> None:
    def named(**values: Any) -> str:
        return action_of("t", json.dumps(values), loop_key=["path"])

    assert named(path="x", line=1) == named(path="x", line=2)
    assert named(path="x", line=1) != named(path="y", line=1)


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "\ud800", "[" * 5_000, "nan"])
def test_arguments_that_are_none_are_an_action_too(arguments: str) -> None:
    assert len(action_of("t", arguments)) == 6
    assert seen_of(tool="t", arguments=arguments, status="failed", text="\ud800")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2023-05-01T10:00:00Z", "at 2024-11-30T23:59:59Z"),
        ("since 10:00:01.5", "since 23:10:59"),
        ("took 1.2 s", "took 340 ms"),
        ("耗时3秒", "耗时12秒"),
        ("在2023-05-01 10:00:00完成", "在2023-05-02 11:30:00完成"),
        ("at 0x7f3a", "at 0x11"),
        ("stamp 1700000000", "stamp 1711111111.5"),
        ("took 3 secs", "took 12 seconds"),
        ("took 5us", "took 17µs"),
        ("lasted 8ns", "lasted 120ns"),
        *((f"no {one}000000000000001", "no 9f0c27be81d3a645") for one in "abcdef"),
        (
            "id 4f1c9be2-8a54-4f6e-9d5b-0c1e7fb0a111",
            "id 9a7d2c1e-11d4-4f33-8c0a-5e6f7a8b9c0d",
        ),
    ],
)
def test_times_and_ids_make_no_new_result(one: str, other: str) -> None:
    assert stable(one) == stable(other)


@pytest.mark.parametrize(
    ("one", "other"), [("running 10%", "running 20%"), ("3 rows", "4 rows")]
)
def test_figures_make_a_new_result(one: str, other: str) -> None:
    assert stable(one) != stable(other)


def test_what_an_event_holds_of_an_action_is_short() -> None:
    one = seen_of(tool="t", arguments='{"n": 1}', status="completed", text=LONG)
    assert len(msgspec.json.encode(one)) < 48
    assert msgspec.json.decode(msgspec.json.encode(one), type=Seen) == one


def test_of_what_changed_something_nothing_is_kept_to_call_it_nearly_the_same() -> None:
    def did(flags: int) -> Seen:
        return seen_of(
            tool="t", arguments='{"n":1}', status="completed", text="ok", flags=flags
        )

    looked, wrote = did(0), did(WROTE)
    assert (wrote.shape, wrote.words) == ("", "")
    assert looked.shape
    assert looked.words
    assert (wrote.action, wrote.result) == (looked.action, looked.result)


def test_nothing_is_found_of_nothing() -> None:
    assert detect([], LoopRules()) is None
