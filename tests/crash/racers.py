"""The host that `bench/race.py` kills: many tasks that share a pool too small for them.

Half of the tasks bring limits of their own, the others take shares of the pool. Model
calls may use more than was estimated.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec

from perdure import (
    Agent,
    Baseline,
    Budget,
    DidNotHappen,
    Happened,
    Misuse,
    Price,
    Runtime,
    sleep,
    tool,
)
from perdure.actors.context.measure import request_characters
from perdure.actors.tool import Effect, Tool, Verdict
from perdure.models import ModelReply, ModelRequest, Scripted, Usage
from perdure.supervision.faults import Fault, FaultPlan, install
from tests.actors.world import Calls, follow

__all__ = ["TIMEOUT", "host"]

ACTIVE = 8
TIMEOUT = 300.0  # seconds that one process may take
DEAR = 3  # one model call of so many uses three times its estimate of input tokens
RULES = Baseline(output_tokens=256, step_iterations=9)
PUTTING = 0.02  # seconds that a tool works
HEAD_START = 2.0  # seconds in which all are submitted before the first may start
SCRIPT: dict[str, list[Calls]] = {
    "task": [
        [("look", {"what": "a"}), ("look", {"what": "b"})],
        [("put", {"what": "c"})],
        [("sleep", {"seconds": 0.05})],
        [("send", {"what": "d"})],
    ]
}
answer = follow(SCRIPT)
OWN = Budget(  # too little for some, by what their model calls turn out to use
    tokens=3_600,
    input_tokens=3_000,
    output_tokens=1_500,
    cost="0.008",
    model_calls=4,
    tool_calls=4,
    tools={"look": 2, "put": 1, "send": 1, "sleep": 1},
    seconds=0.1,
)
A_TASK = Budget(  # what the pool has for each task, at first
    tokens=4_000,
    input_tokens=3_200,
    output_tokens=700,
    cost="0.005",
    model_calls=5,
    tool_calls=4,
    tools={"look": 2, "put": 1, "send": 1, "sleep": 1},
    seconds=0.06,
)


def times(budget: Budget, number: int) -> Budget:
    """So much of everything, so many times."""
    return Budget(
        tokens=(budget.tokens or 0) * number,
        input_tokens=(budget.input_tokens or 0) * number,
        output_tokens=(budget.output_tokens or 0) * number,
        cost=str(float(str(budget.cost)) * number),
        model_calls=(budget.model_calls or 0) * number,
        tool_calls=(budget.tool_calls or 0) * number,
        tools={name: n * number for name, n in budget.tools.items()},
        seconds=(budget.seconds or 0) * number,
    )


def groups_of(tasks: int) -> dict[str, int]:
    """Four groups by size, the biggest first: it could starve the others."""
    few, some = tasks // 10, tasks // 4
    return {"big": tasks - some - few - 1, "middle": some, "small": few, "one": 1}


def make_tools(place: Path) -> list[Tool]:
    """A tool of each effect class; what `send` does stands in a file."""

    def was_sent(effect: Effect) -> Verdict:
        done = (place / "sent" / effect.request_id).exists()
        return Happened("sent") if done else DidNotHappen()

    @tool(effect="read")
    def look(what: str) -> str:
        """Look something up."""
        return f"{what} is fine"

    @tool(effect="idempotent")
    def put(what: str, *, request_id: str) -> str:
        """Put something where a repetition finds it."""
        time.sleep(PUTTING)
        return f"{what} is put"

    @tool(effect="once", probe=was_sent, settle=0.02)
    def send(what: str, *, request_id: str) -> str:
        """Send something that must not go out twice."""
        (place / "sent" / request_id).touch(exist_ok=False)
        return "sent"

    return [look, put, send, sleep]


def reply(request: ModelRequest) -> ModelReply:
    """What the model says; some calls use more than anybody estimated."""
    said = answer(request)
    size = request_characters(request.messages, request.tools)
    if size % DEAR:
        return said
    output = request.max_output_tokens
    return msgspec.structs.replace(
        said, usage=Usage(input_tokens=size, output_tokens=output)
    )


def host(place: str, tasks: int, faults: tuple[Fault, ...], money: int) -> None:
    """Open the store, submit what is missing, and go on until nothing can."""
    folder = Path(place)
    (folder / "sent").mkdir(exist_ok=True)
    install(FaultPlan(faults))
    agent = Agent(
        name="racer",
        instructions="Do the work.",
        model=Scripted(reply),
        price=Price(input="1", output="2"),
        tools=make_tools(folder),
    )
    start = folder / "start"
    if not start.exists():
        start.write_text(repr(time.time() + HEAD_START))
    begin = float(start.read_text())
    with Runtime(
        folder / "tasks.db",
        agents=[agent],
        active=ACTIVE,
        pool=times(A_TASK, tasks * money),
        log=folder / "log.jsonl",
        baseline=RULES,
    ) as runtime:
        handles = [
            runtime.submit(
                "racer",
                f"Do the work of {group} {n}",
                key=f"{group} {n}",
                group=group,
                budget=OWN if n % 2 else None,
                not_before=begin,
            )
            for group, size in groups_of(tasks).items()
            for n in range(size)
        ]
        for last in (False, True):
            for handle in handles:
                result = handle.wait(TIMEOUT)
                if result.status not in ("paused", "parked"):
                    continue
                if last and money > 1:
                    handle.cancel(timeout=TIMEOUT)
                elif result.reason == "budget":
                    more(runtime, handle.id)
                else:
                    handle.resume()
        told = {
            handle.id: result.spent if (result := handle.result()) else None
            for handle in handles
        }
    (folder / "told").write_text(json.dumps(told))


def more(runtime: Runtime, task: str) -> None:
    """Give a task that paused what its limits lack, if the pool has it."""
    try:
        runtime.task(task).extend(OWN)
    except Misuse:  # it shares the pool, or the pool has nothing
        runtime.task(task).resume()
