"""The command: what it prints, what it returns, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime
from perdure.cli import main
from perdure.logs import read_log

JOBS = Path(__file__).with_name("jobs.py")
RUN = ["run", "jobs:reporter", "--goal", "Look, then send."]
READERS = ("ps", "show", "effects", "log", "spend", "checkpoint", "why")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with the agents in it, as a user's shell has it."""
    shutil.copy(JOBS, tmp_path / "jobs.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    yield tmp_path
    sys.modules.pop("jobs", None)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command here; return its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        return code, *capsys.readouterr()

    return run


def value(say: Any, *words: str) -> Any:
    """The JSON value that a command ends with."""
    code, out, err = say(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out.splitlines()[-1])


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "perdure", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_disk(folder: Path) -> dict[str, bytes]:
    """Every file that holds something of a store; `-shm` is only a map of `-wal`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".db-shm"
    }


# ── run ──────────────────────────────────────────────────────────────────────────


def test_run_takes_an_agent_from_the_current_folder_to_its_end(
    folder: Path, say: Any
) -> None:
    result = value(say, *RUN)
    assert result["status"] == "completed"
    assert result["output"] == {"result": "sent"}
    assert result["steps"] == {"look": "completed", "send": "completed"}
    assert result["spent"]["tool_calls"] == {"look": 1, "send": 1}
    assert len(list((folder / "sent").iterdir())) == 1
    assert value(say, "ps")[0]["task"] == result["task"]  # in ./tasks.db


def test_run_hands_its_options_to_the_task(folder: Path, say: Any) -> None:
    value(
        say,
        *RUN,
        *("--inputs", '{"country": "NO"}'),
        *("--constraint", "Once.", "--constraint", "Quickly."),
        *("--budget-tokens", "90000", "--budget-tool-calls", "7"),
        *("--budget-model-calls", "0009", "--key", "monday"),
    )
    (line,) = value(say, "ps")
    sheet = value(say, "show", line["task"])
    assert sheet["goal"] == "Look, then send."
    assert sheet["inputs"] == {"country": "NO"}
    assert sheet["constraints"] == ["Once.", "Quickly."]
    assert {name: limit["limit"] for name, limit in sheet["budget"].items()} == {
        "tokens": 90_000,
        "tool_calls": 7,
        "model_calls": 9,
    }
    assert sheet["key"] == "monday"


def test_run_with_the_same_key_is_the_same_task(folder: Path, say: Any) -> None:
    first = value(say, *RUN, "--key", "monday")
    assert value(say, *RUN, "--key", "monday") == first
    assert len(value(say, "ps")) == 1


def test_a_paused_task_exits_3_and_says_what_ends_it(folder: Path, say: Any) -> None:
    code, out, err = say(*RUN, "--budget-tokens", "0")
    assert (code, err) == (3, "")
    assert "status     paused" in out
    assert "reason     budget" in out
    assert "ends with  extend" in out


def test_a_limit_of_cost_without_a_price_is_misuse(folder: Path, say: Any) -> None:
    code, _, err = say(*RUN, "--budget-cost", "0.10")
    assert code == 2
    assert "budget.cost='0.10': no price is known" in err


def test_a_cancelled_task_exits_1(folder: Path, say: Any) -> None:
    say(*RUN, "--budget-tokens", "0", "--key", "monday")
    from jobs import reporter  # type: ignore[import-not-found]  # copied above

    with Runtime("tasks.db", agents=[reporter]) as runtime:
        (row,) = runtime.tasks()
        runtime.task(row.task).cancel(timeout=30)
    code, out, _ = say(*RUN, "--key", "monday", "--json")
    assert code == 1
    assert json.loads(out)["status"] == "cancelled"


def test_a_task_that_outlasts_its_timeout_exits_3_and_goes_on_later(
    folder: Path, say: Any
) -> None:
    gate = folder / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    child = start(folder, *RUN, "--key", "monday", "--timeout", "0.2", "--json")
    assert child.stderr is not None
    said = child.stderr.readline()
    gate.unlink()
    os.close(held)  # lets `send` go, if it had come that far
    out, more = child.communicate()
    assert child.returncode == 3
    assert "has not stopped within 0.2 s; it goes on at the store's next" in said
    assert more == ""
    assert json.loads(out)["status"] == "queued"
    assert value(say, *RUN, "--key", "monday")["status"] == "completed"
    assert len(list((folder / "sent").iterdir())) == 1


def test_ctrl_c_leaves_cleanly_and_the_task_goes_on_later(
    folder: Path, say: Any
) -> None:
    os.mkfifo(folder / "gate")
    child = start(folder, *RUN, "--key", "monday")
    with (folder / "gate").open("wb"):
        os.kill(child.pid, signal.SIGINT)
        assert child.stderr is not None
        said = child.stderr.readline()
    out, more = child.communicate()
    (line,) = value(say, "ps")
    assert child.returncode == 130
    assert said == (
        f"perdure: interrupted; task {line['task']} goes on at the store's next "
        "opening\n"
    )
    assert (out, more) == ("", "")
    assert line["status"] == "queued"
    (folder / "gate").unlink()
    assert value(say, *RUN, "--key", "monday")["status"] == "completed"
    assert len(list((folder / "sent").iterdir())) == 1


# ── readers ──────────────────────────────────────────────────────────────────────


class Killed:
    """A store whose runtime was killed with SIGKILL while `send` ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(JOBS, folder / "jobs.py")
        os.mkfifo(folder / "gate")
        child = start(folder, *RUN, "--key", "monday", "--log", "run.log")
        with (folder / "gate").open("wb"):  # opens once `send` reads it
            self.while_running = self.read()
            self.second = self.command(*RUN)
            child.kill()
            child.communicate()
        (folder / "gate").unlink()
        self.code = child.returncode
        self.before = on_disk(folder)
        self.after_kill = self.read()
        self.after = on_disk(folder)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "perdure", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def read(self) -> dict[str, Any]:
        (task,) = json.loads(self.command("ps", "--json").stdout)
        found = {"ps": [task]}
        for name in READERS[1:]:
            done = self.command(name, task["task"], "--json")
            assert done.stderr == ""
            found[name] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("killed"))


