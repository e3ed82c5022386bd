"""A task that is decided by a function, whose process is killed again and again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.actors.budget.account import AccountState
from perdure.actors.budget.account import apply as apply_account
from perdure.actors.events import EVENTS, DecisionMade, RecoveryBegan, RecoveryDeclared
from perdure.storage.codec import Codec
from perdure.storage.reader import open_reader
from tests.perdure.hosting import LONG

pytestmark = pytest.mark.proof("processes")
ROOT = str(Path(__file__).parents[2])
MANY = 12  # mails

JOB = f"""
import os, signal, sys
sys.path.insert(0, {ROOT!r})
from pathlib import Path
from perdure import *

FIRST, LATER = sys.argv[1:]  # when to die: before and after so many mails

def die(when):
    if when == str(len(sent())):
        os.kill(os.getpid(), signal.SIGKILL)

def sent():
    return Path("sent").read_text().split() if Path("sent").exists() else []

def was_sent(effect):
    return Happened("ok") if effect.arguments["to"] in sent() else DidNotHappen()

@tool(effect="read")
def page(n: int) -> list[str]:
    return [f"{{n}}{{letter}}" for letter in "abc"] if n < {MANY // 3} else []

@tool(effect="once", probe=was_sent, settle=0.0)
def send(to: str) -> str:
    die(FIRST)
    with open("sent", "a") as file:
        file.write(to + "\\n")
    die(LATER)
    return "ok"

def decide(view):
    if view.memo is None or (not view.memo["left"] and view.last[-1].tool == "send"):
        n = view.memo["n"] + 1 if view.memo else 0
        return Call("page", {{"n": n}}, memo={{"n": n, "left": []}})
    left = view.memo["left"]
    if view.last[-1].tool == "page":
        left = view.last[-1].value
        if not left:
            return Finish(view.count)
    memo = {{"n": view.memo["n"], "left": left[1:]}}
    return Call("send", {{"to": left[0]}}, memo=memo)

agent = Agent(name="nightly", policy=decide, tools=[page, send])
"""

RUN = """
with Runtime("t.db", agents=[agent]) as runtime:
    task = runtime.submit("nightly", "mail", key="k", budget=Budget(tool_calls=100))
    print(task.id, task.wait(timeout=60))
"""


def run(folder: Path, first: int = 99, later: int = 99) -> int:
    done = subprocess.run(
        [sys.executable, "-c", JOB + RUN, str(first), str(later)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def events(folder: Path, end: str, *kinds: type[Any]) -> list[Any]:
    codec = Codec(EVENTS)
    with open_reader(folder / "t.db") as reader:
        names = [name for name in reader.streams("task/") if name.endswith(end)]
        found = [codec.decode(one) for one in reader.records() if one.stream in names]
    return [one for one in found if isinstance(one, kinds)]


def books(folder: Path) -> dict[str, int]:
    state = AccountState()
    for event in events(folder, "/account", object):
        state = apply_account(state, event)
    return {name: n for name, n in state.books.spent.items() if name != "milliseconds"}


@pytest.mark.timeout(180)
def test_a_policy_whose_process_is_killed_ends_as_if_it_had_not_been(
    tmp_path: Path,
) -> None:
    # A mail out and not recorded, and one that was only registered, in turn.
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    assert run(calm) == 0
    deaths = [run(killed, first=n) for n in (0, 5, 8)]
    deaths += [run(killed, later=n) for n in (9, 11, MANY)]
    assert deaths == [-signal.SIGKILL] * 6
    assert run(killed) == 0
    mails = (calm / "sent").read_text()
    assert len(mails.split()) == MANY
    assert (killed / "sent").read_text() == mails
    decided = [(one.op, one.action, one.memo) for one in events(calm, "", DecisionMade)]
    assert decided == [
        (one.op, one.action, one.memo) for one in events(killed, "", DecisionMade)
    ]
    assert (
        books(killed)
        == books(calm)
        == {
            "tool_calls": MANY + 5,
            "tool:page": 5,
            "tool:send": MANY,
        }
    )
    assert len(events(killed, "/recovery", RecoveryBegan)) == 6
    declared = events(killed, "", RecoveryDeclared)
    assert [(one.accepted, one.by) for one in declared] == [(True, "rules")] * 6


@pytest.mark.timeout(180)
def test_the_command_runs_an_agent_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "night.py").write_text(JOB.replace("sys.argv[1:]", '"", ""'))
    command = [sys.executable, "-m", "perdure", "run", "night:agent", "--goal", "mail"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env={"PYTHONPATH": "."},
    )
    assert done.returncode == 0, done.stderr
    assert f"output  {MANY + 5}" in done.stdout
    assert len((tmp_path / "sent").read_text().split()) == MANY
