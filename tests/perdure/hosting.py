"""Runtimes as a host has them: real threads, real files, a scripted agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from perdure import Agent, Baseline, Budget, Runtime, Step
from perdure.models import Scripted
from perdure.supervision.faults import Fault, FaultPlan, installed
from tests.actors.world import Line, Log, World, follow, taken, tools_of

BUDGET = Budget(tokens=400_000, tool_calls=100)
FAST = Baseline(id="fast", backoff_first=0.01, backoff_limit=0.05)
LONG = 30.0  # seconds; only a failing test waits so long
SCRIPT: dict[str, Sequence[Any]] = {
    "prepare": [[("look", {"what": "x"}), ("write", {"name": "f", "text": "t"})]],
    "send": [[("send", {"text": "hello"})]],
}


class Told(Log):
    """A logger that threads can wait on."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def log(self, level: int, event: str, **fields: Any) -> None:
        with self._changed:
            super().log(level, event, **fields)
            self._changed.notify_all()

    def wait_for(self, event: str, count: int = 1, **fields: Any) -> list[Line]:
        """Wait until `count` lines of `event` with these fields were logged."""

        def found() -> list[Line]:
            return [
                line
                for line in self.lines
                if line.event == event and fields.items() <= line.fields.items()
            ]

        with self._changed:
            enough = self._changed.wait_for(lambda: len(found()) >= count, LONG)
            assert enough, f"{event} {fields}: {len(found())} of {count}"
            return found()


class Gate:
    """A tool stands in it until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.left = threading.Event()

    def stand(self) -> None:
        self.entered.set()
        assert self.left.wait(LONG)


def reporter(
    world: World,
    *tools: Any,
    script: Mapping[str, Sequence[Any]] = SCRIPT,
    model: Any = None,
    **options: Any,
) -> Agent:
    """An agent whose steps are those of the script."""
    return Agent(
        name="agent",
        instructions="Do each step.",
        model=model or Scripted(follow(script)),
        tools=[*tools_of(world), *tools],
        plan=[Step(id=one, goal=f"Do {one}.", accept=taken) for one in script],
        **options,
    )


def calls(*names: str) -> dict[str, Any]:
    """A script of one step that calls these tools one after another."""
    return {"only": [[(name, {"what": "x"})] for name in names]}


def opened(store: Path, *agents: Agent, **options: Any) -> Runtime:
    options.setdefault("baseline", FAST)
    return Runtime(store, agents=agents, **options)


def faults(
    *planned: Fault, observe: Callable[[str, str], None] | None = None
) -> AbstractContextManager[FaultPlan]:
    return installed(FaultPlan(planned, observe))


EARLIER: list[threading.Thread] = []


def own_threads() -> list[threading.Thread]:
    """The runtime's threads that this test has started, by the fixture in conftest."""
    return [
        one
        for one in threading.enumerate()
        if one.name.startswith("perdure") and one not in EARLIER
    ]


def gone(threads: Sequence[threading.Thread]) -> bool:
    """Wait for threads to end."""
    for one in threads:
        one.join(LONG)
    return not any(one.is_alive() for one in threads)
