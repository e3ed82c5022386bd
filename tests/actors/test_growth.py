"""A long task: what a step costs on disk, in work and in a recovery does not grow."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Runtime, tool
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend
from perdure.supervision import SimulatedDispatcher
from tests.actors.world import Log, standing

LENGTH = 2000  # steps: a model call, and the tool call that it asks for
PAYLOAD = 1024  # bytes that the tool returns
OVERHEAD = 3_800  # bytes of a step beside its payload: fourteen records, two rows
MARKS = (100, 1_000, 1_850)  # steps from which on the cost is measured
STRETCH = 100  # steps, through some snapshots and cuts of the request
# A sync costs nothing there, and no power is cut here.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Counted(SqliteBackend):
    """Counts the bytes of the records that it is given."""

    written = 0

    def write(self, batch: Any) -> None:
        self.written += sum(len(record.body) for record in batch.records)
        super().write(batch)


class Long:
    """The whole task. It is killed and opened again behind each stretch.

    `work`, `turns` and `bytes` are what a stretch took: calls of functions, turns of
    the simulation, bytes of records. `replayed` and `snapshots` are of the recoveries:
    events folded, bytes loaded.
    """

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "t.db"
        self.pages = 0
        self.work: list[int] = []
        self.turns: list[int] = []
        self.bytes: list[int] = []
        self.replayed: list[int] = []
        self.snapshots: list[int] = []
        self.log = Log()
        self._calls = 0
        self._open(SimulatedDispatcher(0))
        for begin in MARKS:
            self.sim.run(lambda first=begin: self.pages >= first)
            self._measure(begin + STRETCH)
            self._kill()
        self.sim.run(lambda: self.runtime.result(self.task) is not None)
        self.result = self.runtime.result(self.task)
        self.runtime.close()

    def _open(self, sim: SimulatedDispatcher) -> None:
        @tool(effect="read")
        def look(n: int) -> str:
            """Look at page n."""
            self.pages = max(self.pages, n)
            return f"{n:05d}".ljust(PAYLOAD, "x")

        agent = Agent(
            name="a",
            instructions="Read.",
            tools=[look],
            model=Scripted(next_page),
            max_rounds=2 * LENGTH,
            recovery="rules",
        )
        self.sim = sim
        self.backend = Counted(self.path)
        self.runtime = Runtime(
            self.backend, agents=[agent], dispatcher=sim, log=self.log
        )
        self.task = self.runtime.submit("a", goal="read", key="k").id

    def _measure(self, end: int) -> None:
        before = len(self.sim.trace), self.backend.written
        self._calls = 0
        sys.setprofile(self._count)
        try:
            self.sim.run(lambda: self.pages >= end)
        finally:
            sys.setprofile(None)
        self.work.append(self._calls)
        self.turns.append(len(self.sim.trace) - before[0])
        self.bytes.append(self.backend.written - before[1])

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self._calls += event in ("call", "c_call")

    def _kill(self) -> None:
        self.sim.halt()
        self.backend.abandon()
        with open_reader(self.path) as reader:
            found = [reader._snapshots(name)[:1] for name in reader.streams()]
            self.snapshots.append(
                sum(len(one[0].body) for (one,) in filter(None, found))
            )
        self._open(SimulatedDispatcher(len(self.work), self.sim.clock))
        done = len(self.log.of("recovery.loaded"))
        self.sim.run(lambda: len(self.log.of("recovery.loaded")) > done)
        self.replayed.append(self.log.of("recovery.loaded")[-1]["replayed"])


def next_page(request: ModelRequest) -> ModelReply:
    """Look at the page behind the newest that the request shows."""
    shown = [m["content"] for m in request.messages if m["role"] == "tool"]
    shown += [one["result"] for one in standing(request)["operations"]]
    page = max((int(text[:5]) for text in shown), default=0) + 1
    if page > LENGTH:
        return ModelReply(content='"read"')
    call = ToolCall(id=f"c{page}", name="look", arguments=json.dumps({"n": page}))
    return ModelReply(tool_calls=(call,))


@pytest.fixture(scope="module")
def long() -> Iterator[Long]:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        yield Long(folder)


@pytest.mark.timeout(180)
def test_a_step_costs_as_many_bytes_late_as_early(long: Long) -> None:
    # R8: the file is linear in the steps.
    assert long.result is not None
    assert (long.result.status, long.pages) == ("completed", LENGTH)
    early, _, late = long.bytes
    assert late < 1.05 * early
    size = long.path.stat().st_size
    assert size < LENGTH * (PAYLOAD + OVERHEAD)


@pytest.mark.timeout(180)
def test_a_step_is_as_much_work_late_as_early(long: Long) -> None:
    # R8: step 2000 is as fast as step 100, counted in calls and turns.
    early, middle, late = long.work
    assert early > 100_000
    assert late <= early  # which holds what is done the first time, too
    assert late < 1.05 * middle
    early, _, late = long.turns
    assert late < 1.05 * early


@pytest.mark.timeout(180)
def test_a_recovery_loads_as_much_late_as_early(long: Long) -> None:
    # R8, B79: what a recovery loads does not grow with the steps.
    assert max(long.replayed) <= 64 + 16
    early, _, late = long.snapshots
    assert late < 1.2 * early
