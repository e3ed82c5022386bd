"""Make the golden store of today's versions: `python tests/golden/make.py`.

It holds a finished task, one that waits for an approval, one that was killed half-way,
and one that has not begun. Released ones are never made again: only that of the version
under way is, until it is released.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCHEMA = 1  # raised with each release that changes what is stored
STORE = "golden.db"
GOALS = ("finished short", "paused short", "queued short", "running")

CHILD = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.golden.make import live
live()
"""


def live() -> None:
    """Run the tasks in this folder until the process dies under the last one."""
    from perdure import Baseline, Budget, Runtime
    from tests.golden.agents import golden

    rules = Baseline(snapshot_events=6)
    budget = Budget(tokens=400_000, tool_calls=50)
    finished, paused, queued, running = GOALS
    with Runtime(STORE, agents=[golden()], baseline=rules) as runtime:
        for goal in (finished, paused):
            task = runtime.submit("golden", goal, budget=budget)
            assert task.wait(60).status == "paused"
            if goal == finished:
                task.approve(runtime.approvals()[0].approval, by="operator")
                assert task.wait(60).status == "completed"
        runtime.submit("golden", queued, budget=budget, not_before=4e9)
        Path("armed").touch()
        runtime.submit("golden", running, budget=budget).wait(60)


def dump(path: Path) -> Iterator[str]:
    """The store as SQL text, its header included."""
    with sqlite3.connect(path) as db:
        for name in ("page_size", "auto_vacuum", "application_id", "user_version"):
            (value,) = db.execute(f"PRAGMA {name}").fetchone()
            yield f"PRAGMA {name}={value};"
        yield from db.iterdump()


def restore(text: str, path: Path) -> None:
    """Make a store of SQL text again."""
    with sqlite3.connect(path) as db:
        db.executescript(text)
    path.chmod(0o600)


def shapes() -> dict[str, list[str]]:
    """The fields of each event and each state, by class name and version."""
    from perdure.actors.events import EVENTS
    from perdure.doctor.walk import fold_of
    from perdure.storage.upgrades import version_of

    streams = ("services/admission", "services/pool", "services/windows")
    streams = (*streams, "services/memory", "task/1", "task/1/account", "task/1/ledger")
    states = [type(fold_of(stream)[0]) for stream in streams]
    return {
        f"{kind.__name__} {version_of(kind)}": sorted(kind.__struct_fields__)
        for kind in (*EVENTS, *states)
    }


def main() -> None:
    """Write the store and the shapes of its version."""
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        child = [sys.executable, "-c", CHILD]
        died = subprocess.run(child, cwd=folder, check=False).returncode
        assert died == -9, f"the process ended with {died}, and was to be killed"
        text = "\n".join(dump(Path(folder) / STORE))
    (HERE / f"schema-{SCHEMA}.sql").write_text(text + "\n")
    found = msgspec.json.format(msgspec.json.encode(shapes(), order="sorted"))
    (HERE / f"shapes-{SCHEMA}.json").write_bytes(found + b"\n")


if __name__ == "__main__":
    main()
