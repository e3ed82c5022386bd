"""What a task leaves on disk, how fast it is when it is long, and what retention frees.

    python bench/growth.py --json

Two agents. `once`: a policy that calls a no-op `once` tool, with results of 500
characters. `model`: a scripted model that reads 1,024 characters a step. Each runs one
task of so many operations in an SQLite file, closes it, and looks at the file at rest:

    bytes_per_op    slope of a straight line through size against operations
    overhead        that, less the result itself
    off_line        how far the size furthest off is from the line, as a share of the
                    longest file
    ratio           operations a second over the last 100 against those at the 100th
    load_ms         from `resume` of a paused task in a runtime that is up to its next
                    call, by how many operations the task has behind it
    before, after   bytes of the longest file before and after retention and vacuum

It fails where a size is off the line by a thirtieth, a file does not shrink, or a task
is not what it was before. Rates and times are this machine's, now.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
from common import finish, heading, options

from perdure import (
    Agent,
    Baseline,
    Budget,
    Call,
    Finish,
    PolicyView,
    Runtime,
    Stop,
    tool,
)
from perdure.actors.tool import Tool
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall

SIZES = (250, 500, 1_000, 2_000, 4_000)  # operations of a task
MODEL_SIZES = (125, 250, 500, 1_000, 2_000)
SHORT_SIZES = (100, 200, 300)
SHORT_MODEL_SIZES = (60, 110, 160)
RESULT = 500  # characters of a result of `once`
PAYLOAD = 1_024  # bytes that a step of `model` reads
WINDOW = 50  # operations on either side of the one whose rate is taken
OFF = 1 / 30  # of the longest file, at most
SHORT_OFF = 0.15  # where snapshots are much of it
TIMEOUT = 600.0  # seconds of a run, or of what comes after retention
REST = 6.0  # seconds
SETTLE = 60.0  # seconds for the file to be cut, at most


class Times:
    """When each operation began, by its number."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def rate(self, first: int, last: int) -> float:
        """Operations a second from one to another."""
        return (last - first) / (self.at[last] - self.at[first])

    def ratio(self) -> float:
        """The rate at the end against that around the 100th; medians of tenths."""
        end = len(self.at) - 1
        early = self._median(max(WINDOW - 1, 1), min(100 + WINDOW, end))
        late = self._median(end - 2 * WINDOW + 1, end)
        return late / early

    def _median(self, first: int, last: int) -> float:
        gaps = [self.at[n + 1] - self.at[n] for n in range(first, last)]
        return 1 / statistics.median(gaps)


def text(rng: random.Random, size: int) -> str:
    """Words that do not repeat themselves."""
    return "".join(rng.choice("abcdefghij klmnop") for _ in range(size))


def once(times: Times, count: int, seed: int, stops: int = 0) -> Agent:
    """An agent that calls a no-op `once` tool so often; it may stop on the way."""
    rng = random.Random(seed)

    @tool(effect="once")
    def note(n: int) -> str:
        times.at.append(time.perf_counter())
        return text(rng, RESULT)

    def decide(view: PolicyView) -> Any:
        if view.count >= count:
            return Finish("done")
        if stops and view.count == stops:
            return Stop("half-way")
        return Call("note", {"n": view.count})

    return Agent(name="agent", policy=decide, tools=[note])


def model(times: Times, count: int, seed: int) -> Agent:
    """An agent whose model reads something new in every step."""
    rng = random.Random(seed)

    def reply(request: ModelRequest) -> ModelReply:
        if len(times.at) >= count:
            return ModelReply(content=json.dumps("done"))
        arguments = json.dumps({"n": len(times.at)})
        call = ToolCall(id=f"c{len(times.at)}", name="look", arguments=arguments)
        return ModelReply(tool_calls=(call,))

    @tool(effect="read")
    def look(n: int) -> str:
        times.at.append(time.perf_counter())
        return text(rng, PAYLOAD)

    tools: list[Tool] = [look]
    return Agent(
        name="agent",
        instructions="Look at one after another.",
        model=Scripted(reply),
        tools=tools,
        max_rounds=count + 2,
    )


def run(path: Path, agent: Agent, rules: Baseline, wanted: str = "completed") -> str:
    """Run one task to its end or to its stop, in a store of its own; its id."""
    with Runtime(path, agents=[agent], baseline=rules, log=_log(path)) as runtime:
        budget = Budget(tool_calls=1_000_000, model_calls=1_000_000)
        task = runtime.submit("agent", "go on", budget=budget)
        status = task.wait(timeout=TIMEOUT).status
        if status != wanted:
            sys.exit(f"the task is {status}, not {wanted}")
    return task.id


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}.log")


