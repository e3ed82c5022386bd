"""Run many short tasks through one runtime, then let it rest: nothing may grow.

    python bench/soak.py --tasks 10000 --json

Some tasks wait for an approval all the while, and end well at the last. Each figure is
a pair: after a tenth of the tasks, and at the end, when the others are done and the
runtime has rested. It fails where a task does not end as it should; where threads,
descriptors or memory have grown by more than a tenth and what may linger; where a task
costs half as much time again; where the WAL grows or does not empty; and where rest
takes a hundredth of a core.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import finish, heading, options

from perdure import Agent, Runtime, tool
from perdure.actors.tool import Tool
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall

WAVE = 200  # tasks submitted before their ends are waited for
WAITING = 100  # tasks that wait for an approval
SHORT_TASKS = 400
REST = 30.0  # seconds at idle
SHORT_REST = 5.0
PAGE = os.sysconf("SC_PAGE_SIZE")
LINGER = {"threads": 8, "fds": 8, "rss_mib": 20.0}  # a thread for each active task
SLOWER_LIMIT = 1.5
WAL_LIMIT_MIB = 16.0
IDLE_LIMIT = 0.01  # of a core


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return what


@tool(effect="once", approval=True)
def send(what: str) -> str:
    """Send something."""
    return what


def call_of(name: str) -> Callable[[ModelRequest], ModelReply]:
    """A model that calls the tool once, then ends."""

    def reply(request: ModelRequest) -> ModelReply:
        if any(message["role"] == "tool" for message in request.messages):
            return ModelReply(content='"done"')
        call = ToolCall(id="1", name=name, arguments='{"what": "it"}')
        return ModelReply(tool_calls=(call,))

    return reply


def agent(name: str, used: Tool) -> Agent:
    """An agent that uses one tool, once."""
    return Agent(
        name=name,
        instructions="x",
        model=Scripted(call_of(used.name)),
        tools=[used],
        recovery="rules",
    )


def figures() -> dict[str, float]:
    """Threads, descriptors and resident memory of this process."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    return {
        "threads": threading.active_count(),
        "fds": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "rss_mib": round(resident / 2**20, 1),
    }


def soak(store: Path, tasks: int, rest: float) -> dict[str, Any]:
    """Run the tasks; return the figures."""
    tenth = tasks // 10
    wave = min(WAVE, tenth)
    wal_file = Path(f"{store}-wal")
    first: dict[str, float] = {}
    wal = failures = done = 0
    costs: list[float] = []  # CPU seconds of each wave
    agents = [agent("reader", look), agent("sender", send)]
    with Runtime(store, agents=agents, log=store.with_suffix(".log")) as runtime:
        waiting = [runtime.submit("sender", f"wait {n}") for n in range(WAITING)]
        failures += sum(one.wait(120.0).reason != "approval" for one in waiting)
        while done < tasks:
            used = time.process_time()
            running = [runtime.submit("reader", f"task {n}") for n in range(wave)]
            failures += sum(one.wait(120.0).status != "completed" for one in running)
            done += wave
            costs.append(time.process_time() - used)
            wal = max(wal, wal_file.stat().st_size)
            if not first and done >= tenth:
                first = figures()
        began, used = time.monotonic(), time.process_time()
        time.sleep(rest)
        idle = (time.process_time() - used) / (time.monotonic() - began)
        last = figures()
        failures += wal_file.stat().st_size > 0
        for asked in runtime.approvals():
            failures += not runtime.task(asked.task).approve(asked.approval)
        failures += sum(one.wait(120.0).status != "completed" for one in waiting)
    pairs = {name: [value, last[name]] for name, value in first.items()}
    failures += sum(
        after > before * 1.1 and after > before + LINGER[name]
        for name, (before, after) in pairs.items()
    )
    some = tenth // wave
    cost = [sum(part) / (some * wave) for part in (costs[:some], costs[-some:])]
    slower = cost[1] / cost[0]
    failures += slower > SLOWER_LIMIT
    failures += wal / 2**20 > WAL_LIMIT_MIB
    failures += idle > IDLE_LIMIT
    return {
        "tasks": done,
        **pairs,
        "wal_mib_max": round(wal / 2**20, 1),
        "idle_cpu": round(idle, 4),
        "waiting": WAITING,
        "cpu_ms_a_task": [round(one * 1000, 2) for one in cost],
        "slower": round(slower, 2),
        "failures": failures,
    }


def main() -> None:
    """Soak once."""
    parser = options(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=10_000, help="how many (10000)")
    arguments = parser.parse_args()
    heading(arguments, "scripted, no LLM; Linux only: it reads /proc")
    tasks = SHORT_TASKS if arguments.short else arguments.tasks
    rest = SHORT_REST if arguments.short else REST
    with tempfile.TemporaryDirectory(prefix="perdure-soak-") as folder:
        finish(arguments, soak(Path(folder) / "tasks.db", tasks, rest))


if __name__ == "__main__":
    main()
