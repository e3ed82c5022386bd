"""A runtime over a store that is no file: killed, restarted, commanded, erased."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Agent, Result, Runtime, tool
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall
from tests.servers import Server

ROOT = Path(__file__).parents[2]
CALLS = 12
LONG = 60.0  # seconds

CHILD = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.perdure.test_other_stores import worker
from perdure import Runtime
store, ran, dies = sys.argv[1:]
agent = worker(Path(ran), dies=int(dies))
with Runtime(store, agents=[agent]) as runtime:
    print(runtime.submit("worker", "count", key="one").wait(60).status)
"""


def worker(ran: Path, *, dies: int = 0, pause: float = 0.0) -> Agent:
    """Calls `count` with 1, 2, 3 …; its process dies in call `dies`."""

    @tool(effect="idempotent")
    def count(n: int) -> str:
        """Count on."""
        with ran.open("a") as file:
            file.write(f"{n}\n")
        if n == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause)
        return f"counted {n}"

    def mind(request: ModelRequest) -> ModelReply:
        text = json.dumps(request.messages)
        done = max(
            (n for n in range(1, CALLS + 1) if f"counted {n}" in text), default=0
        )
        if '\\"uncertain\\"' in text.rpartition("```json")[0]:
            return ModelReply(content='{"done": [], "next": "task", "uncertain": []}')
        if done == CALLS:
            return ModelReply(content='"counted"')
        call = ToolCall(id=f"c{done}", name="count", arguments=f'{{"n": {done + 1}}}')
        return ModelReply(content="on", tool_calls=(call,))

    return Agent(
        name="worker",
        instructions="Count.",
        model=Scripted(mind),
        tools=[count],
        recovery="rules",
        recall=False,
    )


def counted(ran: Path) -> list[int]:
    return [int(line) for line in ran.read_text().split()]


@pytest.fixture(params=["dir", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each other kind."""
    if request.param == "dir":
        return f"dir:{tmp_path / 'tasks'}"
    return str(request.getfixturevalue("postgres"))


def cli(store: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perdure", *words, "--store", store],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG,
    )


def test_a_killed_process_goes_on_where_it_stood(store: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for dies, code in ((5, -signal.SIGKILL), (0, 0)):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, store, str(ran), str(dies)],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG,
        )
        assert done.returncode == code, done.stderr
    assert done.stdout.strip() == "completed"
    assert sorted(set(counted(ran))) == list(range(1, CALLS + 1))
    assert len(counted(ran)) == CALLS + 1  # the call that was cut off, with its key


def test_commands_work_on_it_from_another_process(store: str, tmp_path: Path) -> None:
    with Runtime(store, agents=[worker(tmp_path / "ran", pause=2.0)]) as runtime:
        task = runtime.submit("worker", "count")
        assert task.id in cli(store, "ps").stdout
        asked = cli(store, "cancel", task.id, "--timeout", "20")
        assert asked.returncode == 0, asked.stderr
        assert task.wait(LONG).status == "cancelled"
    assert "cancelled" in cli(store, "show", task.id).stdout
    with Runtime(store) as runtime:
        runtime.erase(task=task.id, by="an operator")
    assert "counted" not in cli(store, "log", task.id).stdout


def test_a_second_runtime_is_refused(store: str, tmp_path: Path) -> None:
    from perdure import StoreBusy

    with Runtime(store, agents=[worker(tmp_path / "ran")]), pytest.raises(StoreBusy):
        Runtime(store)


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="perdure-pg-") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


@pytest.mark.proof("postgres")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("away", [0.0, 4.0])
def test_work_goes_on_when_the_server_is_back(
    server: Server, tmp_path: Path, away: float
) -> None:
    ran = tmp_path / "ran"
    agent = worker(ran, pause=0.1)
    found: list[Result] = []
    with Runtime(server.url, agents=[agent], log=tmp_path / "log") as runtime:
        task = runtime.submit("worker", "count")
        waiter = threading.Thread(target=lambda: found.append(task.wait(LONG)))
        waiter.start()
        until = time.monotonic() + LONG
        while not ran.exists() or len(counted(ran)) < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
        server.stop()
        time.sleep(away)
        server.start()
        waiter.join(LONG)
    assert [one.status for one in found] == ["completed"]
    assert sorted(set(counted(ran))) == list(range(1, CALLS + 1))
    assert len(counted(ran)) <= CALLS + 1
