"""What a runtime holds does not grow with the tasks that have ended (P12)."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Runtime, tool
from perdure.actors.admission.answers import Answers
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall
from perdure.storage.reader import open_reader
from perdure.supervision import SimulatedDispatcher

TASKS = 20


@tool(effect="once", approval=True)
def send(what: str) -> str:
    """Send something."""
    return what


def reply(request: ModelRequest) -> ModelReply:
    if any(message["role"] == "tool" for message in request.messages):
        return ModelReply(content='"done"')
    call = ToolCall(id="1", name="send", arguments='{"what": "it"}')
    return ModelReply(tool_calls=(call,))


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    agent = Agent(
        name="a",
        instructions="x",
        model=Scripted(reply),
        tools=[send],
        recovery="rules",
    )
    with Runtime(
        tmp_path / "t.db",
        agents=[agent],
        log=tmp_path / "t.log",
        dispatcher=SimulatedDispatcher(0),
    ) as runtime:
        yield runtime


def run(runtime: Runtime, tasks: int = TASKS) -> None:
    """Tasks that wait for an approval, wake up and end, one after another."""
    for number in range(tasks):
        task = runtime.submit("a", f"task {number}")
        task.wait()
        (asked,) = runtime.approvals()
        task.approve(asked.approval)
        assert task.wait().status == "completed"
    settle(runtime)


def settle(runtime: Runtime) -> None:
    sim: Any = runtime._dispatcher
    sim.run_for(5.0)  # far less than any backstop


def objects() -> Counter[str]:
    """How many of each of our types there are, the simulated machine's left out."""
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    return Counter(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in kinds
        if str(kind.__module__).startswith("perdure.")  # of a C type it may be no text
        and kind.__module__ != "perdure.supervision.simulation"
    )


def test_ended_tasks_leave_no_object_behind(runtime: Runtime) -> None:
    # R26
    run(runtime)
    before = objects()
    run(runtime)
    grown = {kind: n for kind, n in (objects() - before).items() if n >= TASKS / 4}
    assert grown == {}


def test_answered_approvals_are_not_remembered(runtime: Runtime) -> None:
    run(runtime, 3)
    (answers,) = (
        one
        for one in gc.get_objects()
        if type(one) is Answers and one._admission.house is runtime._house
    )
    assert answers._given == {}


def test_snapshots_of_the_services_do_not_grow(
    runtime: Runtime, tmp_path: Path
) -> None:
    sizes: list[list[int]] = []
    for _ in range(2):
        run(runtime, 2 * TASKS)
        with open_reader(tmp_path / "t.db") as reader:
            sizes.append(
                [
                    max(len(one.body) for one in reader.snapshots(name))
                    for name in ("services/admission", "services/pool")
                ]
            )
    assert all(after < before + 1_000 for before, after in zip(*sizes, strict=True))
