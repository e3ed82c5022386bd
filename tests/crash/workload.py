"""The reference workload that real kills are tried on: three tasks and a sub-task.

Each task asks a scripted model in each of two steps and uses tools of all three effect
classes; one call waits for an approval, one is a durable timer, one of two waits for
its slot of a limited service, one has a finding kept beside a core fact of the host's,
and one asks a question; that of the sub-task nobody answers in time. The last task
hands a part of its work on, makes a call that only a person can say the outcome of, and
one whose approval comes too late once.
One actor crashes, one approval comes through the inbox, and one more task is parked.

What a tool does to the outside stands in files: `sent` gets a line for each act of a
`once` tool, `put` one file for each key of the idempotent one. Nothing here imports a
test library: benches use it too.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from perdure import (
    Agent,
    Baseline,
    Budget,
    DidNotHappen,
    Handle,
    Happened,
    Misuse,
    RateLimit,
    Result,
    Runtime,
    Step,
    ask,
    ask_within,
    delegate,
    sleep,
    tool,
)
from perdure.actors.builtin import remember
from perdure.actors.context.measure import canonical
from perdure.actors.context.render import moving_data
from perdure.actors.tool import Effect, Tool, Verdict
from perdure.demo.audit import Journal, budget_ok, totals
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall
from perdure.storage.errors import Rejected
from perdure.storage.inbox import Inbox
from perdure.storage.records import Command
from perdure.supervision.faults import Fault, FaultPlan, install

__all__ = ["TASKS", "outcome", "run"]

TASKS = {"south": "chief", "north": "ringer", "east": "worker"}
WORK = {"gather": ("look", "put"), "deliver": ("send", "sleep", "look")}
CALLS = {
    "worker": WORK,
    "ringer": {**WORK, "gather": ("ring", "look", "remember", "ask", "put")},
    "chief": {
        "gather": ("look", "put", "unlock", "delegate"),
        "deliver": ("post", "send", "sleep", "look"),
    },
    "clerk": {"file": ("look", "ask", "send")},
}
WANTED: dict[str, dict[str, Any]] = {
    "sleep": {"seconds": 0.02},
    "ask": {"question": "Go on?", "choices": ["yes", "no"]},
    "delegate": {"agent": "clerk", "goal": "File it"},
    "remember": {"key": "gather", "value": "fine"},
}
RINGS = ("once", "twice")  # of one reply: the second waits for its slot
BELL = RateLimit("bell", 1, per=0.05)
LOOK_AGAIN = 0.02  # seconds
CRASH = Fault(point="task.decided", nth=6, action="raise")
PATIENCE = 0.15  # seconds until an approval is asked for in vain
SETTLE = 0.02  # seconds; the worker died with its process, nothing comes later
RULES = Baseline(snapshot_events=16, backoff_first=0.02)


def make_tools(place: Path) -> list[Tool]:
    """The three tools, bound to a folder."""

    @tool(effect="read")
    def look(what: str) -> str:
        """Look something up."""
        return f"{what} is fine"

    @tool(effect="read", service=BELL.service)
    def ring(what: str) -> str:
        """Ring a bell that takes its time."""
        return f"rang {what}"

    @tool(effect="idempotent", approval=True)
    def put(what: str, *, request_id: str) -> str:
        """Put something where a repetition finds it."""
        (place / "put" / request_id).write_text(what)
        return f"{what} is put"

    @tool(effect="read", approval=True, expires=PATIENCE)
    def unlock(what: str) -> str:
        """Wait for a person who does not look in time at first."""
        return f"{what} is open"

    def was_sent(effect: Effect) -> Verdict:
        sent = sent_from(place)
        return Happened("sent") if effect.request_id in sent else DidNotHappen()

    def note(request_id: str) -> None:
        line = f"{request_id}\n".encode()
        file = os.open(place / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    @tool(effect="once", probe=was_sent, settle=SETTLE)
    def send(what: str, *, request_id: str) -> str:
        """Send something that must not go out twice."""
        note(request_id)
        return "sent"

    @tool(effect="once")
    def post(what: str, *, request_id: str) -> str:
        """Send something over a line that is always cut before it answers."""
        note(request_id)
        raise ConnectionResetError("cut")

    return [look, ring, put, unlock, send, post, sleep, delegate, remember]


def sent_from(place: Path) -> list[str]:
    """The request ids of what went out."""
    return (place / "sent").read_text().split() if (place / "sent").exists() else []


def reply(agent: str, request: ModelRequest) -> ModelReply:
    """The scripted model: a pure function of what the request says."""
    data = moving_data(request.messages[-1]["content"])
    if data["kind"] == "recovery":
        done = [step for step, state in data["steps"].items() if state == "completed"]
        following = (data["step"] or {}).get("id") or next(
            (step for step in CALLS[agent] if data["steps"][step] != "completed"), None
        )
        said = {"done": done, "next": following, "uncertain": data["uncertain"]}
        return ModelReply(content=canonical(said))
    step = data["step"]["id"]
    seen = {
        done["tool"]
        for done in data["operations"]
        if done["outcome"] == "completed" or done["tool"] == "ask"
    }
    for message in request.messages:
        seen |= {call["function"]["name"] for call in message.get("tool_calls") or ()}
    missing = [name for name in CALLS[agent][step] if name not in seen]
    if not missing:
        return ModelReply(content=canonical({"step": step}))
    name = missing[0]
    if name == "ring":
        rings = [
            ToolCall(id=f"ring-{how}", name=name, arguments=canonical({"what": how}))
            for how in RINGS
        ]
        return ModelReply(tool_calls=tuple(rings))
    wanted = WANTED.get(name, {"what": f"{step} {name}"})
    call = ToolCall(id=f"{step}-{name}", name=name, arguments=canonical(wanted))
    return ModelReply(tool_calls=(call,))


def make_agent(name: str, place: Path) -> Agent:
    """One of the agents that the tasks use."""
    return Agent(
        name=name,
        instructions="Do the step.",
        model=Scripted(partial(reply, name)),
        tools=[*make_tools(place), ask_within(PATIENCE) if name == "clerk" else ask],
        plan=[
            Step(
                id=step, goal=f"{step} it", accept=lambda result, view: "step" in result
            )
            for step in CALLS[name]
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

    install(FaultPlan((*faults, CRASH), observe))
    budget = Budget(tokens=200_000, tool_calls=20)
    with Runtime(
        folder / "tasks.db",
        agents=[make_agent(name, folder) for name in CALLS],
        log=folder / "log.jsonl",
        baseline=RULES,
        active=2,  # so that one waits in the queue
        pool=Budget(tokens=1_000_000),
        limits=[BELL],
    ) as runtime:
        runtime.memory.know("region", "all of it", core=True)
        tasks = [
            runtime.submit(agent, f"Care for the {name}", key=name, budget=budget)
            for name, agent in TASKS.items()
        ]
        too_much = Budget(tokens=2_000_000)
        parked = runtime.submit("clerk", "Too much", key="west", budget=too_much)
        if parked.wait(timeout=60.0).status != "cancelled":
            parked.cancel(timeout=60.0)
        with suppress(Misuse):  # it has ended, before a kill
            tasks[0].steer("Take care.")
        answers = (Handle.approve, Handle.approve, partial(by_inbox, folder))
        with ThreadPoolExecutor(len(tasks)) as people:
            care = partial(finish, folder, runtime)
            stopped = list(people.map(care, tasks, answers))
    left = [one for one in stopped if one.status != "completed"]
    if left:
        raise RuntimeError(f"not completed: {left}")


def finish(
    place: Path, runtime: Runtime, task: Handle, approve: Callable[[Handle, str], Any]
) -> Result:
    """Wait for the task's end, saying what it asks a person for."""
    late = False
    while True:
        result = task.wait(timeout=60.0)
        match result.reason:
            case "approval":
                for one in runtime.approvals():
                    if one.task == task.id and (late or one.tool != "unlock"):
                        approve(task, one.approval)
                time.sleep(LOOK_AGAIN)
            case "question":
                for one in runtime.questions():
                    if one.task == task.id:
                        task.answer(one.question, "yes")
                time.sleep(LOOK_AGAIN)
            case "approval_expired":
                late = True
                task.resume()
            case "unknown_effect":
                for effect in runtime.unknown():
                    happened = effect.request_id in sent_from(place)
                    if effect.id.startswith(f"{task.id}:"):  # others still decide
                        runtime.resolve(effect.id, happened=happened)
            case _:
                return result


def by_inbox(place: Path, task: Handle, approval: str) -> None:
    """Say yes as another process would; the owner hears of it a moment later."""
    command = Command(
        id=f"c-{approval}", kind="approve", subject=approval, at=0.0, body=b"{}"
    )
    with suppress(Rejected), Inbox(place / "tasks.db") as inbox:  # sent before a kill
        inbox.send(command)


def outcome(place: Path) -> dict[str, Any]:
    """What the world holds and what the books say, counted by an outsider."""
    events = Journal(place / "tasks.db").events()
    statuses = Counter(
        event.body["status"] for event in events if event.type == "TaskClosed"
    )
    families = {event.stream.split("/")[1] for event in events if "/" in event.stream}
    sent = sent_from(place)
    return {
        "completed": statuses["completed"],
        "sent": len(sent),
        "sent_twice": len(sent) - len(set(sent)),
        "put": sorted(path.read_text() for path in (place / "put").iterdir()),
        "spent": totals(events, "spent"),
        "books": all(
            budget_ok([e for e in events if e.stream.split("/")[1:2] == [task]])
            for task in families
        ),
        "steps": sum(
            event.type == "StepEnded" and event.body["status"] == "completed"
            for event in events
        ),
    }
