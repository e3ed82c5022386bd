"""A task that kills its process each time it runs, beside seven that do not."""

from __future__ import annotations

import subprocess
from pathlib import Path

from perdure.storage.reader import open_reader
from tests.perdure.hosting import LONG
from tests.perdure.test_processes import script

KILLED = -9
PROCESS = """
from perdure.models import Scripted
from tests.actors.world import follow, job

@tool(effect="read")
def die(what: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never heard"


bad = job(World(), name="bad", tools=[die], plan=None, recovery="rules",
          model=Scripted(follow({"task": [[("die", {"what": "x"})]]})))
good = [job(World(), name=f"good{n}") for n in range(7)]
with opened(Path("t.db"), *good[:4], bad, *good[4:]) as runtime:
    tasks = [
        runtime.submit(one.name, "go on", budget=BUDGET, key=one.name)
        for one in [*good[:4], bad, *good[4:]]
    ]
    print(*(one.wait(LONG).status for one in tasks))
"""


def test_a_task_that_kills_each_process_is_parked_and_the_seven_beside_it_end(
    tmp_path: Path,
) -> None:
    # P8 R24
    for _ in range(30):
        ended = subprocess.run(
            script(PROCESS),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        if ended.returncode != KILLED:
            break
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.split()
    assert said == [*["completed"] * 4, "parked", *["completed"] * 3]
    with open_reader(tmp_path / "t.db") as reader:
        kinds = [record.type for record in reader.records(limit=100_000)]
    assert kinds.count("TaskParked") == 1
    assert kinds.count("TaskClosed") == 7
