"""A runtime's process ends, forks or is killed; the next one finds everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.actors.events import EVENTS, EffectRecorded, EffectRegistered
from perdure.storage.codec import Codec
from perdure.storage.reader import open_reader
from tests.actors.world import World
from tests.perdure.hosting import LONG, calls, opened, reporter

pytestmark = pytest.mark.proof("processes")
CODEC = Codec(EVENTS)
ROOT = str(Path(__file__).parents[2])

PRELUDE = f"""
import os, signal, sys, threading
sys.path.insert(0, {ROOT!r})
from pathlib import Path
from perdure import DidNotHappen, Happened, tool
from tests.actors.world import World
from tests.perdure.hosting import BUDGET, LONG, calls, faults, opened, reporter

def was_recorded(effect):
    ran = Path("ran")
    lines = ran.read_text().split() if ran.exists() else []
    return Happened("recorded") if effect.request_id in lines else DidNotHappen()

@tool(effect="once", probe=was_recorded, settle=0.0)
def record(what: str, *, request_id: str) -> str:
    with open("ran", "a") as file:
        file.write(request_id + "\\n")
    return "recorded"
"""


def script(body: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + body]


def run(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        script(body),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def events(folder: Path, kind: type[Any]) -> list[Any]:
    with open_reader(folder / "t.db") as reader:
        return [
            CODEC.decode(record)
            for record in reader.records(limit=100_000)
            if record.type == kind.__name__
        ]


def test_a_task_is_found_after_a_kill_right_behind_submit_and_runs_once(
    tmp_path: Path,
) -> None:
    # R5
    # The tasks of earlier processes are left alone: a process that dies twenty times
    # under one task has that task parked, as it should.
    submit_and_die = """
agent = reporter(World(), record, script=calls("record"))
runtime = opened(Path("t.db"), agent, resume=False)
os.write(1, runtime.submit("agent", "record", budget=BUDGET).id.encode())
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = [run(tmp_path, submit_and_die) for _ in range(20)]
    ids = [one.stdout for one in killed]
    assert all(ids), [one.stderr for one in killed]
    assert len(set(ids)) == 20
    finish = f"""
agent = reporter(World(), record, script=calls("record"))
with opened(Path("t.db"), agent) as runtime:
    print(*{{runtime.task(one).wait(LONG).status for one in {ids!r}}})
"""
    ended = run(tmp_path, finish)
    assert ended.stdout.split() == ["completed"], ended.stderr
    ran = (tmp_path / "ran").read_text().split()
    assert len(ran) == len(set(ran)) == 20


