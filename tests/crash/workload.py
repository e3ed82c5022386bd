"""The reference workload that real kills are tried on: three tasks, twelve operations.

Each task asks a scripted model in each of two steps and uses tools of all three effect
classes; one call waits for an approval, one is a durable timer. What a tool does to the
outside stands in files: `sent` gets a line for each act of the `once` tool, `put` one
file for each key of the idempotent one. Nothing here imports a test library: benches
use it too.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from perdure import (
    Agent,
    Baseline,
    Budget,
    DidNotHappen,
    Handle,
    Happened,
    Result,
    Runtime,
    Step,
    sleep,
    tool,
)
from perdure.actors.context.measure import canonical
from perdure.actors.context.render import moving_data
from perdure.actors.tool import Effect, Tool, Verdict
from perdure.demo.audit import Journal, budget_ok, totals
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall
from perdure.supervision.faults import Fault, FaultPlan, install

__all__ = ["TASKS", "outcome", "run"]

TASKS = ("north", "east", "south")
STEPS = ("gather", "deliver")
CALLS = {"gather": ("look", "put"), "deliver": ("send", "sleep", "look")}
NAP = 0.02  # seconds of the durable timer
SETTLE = 0.02  # seconds; the worker died with its process, nothing comes later
RULES = Baseline(snapshot_events=16)


def make_tools(place: Path) -> list[Tool]:
    """The three tools, bound to a folder."""

    @tool(effect="read")
    def look(what: str) -> str:
        """Look something up."""
        return f"{what} is fine"

    @tool(effect="idempotent", approval=True)
    def put(what: str, *, request_id: str) -> str:
        """Put something where a repetition finds it."""
        (place / "put" / request_id).write_text(what)
        return f"{what} is put"

    def was_sent(effect: Effect) -> Verdict:
        sent = (place / "sent").read_text().split() if (place / "sent").exists() else []
        return Happened("sent") if effect.request_id in sent else DidNotHappen()

    @tool(effect="once", probe=was_sent, settle=SETTLE)
    def send(what: str, *, request_id: str) -> str:
        """Send something that must not go out twice."""
        line = f"{request_id}\n".encode()
        file = os.open(place / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)
        return "sent"

    return [look, put, send, sleep]


def reply(request: ModelRequest) -> ModelReply:
    """The scripted model: a pure function of what the request says."""
    data = moving_data(request.messages[-1]["content"])
    if data["kind"] == "recovery":
        done = [step for step, state in data["steps"].items() if state == "completed"]
        following = (data["step"] or {}).get("id") or next(
            (step for step in STEPS if data["steps"][step] != "completed"), None
        )
        said = {"done": done, "next": following, "uncertain": data["uncertain"]}
        return ModelReply(content=canonical(said))
    step = data["step"]["id"]
    seen = {
        done["tool"] for done in data["operations"] if done["outcome"] == "completed"
    }
    for message in request.messages:
        seen |= {call["function"]["name"] for call in message.get("tool_calls") or ()}
    missing = [name for name in CALLS[step] if name not in seen]
    if not missing:
        return ModelReply(content=canonical({"step": step}))
    name = missing[0]
    wanted = {"seconds": NAP} if name == "sleep" else {"what": f"{step} {name}"}
    call = ToolCall(id=f"{step}-{name}", name=name, arguments=canonical(wanted))
    return ModelReply(tool_calls=(call,))


def make_agent(place: Path) -> Agent:
    """The agent that all three tasks use."""
    return Agent(
        name="worker",
        instructions="Do the step.",
        model=Scripted(reply),
        tools=make_tools(place),
        plan=[
            Step(
                id=step, goal=f"{step} it", accept=lambda result, view: "step" in result
            )
            for step in STEPS
        ],
    )


def run(place: str, faults: tuple[Fault, ...] = (), hits: str = "") -> None:
    """Run the workload to its end, or to where a fault kills this process."""
    folder = Path(place)
    (folder / "put").mkdir(exist_ok=True)
    observe = None
    if hits:
        file = os.open(hits, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def observe(point: str, subject: str) -> None:
            os.write(file, f"{point}\n".encode())

    install(FaultPlan(faults, observe))
    agent = make_agent(folder)
    budget = Budget(tokens=200_000, tool_calls=20)
    with Runtime(
        folder / "tasks.db",
        agents=[agent],
        log=folder / "log.jsonl",
        baseline=RULES,
        active=2,  # so that one waits in the queue
    ) as runtime:
        tasks = [
            runtime.submit("worker", f"Care for the {name}", key=name, budget=budget)
            for name in TASKS
        ]
        stopped = [finish(runtime, task) for task in tasks]
    left = [one for one in stopped if one.status != "completed"]
    if left:
        raise RuntimeError(f"not completed: {left}")


def finish(runtime: Runtime, task: Handle) -> Result:
    """Wait for the task's end, approving what it asks a person for."""
    while True:
        result = task.wait(timeout=60.0)
        if (result.status, result.reason) != ("paused", "approval"):
            return result
        for one in runtime.approvals():
            if one.task == task.id:
                task.approve(one.approval)


def outcome(place: Path) -> dict[str, Any]:
    """What the world holds and what the books say, counted by an outsider."""
    events = Journal(place / "tasks.db").events()
    statuses = Counter(
        event.body["status"] for event in events if event.type == "TaskClosed"
    )
    families = {event.stream.split("/")[1] for event in events if "/" in event.stream}
    sent = (place / "sent").read_text().split() if (place / "sent").exists() else []
    return {
        "completed": statuses["completed"],
        "sent": len(sent),
        "sent_twice": len(sent) - len(set(sent)),
        "put": sorted(path.read_text() for path in (place / "put").iterdir()),
        "spent": totals(events, "spent"),
        "books": all(
            budget_ok([e for e in events if e.stream.startswith(f"task/{task}")])
            for task in families
        ),
        "steps": sum(
            event.type == "StepEnded" and event.body["status"] == "completed"
            for event in events
        ),
    }
