"""What the front door refuses: named, with the fix, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Baseline, Misuse, Runtime, tool
from perdure.models import ModelReply, Scripted

AGENT = Agent(
    name="a", instructions="x", model=Scripted(lambda _: ModelReply(content="1"))
)

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
