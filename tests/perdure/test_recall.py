"""Searching the record of a real store: by its owner, by others, and after a kill."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Misuse, Runtime, RuntimeClosed, UseAsync, cli, tool
from perdure.models import Scripted
from tests.actors.test_erasing import SECRET, secretive
from tests.actors.world import World, follow
from tests.perdure.hosting import LONG, opened
from tests.perdure.test_cli_ask import perdure

STORE = "tasks.db"
INDEX = "tasks.db-recall"
NOTE = "今天讨论了部署方案 重跑gen-itgc后50条"

KILLED = """
import os, signal, sys
from perdure import Runtime
from perdure.actors.memory import library

take, pages = library.take_page, []

def killed(*given):
    more = take(*given)
    pages.append(more)
    if len(pages) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return more

library.take_page = killed
with Runtime(sys.argv[1], log=os.devnull) as runtime:
    runtime.recall("x")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


@pytest.fixture
def agent() -> Agent:
    @tool(effect="read")
    def note(what: str) -> str:
        """Say something."""
        return NOTE if what == "plan" else f"about {what}\x1b[31m"

    calls = [("note", {"what": "plan"}), ("note", {"what": "noon"})]
    return Agent(
        name="agent",
        instructions="Note.",
        tools=[note],
        model=Scripted(follow({"task": [calls]})),
        recovery="rules",
    )


def done(runtime: Runtime) -> str:
    task = runtime.submit("agent", "Note.")
    assert task.wait(LONG).status == "completed"
    return task.id


def found(*words: str) -> list[dict[str, Any]]:
    code, hits, _ = perdure("recall", *words)
    assert code == 0
    return list(hits)


def test_a_live_store_is_searched_from_another_process(agent: Agent) -> None:
    with opened(Path(STORE), agent) as runtime:
        task = done(runtime)
        other = done(runtime)
        (hit,) = found("部署", "--task", task)
        assert (hit["evidence"], hit["task"], hit["tool"]) == ("op2", task, "note")
        assert hit["snippet"].endswith(NOTE)
        assert [one["task"] for one in found("itgc")] == [other, task]
        own = runtime.recall("itgc")
        assert [one.seq for one in own] == [one["seq"] for one in found("itgc")]
    assert [one["task"] for one in found("itgc")] == [other, task]


def test_each_filter_of_the_command_narrows_it(agent: Agent) -> None:
    with opened(Path(STORE), agent) as runtime:
        done(runtime)
    assert len(found("about", "--tool", "note", "--step", "task")) == 1
    assert found("about", "--tool", "look") == []
    assert found("about", "--step", "else") == []
    assert found("about", "--outcome", "failed") == []
    assert found("about", "--until", "2001-01-01") == []
    assert len(found("about", "--since", "2001-01-01T00:00+08:00")) == 1
    assert len(found("", "--limit", "2")) == 2


@pytest.mark.parametrize("query", ['a"b', "AND", "NEAR(", "'; DROP TABLE terms; --"])
def test_nothing_in_a_query_is_syntax(agent: Agent, query: str) -> None:  # K52
    with opened(Path(STORE), agent) as runtime:
        done(runtime)
    assert found(query) == []


def test_a_store_that_cannot_be_written_is_searched(agent: Agent, folder: Path) -> None:
    with opened(Path(STORE), agent) as runtime:
        done(runtime)
    copy = folder / "copy"
    copy.mkdir()
    shutil.copy(STORE, copy / STORE)
    copy.chmod(0o500)
    try:
        assert len(found("itgc", "--store", str(copy / STORE))) == 1
    finally:
        copy.chmod(0o700)
    assert [one.name for one in copy.iterdir()] == [STORE]
    assert not Path(INDEX).exists()  # nobody with a runtime has asked


def test_hits_are_shown_in_two_lines_that_drive_no_terminal(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task = done(runtime)
    assert cli.main(["recall", "noon"]) == 0
    head, text = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{task}:3  note  completed  step task  20")
    assert text == "    what: noon about noon\\x1b[31m"
    assert cli.main(["recall", "zebra"]) == 0
    assert capsys.readouterr().out == "nothing found\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x", "--since", "noon"], "'noon' is no time such as 2026-05-01T12:00"),
        (["x", "--limit", "0"], "limit=0 must be between 1 and 100"),
        (["x", "--task", "t-none"], "no task 't-none'"),
        ([], "QUERY"),
    ],
)
def test_a_wrong_word_is_one_sentence(
    agent: Agent, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), agent):
        pass
    assert cli.main(["recall", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("pages", [1, 2])
def test_an_index_whose_owner_is_killed_goes_on(agent: Agent, pages: int) -> None:
    with opened(Path(STORE), agent) as runtime:
        tasks = [done(runtime) for _ in range(8)]  # some 400 records
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, STORE, str(pages)], check=False, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL
    assert Path(INDEX).exists()
    with opened(Path(STORE), agent) as runtime:
        tasks.append(done(runtime))
        assert {one.task for one in runtime.recall("itgc")} == set(tasks)
        assert len(runtime.recall("itgc", limit=50)) == 9


def test_the_index_is_private_and_may_be_deleted(agent: Agent) -> None:
    with opened(Path(STORE), agent) as runtime:
        done(runtime)
        runtime.recall("itgc")
        for end in ("", "-wal"):
            assert Path(INDEX + end).stat().st_mode & 0o777 == 0o600
    assert not Path(INDEX + "-wal").exists()
    Path(INDEX).unlink()
    with opened(Path(STORE), agent) as runtime:
        assert len(runtime.recall("itgc")) == 1


def test_a_loop_is_not_blocked_and_a_closed_runtime_says_so(agent: Agent) -> None:
    with opened(Path(STORE), agent) as runtime:
        done(runtime)

        async def ask() -> int:
            with pytest.raises(UseAsync, match="arecall"):
                runtime.recall("itgc")
            return len(await runtime.arecall("itgc", limit=3))

        assert asyncio.run(ask()) == 1
    with pytest.raises(RuntimeClosed):
        runtime.recall("itgc")


def test_the_log_may_not_be_written_into_the_index() -> None:
    with pytest.raises(Misuse):
        Runtime(STORE, log=INDEX)


def test_an_erased_task_leaves_no_byte_in_the_index(folder: Path, world: World) -> None:
    secret = SECRET[:9].encode()
    with opened(Path(STORE), secretive(world)) as runtime:
        task = runtime.submit("agent", f"Write to {SECRET}.")
        assert task.wait(LONG).status == "completed"
        assert runtime.recall("", task=task.id)
    assert secret in Path(INDEX).read_bytes()
    shutil.copy(INDEX, "before")
    with opened(Path(STORE), secretive(world)) as runtime:
        runtime.erase(task=task.id, by="an operator")
        files = [one for one in folder.iterdir() if one.name != "before"]
        assert not [one.name for one in files if secret in one.read_bytes()]
        assert runtime.recall("", task=task.id) == []
    shutil.copy("before", INDEX)  # as a kill right behind the erasure would leave it
    with opened(Path(STORE), secretive(world)) as runtime:
        assert runtime.recall("nothing of that kind") == []
    assert secret not in Path(INDEX).read_bytes()
