"""Export and erasure as a user has them: real files, other processes, and kills."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from perdure import Budget, Misuse, Runtime
from perdure.actors.events import CommandApplied, TaskErased
from perdure.replay import render_again
from perdure.storage.reader import open_reader
from perdure.storage.records import Record, in_family
from tests.actors.test_erasing import SECRET, secretive
from tests.actors.world import World, decode
from tests.perdure.hosting import LONG, opened
from tests.perdure.test_cli_ask import here, perdure
from tests.perdure.test_processes import run

STORE = "tasks.db"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def done(runtime: Runtime, **options: Any) -> str:
    task = runtime.submit("agent", f"Write to {SECRET}.", **options)
    assert task.wait(LONG).status == "completed"
    return task.id


def leaking(folder: Path) -> list[str]:
    """The files of the store that hold the secret, whole or its beginning."""
    return [
        one.name
        for one in sorted(folder.iterdir())
        if one.is_file() and SECRET[:9].encode() in one.read_bytes()
    ]


def records(path: Path) -> list[Record]:
    with open_reader(path) as reader:
        return reader.records(limit=100_000)


# ── export ───────────────────────────────────────────────────────────────────────


def test_every_record_and_row_of_a_task_is_in_its_export(folder: Path) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        task = done(
            runtime, key="may", inputs={"to": SECRET}, budget=Budget(tokens=99_999)
        )
        other = done(runtime)
        lines = runtime.export(task=task)
        code, value, _ = perdure("export", task)  # the store is open elsewhere
        assert (code, value) == (0, lines[-1])
    found = {line["seq"]: line for line in lines if line["is"] == "record"}
    for record in records(folder / STORE):
        whose = str(json.loads(record.body))
        mine = in_family(record.stream, f"task/{task}") or (
            record.stream.startswith("services/") and task in whose
        )
        assert (record.seq in found) == mine, record
        if mine:
            line = found[record.seq]
            assert (line["stream"], line["version"]) == (record.stream, record.version)
            assert (line["type"], line["at"]) == (record.type, record.at)
            assert line["body"] == json.loads(record.body)
    assert list(found) == sorted(found)
    assert other not in str(lines)
    rows = {(line["space"], line["key"]) for line in lines if line["is"] == "row"}
    assert {("task", task), ("key", "may")} <= rows
    (big,) = [one for one in lines if one["is"] == "value" and "Orchard" in str(one)]
    assert big["value"] == f"{SECRET}: " + SECRET * 3_000


def test_an_export_is_the_same_every_time_and_overwrites_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        task = done(runtime)
    code, first, _ = here(capsys, "export", task[:5])
    assert code == 0
    assert here(capsys, "export", task) == (0, first, "")
    code, said, _ = here(capsys, "export", task, "--out", "one.jsonl")
    count = len(first.splitlines())
    assert (code, said) == (0, f"{task}: {count} lines in one.jsonl\n")
    assert (folder / "one.jsonl").read_text() == first
    assert stat.S_IMODE(Path("one.jsonl").stat().st_mode) == 0o600
    code, _, wrong = here(capsys, "export", task, "--out", "one.jsonl")
    assert (code, wrong) == (
        2,
        "perdure: --out one.jsonl: file exists; name a new file\n",
    )
    assert here(capsys, "export", "t-none")[0] == 2


# ── erasure ──────────────────────────────────────────────────────────────────────


def test_an_erasure_from_another_process_leaves_no_byte_in_any_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        task = done(runtime, key=SECRET, inputs={"to": SECRET})
        kept = runtime.submit("agent", "something else", not_before=2e9).id
        assert runtime.recall("Orchard")
        assert any(f"{STORE}-recall" in name for name in leaking(folder))
        before = json.loads(here(capsys, "spend", "--json")[1])["total"]
        assert leaking(folder)
        code, value, _ = perdure("erase", task, "--by", "an operator", "--yes")
        assert (code, value["said"]) == (0, "it is erased")
        assert leaking(folder) == []
        code, value, _ = perdure("erase", task, "--by", "somebody", "--yes")
        assert (code, value["said"]) == (0, "it was erased before")
        assert runtime.recall("Orchard") == []
        assert {one.task: one.status for one in runtime.tasks()} == {
            task: "erased",
            kept: "queued",
        }
    assert leaking(folder) == []
    told = [decode(one) for one in records(folder / STORE)]
    assert [one.by for one in told if isinstance(one, TaskErased)] == [
        "an operator"
    ] * 2  # in its own stream, and in the queue's
    assert [one.done for one in told if isinstance(one, CommandApplied)] == [True] * 2
    code, text, _ = here(capsys, "show", task)
    assert "erased by an operator at " in text
    code, text, _ = here(capsys, "log", task)
    assert (code, "task.erased" in text) == (0, True)
    assert here(capsys, "effects", task)[0] == 0
    after = json.loads(here(capsys, "spend", "--json")[1])["total"]
    assert used(after) == used(before)
    assert here(capsys, "spend", task, "--by", "tool")[0] == 0
    with open_reader(folder / STORE) as reader, pytest.raises(Misuse, match="erased"):
        render_again(reader, task, 1)


def used(total: list[dict[str, Any]]) -> dict[str, Any]:
    sums: dict[str, Any] = {}
    for line in total:
        for name, amount in line["used"].items():
            if not isinstance(amount, dict):
                sums[name] = sums.get(name, 0) + amount
    return sums


def test_what_cannot_be_erased_is_refused_before_anything_is_sent(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        task = done(runtime)
        living = runtime.submit("agent", "later", not_before=2e9).id
    code, _, wrong = here(capsys, "erase", task, "--by", "an operator")
    assert (code, wrong) == (
        2,
        f"perdure: task {task} would be gone for good: say so with --yes\n",
    )
    code, _, wrong = here(capsys, "erase", task, "--yes")
    assert (code, "--by" in wrong) == (2, True)
    code, _, wrong = here(capsys, "erase", living, "--by", "an operator", "--yes")
    assert (code, f"perdure cancel {living}" in wrong) == (2, True)
    with open_reader(folder / STORE) as reader:
        assert reader.commands() == []


KILLED = """
import subprocess
from tests.actors.test_erasing import secretive
from tests.perdure.test_erasing import done
words = ["--by", "an operator", "--yes"]
erasing = False
def observe(point, subject):
    global erasing
    erasing = erasing or subject == "CommandApplied"
    if erasing and point == %r:
        os.kill(os.getpid(), signal.SIGKILL)