def line(sizes: list[int], found: list[int]) -> tuple[float, float]:
    """Slope of the straight line through these, and how far one is off it at most."""
    slope, base = statistics.linear_regression(sizes, found)
    off = max(
        abs(size - (base + slope * n)) for n, size in zip(sizes, found, strict=True)
    )
    return slope, off / max(found)


def grow(
    folder: Path,
    name: str,
    sizes: tuple[int, ...],
    make: Callable[[Times, int], Agent],
    rules: Baseline,
) -> tuple[dict[str, Any], Path, str]:
    """Run a task of each size; the figures, and the longest store with its task."""
    found: list[int] = []
    times, path, task = Times(), folder, ""
    for size in sizes:
        times = Times()
        path = folder / f"{name}-{size}.db"
        task = run(path, make(times, size), rules)
        found.append(path.stat().st_size)
    slope, off = line(list(sizes), found)
    figures = {
        "ops": list(sizes),
        "bytes": found,
        "bytes_per_op": round(slope),
        "off_line": round(off, 4),
        "ops_per_s_last": round(times.rate(len(times.at) - 100, len(times.at) - 1)),
        "ratio": round(times.ratio(), 2),
    }
    return figures, path, task


def loads(folder: Path, sizes: tuple[int, ...], seed: int, rules: Baseline) -> Any:
    """Milliseconds until a task that stopped after so many operations goes on."""
    figures = {}
    for size in sizes:
        path = folder / f"load-{size}.db"
        task = run(path, once(Times(), size + 1, seed, stops=size), rules, "paused")
        taken: list[float] = []
        for _ in range(3):
            copy = path.with_name(f"{path.name}.copy")
            copy.write_bytes(path.read_bytes())
            times = Times()
            agent = once(times, size + 1, seed)
            with Runtime(copy, agents=[agent], baseline=rules, log=_log(copy)) as again:
                begin = time.perf_counter()
                again.task(task).resume()
                again.wait(task, timeout=TIMEOUT)
                taken.append((times.at[0] - begin) * 1000)
        figures[str(size)] = round(statistics.median(taken), 1)
    return figures


def shrink(path: Path, task: str) -> dict[str, Any]:
    """Let the scratch of a task go, and the file be cut; its bytes at rest."""
    before = path.stat().st_size
    begin = time.perf_counter()
    rules = Baseline(id="growth")
    log = _log(path)
    with Runtime(path, baseline=rules, log=log, retention=0.001) as runtime:
        _until(lambda: '"over": true' in _text(log) or '"over":true' in _text(log))
        dropped = time.perf_counter() - begin
        time.sleep(REST)  # the file is packed and cut while nothing else is done
        _until(lambda: _free(path) < 64, SETTLE)
        status = runtime.wait(task, timeout=1.0).status
    return {
        "before": before,
        "after": path.stat().st_size,
        "left": round(path.stat().st_size / before, 3),
        "retention_s": round(dropped, 2),
        "status": status,
    }


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _free(path: Path) -> int:
    """Free pages of a store in use."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with closing(connection):
        return int(connection.pragma("freelist_count"))


def _until(condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit("retention did not come to its end")
        time.sleep(0.1)


def main() -> None:
    parser = options(__doc__ or "")
    arguments = parser.parse_args()
    if not arguments.json:
        heading(
            arguments,
            "rates and times are of this machine, now; sizes are not",
            "tools and the model do nothing; no real one is as fast",
        )
    short, seed = arguments.short, arguments.seed
    rules = Baseline(id="growth", loop_repeats=10**6, loop_errors=10**6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, path, task = grow(
            folder,
            "once",
            SHORT_SIZES if short else SIZES,
            lambda times, size: once(times, size, seed),
            rules,
        )
        first["overhead"] = first["bytes_per_op"] - RESULT
        first |= shrink(path, task)
        second, path, task = grow(
            folder,
            "model",
            SHORT_MODEL_SIZES if short else MODEL_SIZES,
            lambda times, size: model(times, size, seed),
            rules,
        )
        second["overhead"] = second["bytes_per_op"] - PAYLOAD
        second |= shrink(path, task)
        load = loads(folder, SHORT_SIZES if short else SIZES, seed, rules)
    failures = 0
    for figures in (first, second):
        failures += figures["off_line"] > (SHORT_OFF if short else OFF)
        failures += figures["after"] >= figures["before"]
        failures += figures["status"] != "completed"
    finish(
        arguments,
        {"once": first, "model": second, "load_ms": load, "failures": failures},
    )


if __name__ == "__main__":
    main()
