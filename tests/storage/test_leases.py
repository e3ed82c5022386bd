"""Where streams end is asked of the disk only where it may tell."""

from __future__ import annotations

import pytest

from perdure.storage.errors import Fenced
from perdure.storage.leases import Leases
from perdure.storage.records import Head

OLD = Head(version=7, seq=70, epoch=3, incarnation=2)


class Disk:
    """Counts what is looked up."""

    def __init__(self, **heads: Head) -> None:
        self.heads = {name.replace("__", "/"): head for name, head in heads.items()}
        self.asked: list[str] = []

    def __call__(self, stream: str) -> Head:
        self.asked.append(stream)
        return self.heads.get(stream, Head())


def written(leases: Leases, stream: str, seq: int) -> None:
    """A record of that seq was appended under the stream's lease."""
    state = leases._streams[stream]
    state.version, state.seq, state.written = state.version + 1, seq, state.epoch


def test_a_stream_under_one_without_records_is_looked_up() -> None:
    disk = Disk(task__x__ledger=OLD)
    leases = Leases(disk)
    leases.acquire("task/x", 0)
    assert leases.acquire("task/x/ledger", 3).incarnation == OLD.incarnation + 1


def test_of_one_that_is_on_disk_each_stream_is_looked_up() -> None:
    disk = Disk(task__x=OLD, task__x__ledger=OLD)
    leases = Leases(disk)
    leases.acquire("task/x", 3)
    assert leases.acquire("task/x/ledger", 3).incarnation == OLD.incarnation + 1
    with pytest.raises(Fenced):
        leases.raise_epoch("task/x", 2)


def test_the_epoch_of_a_known_stream_is_what_it_was_written_with() -> None:
    disk = Disk(task__x=OLD)
    leases = Leases(disk)
    leases.acquire("task/x", 5)
    disk.asked.clear()
    leases.raise_epoch("task/x", 3)  # what was only given out has written nothing
    assert disk.asked == []


def test_a_stream_that_was_forgotten_before_its_family_is_looked_up_again() -> None:
    disk = Disk()
    leases = Leases(disk)
    leases.acquire("task/x", 0)
    written(leases, "task/x", 9)
    leases.acquire("task/x/ledger", 0)
    written(leases, "task/x/ledger", 1)
    leases.forget("task/x", 5)  # its own newest record is not durable yet
    assert "task/x" in leases._streams
    disk.heads["task/x/ledger"] = Head(version=1, seq=1, incarnation=1)
    assert leases.acquire("task/x/ledger", 0).incarnation == 2
