"""A backup holds all that was acknowledged before it began, and is a sound store."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Misuse, Runtime
from perdure.backup import back_up
from perdure.doctor import examine
from perdure.storage.errors import CannotOpen, NotAStore, StorageError
from perdure.storage.reader import open_reader
from tests.actors.test_erasing import secretive
from tests.actors.world import World
from tests.perdure.hosting import LONG, opened
from tests.perdure.planting import bytes_of
from tests.perdure.test_cli_ask import here, perdure
from tests.perdure.test_other_stores import CALLS, counted, worker

ROOT = Path(__file__).parents[2]
STORE = "tasks.db"

WRITER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.perdure.test_other_stores import worker
from perdure import Runtime
with Runtime(sys.argv[1], agents=[worker(Path(sys.argv[2]))]) as runtime:
    while True:
        task = runtime.submit("worker", "count")
        print(task.id, flush=True)
        task.wait(60)
        print("done", task.id, flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs task after task, and says so."""
    words = [sys.executable, "-c", WRITER, STORE, "ran"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as child:
        yield child
        child.kill()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def test_a_store_in_use_is_copied_with_all_that_was_acknowledged(
    folder: Path, writer: subprocess.Popen[str]
) -> None:
    assert writer.stdout is not None
    said: list[list[str]] = []
    for number in range(5):
        # Three tasks further, and the next one is under way.
        said += [writer.stdout.readline().split() for _ in range(7 - number % 2)]
        copy = folder / f"copy-{number}.db"
        made = back_up(folder / STORE, copy)
        report = examine(copy)
        assert report.findings == ()
        with open_reader(copy) as reader:
            assert reader.durable_seq == made.seq
            rows = {row.key: row.value or b"" for row in reader.rows("task")}
        for *done, task in said:
            assert task in rows
            if done:
                assert b'"completed"' in rows[task]
        assert made.bytes == copy.stat().st_size
    assert examine(folder / STORE).findings == ()  # and what it was copied from
    assert writer.poll() is None


def test_a_copy_goes_on_where_the_store_stood(
    folder: Path, writer: subprocess.Popen[str]
) -> None:
    assert writer.stdout is not None
    task = writer.stdout.readline().strip()
    back_up(STORE, "copy.db")
    writer.kill()
    writer.wait(LONG)
    Path("ran").unlink(missing_ok=True)
    with Runtime("copy.db", agents=[worker(folder / "ran")]) as runtime:
        assert runtime.task(task).wait(LONG).status == "completed"
    assert max(counted(folder / "ran")) == CALLS
    assert examine("copy.db").healthy


def test_a_copy_is_one_private_file_at_rest_without_what_was_erased(
    folder: Path,
) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        task = runtime.submit("agent", "Write.")
        assert task.wait(LONG).status == "completed"
        code, value, _ = perdure("backup", "copy.db")
        assert (code, value["file"]) == (0, "copy.db")
        held = (folder / "copy.db").read_bytes()
        assert b"Orchard" in held
        assert stat.S_IMODE((folder / "copy.db").stat().st_mode) == 0o600
        runtime.erase(task=task.id, by="an operator")
        back_up(STORE, "after.db")
        assert b"Orchard" not in (folder / "after.db").read_bytes()
    found = sorted(one.name for one in folder.iterdir() if "tasks" not in one.name)
    assert found == ["after.db", "copy.db"]


def test_what_is_there_is_never_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Runtime(STORE):
        pass
    Path("copy.db").write_text("mine")
    Path("link.db").symlink_to("nowhere.db")
    Path("old.db-wal").write_text("of one that was removed")
    Path("other.db.partial").write_text("another's")
    before = bytes_of(folder)
    code, _, wrong = here(capsys, "backup", "copy.db")
    assert code == 2
    assert "copy.db: it is there already; name a new file" in wrong
    for name in (STORE, "other.db", "link.db", "old.db", "no/such/folder.db", "."):
        with pytest.raises(CannotOpen):
            back_up(STORE, name)
    with pytest.raises(CannotOpen, match="there is no store"):
        back_up("none.db", "new.db")
    with pytest.raises(NotAStore):
        back_up("copy.db", "new.db")
    assert bytes_of(folder) == before


def test_a_damaged_store_leaves_no_copy_that_looks_whole(folder: Path) -> None:
    with opened(folder / STORE, secretive(World())) as runtime:
        assert runtime.submit("agent", "Write.").wait(LONG).status == "completed"
    with Path(STORE).open("r+b") as raw:
        raw.seek(4 * 4096)
        raw.write(b"\xff" * 4 * 4096)
    with pytest.raises(StorageError):
        back_up(STORE, "copy.db")
    assert sorted(one.name for one in folder.iterdir() if "copy" in one.name) == []


@pytest.mark.parametrize(
    ("store", "instead"),
    [("dir:tasks", "cp -a"), ("postgresql://host/tasks", "pg_dump")],
)
def test_of_other_stores_it_says_what_to_use_instead(store: str, instead: str) -> None:
    with pytest.raises(Misuse, match=instead):
        back_up(store, "copy.db")
