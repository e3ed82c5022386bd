"""Operations a second beside a raw loop that commits one row a flush.

    python bench/steps.py --json

An operation is one `once` no-op tool call with 500 characters of result, chosen by an
agent's own policy, with a budget, a log file and snapshots on. The loop inserts one row
of 500 characters and commits it (SQLite, WAL, ``synchronous=FULL``), on the same disk.
Loop and runtime take turns, a window each; a figure is the median of the windows, with
their range. A window counts from its first operation to its last.

    ratio_one_task       one task, its operations back to back
    ratio_hundred_tasks  a hundred tasks at once
    ratio_busy_host      one task, and the loop, beside a host thread that computes
    kept_with_log        the rate of a hundred tasks with a log file, of that without
    cpu_us_per_op        of this process, one task; `cpu_us_hundred` with a hundred
    cpu_us_in_memory     one task on a journal in memory: what perdure itself costs
    flushes_per_op       one task
    bytes_per_op         of the file at rest, one task, its result in it
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from common import finish, heading, options
from raw import SqliteLoop, spread

from perdure.storage.sqlite import SqliteBackend
from perdure.testing import MemoryBackend

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from on_perdure import OnPerdure
from serving import Operation

WINDOWS, SHORT_WINDOWS = 7, 5
OPERATIONS, SHORT_OPERATIONS = 1_500, 200  # of one task in a window
HUNDRED, SHORT_HUNDRED = 40, 6  # of each of a hundred tasks
ROWS, SHORT_ROWS = 1_500, 500  # of one window of the loop
WARM = 20
LEAST = {"ratio_one_task": 0.5, "ratio_hundred_tasks": 2.0, "kept_with_log": 0.8}
MOST = {"bytes_per_op": 1_500, "cpu_us_in_memory": 150}


class Counted(SqliteBackend):
    """A store that counts its flushes."""

    flushes = 0

    def flush(self) -> None:
        """Flush, and count it."""
        Counted.flushes += 1
        super().flush()


class House:
    """One runtime to take windows of."""

    def __init__(self, stack: ExitStack, folder: Path, store: Any, log: bool) -> None:
        folder.mkdir()
        self._operation = Operation()
        told = {"store": store, "folder": str(folder)}
        peer = OnPerdure(told, self._operation, log=log)
        self._peer = stack.enter_context(closing(peer))
        self._peer.start()
        self._peer.run(1, WARM)

    def window(self, tasks: int, operations: int) -> dict[str, float]:
        """Run so many tasks of so many operations each; its rate and CPU."""
        self._operation.reset()
        self._peer.run(tasks, operations)
        return self._operation.window()


@contextmanager
def busy() -> Iterator[None]:
    """A host thread that computes, as long as the block lasts."""
    over = threading.Event()

    def compute() -> None:
        n = 0
        while not over.is_set():
            n = (n * 31 + 7) % 1_000_003

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Figures:
    """What the windows said, by name."""

    def __init__(self) -> None:
        self._said: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Keep one window's figure."""
        self._said.setdefault(name, []).append(value)

    def median(self, name: str, digits: int = 0) -> float:
        """The median of all windows."""
        found = spread(self._said[name], digits)[0]
        return found if digits else round(found)

    def ratio(self, of: str, to: str) -> list[float]:
        """Median and range of the ratios, window by window."""
        pairs = zip(self._said[of], self._said[to], strict=True)
        return spread([a / b for a, b in pairs], 3)


def measure(*, rows: int, operations: int, hundred: int, windows: int) -> Figures:
    """Take the windows in turn."""
    figures = Figures()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-"))
        place = Path(folder)
        loop = stack.enter_context(closing(SqliteLoop(place / "raw.db")))
        with_log = House(stack, place / "with", Counted(place / "with.db"), log=True)
        without = House(stack, place / "out", place / "without.db", log=False)
        memory = House(stack, place / "memory", MemoryBackend(), log=True)
        loop.rate(rows)
        for _ in range(windows):
            figures.add("raw", loop.rate(rows))
            before = Counted.flushes
            one = with_log.window(1, operations)
            figures.add("flushes", (Counted.flushes - before) / operations)
            figures.add("one", one["rate"])
            figures.add("cpu", one["cpu_us"])
            figures.add("raw again", loop.rate(rows))
            many = with_log.window(100, hundred)
            figures.add("hundred", many["rate"])
            figures.add("cpu hundred", many["cpu_us"])
            figures.add("no log", without.window(100, hundred)["rate"])
            figures.add("memory", memory.window(1, operations)["cpu_us"])
            with busy():
                figures.add("raw busy", loop.rate(max(2, rows // 30)))
                slow = with_log.window(1, max(2, operations // 30))
                figures.add("one busy", slow["rate"])
    return figures


def size_of(operations: int) -> float:
    """Bytes of a file at rest with one task of so many operations, for each."""
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        store = Path(folder) / "tasks.db"
        with ExitStack() as stack:
            House(stack, Path(folder) / "log", store, log=True).window(1, operations)
        return store.stat().st_size / operations


def main() -> None:
    """Measure it, and say whether the promises hold."""
    parser = options(__doc__ or "")
    parser.add_argument("--windows", type=int, help="how many of each")
    parser.add_argument("--operations", type=int, help="of one task in a window")
    arguments = parser.parse_args()
    short = arguments.short
    heading(arguments, "loop and runtime share this machine's cores, in turn")
    operations = arguments.operations or (SHORT_OPERATIONS if short else OPERATIONS)
    figures = measure(
        rows=SHORT_ROWS if short else ROWS,
        operations=operations,
        hundred=max(2, operations // 40)
        if arguments.operations
        else (SHORT_HUNDRED if short else HUNDRED),
        windows=arguments.windows or (SHORT_WINDOWS if short else WINDOWS),
    )
    one, many = figures.ratio("one", "raw"), figures.ratio("hundred", "raw again")
    host, log = (
        figures.ratio("one busy", "raw busy"),
        figures.ratio("hundred", "no log"),
    )
    found: dict[str, Any] = {
        "raw_commits_per_s": figures.median("raw"),
        "one_task_ops_per_s": figures.median("one"),
        "ratio_one_task": one[0],
        "ratio_one_task_range": one[1:],
        "hundred_tasks_ops_per_s": figures.median("hundred"),
        "ratio_hundred_tasks": many[0],
        "ratio_hundred_tasks_range": many[1:],
        "ratio_busy_host": host[0],
        "ratio_busy_host_range": host[1:],
        "kept_with_log": log[0],
        "kept_with_log_range": log[1:],
        "cpu_us_per_op": figures.median("cpu"),
        "cpu_us_hundred": figures.median("cpu hundred"),
        "cpu_us_in_memory": figures.median("memory"),
        "flushes_per_op": figures.median("flushes", 2),
        "bytes_per_op": round(size_of(operations * 2)),
    }
    missed = [name for name, least in LEAST.items() if found[name] < least]
    missed += [name for name, most in MOST.items() if found[name] > most]
    failures = 0 if short else len(missed)
    finish(arguments, {**found, "missed": missed, "failures": failures})


if __name__ == "__main__":
    main()
