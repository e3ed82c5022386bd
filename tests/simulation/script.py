"""What the tasks of a run do: each agent's steps, and the calls of each step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from perdure import Agent, Plan, Step, delegate, sleep, tool
from perdure.models import Scripted
from tests.actors.world import Calls
from tests.simulation.outside import BULK, PART, Outside

__all__ = ["AGENTS", "agents_of"]

TIMEOUT = 6.0  # seconds a tool may take


def _hand(agent: str, part: int, **budget: int) -> tuple[str, dict[str, Any]]:
    """The call that hands a part on: by share of the money, or with a budget."""
    return "delegate", {
        "agent": agent,
        "goal": PART.format(number=part),
        "inputs": None,
        "budget": budget or None,
    }


# Each agent's steps with their calls, in groups. What a task waits for besides a
# person and the time joins here: a further agent, and the tool that it calls.
AGENTS: Mapping[str, Mapping[str, tuple[Calls, ...]]] = {
    "worker": {
        "find": ((BULK,), (("look", {"what": "a"}), ("look", {"what": "b"}))),
        "write": ((("write", {"name": "f", "text": "1"}), ("send", {"text": "x"})),),
        "send": (
            (("send", {"text": "hello"}),),
            (("write", {"name": "g", "text": "2"}), ("send", {"text": "bye"})),
        ),
    },
    "waiter": {
        "clear": (
            (
                ("sleep", {"seconds": 6.0}),
                ("erase", {"path": "old"}),
                ("erase", {"path": "older"}),
            ),
        ),
        "tell": (
            (("sleep", {"seconds": 25.0}), ("look", {"what": "c"})),
            (("send", {"text": "done"}), ("erase", {"path": "draft"})),
        ),
    },
    "helper": {
        "help": ((("look", {"what": "d"}), ("send", {"text": "helped"})),),
    },
    "chief": {
        "hand": (
            (_hand("helper", 1), _hand("waiter", 2, model_calls=3, tool_calls=8)),
            (("send", {"text": "all parts"}), _hand("helper", 3, model_calls=2)),
        ),
    },
    "head": {
        "lead": ((_hand("chief", 4), ("look", {"what": "e"})),),
    },
}


def agents_of(outside: Outside, *, rules: bool) -> list[Agent]:
    """The agents of all tasks, acting on `outside`."""
    once = {"effect": "once", "timeout": TIMEOUT, "probe": outside.was_done}
    tools: list[Any] = [
        sleep,
        delegate,
        tool(effect="read", timeout=TIMEOUT)(outside.look),
        tool(effect="idempotent", timeout=TIMEOUT)(outside.write),
        tool(**once)(outside.send),
        tool(approval=True, **once)(outside.erase),
    ]
    return [
        Agent(
            name=name,
            instructions="Do the job.",
            model=Scripted(partial(outside.reply, script)),
            plan=Plan(steps=tuple(_steps(outside, script))),
            recovery="rules" if rules else "declare",
            tools=[one for one in tools if one.name in _called(script)],
        )
        for name, script in AGENTS.items()
    ]


def _steps(outside: Outside, script: Mapping[str, tuple[Calls, ...]]) -> list[Step]:
    return [
        Step(
            id=name,
            goal=f"{name} it",
            accept=partial(outside.accept, calls),
            max_iterations=12,
        )
        for name, calls in script.items()
    ]


def _called(script: Mapping[str, tuple[Calls, ...]]) -> set[str]:
    groups = (group for groups in script.values() for group in groups)
    return {name for group in groups for name, _ in group}
