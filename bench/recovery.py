"""How fast tasks are back after a kill, and that it does not depend on their length.

    python bench/recovery.py --json

A task runs operations (no-op calls of a `read` tool) until its streams hold a thousand,
or a million, events, and its process kills itself with SIGKILL. It is run by the real
runtime, event by event; only the syncs are off while it is built, which leaves the same
bytes. Then one process after another opens the store, each with the syncs on, lets the
task do a few operations, and kills itself. Beside that, a thousand tasks that all run
are killed, and a thousand of which eight run.

    ms_thousand, ms_million   from the second at which the runtime takes submissions
                              until the task's first operation calls its tool; median
                              of `--repeats` kills, `*_range` the least and the most
    start_ms_*                from the runtime's making until it takes submissions
    replayed_*                events folded after the snapshots, the most of any start
    thousand_tasks_s          from the runtime's making until each of a thousand
                              interrupted tasks, all of which ran, runs again
    thousand_queued_s         the same until those eight of a thousand run again; the
                              others must then start in their old order
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
from common import finish, heading, options

from perdure import Agent, Budget, Call, Finish, PolicyView, Runtime, tool
from perdure.storage.backend import Opening
from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend

MILLION = 1_000_000
SHORT_MILLION = 20_000
THOUSAND = 1_000
SHORT_THOUSAND = 200
EVENTS_A_CALL = 6  # of the task's streams, about: the exact number is counted
REPEATS = 5
SOME = 20  # operations that a start does before it kills itself
FEW = 8  # slots, the default
CHILD = 3600.0  # seconds that a process may take
MS_LIMIT = 50.0
THOUSAND_LIMIT = 5.0  # seconds
SLOWER_LIMIT = 2.0  # a million to a thousand
LIMITED = Budget(tool_calls=10**9)


def die() -> None:
    """End as by `kill -9`: nothing is closed, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


class Unsynced(SqliteBackend):
    """A store that is written without waiting for the disk."""

    def open(self) -> Opening:
        opening = super().open()
        assert self._connection is not None
        self._connection.pragma("synchronous", "OFF")
        return opening


# ── one long task ────────────────────────────────────────────────────────────────


def worker(upto: int, seen: Callable[[], None]) -> Agent:
    """An agent that calls its tool without end; asked for call `upto`, it dies."""

    @tool(effect="read")
    def work(n: int) -> str:
        """Do nothing, but not the same twice."""
        seen()
        return hashlib.sha256(str(n).encode()).hexdigest()

    def decide(view: PolicyView) -> Call | Finish:
        if view.count == upto:
            die()
        return Call("work", {"n": view.count})

    return Agent(name="worker", policy=decide, tools=[work], recovery="rules")


def build(store: Path, calls: int) -> None:
    """Have a task make so many calls, then die."""
    runtime = Runtime(Unsynced(store), agents=[worker(calls, lambda: None)])
    runtime.submit("worker", "Work", budget=LIMITED)
    threading.Event().wait()


def start(store: Path, done: int) -> None:
    """Open the store of a task that made `done` calls; print the figures, and die."""
    first = threading.Event()
    called: list[float] = []

    def seen() -> None:
        if not called:
            called.append(time.perf_counter())
            first.set()

    began = time.perf_counter()
    runtime = Runtime(store, agents=[worker(done + SOME, seen)])
    runtime._openings.wait_for().result(60.0)  # noqa: SLF001 - no public word for it
    up = time.perf_counter()
    first.wait(60.0)
    if not called:
        sys.exit("its first operation did not come")
    ms = {"start_ms": (up - began) * 1000, "ms": (called[0] - up) * 1000}
    print(json.dumps(ms), flush=True)
    threading.Event().wait()


