"""An archived task is one file, which brings all of it back, or is refused whole."""

from __future__ import annotations

import gzip
import hashlib
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Misuse, Runtime, StoreBusy, delegate
from perdure.archive import archive
from perdure.doctor import examine
from perdure.export import export_task
from perdure.importing import bring_back
from perdure.storage.reader import open_reader
from perdure.testing import in_turn
from perdure.views import sheet, tasks
from perdure.views_effects import effects
from perdure.views_effects import log as log_of
from perdure.views_spend import spend
from tests.actors.test_erasing import secretive
from tests.actors.world import World, job
from tests.perdure.hosting import Told
from tests.perdure.test_cli_ask import perdure

STORE = "tasks.db"
SHOWN = ("record", "row", "value")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def agents() -> list[Agent]:
    boss = Agent(
        name="boss",
        instructions="Hand on.",
        model=in_turn(("delegate", {"agent": "agent", "goal": "the part"})),
        tools=[delegate],
        recovery="rules",
    )
    return [secretive(World()), boss]


def done(store: str = STORE, agent: str = "agent", **options: Any) -> str:
    """A task that completed in a store of its own; a big value is of it."""
    with Runtime(store, agents=agents()) as runtime:
        task = runtime.submit(agent, "do it", **options)
        assert task.wait(timeout=60).status == "completed"
    return task.id


def lines_of(file: str) -> list[dict[str, Any]]:
    with gzip.open(file, "rb") as opened:
        return [json.loads(one) for one in opened]


def shown(store: str, task: str) -> dict[str, Any]:
    """All that commands show of a task, but for places of the log."""
    with open_reader(store) as reader:
        lines = list(export_task(reader, task))
        log = list(log_of(reader, task))
        exported: dict[str, list[dict[str, Any]]] = {one: [] for one in SHOWN}
        for line in lines:
            if line["is"] in SHOWN and line.get("space") != "evidence":
                exported[line["is"]].append({**line, "seq": 0})
        streams = {one["stream"] for one in exported["record"]}
        own = [one for one in streams if one.startswith("task/")]
        return {
            "sheet": sheet(reader, task),
            "effects": effects(reader, task),
            "spend": spend(reader, task, "tool").lines,
            "log": [
                {**one, "seq": 0}
                for one in log
                if not one["event"].startswith(("inbox.", "task.imported"))
            ],
            "records": [
                one
                for one in exported["record"]
                if one["stream"] in own and not one["stream"].endswith("/services")
            ],
            "values": exported["value"],
            "rows": exported["row"],
            "evidence": [
                line["key"] for line in lines if line.get("space") == "evidence"
            ],
        }


@pytest.mark.parametrize("other", ["other.db", "dir:other"])
def test_a_task_is_as_it_was_in_another_store(other: str) -> None:
    task = done(key="mine", inputs={"a": 1})
    before = shown(STORE, task)
    made = archive(STORE, task, "task.gz")
    came = bring_back(other, "task.gz")
    assert (came.task, came.records) == (made.task, made.records)
    assert shown(other, task) == before
    assert examine(other).findings == ()
    with Runtime(other, agents=agents()) as runtime:
        assert runtime.wait(task, timeout=5).output == before["sheet"].output
        assert runtime.submit("agent", "do it", key="mine").id == task
        assert [one.task for one in runtime.recall("orchard")]
        again = runtime.submit("agent", "do it")
        assert again.wait(timeout=60).status == "completed"
    assert examine(other).findings == ()


def test_a_task_is_as_it_was_in_postgresql(postgres: str) -> None:
    task = done()
    archive(STORE, task, "task.gz")
    bring_back(postgres, "task.gz")
    assert shown(postgres, task) == shown(STORE, task)
    assert examine(postgres).findings == ()


def test_it_stands_among_others_where_the_store_has_some() -> None:
    other = done("other.db")
    task = done()
    archive(STORE, task, "task.gz")
    bring_back("other.db", "task.gz")
    with open_reader("other.db") as reader:
        assert [one.task for one in tasks(reader)] == [other, task]
    with open_reader(STORE) as reader:
        (line,) = tasks(reader)
    with open_reader("other.db") as reader:
        assert tasks(reader)[1] == line


def test_sub_tasks_go_with_their_task() -> None:
    task = done(agent="boss")
    with open_reader(STORE) as reader:
        (child,) = sheet(reader, task).subtasks
    made = archive(STORE, task, "task.gz")
    assert made.subtasks == (child,)
    assert bring_back("other.db", "task.gz").subtasks == (child,)
    for one in (task, child):
        assert shown("other.db", one) == shown(STORE, one)
    assert examine("other.db").findings == ()
    with pytest.raises(Misuse, match=f"is a sub-task: archive {task}"):
        archive(STORE, child, "child.gz")


