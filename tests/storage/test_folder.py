"""A store in a folder: its owner's memory and its files never disagree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.storage import folder, folder_image
from perdure.storage.erasure import Erasure
from perdure.storage.folder import FolderBackend
from perdure.storage.folder_inbox import FolderInbox
from perdure.storage.reader import open_reader
from perdure.storage.records import Command
from perdure.testing.journal_contract.bench import Bench, draft, snapshot_of


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(FolderBackend(tmp_path / "tasks"))
    yield bench
    bench.backend.abandon()


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
