"""`perdure watch`: another process sees every event once, whatever the owner does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import Budget
from perdure.cli import main
from perdure.events import NAMES
from perdure.storage.reader import open_reader
from perdure.storage.records import Record
from tests.actors.world import World
from tests.perdure.hosting import LONG, Gate, opened, reporter
from tests.perdure.test_cli_ask import standing

STORE = "tasks.db"
ROOT = str(Path(__file__).parents[2])
OWNER = f"""
import os, signal, sys
sys.path.insert(0, {ROOT!r})
from pathlib import Path
from perdure import tool
from tests.actors.world import World
from tests.perdure.hosting import BUDGET, LONG, calls, opened, reporter

@tool(effect="read")
def part(what: str) -> str:
    \"\"\"Do a part; the first time, the process dies of it.\"\"\"
    died = Path("died-" + what)
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return what

script = {{one: [[("part", {{"what": one}})]] for one in "abcd"}}
agent = reporter(World(), part, script=script)
with opened(Path("tasks.db"), agent) as runtime:
    task = runtime.submit("agent", "Do it.", budget=BUDGET, key="k")
    print(task.wait(LONG).status)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def records(task: str = "") -> list[Record]:
    with open_reader(STORE) as reader:
        return reader.records(0, 10_000, f"task/{task}")


def watching(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "perdure", "watch", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def here(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["watch", *words])
    return code, *capsys.readouterr()


def seqs(lines: Sequence[str]) -> list[int]:
    return [json.loads(line)["seq"] for line in lines]


@pytest.mark.proof("processes")
def test_a_process_watches_over_every_kill_of_the_owner() -> None:
    # P1: what it saw before a kill is there after it, and nothing in between is missed.
    def own() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", OWNER],
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )

    assert own().returncode == -signal.SIGKILL
    with open_reader(STORE) as reader:
        (row,) = reader.rows("task")
    task = row.key
    half = len(records(task)) // 2
    after = records(task)[half].seq
    watchers = [watching(task, "--json"), watching(task, "--json", f"--after={after}")]
    try:
        ends = [own() for _ in range(4)]
        assert [one.returncode for one in ends] == [-signal.SIGKILL] * 3 + [0]
        assert ends[-1].stdout == "completed\n"
        seen = [one.communicate(timeout=LONG) for one in watchers]
    finally:
        for one in watchers:
            one.kill()
    assert [one.returncode for one in watchers] == [0, 0]
    stored = [one.seq for one in records(task)]
    assert [seqs(out.splitlines()) for out, _ in seen] == [stored, stored[half + 1 :]]
    assert [err for _, err in seen] == ["", ""]


def test_an_ended_task_is_shown_and_that_is_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(Path(STORE), reporter(World())) as runtime:
        task = runtime.submit("agent", "Do it.")
        assert task.wait(LONG).status == "completed"
    code, out, err = here(capsys, task.id, "--json")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    stored = records(task.id)
    assert [one["seq"] for one in lines] == [one.seq for one in stored]
    assert [one["event"] for one in lines] == [NAMES[one.type] for one in stored]
    assert [one["stream"] for one in lines] == [one.stream for one in stored]
    code, out, err = here(capsys, task.id[:6], "--after", str(stored[-2].seq))
    (line,) = out.splitlines()
    assert line.split()[0] == str(stored[-1].seq)
    assert "task.closed" in line
    assert not Path(f"{STORE}-wal").exists()


def test_a_task_that_is_paused_is_watched_on_unless_told_to_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(Path(STORE), reporter(World())) as runtime:
        task = runtime.submit("agent", "Do it.", budget=Budget(tool_calls=1))
        assert task.wait(LONG).reason == "budget"
        code, out, _ = here(capsys, task.id, "--json", "--until", "stopped")
        assert code == 0
        assert "task.paused" in out
        watcher = watching(task.id, "--json")
        assert watcher.stdout is not None
        first = [watcher.stdout.readline() for _ in out.splitlines()]
        assert seqs(first) == seqs(out.splitlines())
        task.extend(Budget(tool_calls=9))
        rest, err = watcher.communicate(timeout=LONG)
    assert (watcher.returncode, err) == (0, "")
    assert seqs([*first, *rest.splitlines()]) == [one.seq for one in records(task.id)]


def test_a_stop_that_a_kept_command_will_end_is_watched_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = reporter(World())
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Do it.", budget=Budget(tool_calls=1))
        assert task.wait(LONG).reason == "budget"
    code, out, _ = here(capsys, task.id, "--json", "--until", "stopped")
    assert code == 0
    assert main(["extend", task.id, "--tool-calls", "9", "--timeout", "0"]) == 3
    watcher = watching(task.id, "--json", "--until", "stopped")
    assert watcher.stdout is not None
    first = [watcher.stdout.readline() for _ in out.splitlines()]
    with opened(Path(STORE), agent) as runtime:
        assert runtime.task(task.id).wait(LONG).status == "completed"
        rest, _ = watcher.communicate(timeout=LONG)
    assert seqs([*first, *rest.splitlines()]) == [one.seq for one in records(task.id)]


def test_an_interrupt_ends_it_quietly(gate: Gate) -> None:
    agent = reporter(
        World(), standing(gate), script={"s": [[("stand", {"what": "x"})]]}
    )
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Stand.")
        assert gate.entered.wait(LONG)
        watcher = watching(task.id)
        assert watcher.stdout is not None
        assert "task.submitted" in watcher.stdout.readline()
        watcher.send_signal(signal.SIGINT)
        _, err = watcher.communicate(timeout=LONG)
        assert (watcher.returncode, err) == (130, "")
        gate.left.set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("t-none",), "no task"),
        (("t-none", "--after", "-1"), "whole number"),
        (("t-none", "--after", "x"), "whole number"),
        (("t-none", "--until", "paused"), "--until"),
        (("t-none", "--store", "away.db"), "there is no store"),
    ],
)
def test_what_cannot_be_watched_is_said_in_a_sentence(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), reporter(World())):
        pass
    code, out, err = here(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_store_that_stays_away_ends_the_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from perdure import cli_watch

    with opened(Path(STORE), reporter(World())) as runtime:
        task = runtime.submit("agent", "Do it.", budget=Budget(tool_calls=1))
        assert task.wait(LONG).reason == "budget"
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        Path(STORE).unlink(missing_ok=True)

    def monotonic() -> float:
        return sum(looks)

    clock: Any = type("Clock", (), {"sleep": sleep, "monotonic": monotonic})
    monkeypatch.setattr(cli_watch, "time", clock)
    code, out, err = here(capsys, task.id)
    assert (code, "there is no store" in err) == (2, True)
    assert "task.paused" in out
    assert sum(looks) > cli_watch.PATIENCE
