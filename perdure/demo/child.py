"""The process that is killed: a runtime on the demo's store, run to the task's stop.

python -m perdure.demo.child ORDER      (ORDER: the path of an `Order` as JSON)
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import msgspec

from ..actors.agent import Agent
from ..actors.budget.account import Budget
from ..actors.model import Model
from ..actors.tool import Tool
from ..models.openai import OpenAIModel
from ..models.scripted import Scripted
from ..runtime import Runtime
from ..supervision.faults import Fault, FaultPlan, install
from .acceptance import make_acceptance
from .plan import CONSTRAINTS, INSTRUCTIONS, goal, inputs, make_plan
from .script import reply
from .tools import make_tools
from .workplace import Workplace

__all__ = ["BUDGET", "COMPLETED", "STOPPED", "Order", "make_agent", "make_model"]

BUDGET = Budget(tokens=400_000, model_calls=120, tool_calls=60)
COMPLETED = 0  # exit status: the task completed
STOPPED = 3  # exit status: it stands at another stop
ORPHANED = 4  # exit status: the parent is gone
KEY = "report"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do: where, for which country, and where to die.

    `hits` is a file that gets a line for each fault point passed, or empty.
    """

    store: str
    log: str
    place: Workplace
    country: str
    operator: str
    model: str
    faults: tuple[Fault, ...] = ()
    hits: str = ""


def make_agent(
    place: Workplace, model: Model, tools: list[Tool] | None = None
) -> Agent:
    """The reporter, bound to a workplace."""
    return Agent(
        name="reporter",
        instructions=INSTRUCTIONS,
        model=model,
        tools=make_tools(place) if tools is None else tools,
        plan=make_plan(place),
        accept=make_acceptance(place)["job"],
    )


def make_model(name: str) -> Model:
    """``scripted``, or ``openai:NAME`` for an OpenAI-compatible endpoint."""
    if name == "scripted":
        return Scripted(reply)
    return OpenAIModel(name.removeprefix("openai:"))


def _end_with_parent() -> None:
    """End when the parent does, which holds the other end of stdin: as a kill would."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would hold up a normal end
            pass
        os._exit(ORPHANED)

    threading.Thread(target=watch, name="demo-parent-watch", daemon=True).start()


def _observer(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def main(order: Order) -> int:
    """Run the job to its stop; on a store that holds it already, go on with it."""
    observe = None
    if order.hits:
        file = _observer(order.hits)

        def observe(point: str, subject: str) -> None:
            os.write(file, f"{point}\t{subject}\n".encode())

    if order.faults or order.hits:
        install(FaultPlan(order.faults, observe))
    agent = make_agent(order.place, make_model(order.model))
    with Runtime(order.store, agents=[agent], log=order.log) as runtime:
        task = runtime.submit(
            agent.name,
            goal(order.country),
            inputs=inputs(order.country, order.operator),
            constraints=CONSTRAINTS,
            budget=BUDGET,
            key=KEY,
        )
        status = task.wait().status
    return COMPLETED if status == "completed" else STOPPED


if __name__ == "__main__":
    _end_with_parent()
    sys.exit(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order)))