def long_task(folder: Path, events: int, repeats: int) -> dict[str, Any]:
    """Build a task of about so many events, and start it some times."""
    store, calls = folder / f"{events}.db", max(1, events // EVENTS_A_CALL)
    began = time.perf_counter()
    child("--build", store, calls)
    took = time.perf_counter() - began
    held = counted(store)
    found = [
        json.loads(child("--start", store, calls + SOME * n)) for n in range(repeats)
    ]
    ms = [one["ms"] for one in found]
    return {
        "events": held,
        "build_s": round(took, 1),
        "store_mib": round(store.stat().st_size / 2**20, 1),
        "ms": round(statistics.median(ms), 1),
        "range": [round(min(ms), 1), round(max(ms), 1)],
        "start_ms": round(statistics.median(one["start_ms"] for one in found), 1),
        "replayed": replayed(store),
    }


def counted(store: Path) -> int:
    """How many events the streams of tasks hold."""
    with open_reader(store) as reader:
        return sum(map(reader.head, reader.streams("task")))


def replayed(store: Path) -> int:
    """The most events that a recovery folded after its snapshot."""
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    bodies = connection.execute("SELECT body FROM events WHERE type = 'RecoveryLoaded'")
    found = [msgspec.json.decode(body).get("replayed", 0) for (body,) in bodies]
    connection.close()
    return max(found)


# ── a thousand tasks ─────────────────────────────────────────────────────────────


def holder(held: Callable[[], object], *, stay: bool) -> Agent:
    """An agent whose only call stays until the process dies, or returns at once."""

    @tool(effect="read")
    async def hold(n: int) -> str:
        """Stay."""
        held()
        if stay:
            await asyncio.sleep(3600)
        return "x"

    def decide(view: PolicyView) -> Call | Finish:
        return Finish(view.count) if view.count else Call("hold", {"n": 0})

    return Agent(name="holder", policy=decide, tools=[hold], recovery="rules")


def many(store: Path, tasks: int, active: int) -> None:
    """Have `active` of so many tasks run, then die."""
    running = threading.Semaphore(0)
    agent = holder(running.release, stay=True)
    runtime = Runtime(Unsynced(store), agents=[agent], active=active)
    for number in range(tasks):
        runtime.submit("holder", f"task {number}")
    for _ in range(active):
        running.acquire()
    die()


def again(store: Path, tasks: int, active: int) -> None:
    """Open their store; print when those that had run do so again."""
    started, running = time.perf_counter(), threading.Semaphore(0)
    agent, cpu = holder(running.release, stay=False), time.process_time()
    with Runtime(store, agents=[agent], active=active) as runtime:
        for _ in range(active):
            running.acquire()
        took = time.perf_counter() - started
        used = time.process_time() - cpu
        ids = [one.task for one in runtime.tasks()]
        for task in ids:
            runtime.task(task).wait(600)
    with open_reader(store) as reader:
        order = [
            msgspec.json.decode(one.body)["task"]
            for one in reader.load("services/admission", usable=lambda _: False).records
            if one.type == "TaskActivated"
        ]
    queued = [task for task in order[-tasks:] if order.count(task) == 1]
    in_order = queued == sorted(queued, key=ids.index)
    print(
        json.dumps(
            {
                "s": round(took, 2),
                "cpu_s": round(used, 2),
                "queued": len(queued),
                "in_order": in_order and len(ids) == tasks,
            }
        )
    )


def thousand(folder: Path, tasks: int, active: int) -> dict[str, Any]:
    """Kill a process in the middle of so many tasks, and start another one."""
    store = folder / f"many-{active}.db"
    child("--many", store, tasks, active)
    found: dict[str, Any] = json.loads(child("--again", store, tasks, active))
    return found


def child(part: str, store: Path, *numbers: int) -> str:
    """Run a part of this bench in a process of its own, that may kill itself."""
    command = [sys.executable, __file__, part, str(store), *map(str, numbers)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=CHILD
    )
    if done.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{command} failed:\n{done.stderr}")
    return done.stdout


def figures(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    short = arguments.short
    events = SHORT_MILLION if short else arguments.events
    tasks = SHORT_THOUSAND if short else THOUSAND
    few = long_task(folder, THOUSAND, arguments.repeats)
    lots = long_task(folder, events, arguments.repeats)
    all_run, most_wait = thousand(folder, tasks, tasks), thousand(folder, tasks, FEW)
    result = {
        "ms_thousand": few["ms"],
        "ms_thousand_range": few["range"],
        "ms_million": lots["ms"],
        "ms_million_range": lots["range"],
        "start_ms_thousand": few["start_ms"],
        "start_ms_million": lots["start_ms"],
        "replayed_thousand": few["replayed"],
        "replayed_million": lots["replayed"],
        "events": [few["events"], lots["events"]],
        "million_store_mib": lots["store_mib"],
        "million_build_s": lots["build_s"],
        "tasks": tasks,
        "thousand_tasks_s": all_run["s"],
        "thousand_queued_s": most_wait["s"],
        "in_order": all_run["in_order"] and most_wait["in_order"],
    }
    failures = sum(
        (
            lots["ms"] >= MS_LIMIT,
            lots["ms"] >= SLOWER_LIMIT * max(few["ms"], MS_LIMIT / 5),
            all_run["s"] >= THOUSAND_LIMIT,
            most_wait["s"] >= THOUSAND_LIMIT,
            not result["in_order"],
            most_wait["queued"] != tasks - FEW,
        )
    )
    return {**result, "failures": failures}


def main() -> None:
    """Recover once."""
    parts = {"--build": build, "--start": start, "--many": many, "--again": again}
    if len(sys.argv) > 1 and sys.argv[1] in parts:
        parts[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
        return
    parser = options(__doc__ or "")
    parser.add_argument(
        "--events", type=int, default=MILLION, help="of the long task (1000000)"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="kills (5)")
    arguments = parser.parse_args()
    heading(arguments, "no LLM; the disk's cache is warm: the store was just written")
    with tempfile.TemporaryDirectory(prefix="perdure-recovery-") as folder:
        finish(arguments, figures(Path(folder), arguments))


if __name__ == "__main__":
    main()