with faults(observe=observe):
    with opened(Path("tasks.db"), secretive(World())) as runtime:
        task = done(runtime)
        Path("task").write_text(task)
        subprocess.run([sys.executable, "-m", "perdure", "erase", task, *words])
"""


@pytest.mark.parametrize(
    ("point", "erased"),
    [
        ("journal.append.before", False),
        ("journal.append.after", False),
        ("journal.flush.before", False),
        ("journal.flush.after", True),
        ("journal.ack.before", True),
        ("snapshot.write.before", True),
    ],
)
def test_killed_at_any_moment_it_is_all_there_or_finished_at_the_next_start(
    folder: Path, point: str, erased: bool
) -> None:
    ended = run(folder, KILLED % point)
    assert ended.returncode == -9, ended.stderr
    task = (folder / "task").read_text()
    whole = [one for one in records(folder / STORE) if one.stream == f"task/{task}"]
    assert (len(whole) == 1) == erased
    with opened(folder / STORE, secretive(World())) as runtime:
        if not erased:  # the command was kept
            code, value, _ = perdure("erase", task, "--by", "an operator", "--yes")
            assert (code, value["said"]) == (0, "it was erased before")
        assert runtime.status(task) == "erased"
        assert leaking(folder) == []
    told = [decode(one) for one in records(folder / STORE)]
    assert sum(isinstance(one, TaskErased) for one in told) == 2


def test_a_subject_is_exported_and_erased_from_another_process(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        runtime.memory.know("address", SECRET, subject="customer 7", core=True)
        runtime.memory.know("address", "elsewhere", subject="customer 8")
        code, value, _ = perdure("export", "--subject", "customer 7")
        assert (code, value["is"], value["body"]["value"]) == (
            0,
            "record",
            f'"{SECRET}"',
        )
        words = ("erase", "--subject", "customer 7", "--by", "an operator")
        code, _, wrong = here(capsys, *words)
        assert (code, "say so with --yes" in wrong) == (2, True)
        code, value, _ = perdure(*words, "--yes")
        assert (code, value["said"]) == (0, "1 facts are erased")
        assert leaking(folder) == []
        assert [one.subject for one in runtime.memory.facts()] == ["customer 8"]
    for file in folder.iterdir():
        assert b"customer 7" not in file.read_bytes()
    for words in (("erase", "--by", "me", "--yes"), ("export",)):
        assert "give the ID of a task, or --subject" in here(capsys, *words)[2]