def test_readers_see_a_running_task_as_far_as_it_is(killed: Killed) -> None:
    (line,) = killed.while_running["ps"]
    assert (line["status"], line["steps_done"], line["steps_total"]) == (
        "running",
        1,
        2,
    )
    steps = killed.while_running["show"]["steps"]
    assert [step["status"] for step in steps] == ["completed", "running"]
    assert steps[0]["result"] == {"result": "8"}
    assert killed.while_running["effects"][-1]["tool"] == "send"
    assert killed.while_running["effects"][-1]["status"] == "pending"
    assert killed.while_running["log"][-1]["event"] == "effect.registered"


def test_readers_say_the_same_after_sigkill(killed: Killed) -> None:
    assert killed.code == -signal.SIGKILL
    assert killed.after_kill == killed.while_running


def test_readers_change_nothing_on_disk(killed: Killed) -> None:
    assert set(killed.before) >= {"tasks.db", "tasks.db-wal", "tasks.db.lock"}
    assert killed.after == killed.before


def test_a_second_process_is_told_who_owns_the_store(killed: Killed) -> None:
    assert killed.second.returncode == 2
    assert killed.second.stdout == ""
    (sentence,) = killed.second.stderr.splitlines()
    assert "tasks.db is owned by process" in sentence
    assert "close that runtime first" in sentence


@pytest.fixture
def recovered(killed: Killed, folder: Path, say: Any) -> str:
    """A copy of the killed store, run to its end; returns the task's id."""
    shutil.copytree(killed.folder, folder, dirs_exist_ok=True)
    result = value(say, *RUN, "--key", "monday", "--log", "run.log")
    assert result["status"] == "completed"
    return str(result["task"])