def test_the_file_can_be_read_without_perdure() -> None:
    task = done()
    made = archive(STORE, task, "task.gz")
    lines = lines_of("task.gz")
    assert (lines[0]["is"], lines[0]["task"], lines[0]["format"]) == (
        "archive",
        task,
        1,
    )
    kinds = [one["type"] for one in lines if one["is"] == "record"]
    assert len(kinds) == made.records
    assert kinds[0] == "TaskSubmitted"
    values = [one["text"] for one in lines if one["is"] == "value"]
    (value,) = [one for one in values if len(one) > 40_000]
    assert "Orchard Lane 7" in value
    assert lines[-1] == {"is": "end", "lines": len(lines) - 1, "sha256": made.sha256}
    assert stat.S_IMODE(Path("task.gz").stat().st_mode) == 0o600


def test_archiving_reads_only_and_a_runtime_may_own_the_store() -> None:
    with Runtime(STORE, agents=agents()) as runtime:
        task = runtime.submit("agent", "do it")
        task.wait(timeout=60)
        archive(STORE, task.id, "task.gz")
        with pytest.raises(StoreBusy, match="import needs it alone"):
            bring_back(STORE, "task.gz")
    bring_back("other.db", "task.gz")
    assert shown("other.db", task.id)["records"] == shown(STORE, task.id)["records"]


def test_what_is_there_is_not_brought_in_again() -> None:
    task = done()
    archive(STORE, task, "task.gz")
    before = Path(STORE).read_bytes()
    with pytest.raises(Misuse, match=f"task {task} is in the store already"):
        bring_back(STORE, "task.gz")
    bring_back("other.db", "task.gz")
    with pytest.raises(Misuse, match="nothing was changed"):
        bring_back("other.db", "task.gz")
    assert shown(STORE, task) == shown("other.db", task)
    assert len(Path(STORE).read_bytes()) == len(before)


def test_a_key_that_another_task_has_is_not_taken_from_it() -> None:
    other = done("other.db", key="mine")
    archive(STORE, done(key="mine"), "task.gz")
    with pytest.raises(Misuse, match=f"the key 'mine' .* is task {other}'s"):
        bring_back("other.db", "task.gz")


def test_a_task_that_has_not_ended_is_not_archived() -> None:
    held = job(World())
    with Runtime(STORE, agents=[held]) as runtime:
        task = runtime.submit("agent", "do it", not_before=2**33)
    with pytest.raises(Misuse, match="archive it when it has ended"):
        archive(STORE, task.id, "task.gz")
    assert not Path("task.gz").exists()


def test_a_file_that_is_there_stays() -> None:
    task = done()
    Path("task.gz").write_text("mine")
    with pytest.raises(Misuse, match="file exists; name a new file"):
        archive(STORE, task, "task.gz")
    assert Path("task.gz").read_text() == "mine"
    assert not list(Path().glob(".*part"))


def rewritten(change: Callable[[list[dict[str, Any]]], None]) -> None:
    lines = lines_of("task.gz")
    change(lines)
    with gzip.open("task.gz", "wb") as file:
        for one in lines:
            file.write(json.dumps(one).encode() + b"\n")


def cut(lines: list[dict[str, Any]]) -> None:
    del lines[-3:]


def doctored(lines: list[dict[str, Any]]) -> None:
    record = next(one for one in lines if one["is"] == "record")
    record["body"] = record["body"].replace("do it", "do more")


def torn(lines: list[dict[str, Any]]) -> None:
    del lines[3]


def swapped(lines: list[dict[str, Any]]) -> None:
    value = next(one for one in lines if one["is"] == "value")
    value["text"] = "another"


def newer(lines: list[dict[str, Any]]) -> None:
    lines[0]["format"] = 2


def longer(lines: list[dict[str, Any]]) -> None:
    lines.append({"is": "row", "space": "key", "key": "a", "text": "b"})


