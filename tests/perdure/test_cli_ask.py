"""Commands from another process, on a store that is open and on one at rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Budget, Price, Runtime, tool
from perdure.cli import main
from tests.actors.world import World
from tests.perdure.hosting import LONG, Gate, calls, opened, reporter

STORE = "tasks.db"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def perdure(*words: str, timeout: float = LONG) -> tuple[int, Any, str]:
    """Run the command in a process of its own; its code, JSON value and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "perdure", *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * timeout,
    )
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines else None, done.stderr


def here(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the command in this process, which does not own the store."""
    capsys.readouterr()
    code = main(list(words))
    return code, *capsys.readouterr()


def standing(gate: Gate) -> Any:
    @tool(effect="read")
    def stand(what: str) -> str:
        """Stand in the gate."""
        gate.stand()
        return what

    return stand


def asking(world: World) -> Any:
    @tool(effect="once", approval=True, expires=1_000_000)
    def delete(what: str) -> str:
        """Delete something."""
        world.sent.append(("", what))
        return f"deleted {what}"

    return delete


def test_cancel_reaches_a_running_task_of_another_process(gate: Gate) -> None:
    agent = reporter(World(), standing(gate), script=calls("stand", "stand"))
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Stand.")
        assert gate.entered.wait(LONG)
        code, value, _ = perdure("cancel", task.id[:6], "--by", "approver")
        assert (code, value["applied"]) == (0, True)
        assert value["said"] == (
            "it is to end, after what runs now: stand; it may end before"
        )
        gate.left.set()
        result = task.wait(LONG)
        assert (result.status, result.reason) == ("cancelled", "cancelled by approver")
        code, value, _ = perdure("cancel", task.id)  # once more: it is no mistake
        assert (code, value["done"], value["command"]) == (0, True, "")
        assert value["said"] == "it has ended: cancelled"


def test_extend_lets_a_task_go_on_that_waits_for_money() -> None:
    with opened(Path(STORE), reporter(World())) as runtime:
        task = runtime.submit("agent", "Do it.", budget=Budget(tool_calls=1))
        assert task.wait(LONG).reason == "budget"
        code, value, _ = perdure("extend", task.id, "--tool-calls", "9")
        assert (code, value["done"]) == (0, True)
        assert task.wait(LONG).status == "completed"


def test_extend_takes_a_cost_as_a_decimal() -> None:
    agent = reporter(World(), price=Price(input=1, output=1))
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Do it.", budget=Budget(cost=0))
        assert task.wait(LONG).reason == "budget"
        code, value, _ = perdure("extend", task.id, "--cost", "0.5")
        assert (code, value["done"]) == (0, True)
        assert task.wait(LONG).status == "completed"


def test_limit_lowers_what_a_running_task_may_use(gate: Gate) -> None:
    agent = reporter(World(), standing(gate), script=calls("stand", "stand"))
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Stand.", budget=Budget(model_calls=50))
        assert gate.entered.wait(LONG)
        code, _, said = perdure("limit", task.id)
        assert (code, "say to how much: give --tokens" in said) == (2, True)
        code, value, _ = perdure("limit", task.id, "--model-calls", "0")
        assert (code, value["said"]) == (0, "its limits are lowered")
        gate.left.set()
        result = task.wait(LONG)
        assert (result.reason, result.ends_with) == ("budget", "extend")
        _, sheet, _ = perdure("show", task.id)
        assert sheet["budget"]["model_calls"] == {"limit": 0, "left": -1}


def test_resume_lets_a_paused_task_go_on(gate: Gate) -> None:
    agent = reporter(World(), standing(gate), script=calls("stand"))
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Stand.")
        assert gate.entered.wait(LONG)
        task.pause()
        gate.left.set()
        assert task.wait(LONG).reason == "operator"
        code, value, _ = perdure("resume", task.id)
        assert (code, value["said"]) == (0, "it goes on")
        assert task.wait(LONG).status == "completed"


def test_approve_and_reject_from_another_process() -> None:
    # R21
    world = World()
    script = {"only": [[("delete", {"what": "a"}), ("delete", {"what": "b"})]]}
    agent = reporter(world, asking(world), script=script)
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Delete.")
        assert task.wait(LONG).reason == "approval"
        first, second = runtime.approvals()
        _, sheet, _ = perdure("show", task.id)
        assert [one["approval"] for one in sheet["approvals"]] == [
            first.approval,
            second.approval,
        ]
        code, value, _ = perdure("reject", second.approval, "--why", "keep it")
        assert (code, value["said"]) == (0, "rejected")
        code, value, _ = perdure("reject", second.approval)
        assert (code, value["said"]) == (1, "it was answered before")
        code, value, _ = perdure("approve", first.approval)
        assert (code, value["said"]) == (0, "approved")
        while task.status == "paused":  # it may have stopped for the first once more
            task.wait(LONG)
        assert task.wait(LONG).status == "completed"
        assert world.sent == [("", "a")]
        _, sheet, _ = perdure("show", task.id)
        told = [(one["status"], one["by"]) for one in sheet["approvals"]]
        assert told == [("used", "command line"), ("rejected", "command line")]
        for one in sheet["approvals"]:
            assert one["at"] < one["answered"] < one["expires"]
            assert one["expires"] == one["at"] + 1_000_000


def test_a_call_is_changed_from_another_process() -> None:
    world = World()
    agent = reporter(world, asking(world), script=calls("delete"))
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Delete.")
        assert task.wait(LONG).reason == "approval"
        (first,) = runtime.approvals()
        edit = ("approve", first.approval, "--arguments")
        code, _, said = perdure(*edit, "what")
        assert (code, "no JSON object of arguments" in said) == (2, True)
        code, _, said = perdure("approve", first.approval, "--tool", "delete")
        assert (code, "with arguments=" in said) == (2, True)
        code, value, _ = perdure(*edit, '{"whatever": 1}')
        assert (code, "arguments of delete" in value["said"]) == (1, True)
        code, value, _ = perdure(*edit, '{"what": "y"}')
        assert code == 0
        assert value["said"] == "changed: delete is judged as a call of its own"
        while not (found := runtime.approvals()):
            task.wait(LONG)
        assert found[0].arguments == {"what": "y"}
        assert perdure("approve", found[0].approval)[0] == 0
        while task.status == "paused":
            task.wait(LONG)
        assert task.wait(LONG).status == "completed"
        assert world.sent == [("", "y")]


def test_a_command_to_a_store_at_rest_is_kept_and_applied_when_it_is_opened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    agent = reporter(world, asking(world), script=calls("delete"))
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Delete.").id
        assert runtime.task(task).wait(LONG).reason == "approval"
        (one,) = runtime.approvals()
    code, out, err = here(capsys, "approve", one.approval, "--timeout", "0")
    assert (code, err) == (3, "")
    assert "the command is kept, and applied by the runtime that has the store" in out
    assert world.sent == []
    with opened(Path(STORE), agent) as runtime:
        handle = runtime.task(task)
        while (result := handle.wait(LONG)).status == "paused":
            assert result.reason == "approval"
        assert result.status == "completed"
    assert world.sent == [("", "x")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cancel", "t-none"), "there is no task 't-none'"),
        (("resume", "t-none"), "there is no task 't-none'"),
        (("extend", "t-none", "--tokens", "1"), "there is no task 't-none'"),
        (("approve", "a-none"), "there is no approval 'a-none'"),
        (("reject", "a-none"), "there is no approval 'a-none'"),
        (("answer", "q-none", "yes"), "there is no question 'q-none'"),
        (("answer", "q-none"), "ANSWER"),
        (("extend", "t-none"), "say by how much"),
        (("extend", "t-none", "--tokens", "-1"), "not a whole number"),
        (("extend", "t-none", "--cost", "much"), "cost='much' must be an exact"),
        (("cancel", "t-none", "--timeout", "soon"), "not a number of seconds"),
        (("reject",), "APPROVAL_ID"),
    ],
)
def test_a_wrong_id_or_option_is_an_error_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    Runtime(STORE).close()
    before = Path(STORE).read_bytes()
    code, out, err = here(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert Path(STORE).read_bytes() == before


def test_a_task_that_has_ended_takes_no_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(Path(STORE), reporter(World())) as runtime:
        task = runtime.submit("agent", "Do it.")
        assert task.wait(LONG).status == "completed"
    code, _, err = here(capsys, "cancel", task.id)
    assert code == 2
    assert "has ended (completed)" in err


def test_what_is_no_store_is_left_alone(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, _, err = here(capsys, "cancel", "t-1", "--store", "missing.db")
    assert (code, "there is no store" in err) == (2, True)
    assert list(folder.iterdir()) == []
