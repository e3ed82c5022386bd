"""One task of an agent under test, on a store in memory, over any number of deaths."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..actors.agent import Agent
from ..actors.budget.account import Budget
from ..actors.tool import Tool, ToolContext
from ..result import Result
from ..runtime import Runtime
from ..storage.memory import MemoryBackend, MemoryStore
from ..supervision.simulation import SimulatedDispatcher
from .death import cut_off

__all__ = ["NO_PROBE", "UNLIKE", "Act", "Job", "Trial", "completed"]

NO_PROBE = (
    "nobody could say whether it had happened, and a person is asked; "
    "give it a probe, or an idempotent effect"
)
UNLIKE = (
    "the world is not as an undisturbed run leaves it: its repetition is not safe as "
    "declared"
)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What each run is given, and how the outside world is reset and read."""

    agent: Agent
    goal: str
    inputs: Mapping[str, Any] | None
    budget: Budget | None
    reset: Callable[[], None] | None
    world: Callable[[], Any] | None

    def left(self) -> Any:
        """What the outside world holds; None where nobody says."""
        return None if self.world is None else self.world()


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool that returned."""

    tool: str
    arguments: str
    request_id: str


class Trial:
    """One run of the job. `acts` are the calls of tools that returned, in order."""

    def __init__(self, job: Job) -> None:
        if job.reset is not None:
            job.reset()
        self.job = job
        self.store = MemoryStore()
        self.acts: list[Act] = []
        self.task = ""
        self._agent = copy.copy(job.agent)
        self._agent.tools = {
            name: _Watched(one, self.acts) for name, one in job.agent.tools.items()
        }
        self.runtime: Runtime | None = None
        self.final: Result | None = None

    def open(self, dispatcher: SimulatedDispatcher) -> None:
        """Open a runtime on the store and hand the task in, as a caller that retries.

        Raises what `Runtime` and `submit` raise.
        """
        self.dispatcher = dispatcher
        self.runtime = None
        self.runtime = Runtime(
            MemoryBackend(self.store),
            agents=[self._agent],
            dispatcher=dispatcher,
            log=Quiet(),
        )
        handle = self.runtime.submit(
            self._agent.name,
            self.job.goal,
            key="trial",
            inputs=self.job.inputs,
            budget=self.job.budget,
        )
        self.task = handle.id

    def stopped(self) -> bool:
        """Whether the task stands at a stop."""
        return self.result() is not None

    def result(self) -> Result | None:
        """The result where the task stands at a stop."""
        if self.runtime is None or not self.task:
            return None
        return self.runtime.result(self.task)

    def die(self, reached: float = 0.0) -> None:
        """Lose the process, and of what waits for a flush all but a share."""
        self.dispatcher.halt()
        cut_off(self.store, self.runtime, reached)

    def close(self) -> None:
        """Let the last runtime go, and keep the result as `final`."""
        self.final = self.result()
        if self.runtime is not None:
            self.runtime.close()


def completed(trial: Trial) -> Result:
    """The result of an undisturbed run. Raises AssertionError unless completed."""
    result = trial.final
    if result is None or result.status != "completed":
        raise AssertionError(f"without a crash it does not complete: {result}")
    return result


class Quiet:
    """A log that keeps nothing: hundreds of runs would drown the caller's."""

    def bind(self, **_fields: Any) -> Quiet:
        """Nothing is bound."""
        return self

    def log(self, _level: int, _event: str, **_fields: Any) -> None:
        """Nothing is kept."""


class _Watched(Tool):
    """The tool itself, except that its calls are counted.

    One with `isolate="process"` runs elsewhere and is not.
    """

    def __init__(self, inner: Tool, acts: list[Act]) -> None:
        self.__dict__.update(inner.__dict__)
        self._acts = acts

    def invoke(self, values: dict[str, Any], context: ToolContext) -> Any:
        """Call the function; count it once it has returned."""
        act = Act(
            tool=self.name,
            arguments=", ".join(f"{name}={one!r}" for name, one in values.items()),
            request_id=context.request_id,
        )
        if self.is_async:
            return self._awaited(super().invoke(values, context), act)
        value = super().invoke(values, context)
        self._acts.append(act)
        return value

    async def _awaited(self, call: Any, act: Act) -> Any:
        value = await call
        self._acts.append(act)
        return value
