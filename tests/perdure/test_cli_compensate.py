"""Effects taken back at somebody's word, from here and from another process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Effect, Misuse, Runtime, tool
from tests.actors.world import World
from tests.perdure.hosting import LONG, calls, opened, reporter
from tests.perdure.test_cli_ask import asking, here, perdure

STORE = "tasks.db"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def booking(world: World) -> Any:
    def unbook(effect: Effect) -> str:
        """Take it back."""
        del world.files[effect.arguments["what"]]
        return "free"

    @tool(effect="idempotent", undo=unbook)
    def book(what: str, *, request_id: str) -> str:
        """Book something."""
        world.files[what] = request_id
        return "booked"

    return book


@pytest.fixture
def agent(world: World) -> Agent:
    tools = booking(world), asking(world)
    return reporter(world, *tools, script=calls("book", "delete"))


def booked(runtime: Runtime, world: World) -> str:
    """A task that has an effect out in the world, and waits for a person."""
    task = runtime.submit("agent", "Book.")
    assert task.wait(LONG).reason == "approval"
    assert len(world.files) == 1
    return task.id


def test_effects_are_taken_back_by_word_of_another_process(
    agent: Agent, world: World
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task = booked(runtime, world)
        code, answer, _ = perdure("cancel", task, "--compensate", "--by", "me")
        assert (code, answer["done"]) == (0, True)
        assert answer["said"] == "it is to end, once its effects are taken back"
        result = runtime.wait(task, LONG, until="ended")
    assert result.reason == "cancelled by me; effects taken back: 1"
    assert world.files == {}


def test_what_was_taken_back_is_shown(
    agent: Agent, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task = booked(runtime, world)
        _, before, _ = here(capsys, "show", task)
        runtime.cancel(task, "me", LONG, compensate=True)
    assert "0 of its effects; 1 can be" in before
    _, after, _ = here(capsys, "show", task)
    assert "1 of its effects; 0 can be" in after
    _, told, _ = here(capsys, "effects", task, "--json")
    first, last = (
        one for one in json.loads(told) if one["tool"] in ("book", "book.undo")
    )
    assert (first["undoes"], last["undoes"]) == ("", first["id"])
    _, told, _ = here(capsys, "effects", task)
    assert f"pending, to undo {first['id']} -> completed (run)" in told


def test_a_loop_takes_effects_back_with_the_twin(agent: Agent, world: World) -> None:
    async def main() -> str:
        async with opened(Path(STORE), agent) as runtime:
            task = await runtime.asubmit("agent", "Book.")
            assert (await task).reason == "approval"
            return (await task.acancel(compensate=True)).reason

    assert asyncio.run(main()) == "cancelled by operator; effects taken back: 1"
    assert world.files == {}


def test_compensate_is_a_truth_value(agent: Agent, world: World) -> None:
    with opened(Path(STORE), agent) as runtime:
        task = booked(runtime, world)
        with pytest.raises(Misuse, match="compensate='yes' must be True or False"):
            runtime.ask_cancel(task, "me", compensate="yes")  # type: ignore[arg-type]
