"""Work done again by a command: on a store that is in use, and on one at rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Agent, Baseline, Step
from perdure.cli import main
from perdure.models import Scripted
from tests.actors.world import World, follow, tools_of
from tests.perdure.hosting import LONG, SCRIPT, Told, opened
from tests.perdure.test_cli_ask import perdure

STORE = Path("tasks.db")
HARD = Baseline(id="hard", step_iterations=2, task_retries=0, backoff_first=0.01)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)


def stopping(world: World, right: list[bool]) -> Agent:
    """An agent whose last step is accepted once somebody has put it right."""
    return Agent(
        name="agent",
        instructions="Do each step.",
        model=Scripted(follow(SCRIPT)),
        tools=tools_of(world),
        plan=[
            *(Step(id=name, goal=f"Do {name}.") for name in SCRIPT),
            Step(id="check", goal="Check it.", accept=lambda *_: bool(right)),
        ],
    )


def test_retry_reaches_a_task_of_another_process() -> None:
    world, right = World(), list[bool]()
    with opened(STORE, stopping(world, right), baseline=HARD) as runtime:
        task = runtime.submit("agent", "Send.")
        assert task.wait(LONG).reason == "limited"
        right.append(True)
        code, value, _ = perdure(
            "retry", task.id[:6], "--from", "send", "--by", "approver"
        )
        assert (code, value["said"]) == (0, "it goes on from step send")
        assert task.wait(LONG).status == "completed"
    assert [text for _, text in world.sent] == ["hello"]


def test_a_retry_is_kept_until_the_store_is_next_opened() -> None:
    world, right = World(), list[bool]()
    with opened(STORE, stopping(world, right), baseline=HARD) as runtime:
        task = runtime.submit("agent", "Send.").id
        assert runtime.wait(task, LONG).reason == "limited"
    assert perdure("retry", task, "--timeout", "0")[0] == 3
    right.append(True)
    with opened(STORE, stopping(world, right), baseline=HARD) as runtime:
        assert runtime.wait(task, LONG).status == "completed"


def test_a_retry_that_cannot_be_is_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, right = World(), [True]
    with opened(STORE, stopping(world, right), baseline=HARD) as runtime:
        task = runtime.submit("agent", "Send.").id
        assert runtime.wait(task, LONG).status == "completed"
        assert main(["retry", task]) == 2
        assert "has ended (completed): fork it instead" in capsys.readouterr().err


def test_fork_makes_a_task_in_another_process_and_prints_its_id() -> None:
    world = World()
    with opened(STORE, stopping(world, [True])) as runtime:
        task = runtime.submit("agent", "Send.").id
        assert runtime.wait(task, LONG).status == "completed"
        code, lines, _ = perdure("log", task)
        assert code == 0
        (at,) = [
            one["seq"]
            for one in lines
            if one["event"] == "step.ended" and one["step"] == "prepare"
        ]
        code, value, _ = perdure("fork", task[:6], "--at", str(at), "--key", "again")
        assert code == 0
        fork = value["said"]
        assert runtime.wait(fork, LONG).status == "completed"
        assert perdure("fork", task, "--key", "again")[1]["said"] == fork
        code, value, error = perdure("fork", task, "--at", "1")
        assert (code, value["done"]) == (1, False)
        assert "begins at seq" in value["said"] + error
    assert [text for _, text in world.sent] == ["hello", "hello"]
    assert len(world.files) == 1
    assert world.looks == 1


def test_a_fork_is_kept_until_the_store_is_next_opened() -> None:
    world = World()
    with opened(STORE, stopping(world, [True])) as runtime:
        task = runtime.submit("agent", "Send.").id
        assert runtime.wait(task, LONG).status == "completed"
    assert perdure("fork", task, "--timeout", "0", "--model-calls", "9")[0] == 3
    log = Told()
    with opened(STORE, stopping(world, [True]), log=log) as runtime:
        fork = log.wait_for("task.forked")[0].fields["task"]
        assert runtime.wait(fork, LONG).status == "completed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "0"], "at=0"),
        (["--tokens", "x"], "'x' is not a whole number"),
        (["--goal", " "], "goal=' '"),
    ],
)
def test_a_fork_that_cannot_be_is_misuse(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(STORE, stopping(World(), [True])) as runtime:
        task = runtime.submit("agent", "Send.").id
        assert runtime.wait(task, LONG).status == "completed"
        assert main(["fork", task, *words]) == 2
        assert said in capsys.readouterr().err


DIE = """
import os, signal
from pathlib import Path
from tests.actors.world import World
from tests.perdure.hosting import LONG, opened
from tests.perdure.test_cli_again import HARD, stopping

runtime = opened(Path("tasks.db"), stopping(World(), []), baseline=HARD)
task = runtime.submit("agent", "Send.")
assert task.wait(LONG).reason == "limited"
print(task.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_task_whose_process_was_killed_is_retried_and_forked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIE],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LONG,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    task = done.stdout.split()[0]
    assert perdure("retry", task, "--from", "prepare", "--timeout", "0")[0] == 3
    assert perdure("fork", task, "--timeout", "0")[0] == 3
    world, log = World(), Told()
    with opened(STORE, stopping(world, [True]), baseline=HARD, log=log) as runtime:
        log.wait_for("inbox.applied", 2)
        assert runtime.wait(task, LONG).status == "completed"
        forks = [one.task for one in runtime.tasks() if one.task != task]
        assert [runtime.wait(one, LONG).status for one in forks] == ["completed"]
    assert world.sent == []  # it was sent before, and answered from the record
