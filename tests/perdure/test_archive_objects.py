"""An archived task as an object on a server: put once, checked, and brought back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Misuse
from perdure.archive import archive
from perdure.importing import bring_back
from perdure.storage.errors import ObjectExists, ObjectTrouble
from perdure.storage.objects import ObjectStore
from perdure.storage.reader import open_reader
from perdure.views import task_line
from tests.object_server import BUCKET, SECRET, ObjectServer
from tests.perdure.test_archive import STORE, done, shown
from tests.perdure.test_cli_ask import perdure

REMOVE = ("--remove", "--by", "an operator", "--timeout", "0.5")
ADDRESS = f"s3://{BUCKET}/archives/t.gz"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    server = ObjectServer()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


def stored() -> bytes:
    return ObjectStore(f"s3://{BUCKET}/archives").get("t.gz")


def is_there(task: str) -> bool:
    """Whether nothing was removed, and no command to do so is kept."""
    with open_reader(STORE) as reader:
        return task_line(reader, task).status == "completed" and not reader.commands()


def replaced(body: bytes) -> None:
    store = ObjectStore(f"s3://{BUCKET}/archives")
    store.delete("t.gz")
    store.put("t.gz", body)


@pytest.mark.timeout(120)
def test_a_task_goes_to_an_object_and_comes_back(
    server: ObjectServer, folder: Path
) -> None:
    task = done()
    before = sorted(folder.iterdir())
    code, made, error = perdure("archive", task, ADDRESS)
    assert (code, made["file"], error) == (0, ADDRESS, "")
    assert made["bytes"] == len(stored())
    assert sorted(folder.iterdir()) == before
    code, came, error = perdure("import", ADDRESS, "--store", "other.db")
    assert (code, came["task"], error) == (0, task, "")
    assert shown("other.db", task) == shown(STORE, task)


def test_an_object_that_is_there_is_left_as_it_is(server: ObjectServer) -> None:
    task = done()
    archive(STORE, task, ADDRESS)
    first = stored()
    with pytest.raises(ObjectExists, match="left as it is"):
        archive(STORE, task, ADDRESS)
    assert stored() == first
    code, _, error = perdure("archive", task, ADDRESS, *REMOVE)
    assert (code, "give another name" in error) == (2, True)
    assert is_there(task)


def test_a_damaged_object_is_refused_by_its_address(server: ObjectServer) -> None:
    task = done()
    archive(STORE, task, ADDRESS)
    replaced(stored()[:-40])
    with pytest.raises(Misuse, match=rf"^{ADDRESS} is damaged"):
        bring_back("other.db", ADDRESS)
    replaced(b"")
    with pytest.raises(Misuse, match=rf"^{ADDRESS} is no archive"):
        bring_back("other.db", ADDRESS)
    with pytest.raises(Misuse, match=r"there is no object u\.gz"):
        bring_back("other.db", f"s3://{BUCKET}/archives/u.gz")
    assert not Path("other.db").exists()


def test_what_came_back_otherwise_is_not_taken_for_an_archive(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = done()
    put = ObjectStore.put
    monkeypatch.setattr(ObjectStore, "put", lambda s, k, body: put(s, k, body[:-1]))
    with pytest.raises(ObjectTrouble, match="came back otherwise"):
        archive(STORE, task, ADDRESS)


def test_an_answer_that_was_lost_is_no_object_of_somebody_elses(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = done()
    put = ObjectStore.put

    def twice(store: ObjectStore, key: str, body: bytes) -> None:
        put(store, key, body)
        put(store, key, body)

    monkeypatch.setattr(ObjectStore, "put", twice)
    assert archive(STORE, task, ADDRESS).bytes == len(stored())


def test_a_server_that_is_away_removes_nothing(server: ObjectServer) -> None:
    task = done()
    server.stop()
    code, _, error = perdure("archive", task, ADDRESS, *REMOVE)
    assert (code, "no connection" in error, SECRET in error) == (2, True, False)
    assert is_there(task)


def test_a_file_by_its_address_is_a_file(folder: Path) -> None:
    task = done()
    made = archive(STORE, task, f"file://{folder}/a%20b.gz")
    assert made.bytes == (folder / "a b.gz").stat().st_size
    assert bring_back("other.db", f"file://{folder}/a%20b.gz").task == task


@pytest.mark.parametrize(
    "address", ["s3://bucket", "s3://bucket/", "memory:///t.gz", f"s3://a:{SECRET}@b/c"]
)
def test_what_names_no_object_is_refused(address: str) -> None:
    task = done()
    with pytest.raises(Misuse) as caught:
        archive(STORE, task, address)
    assert SECRET not in str(caught.value)
