"""What the front door refuses: named, with the fix, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Baseline, Misuse, Runtime
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


def test_inputs_that_are_no_mapping_are_refused(tmp_path: Path) -> None:
    with (
        Runtime(tmp_path / "t.db", agents=[AGENT]) as runtime,
        pytest.raises(Misuse, match="inputs="),
    ):
        runtime.submit("a", "go", inputs=[1])  # type: ignore[arg-type]