DAMAGES = {
    "is damaged: it is cut off": cut,
    "does not match its checksum": doctored,
    "is missing": torn,
    "is another one": swapped,
    "archive format 2": newer,
    "something follows its end": longer,
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_damaged_or_newer_file_is_refused_and_no_store_is_made(said: str) -> None:
    archive(STORE, done(), "task.gz")
    rewritten(DAMAGES[said])
    with pytest.raises(Misuse, match=said):
        bring_back("other.db", "task.gz")
    assert not Path("other.db").exists()


def whole(lines: list[dict[str, Any]]) -> None:
    """Give lines that were changed the end that they should have."""
    digest, count = hashlib.sha256(), len(lines) - 1
    for one in lines[:-1]:
        digest.update(json.dumps(one).encode() + b"\n")
    lines[-1] = {"is": "end", "lines": count, "sha256": digest.hexdigest()}


@pytest.mark.parametrize(
    "row",
    [
        {"space": "task", "key": "t-other"},
        {"space": "key", "key": "another"},
        {"space": "scrub", "key": "due"},
        {"space": "evidence", "key": "t-other:000000001"},
    ],
)
def test_a_file_writes_nothing_about_other_tasks(row: dict[str, str]) -> None:
    archive(STORE, done(), "task.gz")

    def smuggle(lines: list[dict[str, Any]]) -> None:
        lines.insert(-1, {"is": "row", **row, "text": "{}"})
        whole(lines)

    rewritten(smuggle)
    with pytest.raises(Misuse, match=f"holds row {row['space']}/{row['key']}, which"):
        bring_back("other.db", "task.gz")
    assert not Path("other.db").exists()


@pytest.mark.parametrize("count", [10, 1_000, 5_000])
def test_a_file_that_was_cut_off_is_refused(count: int) -> None:
    archive(STORE, done(), "task.gz")
    data = Path("task.gz").read_bytes()
    Path("task.gz").write_bytes(data[:-count])
    with pytest.raises(Misuse, match=r"is damaged|is no archive"):
        bring_back("other.db", "task.gz")
    assert not Path("other.db").exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"no", gzip.compress(b"{}\n"), gzip.compress(b'{"is": "task"}\n')],
)
def test_another_file_is_refused(data: bytes) -> None:
    Path("task.gz").write_bytes(data)
    with pytest.raises(Misuse, match="is no archive of perdure"):
        bring_back("other.db", "task.gz")


def test_a_record_of_a_newer_perdure_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from perdure import importing
    from perdure.storage.errors import NewerSchema

    archive(STORE, done(), "task.gz")

    def newer_one(record: Any) -> Any:
        raise NewerSchema(record.stream, 2, 1)

    monkeypatch.setattr(importing, "event_of", newer_one)
    with pytest.raises(Misuse, match="use a newer one"):
        bring_back("other.db", "task.gz")
    assert not Path("other.db").exists()


def test_what_was_archived_and_removed_comes_back() -> None:
    task = done(key="mine")
    before = shown(STORE, task)
    made = perdure(
        "archive",
        task[:8],
        "task.gz",
        "--remove",
        "--by",
        "an operator",
        "--timeout",
        "0",
    )
    assert made[0] == 3, made  # kept until a runtime opens
    told = Told()
    with Runtime(STORE, agents=agents(), log=told):
        told.wait_for("task.erased")
    assert perdure("show", task)[1]["status"] == "erased"
    _, came, _ = perdure("import", "task.gz")
    assert came["task"] == task
    after = shown(STORE, task)
    for what in ("sheet", "effects", "spend", "records", "values", "evidence"):
        assert after[what] == before[what], what
    assert examine(STORE).findings == ()
    with Runtime(STORE, agents=agents()) as runtime:
        assert runtime.submit("agent", "again", key="mine").id == task


def test_commands_say_what_there_is() -> None:
    task = done()
    code, told, _ = perdure("archive", task, "task.gz")
    assert (code, told["task"], told["file"]) == (0, task, "task.gz")
    records = [one for one in lines_of("task.gz") if one["is"] == "record"]
    assert told["records"] == len(records)
    code, _, why = perdure("archive", task, "task.gz")
    assert (code, "name a new file" in why) == (2, True)
    code, told, _ = perdure("import", "task.gz", "--store", "other.db")
    assert (code, told["records"]) == (0, len(records))
    code, _, why = perdure("import", "task.gz", "--store", "other.db")
    assert (code, "in the store already" in why) == (2, True)
    assert perdure("show", task, "--store", "other.db")[0] == 0


def test_what_came_is_kept_as_long_as_if_it_had_ended_now() -> None:
    task = done()
    archive(STORE, task, "task.gz")
    bring_back("other.db", "task.gz")
    with open_reader("other.db") as reader:
        (row,) = reader.rows("ended")
        records = reader.records(0, 10_000, f"task/{task}")
    assert row.key.endswith(f"/{task}")
    assert float(row.key.partition("/")[0]) >= int(records[-1].at)
