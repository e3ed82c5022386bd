"""What has no form on disk: refused by its path, or made one; never half of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from perdure import DidNotHappen, Happened, tool
from perdure.actors.events import EffectRecorded, EffectRegistered
from perdure.errors import Misuse
from tests.actors.runs import not_reproduced
from tests.actors.world import House, World, job
from tests.perdure.agents import one_step


class Custom(Exception):
    """Cannot be made again from its `args`, as pickle would."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(code)
        self.why = why


VALUES: dict[str, Callable[[], Any]] = {
    "lock": threading.Lock,
    "lambda": lambda: lambda: None,
    "nan": lambda: float("nan"),
    "bytes": lambda: b"raw",
    "20 MB": lambda: "y" * 20_000_000,
    "exception": lambda: Custom(3, why="odd"),
}
TEXTS = ("bytes", "20 MB")  # base64, and its beginning
every_value = pytest.mark.parametrize("kind", VALUES)


def told(house: House, task: str) -> EffectRecorded:
    """What is on record of the one call of a tool."""
    stream = f"task/{task}/ledger"
    ops = {e.op for e in house.of(stream, EffectRegistered) if e.kind == "tool"}
    records = [e for e in house.of(stream, EffectRecorded) if e.op in ops]
    return records[-1]  # type: ignore[no-any-return]


def lives_on(house: House, task: str) -> None:
    """The task completes, and a next process reads all of it."""
    result = house.finish(task)
    assert result.status == "completed", result
    house.runtime.close()
    house.reopen()
    again = house.runtime.result(task)
    assert again is not None
    assert again.output == result.output
    assert not_reproduced(house.store) == []
    assert house.log.crashes() == []


@every_value
def test_an_input_is_refused_with_its_path_before_anything_is_written(
    kind: str,
) -> None:
    # R29
    house = House(job(World()))
    records = len(house.store.log)
    with pytest.raises(Misuse) as caught:
        house.submit(inputs={"a": [0, {"x": VALUES[kind]()}]})
    assert "inputs['a']" in str(caught.value)
    assert len(str(caught.value)) < 500
    assert len(house.store.log) == records
    lives_on(house, house.submit().id)


@every_value
def test_what_a_tool_returns_is_stored_as_text_that_says_so(kind: str) -> None:
    # R29

    @tool(effect="read")
    def look(what: str) -> Any:
        """Look."""
        return [{"x": VALUES[kind]()}]

    house = House(one_step(("look", {"what": "a"}), tools=[look]))
    task = house.submit()
    lives_on(house, task.id)
    recorded = told(house, task.id)
    assert recorded.status == "completed"
    assert recorded.result.startswith('[{"x":"' if kind in TEXTS else "(done; the res")


@every_value
def test_what_a_probe_says_had_been_returned_is_stored_likewise(kind: str) -> None:
    # R29
    sent: list[str] = []

    def seen(effect: Any) -> Any:
        known = effect.request_id in sent
        return Happened({"x": VALUES[kind]()}) if known else DidNotHappen()

    @tool(effect="once", probe=seen)
    def send(text: str, *, request_id: str) -> str:
        """Send."""
        sent.append(request_id)
        return "sent"

    house = House(one_step(("send", {"text": "x"}), tools=[send]))
    task = house.submit()
    assert house.until(lambda: bool(sent))
    house.kill()
    house.reopen()
    lives_on(house, task.id)
    assert len(sent) == 1


@pytest.mark.parametrize(
    "error",
    [
        Custom(3, why="odd"),
        Custom(b"raw", why="\ud800"),  # type: ignore[arg-type]
        ValueError("y" * 20_000_000),
        ValueError(float("nan"), threading.Lock()),
    ],
    ids=["custom", "surrogate", "20 MB", "lock"],
)
def test_what_a_tool_raises_is_stored_as_text(error: Exception) -> None:
    # R29

    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        raise error

    house = House(one_step(("look", {"what": "a"}), tools=[look]))
    task = house.submit()
    lives_on(house, task.id)
    recorded = told(house, task.id)
    assert type(error).__name__ in recorded.error
    assert len(recorded.error) < 20_000
