"""When a plan is looked at again: phases, half of the steps, words of doubt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.events import PlanStep
from perdure.actors.plan.triggers import PHRASES, is_half, phases_done, unsure


def step(name: str, phase: str = "") -> PlanStep:
    return PlanStep(id=name, goal=name, done="", max_iterations=5, phase=phase)


@pytest.mark.parametrize(("steps", "at"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_half_of_the_steps_is_reached_at_the_first_count_that_is_half(
    steps: int, at: int
) -> None:
    # A99, K50
    reached = [done for done in range(steps + 1) if is_half(done, steps)]
    assert reached[0] == at


@given(st.integers(1, 200), st.integers(0, 200))
def test_half_is_half_for_every_size_of_plan(steps: int, done: int) -> None:
    assert is_half(done, steps) == (done / steps >= 0.5)


def test_a_plan_without_steps_is_never_half_done() -> None:
    assert not is_half(0, 0)


def test_a_phase_is_done_once_each_of_its_steps_is() -> None:
    # A96
    plan = [step("a", "find"), step("b"), step("c", "find"), step("d", "tell")]
    status = {"a": "completed", "b": "pending", "c": "running", "d": "completed"}
    assert phases_done(plan, status) == ("tell",)
    status["c"] = "completed"
    assert phases_done(plan, status) == ("find", "tell")
    status["a"] = "skipped"
    assert phases_done(plan, status) == ("tell",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hm. I am not sure whether I should send it.", "i am not sure"),
        ("I\u2019m  not\nsure which table it is", "i'm not sure"),
        ("Not certain if this is the right file", "not certain if"),
        ("I don't know how to go on", "i don't know how"),
        ("我不确定是否应该删除这张表", "不确定"),
        ("这个结果我拿不准, 先查一下", "拿不准"),
        ("不知道该用哪个接口", "不知道该"),
    ],
)
def test_doubt_is_found_in_both_languages_however_it_is_typed(
    text: str, found: str
) -> None:
    assert unsure(text) == found  # A98


@pytest.mark.parametrize(
    "text",
    [
        "I am sure that this is the table.",
        "Wrote the chapter on measurement uncertainty.",
        "模型的不确定性分析已经完成",
        "这一点没有不确定",
        '{"rows": 12, "ok": true}',
        "The sensor is inot sure whethered",
        "",
    ],
)
def test_words_that_only_look_like_doubt_set_nothing_off(text: str) -> None:
    assert unsure(text) == ""


def test_a_host_adds_phrases_of_its_own() -> None:
    assert unsure("das ist mir unklar") == ""
    assert unsure("Das ist mir  UNKLAR.", ("mir unklar",)) == "mir unklar"
    assert unsure("i'm not sure", ("mir unklar",)) == "i'm not sure"


@pytest.mark.parametrize("phrase", PHRASES)
def test_every_built_in_phrase_is_found_in_a_sentence(phrase: str) -> None:
    assert unsure(f"Well, {phrase.upper()} it is.")
