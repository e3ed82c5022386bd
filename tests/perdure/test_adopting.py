"""A process is killed under a task, and the next one has another agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.archive import archive
from perdure.cli import main
from perdure.importing import bring_back
from perdure.storage.reader import open_reader
from perdure.views import sheet
from tests.actors.world import World
from tests.perdure.hosting import LONG, Told, opened, reporter
from tests.perdure.test_cli_ask import perdure
from tests.perdure.test_processes import run

STORE = "t.db"
SCRIPT = {"first": [[("record", {"what": "x"})]], "second": [[("die", {"what": "x"})]]}
KILLED = f"""
@tool(effect="read")
def die(what: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)

agent = reporter(World(), record, die, script={SCRIPT!r})
runtime = opened(Path({STORE!r}), agent)
task = runtime.submit("agent", "record", budget=BUDGET)
os.write(1, task.id.encode())
task.wait(LONG)
"""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A task that was killed in its second step, after its effect of the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return run(tmp_path, KILLED).stdout


def test_a_changed_agent_holds_its_task_until_somebody_adopts_it(task: str) -> None:
    # The tool that killed the process is gone, and the model does without it.
    new = reporter(World(), script={"first": [], "second": []})
    log = Told()
    with opened(Path(STORE), new, log=log) as runtime:
        log.wait_for("queue.parked", task=task)
        result = runtime.wait(task, timeout=LONG)
        assert result.status == "parked"
        assert "tool 'record' removed; tool 'die' removed" in result.detail
        code, said, _ = perdure("adopt", task, "--by", "approver", "--store", STORE)
        assert (code, said["done"]) == (0, True)
        log.wait_for("task.closed", task=task)
        assert runtime.wait(task, timeout=LONG).status == "completed"
    assert log.of("agent.changed")[0]["by"] == "approver"
    assert len(Path("ran").read_text().split()) == 1


def test_what_is_to_be_adopted_is_shown_and_nothing_else_is_sent(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt", task, "--store", STORE]) == 2
    assert "not parked for a change of its agent" in capsys.readouterr().err
    with open_reader(STORE) as reader:
        assert reader.sent([task]) == []


def test_the_list_of_tasks_says_what_differs_and_what_ends_it(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Told()
    with opened(Path(STORE), reporter(World(), script={"first": []}), log=log):
        log.wait_for("queue.parked", task=task)
    assert main(["show", task, "--store", STORE]) == 0
    shown = capsys.readouterr().out
    assert "step 'second' removed" in shown
    assert "adopt, or the agent as it was" in shown


def test_what_a_task_ran_under_is_shown_with_each_change(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:  # B5
    one = reporter(World(), script={"first": [], "second": []}, adopt=True)
    log = Told()
    with opened(Path(STORE), one, log=log) as runtime:
        log.wait_for("task.closed", task=task)
        assert runtime.wait(task, timeout=LONG).status == "completed"
        other = runtime.submit("agent", "record")
        assert other.wait(LONG).status == "completed"
        with open_reader(STORE) as reader:
            assert len(sheet(reader, other.id).rules) == 1
    (changed,) = log.of("agent.changed")
    assert main(["show", task, "--store", STORE, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out.splitlines()[-1])["rules"]
    assert (first["digest"], first["baseline"]) == (changed["before"], "fast")
    assert second == {
        "at": changed["at"],
        "digest": one.digest(),
        "baseline": "fast",
        "changes": ["tool 'record' removed", "tool 'die' removed"],
        "by": "adopt",
    }
    assert main(["show", task, "--store", STORE]) == 0
    shown = capsys.readouterr().out
    assert f"{one.digest()}, baseline fast, since " in shown
    assert ", adopted by adopt: tool 'record' removed; tool 'die' removed" in shown


def test_what_a_task_ran_under_comes_with_it_from_an_archive(task: str) -> None:
    log = Told()
    new = reporter(World(), script={"first": [], "second": []}, adopt=True)
    with opened(Path(STORE), new, log=log):
        log.wait_for("task.closed", task=task)
    with open_reader(STORE) as reader:
        before = sheet(reader, task).rules
    assert len(before) == 2
    archive(STORE, task, "task.gz")
    bring_back("other.db", "task.gz")
    with open_reader("other.db") as reader:
        assert sheet(reader, task).rules == before