def test_an_interpreter_that_ends_without_a_close_drains_all_the_same(
    tmp_path: Path,
) -> None:
    ended = run(
        tmp_path,
        """
held = threading.Event()

@tool(effect="once")
def hold(what: str) -> str:
    held.set()
    threading.main_thread().join()
    return "held"

agent = reporter(World(), hold, script=calls("hold", "look"))
runtime = opened(Path("t.db"), agent, log="log.jsonl")
runtime.submit("agent", "hold", budget=BUDGET, key="k")
held.wait(LONG)
""",
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not (tmp_path / "t.db-wal").exists()
    tool = [one for one in events(tmp_path, EffectRecorded) if one.result == "held"]
    assert [one.status for one in tool] == ["completed"]
    kinds = kinds_of(tmp_path)
    world = World()
    agent = reporter(world, stand_in("hold"), script=calls("hold", "look"))
    with opened(tmp_path / "t.db", agent) as runtime:
        task = runtime.submit("agent", "hold", key="k")
        assert task.wait(LONG).status == "completed"
    assert world.looks == 1
    assert "RecoveryBegan" not in kinds + kinds_of(tmp_path)


def stand_in(name: str) -> Any:
    """A tool that must not be called: its call is on record."""
    from perdure import tool

    @tool(effect="once", name=name)
    def called_again(what: str) -> str:
        pytest.fail("called again")

    return called_again


def kinds_of(folder: Path) -> list[str]:
    with open_reader(folder / "t.db") as reader:
        return [record.type for record in reader.records(limit=100_000)]


def test_once_the_main_thread_has_ended_nothing_is_handed_out(tmp_path: Path) -> None:
    # The process lives on for a thread of the host, and the task neither runs nor
    # spins: it goes on in the next process.
    ended = run(
        tmp_path,
        """
held = threading.Event()
world = World()

@tool(effect="read")
def hold(what: str) -> str:
    held.set()
    threading.main_thread().join()
    return "held"

agent = reporter(world, hold, script=calls("hold", "look"))
runtime = opened(Path("t.db"), agent)
task = runtime.submit("agent", "hold", budget=BUDGET)

def host():
    threading.main_thread().join()
    try:
        task.wait(1.0)
    except TimeoutError:
        print(world.looks, len(runtime.health()))

held.wait(LONG)
threading.Thread(target=host).start()
""",
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[:1] == ["0"]
    # One call of the model, the tool, and the model once more, refused at the end.
    assert len(events(tmp_path, EffectRegistered)) <= 3
    assert "RecoveryBegan" not in kinds_of(tmp_path)


def test_an_error_of_an_ending_interpreter_is_in_doubt(tmp_path: Path) -> None:
    # P2: a refused connection would be "surely not done" at any other time.
    ended = run(
        tmp_path,
        """
held = threading.Event()

@tool(effect="once", name="hold")
def hold(what: str) -> str:
    held.set()
    threading.main_thread().join()
    raise ConnectionRefusedError("no new threads at interpreter shutdown")

agent = reporter(World(), hold, script=calls("hold"))
runtime = opened(Path("t.db"), agent)
runtime.submit("agent", "hold", budget=BUDGET)
held.wait(LONG)
""",
    )
    assert ended.returncode == 0, ended.stderr
    recorded = [one for one in events(tmp_path, EffectRecorded) if one.error]
    assert [one.status for one in recorded] == ["unknown"]


def test_a_forked_child_is_refused_and_does_not_hold_the_store(tmp_path: Path) -> None:
    body = """
agent = reporter(World(), record, script=calls("record"))
runtime = opened(Path("t.db"), agent, log="log.jsonl")
task = runtime.submit("agent", "record", budget=BUDGET)
assert task.wait(LONG).status == "completed"
said_all, told = os.pipe()
if os.fork() == 0:
    said = []
    for call in (
        lambda: runtime.submit("agent", "x"), lambda: task.status, task.wait,
        task.resume, runtime.tasks, lambda: runtime.task(task.id),
    ):
        try:
            call()
            said.append("nothing")
        except Exception as error:
            said.append(type(error).__name__ + ":" + str("forked" in str(error)))
    runtime.close()
    try:
        opened(Path("t.db"), agent)
    except Exception as error:
        said.append(type(error).__name__)
    with opened(Path("mine.db"), agent) as mine:
        said.append(mine.submit("agent", "x", budget=BUDGET).wait(LONG).status)
    print(*said, flush=True)
    os.write(told, b".")
    os.read(0, 1)  # outlive the parent
    os._exit(0)
os.read(said_all, 1)
again = runtime.submit("agent", "record", budget=BUDGET)
print(again.wait(LONG).status, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = subprocess.Popen(
        script(body),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    try:
        said = parent.stdout.readline().split()
        assert said[:6] == ["RuntimeClosed:True"] * 6
        assert said[6:] == ["StoreBusy", "completed"]
        assert parent.stdout.readline().split() == ["completed"]
        parent.wait(LONG)
        # The child lives, and has closed its copy of the lock.
        with opened(tmp_path / "t.db", reporter(World())) as runtime:
            assert len(runtime.tasks()) == 2
    finally:
        parent.kill()
        parent.communicate()


def test_a_child_that_ends_leaves_the_parents_store_alone(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
agent = reporter(World(), record, script=calls("record"))
with opened(Path("t.db"), agent) as runtime:
    for _ in range(3):
        child = os.fork()
        if child == 0:
            sys.exit(0)  # with atexit, unlike os._exit
        assert os.waitpid(child, 0)[1] == 0
        task = runtime.submit("agent", "record", budget=BUDGET)
        assert task.wait(LONG).status == "completed"
print(len(Path("ran").read_text().split()))
""",
    )
    assert ended.stdout.split() == ["3"], ended.stderr
    with open_reader(tmp_path / "t.db") as reader:
        records = reader.records(limit=100_000)
        assert [one.seq for one in records] == list(range(1, len(records) + 1))
