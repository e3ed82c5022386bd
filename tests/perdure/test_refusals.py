"""What the front door refuses: named, with the fix, before anything is written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Baseline, Misuse, Rule, Runtime, tool
from perdure.models import ModelReply, Scripted

AGENT = Agent(
    name="a", instructions="x", model=Scripted(lambda _: ModelReply(content="1"))
)

HELD: dict[str, Any] = {"name": "a", "instructions": "x", "model": AGENT.model}
OPENINGS: dict[str, dict[str, Any]] = {
    "agents=": {"agents": AGENT},
    "agents= holds 3": {"agents": [3]},
    "two agents are called 'a'": {"agents": [AGENT, AGENT]},
    "baseline=3": {"baseline": 3},
    "pool=3": {"pool": 3},
    "active=0": {"active": 0},
    "log=7": {"log": 7},
}


@pytest.mark.parametrize("named", OPENINGS)
def test_a_bad_option_is_named_and_nothing_is_written(
    named: str, tmp_path: Path
) -> None:
    with pytest.raises(Misuse) as refused:
        Runtime(tmp_path / "t.db", **OPENINGS[named])
    assert named in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_no_path_is_refused() -> None:
    with pytest.raises(Misuse, match="store=3"):
        Runtime(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Baseline(tool_threads=0),
        lambda: Baseline(active_tasks=-1),
        lambda: Baseline(floor=float("nan")),
        lambda: Baseline(request_limit="many"),  # type: ignore[arg-type]
        lambda: Baseline(shutdown_timeout=True),
        lambda: Baseline(anchor_names=1.5),  # type: ignore[arg-type]
        lambda: Baseline(core_share=1.5),
        lambda: Baseline(low_water=1.5),
        lambda: Baseline(id=5),  # type: ignore[arg-type]
        lambda: Baseline(id="a\ud800"),
    ],
)
def test_a_malformed_rule_is_refused_when_it_is_made(
    make: Callable[[], Baseline],
) -> None:
    with pytest.raises(Misuse, match="Baseline: "):
        make()


TOOLS: dict[str, Callable[[], object]] = {
    "my tool!": lambda: tool(name="my tool!")(len),
    "<lambda>": lambda: tool(effect="read")(lambda: 1),
    "no function": lambda: tool(3),  # type: ignore[call-overload]
    "timeout='x'": lambda: tool(timeout="x")(shout),  # type: ignore[arg-type]
    "timeout=0": lambda: tool(timeout=0)(shout),
    "settle=-1": lambda: tool(settle=-1)(shout),
    "probe=3": lambda: tool(probe=3)(shout),  # type: ignore[arg-type]
    "type hints": lambda: tool(effect="read")(vague),
}


def shout(text: str) -> str:
    return text.upper()


def vague(text: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(text)


@pytest.mark.parametrize("named", TOOLS)
def test_a_bad_tool_is_refused_where_it_is_declared(named: str) -> None:
    with pytest.raises(Misuse) as refused:
        TOOLS[named]()
    assert named in str(refused.value)


def test_a_dash_in_a_tools_name_is_allowed() -> None:
    made = tool(effect="read", name="shout-loud")(shout)
    assert made.schema()["function"]["name"] == "shout-loud"
    assert made.parse('{"text": "a"}') == {"text": "a"}


def test_an_acceptance_that_is_no_function_is_refused() -> None:
    with pytest.raises(Misuse, match="accept=3"):
        Agent(name="a", instructions="x", model=AGENT.model, accept=3)  # type: ignore[arg-type]


def test_inputs_that_are_no_mapping_are_refused(tmp_path: Path) -> None:
    with (
        Runtime(tmp_path / "t.db", agents=[AGENT]) as runtime,
        pytest.raises(Misuse, match="inputs="),
    ):
        runtime.submit("a", "go", inputs=[1])  # type: ignore[arg-type]


ALONE = "a\ud800b"  # a lone surrogate: no UTF-8, and so nothing that is stored


@pytest.mark.parametrize(
    ("named", "make"),
    [
        ("recall='yes'", lambda: Agent(**(HELD | {"recall": "yes"}))),
        ("recall=0", lambda: Agent(**(HELD | {"recall": 0}))),
        ("instructions=", lambda: Agent(**(HELD | {"instructions": ALONE}))),
        ("instructions=5", lambda: Agent(**(HELD | {"instructions": 5}))),
        ("says=", lambda: Rule(says=ALONE, forbid=("x",))),
        ("forbid=", lambda: Rule(says="no", forbid=(ALONE,))),
        ("argument=", lambda: Rule(says="no", forbid=("x",), argument=ALONE)),
        ("anchors= holds", lambda: tool(anchors=[ALONE])(_read)),
    ],
)
def test_what_could_not_be_stored_is_refused_when_it_is_declared(
    named: str, make: Callable[[], object]
) -> None:
    with pytest.raises(Misuse, match=re.escape(named)):
        make()


@pytest.mark.parametrize("value", [ALONE, 5, b"x"])
def test_no_question_about_what_cannot_be_stored_harms_a_service(
    tmp_path: Path, value: Any
) -> None:
    """Each is refused to whoever asks; sent on, it would end services for all."""
    heard: list[str] = []
    with Runtime(
        tmp_path / "t.db", agents=[AGENT], on_event=lambda name, _: heard.append(name)
    ) as runtime:
        memory = runtime.memory
        for ask in (
            lambda: runtime.erase(task=value, by="an operator"),
            lambda: runtime.erase(subject=value, by="an operator"),
            lambda: runtime.export(task=value),
            lambda: runtime.export(subject=value),
            lambda: memory.facts(scope=value),
            lambda: memory.facts(subject=value),
            lambda: memory.history(value),
            lambda: memory.history("k", scope=value),
            lambda: runtime.recall("x", task=value),
        ):
            with pytest.raises(Misuse, match=re.escape(repr(value))):
                ask()
        assert memory.know("k", "v")
    assert "actor.crashed" not in heard


@pytest.mark.parametrize("timeout", [-1, math.nan, math.inf, 10**400, True, "x"])
def test_a_time_to_wait_that_is_none_is_refused(tmp_path: Path, timeout: Any) -> None:
    with (
        Runtime(tmp_path / "t.db", agents=[AGENT]) as runtime,
        pytest.raises(Misuse, match="recall: timeout="),
    ):
        runtime.recall("x", timeout=timeout)


def test_a_fact_that_nests_too_deep_to_be_shown_is_refused_as_such(
    tmp_path: Path,
) -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with (
        Runtime(tmp_path / "t.db", agents=[AGENT]) as runtime,
        pytest.raises(Misuse, match="value="),
    ):
        runtime.memory.know("k", deep)


def _read(name: str) -> str:
    """Read."""
    return name


@pytest.mark.parametrize(
    "say",
    [
        lambda task: task.pause(by=""),
        lambda task: task.resume(by=" "),
        lambda task: task.cancel(by=""),
        lambda task: task.retry(by=""),
        lambda task: task.fork(by=""),
        lambda task: task.approve("a-1", by=""),
        lambda task: task.answer("q-1", "yes", by=""),
        lambda task: task.steer("look", by="\ud800"),
        lambda task: task.pause(by=7),
    ],
)
def test_nobody_says_something_to_a_task(
    tmp_path: Path, say: Callable[[Any], Any]
) -> None:
    with Runtime(tmp_path / "tasks.db", agents=[AGENT]) as runtime:
        task = runtime.submit("a", "x")
        with pytest.raises(Misuse, match="by"):
            say(task)
        task.wait(30)