def test_effects_show_both_statuses_of_an_effect_that_a_probe_decided(
    recovered: str, say: Any
) -> None:
    sent = [e for e in value(say, "effects", recovered) if e["tool"] == "send"]
    (effect,) = sent
    assert [(change["status"], change["by"]) for change in effect["history"]] == [
        ("pending", "task"),
        ("unknown", "recovery"),
        ("completed", "probe"),
    ]
    assert (effect["class"], effect["status"]) == ("once", "completed")
    assert effect["arguments"] == '{"to":"operator"}'
    assert (Path("sent") / effect["request_id"]).exists()
    text = say("effects", recovered)[1]
    assert "pending -> unknown (recovery) -> completed (probe)" in text


def test_show_tells_how_a_task_was_recovered(recovered: str, say: Any) -> None:
    (recovery,) = value(say, "show", recovered)["recoveries"]
    assert recovery["cause"] == "process ended"
    assert recovery["number"] == 1
    assert recovery["declared_by"] == "model"
    assert list(recovery["decided"].values()) == ["completed"]
    assert "recoveries: 1" in say("show", recovered)[1]


def test_log_has_the_lines_of_the_log_file(recovered: str, say: Any) -> None:
    lines = [
        {name: field for name, field in line.items() if name != "level"}
        for line in read_log(Path("run.log"))
        if line.get("seq") and line.get("task") == recovered
    ]
    assert len(lines) > 50
    assert value(say, "log", recovered) == lines


def test_log_as_text_is_a_line_for_each_event(recovered: str, say: Any) -> None:
    events = value(say, "log", recovered)
    lines = say("log", recovered)[1].splitlines()
    assert [line.split()[0] for line in lines] == [str(e["seq"]) for e in events]
    assert [line.split()[2] for line in lines] == [e["event"] for e in events]


def test_a_task_may_be_named_by_the_beginning_of_its_id(
    recovered: str, say: Any
) -> None:
    assert value(say, "show", recovered[:4])["task"] == recovered


def test_an_unclear_beginning_is_refused_with_the_tasks_it_fits(
    folder: Path, say: Any
) -> None:
    ids = {value(say, *RUN)["task"], value(say, *RUN)["task"]}
    code, out, err = say("show", "t-")
    assert (code, out) == (2, "")
    assert err.startswith("perdure: 2 tasks begin with 't-' (")
    assert all(one in err for one in ids)


