"""A store in a folder: its owner's memory and its files never disagree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.storage import folder
from perdure.storage.folder import FolderBackend
from perdure.storage.folder_inbox import FolderInbox
from perdure.storage.records import Command
from perdure.testing.journal_contract.bench import Bench


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
