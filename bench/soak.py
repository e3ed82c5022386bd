"""Run many short tasks through one runtime, then let it rest: nothing may grow.

    python bench/soak.py --tasks 10000 --json

Each figure is a pair: after a tenth of the tasks, and at the end, when all of them are
done and the runtime has rested. It fails where tasks do not complete, or where threads,
descriptors or memory are more than a tenth and 20 MiB above the first figure.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import finish, heading, options

from perdure import Agent, Runtime, tool
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall

WAVE = 200  # tasks submitted before their ends are waited for
SHORT_TASKS = 400
REST = 30.0  # seconds at idle
SHORT_REST = 3.0
PAGE = os.sysconf("SC_PAGE_SIZE")
SLACK_MIB = 20.0


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return what


def reply(request: ModelRequest) -> ModelReply:
    """One call, then the end."""
    if any(message["role"] == "tool" for message in request.messages):
        return ModelReply(content='"done"')
    call = ToolCall(id="1", name="look", arguments='{"what": "it"}')
    return ModelReply(tool_calls=(call,))


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
    agent = Agent(
        name="a",
        instructions="x",
        model=Scripted(reply),
        tools=[look],
        recovery="rules",
    )
    first: dict[str, float] = {}
    wal = failures = done = 0
    with Runtime(store, agents=[agent], log=store.with_suffix(".log")) as runtime:
        while done < tasks:
            wave = [
                runtime.submit("a", f"task {done + n}")
                for n in range(min(WAVE, tasks - done))
            ]
            failures += sum(one.wait(120.0).status != "completed" for one in wave)
            done += len(wave)
            wal = max(wal, Path(f"{store}-wal").stat().st_size)
            if not first and done >= tasks / 10:
                first = figures()
        began, used = time.monotonic(), time.process_time()
        time.sleep(rest)
        idle = (time.process_time() - used) / (time.monotonic() - began)
        last = figures()
    grown = sum(
        last[name] > value * 1.1 and last[name] > value + SLACK_MIB
        for name, value in first.items()
    )
    pairs = {name: [value, last[name]] for name, value in first.items()}
    return {
        "tasks": tasks,
        **pairs,
        "wal_mib_max": round(wal / 2**20, 1),
        "idle_cpu": round(idle, 4),
        "failures": failures + grown,
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