def test_the_store_is_the_option_then_the_environment(
    folder: Path, say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = value(say, *RUN, "--store", "a.db")["task"]
    monkeypatch.setenv("PERDURE_STORE", "b.db")
    second = value(say, *RUN)["task"]
    assert [line["task"] for line in value(say, "ps")] == [second]
    assert [line["task"] for line in value(say, "ps", "--store", "a.db")] == [first]
    assert not (folder / "tasks.db").exists()


def test_an_empty_store_has_no_tasks(folder: Path, say: Any) -> None:
    with Runtime("tasks.db"):
        pass
    assert say("ps") == (0, "no tasks\n", "")
    assert value(say, "ps") == []


# ── misuse ───────────────────────────────────────────────────────────────────────

MISUSES = {
    "no command": ([], "perdure --help"),
    "unknown command": (["list"], "'ps', 'show'"),
    "unknown option": (["ps", "--colour"], "--colour"),
    "no such store": (["ps", "--store", "none.db"], "none.db: there is no store"),
    "a folder": (["ps", "--store", "."], "it is a folder"),
    "not a store": (["ps", "--store", "jobs.py"], "jobs.py is not a perdure store"),
    "newer layout": (["ps", "--store", "newer.db"], "upgrade perdure"),
    "unknown task": (["show", "t-nothing"], "no task 't-nothing'"),
    "empty id": (["log", ""], "no task ''"),
    "no id": (["show"], "ID"),
    "id that is no text": (["show", "t-\udcff"], "UTF-8"),
    "run: not a store": ([*RUN, "--store", "jobs.py"], "not a perdure store"),
    "run: newer layout": ([*RUN, "--store", "newer.db"], "upgrade perdure"),
    "run: below a file": ([*RUN, "--store", "jobs.py/x.db"], "jobs.py is not a folder"),
    "run: no folder": ([*RUN, "--store", "no/x.db"], "no does not exist"),
    "run: no colon": (["run", "jobs", "--goal", "g"], "MODULE:AGENT"),
    "run: no module": (["run", "nojobs:x", "--goal", "g"], "no module 'nojobs'"),
    "run: no such agent": (["run", "jobs:x", "--goal", "g"], "other, reporter"),
    "run: no agent": (["run", "jobs:not_an_agent", "--goal", "g"], "no Agent"),
    "run: broken module": (["run", "broken:x", "--goal", "g"], "ValueError: two lines"),
    "run: module that exits": (["run", "exits:x", "--goal", "g"], "SystemExit"),
    "run: missing import": (["run", "needy:x", "--goal", "g"], "nowhere_to_be_found"),
    "run: no goal": (["run", "jobs:reporter"], "--goal"),
    "run: empty goal": (["run", "jobs:reporter", "--goal", " "], "--goal"),
    "run: goal that is no text": ([*RUN, "--goal", "\udcff"], "--goal"),
    "run: inputs not JSON": ([*RUN, "--inputs", "{"], "--inputs: '{' is not JSON"),
    "run: inputs no object": ([*RUN, "--inputs", "[1]"], "no JSON object"),
    "run: negative budget": ([*RUN, "--budget-tokens", "-1"], "--budget-tokens: '-1'"),
    "run: budget no number": ([*RUN, "--budget-tool-calls", "few"], "'few'"),
    "run: empty key": ([*RUN, "--key", ""], "--key"),
    "run: timeout": ([*RUN, "--timeout", "nan"], "--timeout: 'nan'"),
    "run: log below a file": ([*RUN, "--log", "jobs.py/log"], "log='jobs.py/log'"),
    "run: log is the store": (
        [*RUN, "--store", "old.db", "--log", "./old.db"],
        "log='old.db'",
    ),
    "demo": (["demo", "--kills", "-1"], "--kills"),
}


@pytest.fixture
def untidy(folder: Path, say: Any) -> Path:
    """A folder with a good store, one of a newer layout, and modules that break."""
    value(say, *RUN)
    shutil.copy("tasks.db", "newer.db")
    shutil.copy("tasks.db", "old.db")
    with sqlite3.connect("newer.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    Path("broken.py").write_text("raise ValueError('two\\nlines')\n")
    Path("exits.py").write_text("raise SystemExit(0)\n")
    Path("needy.py").write_text("import nowhere_to_be_found\n")
    return folder


@pytest.mark.parametrize(("words", "named"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_one_sentence_and_changes_nothing(
    untidy: Path, say: Any, words: list[str], named: str
) -> None:
    before = on_disk(untidy)
    code, out, err = say(*words)
    assert (code, out) == (2, "")
    assert err.startswith("perdure: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert named in err
    assert on_disk(untidy) == before


# ── the process ──────────────────────────────────────────────────────────────────


def test_help_lists_commands_and_exit_codes(say: Any) -> None:
    code, out, err = say("--help")
    assert (code, err) == (0, "")
    for name in (*READERS, "run", "demo"):
        assert f"\n  {name} " in out
    for exit_code in ("0", "1", "2", "3", "130"):
        assert f"\n  {exit_code} " in out


def test_help_loads_nothing_that_a_command_needs() -> None:
    script = (
        "import sys; from perdure.cli import main; code = main(['--help']);"
        "slow = {'perdure.views', 'perdure.cli_run', 'perdure.demo.command'};"
        "sys.exit(code or bool(slow & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_closed_pipe_is_quiet(folder: Path, say: Any) -> None:
    value(say, *RUN)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "log", "t-"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_what_a_terminal_cannot_write_is_escaped(folder: Path, say: Any) -> None:
    task = value(say, *RUN, "--constraint", "Nur für Øyvind.")["task"]
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "show", task],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert rb"Nur f\xfcr \xd8yvind." in done.stdout
