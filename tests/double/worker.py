"""The work that the double bench kills: three tasks with effects of every class.

Each task charges (once), mails (once), puts (idempotent) and looks (read) over real
connections. The last one is cancelled once it has done so, with `compensate=True`: its
charge and what it put are taken back, which are effects too. Every effect has a name of
its own, so that the service can tell what reached it twice.
"""

from __future__ import annotations

import smtplib
import time
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from perdure import (
    Agent,
    Baseline,
    Budget,
    CannotTell,
    DidNotHappen,
    Effect,
    Handle,
    Happened,
    Runtime,
    Step,
    tool,
)
from perdure.actors.context.measure import canonical
from perdure.actors.context.render import moving_data
from perdure.actors.tool import Tool, Verdict
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall

from .service import HOST, asked

__all__ = ["Job", "expected", "run"]

WORK = {"first": ("put", "charge", "look"), "second": ("mail", "look", "put")}
BACK = {**WORK, "third": ("hold",)}
TASKS = {"north": WORK, "east": WORK, "back": BACK}
EFFECTS = {"put": "idempotent", "charge": "once", "mail": "once"}
UNDONE = ("put", "charge")
SETTLE = 0.6  # seconds; what the service still does, it does well before
RULES = Baseline(snapshot_events=16)
STOP_TIMEOUT = 60.0  # seconds


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its folder and name, the service's ports, and whether tools probe."""

    place: str
    name: str
    web: int
    mail: int
    probes: bool


def expected(name: str) -> set[tuple[str, str]]:
    """Class and name of every effect that is to reach the service, once."""
    found: set[tuple[str, str]] = set()
    for task, work in TASKS.items():
        for step, calls in work.items():
            for call in calls:
                if call in EFFECTS:
                    what = f"{name}/{task}/{step}/{call}"
                    found.add((EFFECTS[call], what))
                    if task == "back" and call in UNDONE:
                        found.add((EFFECTS[call], f"{what}/undo"))
    return found


def make_tools(job: Job) -> list[Tool]:
    """The tools, bound to the service."""

    def seen(effect: Effect) -> Verdict:
        try:
            found = asked(job.web, "GET", f"/seen/{quote(effect.request_id)}")
        except ConnectionError as error:
            return CannotTell(str(error))
        return Happened("done") if found["seen"] else DidNotHappen()

    probe: dict[str, Any] = {"probe": seen, "settle": SETTLE} if job.probes else {}

    def post(kind: str, what: str, request_id: str) -> str:
        asked(job.web, "POST", f"/{kind}", {"what": what, "request_id": request_id})
        return "done"

    def take_out(effect: Effect, *, request_id: str) -> str:
        """Take out what was put."""
        return post("idempotent", f"{effect.arguments['what']}/undo", request_id)

    @tool(effect="once", **probe)
    def refund(effect: Effect, *, request_id: str) -> str:
        """Give back what was charged."""
        return post("once", f"{effect.arguments['what']}/undo", request_id)

    @tool(effect="idempotent", undo=take_out)
    def put(what: str, *, request_id: str) -> str:
        """Put something where a repetition finds it."""
        return post("idempotent", what, request_id)

    @tool(effect="once", undo=refund, **probe)
    def charge(what: str, *, request_id: str) -> str:
        """Charge for something."""
        return post("once", what, request_id)

    @tool(effect="once", **probe)
    def mail(what: str, *, request_id: str) -> str:
        """Send a mail."""
        message = EmailMessage()
        message["Subject"], message["X-Request-Id"] = what, request_id
        message["From"], message["To"] = "a@example.org", "b@example.org"
        with smtplib.SMTP(HOST, job.mail, "localhost", timeout=10.0) as server:
            server.send_message(message)
        return "sent"

    @tool(effect="read")
    def look(what: str) -> str:
        """Look something up."""
        asked(job.web, "GET", f"/read/{quote(what)}")
        return "fine"

    @tool(effect="once", approval=True)
    def hold(what: str) -> str:
        """Wait for a person, who never comes."""
        raise AssertionError(f"{what} was approved by nobody")

    return [put, charge, mail, look, hold]


def make_agent(job: Job, task: str) -> Agent:
    """The agent of one task, with a scripted model."""
    work = TASKS[task]

    def reply(request: ModelRequest) -> ModelReply:
        step = moving_data(request.messages[-1]["content"])["step"]["id"]
        done = _done(request)
        left = [name for name in work[step] if name not in done]
        if not left:
            return ModelReply(content=canonical({"step": step}))
        what = canonical({"what": f"{job.name}/{task}/{step}/{left[0]}"})
        call = ToolCall(id=f"{step}-{left[0]}", name=left[0], arguments=what)
        return ModelReply(tool_calls=(call,))

    return Agent(
        name=task,
        instructions="Do the step.",
        model=Scripted(reply),
        tools=make_tools(job),
        plan=[Step(id=step, goal=f"{step} it", max_iterations=20) for step in work],
        recovery="rules",
    )


def _done(request: ModelRequest) -> set[str]:
    """The tools that did what the step wants of them, by the record."""
    data = moving_data(request.messages[-1]["content"])
    done = {one["tool"] for one in data["operations"] if one["outcome"] == "completed"}
    names: dict[str, str] = {}
    for message in request.messages:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool" and not message["content"].startswith("error"):
            done.add(names[message["tool_call_id"]])
    return done


def run(job: Job) -> None:
    """Run the tasks to their ends, or to where somebody kills this process."""
    place = Path(job.place)
    with Runtime(
        place / "tasks.db",
        agents=[make_agent(job, task) for task in TASKS],
        log=place / "log.jsonl",
        baseline=RULES,
    ) as runtime:
        budget = Budget(tokens=200_000)
        tasks = {
            task: runtime.submit(task, f"Care for {task}", key=task, budget=budget)
            for task in TASKS
        }
        for task, handle in tasks.items():
            _finish(job, runtime, task, handle)


def _finish(job: Job, runtime: Runtime, task: str, handle: Handle) -> None:
    """Wait for the task's end; be the person that it asks for."""
    while True:
        result = handle.wait(STOP_TIMEOUT)
        match result.reason:
            case "approval":
                runtime.ask_cancel(handle.id, "bench", compensate=True)
                runtime.wait(handle.id, STOP_TIMEOUT, until="compensated")
            case "unknown_effect":
                _resolve(job, runtime)
            case "undo" | "service":
                handle.resume("bench")
            case _:
                break
    wanted = "cancelled" if task == "back" else "completed"
    if result.status != wanted:
        raise RuntimeError(f"{task} is {result.status}, not {wanted}: {result}")


def _resolve(job: Job, runtime: Runtime) -> None:
    """Say of all that waits whether it happened, as the service says; note which."""
    time.sleep(SETTLE)
    for line in runtime.unknown():
        with (Path(job.place) / "waiting").open("a") as file:
            file.write(f"{line.id}#{line.attempt}\n")
        seen = asked(job.web, "GET", f"/seen/{quote(line.request_id)}")["seen"]
        runtime.resolve(line.id, happened=seen)
