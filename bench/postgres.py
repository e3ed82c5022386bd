"""Operations a second on PostgreSQL beside a raw loop on the same server.

    python bench/postgres.py --url postgresql://HOST/DATABASE --json

An operation is one `once` no-op tool call with 500 characters of result, chosen by an
agent's own policy, with a budget, a log file and snapshots on. The loop inserts one row
of 500 characters and commits it (``synchronous_commit=on``). Loop and runtime take
turns, a window each; a figure is the median of the windows, with their range. All lies
in schemas of their own, which are dropped at the end.

    ratio_one_task       one task, its operations back to back
    ratio_hundred_tasks  a hundred tasks at once
    cpu_us_per_op        of this process, one task; `cpu_us_hundred` with a hundred
    bytes_per_op         of tables and indexes, one task, its result in it
    wal_bytes_per_op     of the server's log, one task
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
from common import finish, heading, options
from raw import PostgresLoop, in_schema, schema_bytes, schema_in, spread

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from on_perdure import OnPerdure
from serving import Operation

WINDOWS, SHORT_WINDOWS = 7, 5
OPERATIONS, SHORT_OPERATIONS = 400, 60  # of one task in a window, and of ten together
ROWS, SHORT_ROWS = 1_500, 300  # of one window of the loop
WARM = 20
LEAST = {"ratio_one_task": 0.35, "ratio_hundred_tasks": 1.0}


def written(url: str) -> int:
    """Bytes that the server's log has ever held."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        ).fetchone()
    assert found is not None
    size: int = found[0]
    return size


def measure(url: str, *, rows: int, operations: int, windows: int) -> dict[str, Any]:
    """Take the windows; return all figures."""
    loads = {
        "one_task": (1, operations),
        "hundred_tasks": (100, max(2, operations // 10)),
    }
    raw: dict[str, list[float]] = {name: [] for name in loads}
    rates: dict[str, list[float]] = {name: [] for name in loads}
    cpu: dict[str, list[float]] = {name: [] for name in loads}
    operation = Operation()
    logged = took = 0
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-"))
        beside, ours = (stack.enter_context(schema_in(url)) for _ in range(2))
        loop = stack.enter_context(closing(PostgresLoop(in_schema(url, beside))))
        told = {"store": in_schema(url, ours), "folder": folder}
        peer = stack.enter_context(closing(OnPerdure(told, operation)))
        peer.start()
        loop.rate(rows)
        peer.run(1, WARM)
        for _ in range(windows):
            for name, (tasks, each) in loads.items():
                raw[name].append(loop.rate(rows))
                before = written(url), schema_bytes(url, ours)
                operation.reset()
                peer.run(tasks, each)
                if tasks == 1:
                    logged += written(url) - before[0]
                    took += schema_bytes(url, ours) - before[1]
                window = operation.window()
                rates[name].append(window["rate"])
                cpu[name].append(window["cpu_us"])
    ratio = {
        name: spread([a / b for a, b in zip(rates[name], raw[name], strict=True)], 3)
        for name in loads
    }
    ones = operations * windows
    return {
        "raw_commits_per_s": round(spread(raw["one_task"] + raw["hundred_tasks"])[0]),
        "one_task_ops_per_s": round(spread(rates["one_task"])[0]),
        "ratio_one_task": ratio["one_task"][0],
        "ratio_one_task_range": ratio["one_task"][1:],
        "hundred_tasks_ops_per_s": round(spread(rates["hundred_tasks"])[0]),
        "ratio_hundred_tasks": ratio["hundred_tasks"][0],
        "ratio_hundred_tasks_range": ratio["hundred_tasks"][1:],
        "cpu_us_per_op": round(spread(cpu["one_task"])[0]),
        "cpu_us_hundred": round(spread(cpu["hundred_tasks"])[0]),
        "bytes_per_op": round(took / ones),
        "wal_bytes_per_op": round(logged / ones),
        "windows": windows,
    }


def main() -> None:
    """Measure it, and say whether the promises hold."""
    parser = options(__doc__ or "")
    parser.add_argument("--url", required=True, help="a database to make schemas in")
    parser.add_argument("--windows", type=int, help="how many of each")
    parser.add_argument("--operations", type=int, help="of one task in a window")
    arguments = parser.parse_args()
    short = arguments.short
    heading(
        arguments,
        "loop, runtime and server share this machine's cores",
        "a window counts from its first operation to its last",
    )
    found = measure(
        arguments.url,
        rows=SHORT_ROWS if short else ROWS,
        operations=arguments.operations or (SHORT_OPERATIONS if short else OPERATIONS),
        windows=arguments.windows or (SHORT_WINDOWS if short else WINDOWS),
    )
    missed = [name for name, least in LEAST.items() if found[name] < least]
    failures = 0 if short else len(missed)
    finish(arguments, {**found, "missed": missed, "failures": failures})


if __name__ == "__main__":
    main()
