"""A store in a folder: its owner's memory and its files never disagree."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.storage import folder, folder_image
from perdure.storage.erasure import Erasure
from perdure.storage.errors import StoreFailed
from perdure.storage.folder import FolderBackend
from perdure.storage.folder_inbox import FolderInbox
from perdure.storage.reader import open_reader
from perdure.storage.records import Command, blob_digest
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, draft, snapshot_of


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(FolderBackend(tmp_path / "tasks"))
    yield bench
    bench.backend.abandon()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_kept_is_read_without_perdure(kind: str, tmp_path: Path) -> None:
    # B28: JSON files for simple cases, SQLite for others
    path = tmp_path / "tasks"
    backend = FolderBackend(path) if kind == "folder" else SqliteBackend(path)
    bench = Bench(backend)
    bench.append(bench.lease("task/1"), 1, body=b'{"goal": "Report."}')
    bench.commit()
    assert bench.journal.close()
    if kind == "folder":
        whole = [json.loads(one.read_text()) for one in (path / "log").iterdir()]
        found = [
            (one["stream"], one["type"], one["body"]["json"]["goal"])
            for batch in whole
            for one in batch["records"]
        ]
    else:
        with closing(sqlite3.connect(path)) as db:
            found = db.execute(
                "SELECT stream, type, body ->> '$.goal' FROM events"
            ).fetchall()
    assert found == [("task/1", "Noted", "Report.")]


def test_a_read_between_the_file_and_its_acknowledgement_doubles_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:  # P1
    reader = bench.backend.reader(lambda *_: None)
    write, seen = folder.write_batch, []

    def read_behind(*words: Any) -> None:
        write(*words)
        seen.append(reader.head("task/1"))

    monkeypatch.setattr(folder, "write_batch", read_behind)
    lease = bench.lease("task/1")
    for version in (1, 2):
        bench.append(lease, version)
        bench.commit()
    assert len(seen) == 2
    loaded = bench.load("task/1")
    assert [one.version for one in loaded.records] == [1, 2]


def test_commands_of_one_moment_are_all_noticed(bench: Bench, tmp_path: Path) -> None:
    inbox = tmp_path / "tasks" / "inbox"
    moment = inbox.stat().st_mtime_ns
    for number in (1, 2):
        with FolderInbox(tmp_path / "tasks") as sender:
            sender.send(Command(id=f"c{number}", kind="resume", subject="t", at=0.0))
        os.utime(inbox, ns=(moment, moment))  # as a coarse clock would have it
        assert bench.backend.changed()
        assert len(bench.read(lambda reader: reader.commands())) == number
    assert not bench.backend.changed()


def snapshot(bench: Bench, stream: str, version: int) -> None:
    (record,) = bench.append(bench.lease(stream), version)
    bench.journal.snapshot(snapshot_of(record))
    bench.commit()


def test_a_reader_reads_the_snapshots_that_changed_only(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, seen = folder_image.read_snapshots, []

    def counted(file: Path) -> Any:
        seen.append(file)
        return read(file)

    for number in range(5):
        snapshot(bench, f"task/{number}", 1)
    with open_reader(f"dir:{tmp_path / 'tasks'}") as reader:
        monkeypatch.setattr(folder_image, "read_snapshots", counted)
        for version in (2, 3):
            snapshot(bench, "task/3", version)
            os.utime(tmp_path / "tasks" / "snapshots", ns=(version, version))
            found = [one.version for one in reader.snapshots("task/3")]
            assert found == [version, version - 1]
        assert len(seen) == 5 + 1  # each once, then what changed
        assert len(reader.snapshots("task/1")) == 1


def test_a_reader_keeps_its_snapshots_over_an_erasure_of_others(
    bench: Bench, tmp_path: Path
) -> None:
    snapshot(bench, "task/1", 1)
    bench.append(bench.lease("task/2"), 1)
    bench.commit()
    with open_reader(f"dir:{tmp_path / 'tasks'}") as reader:
        assert len(reader.snapshots("task/1")) == 1
        changes = [(bench.lease("pool"), [draft("pool", 1)])]
        bench.journal.append(changes, Erasure(families=("task/2",)))
        bench.commit()
        assert reader.streams() == ["pool", "task/1"]
        assert len(reader.snapshots("task/1")) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_reader_misses_nothing_while_files_are_replaced(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    for version in (1, 2):
        bench.append(bench.lease("task/1"), version)
        bench.commit()
    names_of, told = folder_image.names_of, []

    def erase() -> None:
        """One erasure, and a batch behind it, as the owner has them meanwhile."""
        bench.append(bench.lease("task/2"), 1)
        bench.commit()
        changes = [(bench.lease("pool"), [draft("pool", 1)])]
        bench.journal.append(changes, Erasure(families=("task/2",)))
        bench.commit()
        bench.append(bench.lease("task/1"), 3)
        bench.commit()

    def listed(place: Path) -> list[str]:
        first = place.name == "log" and not told
        if first and moment == "before":
            told.append(place)
            erase()
        found = names_of(place)
        if first and moment == "after":
            told.append(place)
            erase()
        return found

    with open_reader(f"dir:{tmp_path / 'tasks'}") as reader:
        assert reader.head("task/1") == 2
        bench.append(bench.lease("task/3"), 1)  # new to the reader, and soon replaced
        bench.commit()
        monkeypatch.setattr(folder_image, "names_of", listed)
        found = [(one.seq, one.stream) for one in reader.records()]
    wanted = ["task/1", "task/1", "task/3", None, "pool", "task/1"]
    assert found == [(seq, name) for seq, name in enumerate(wanted, 1) if name]


@pytest.mark.parametrize("depth", [395, 650, 800, 900, 990, 5000])
def test_no_depth_of_nesting_closes_a_store(tmp_path: Path, depth: int) -> None:
    body = b"[" * depth + b"]" * depth
    store = tmp_path / "tasks"
    bench = Bench(FolderBackend(store))
    bench.append(bench.lease("task/1"), 1, blobs=(body,))
    bench.commit()
    bench.backend.abandon()

    def deeper(levels: int) -> bytes | None:
        if levels:
            return deeper(levels - 1)
        with open_reader(f"dir:{store}") as reader:
            return reader.blob(blob_digest(body))

    assert deeper(300) == body


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"json"', '"base64"'),
        lambda text: '{"base64":"A"}',
        lambda text: "[" * 100_000,
        lambda text: "\udcff",
    ],
)
@pytest.mark.parametrize("where", ["snapshots", "inbox", "log"])
def test_a_damaged_file_is_told_as_damage(
    bench: Bench, tmp_path: Path, harm: Callable[[str], str], where: str
) -> None:
    snapshot(bench, "task/1", 1)
    with FolderInbox(tmp_path / "tasks") as sender:
        sender.send(Command(id="c1", kind="resume", subject="t", at=0.0))
    (file,) = (tmp_path / "tasks" / where).glob("*.json")
    file.write_bytes(harm(file.read_text()).encode(errors="surrogateescape"))
    with open_reader(f"dir:{tmp_path / 'tasks'}") as reader:
        if where == "snapshots":
            assert reader.load("task/1").snapshot is None
            return
        with pytest.raises(StoreFailed, match="damaged"):
            reader.load("task/1")
