"""A hundred thousand tasks that wait: what they take of disk, memory, CPU and time.

    python bench/waiting.py --tasks 100000 --json

The tasks are submitted to a runtime and go to their rest by their own code: half of
them sleep for 30 days, half wait for a person's approval of a call. Then a process of
its own opens an empty store, and another one the store with the tasks; each rests, and
what the second one has more than the first is theirs. It fails above the limits that
stand below.

    threads_added      of the process, above the idle one
    memory_mib_added   resident, after a garbage collection, above the idle one
    store_mib          of the file at rest; `bytes_a_task` is the same for one
    idle_cpu           of one core, while nothing is due
    start_s            from the runtime's making until it takes a submission
    timer_late_s       the worst of some tasks that sleep a second among the others:
                       from the second it was due until its policy is asked again
    build_s            for all of them to be submitted and to rest
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import apsw
from common import finish, heading, options

from perdure import Agent, Call, Finish, PolicyView, Runtime, sleep, tool

TASKS = 100_000
SHORT_TASKS = 1_000
AHEAD = 128  # tasks that are submitted, and do not wait yet
SUBMITTERS = 16  # threads
FAR = 30 * 86_400  # seconds
REST = 10.0  # seconds at idle
SHORT_REST = 3.0
TIMERS = 5  # tasks that sleep a second, one after another
PAGE = os.sysconf("SC_PAGE_SIZE")
LIMITS = {
    "threads_added": 1,
    "memory_mib_added": 50.0,
    "store_mib": 300.0,
    "idle_cpu": 0.01,
    "start_s": 1.0,
    "timer_late_s": 0.2,
}

_RESTING = (
    "SELECT count(*) FROM rows WHERE space = 'task' "
    "AND json_extract(value, '$.status') IN ('waiting', 'paused')"
)


class Asked:
    """What the policy was asked: it lets another task come, or says when it was."""

    def __init__(self) -> None:
        self.room = threading.Semaphore(AHEAD)
        self.at = 0.0
        self.again = threading.Event()


@tool(effect="once", approval=True)
def send(what: str) -> str:
    """Send something, once somebody has said so."""
    return what


def agent(asked: Asked) -> Agent:
    """Tasks that wait: for a time, or for a word."""

    def decide(view: PolicyView) -> Call | Finish:
        if view.count:
            asked.at = time.time()
            asked.again.set()
            return Finish("done")
        asked.room.release()
        if seconds := view.inputs.get("seconds"):
            return Call("sleep", {"seconds": seconds})
        return Call("send", {"what": "it"})

    return Agent(name="waiter", policy=decide, tools=[sleep, send])


def build(store: Path, tasks: int) -> float:
    """Submit the tasks and have them all rest; return the seconds that took."""
    asked, began = Asked(), time.perf_counter()
    numbers = iter(range(tasks))
    lock = threading.Lock()
    with Runtime(store, agents=[agent(asked)], log=store.with_suffix(".log")) as one:

        def submit() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                inputs = {"seconds": FAR + number} if number % 2 else {}
                asked.room.acquire()
                one.submit("waiter", f"wait {number}", inputs=inputs)

        threads = [threading.Thread(target=submit) for _ in range(SUBMITTERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reader = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
        while reader.execute(_RESTING).get != tasks:
            time.sleep(0.05)
        reader.close()
    return time.perf_counter() - began


def resident() -> float:
    """MiB of this process in memory, once what nobody holds is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def measure(store: Path, rest: float) -> dict[str, Any]:
    """Open a store, rest, and say what this process is like; its own process."""
    asked, began = Asked(), time.perf_counter()
    log = store.with_suffix(".log")
    with Runtime(store, agents=[agent(asked)], log=log) as runtime:
        late = []
        for number in range(TIMERS):
            asked.again.clear()
            due = time.time() + 1.0
            runtime.submit("waiter", f"soon {number}", inputs={"seconds": 1.0})
            if not number:
                start = time.perf_counter() - began
            asked.again.wait(30.0)
            late.append(asked.at - due)
        time.sleep(1.0)
        memory, threads = resident(), threading.active_count()
        clock, used = time.monotonic(), time.process_time()
        time.sleep(rest)
        idle = (time.process_time() - used) / (time.monotonic() - clock)
        return {
            "start_s": round(start, 3),
            "timer_late_s": round(max(late), 3),
            "memory_mib": round(memory, 1),
            "threads": threads,
            "idle_cpu": round(idle, 4),
        }


def apart(store: Path, rest: float) -> dict[str, Any]:
    """`measure` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(store), "--rest", str(rest)],
        check=True,
        capture_output=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figures(folder: Path, tasks: int, rest: float) -> dict[str, Any]:
    """Build the store, and measure it beside an empty one."""
    store = folder / "tasks.db"
    took = build(store, tasks)
    size = store.stat().st_size
    idle, full = apart(folder / "empty.db", rest), apart(store, rest)
    result = {
        "tasks": tasks,
        "threads_added": full["threads"] - idle["threads"],
        "memory_mib_added": round(full["memory_mib"] - idle["memory_mib"], 1),
        "store_mib": round(size / 2**20, 1),
        "bytes_a_task": size // tasks,
        "idle_cpu": full["idle_cpu"],
        "start_s": full["start_s"],
        "timer_late_s": full["timer_late_s"],
        "empty": idle,
        "build_s": round(took, 1),
    }
    over = [name for name, limit in LIMITS.items() if result[name] >= limit]
    return {**result, "over": over, "failures": len(over)}


def main() -> None:
    """Wait once."""
    parser = options(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=TASKS, help="how many (100000)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rest", type=float, default=REST, help="seconds at idle (10)")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.rest)))
        return
    heading(arguments, "no LLM; Linux only: it reads /proc; one disk, one run")
    tasks = SHORT_TASKS if arguments.short else arguments.tasks
    rest = SHORT_REST if arguments.short else arguments.rest
    with tempfile.TemporaryDirectory(prefix="perdure-waiting-") as folder:
        finish(arguments, figures(Path(folder), tasks, rest))


if __name__ == "__main__":
    main()
