"""The index of an SQLite store, which follows its log by some records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import pytest

from perdure.storage import sqlite as sqlite_module
from perdure.storage.address import split_address
from perdure.storage.journal import Journal
from perdure.storage.memory import MemoryBackend
from perdure.storage.mend import mend_file
from perdure.storage.reader import open_reader
from perdure.storage.records import Draft
from perdure.storage.sqlite import SqliteBackend

STREAMS = ("a", "b", "c/d")
FEW = 7  # records that stand behind the index


class ByHand:
    """A background that runs when the test says so."""

    def __init__(self, name: str, step: Any) -> None:
        self.step = step

    def wake(self) -> None: ...

    def stop(self, timeout: float) -> bool:
        return True


@pytest.fixture
def few() -> Iterator[None]:
    with mock.patch.object(sqlite_module, "BEHIND", FEW):
        yield


def _journal(backend: Any) -> Journal:
    return Journal(backend, time=lambda: 1.5, background=ByHand)


def _fill(journal: Journal, records: int) -> None:
    leases = {stream: journal.acquire(stream, 1) for stream in STREAMS}
    versions = dict.fromkeys(STREAMS, 0)
    for n in range(records):
        stream = STREAMS[n * n % 5 % 3]
        versions[stream] += 1
        draft = Draft(
            stream=stream, version=versions[stream], type="Noted", body=b"%d" % n
        )
        journal.append([(leases[stream], [draft])])
        if n % 3 == 0:
            journal.commit_batch()
    journal.commit_batch()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("records", [1, 6, 7, 8, 30, 100])
def test_what_is_read_is_the_same_however_far_the_index_has_come(
    tmp_path: Path, records: int
) -> None:
    path = tmp_path / "tasks.db"
    plain = MemoryBackend()
    for backend in (SqliteBackend(path), plain):
        _fill(_journal(backend), records)
    with closing(open_reader(path)) as reader:
        other = plain.reader(print)
        for stream in STREAMS:
            assert reader.position(stream) == other.position(stream)
            assert reader.load(stream) == other.load(stream)
            for after in range(0, records, 5):
                mine = reader.stretch(stream, after, 4)
                assert mine == other.stretch(stream, after, 4)


@pytest.mark.usefixtures("few")
def test_the_index_is_never_far_behind(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    _fill(_journal(SqliteBackend(path)), 100)
    behind = _ask(path, "SELECT max(seq) - (SELECT placed FROM owner) FROM records")
    assert behind < FEW + 3  # and one batch
    noted = _ask(path, "SELECT count(*) = (SELECT placed FROM owner) FROM places")
    assert noted == 1


def test_a_flush_touches_no_page_of_the_index(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    _fill(_journal(SqliteBackend(path)), 100)
    assert _ask(path, "SELECT count(*) FROM places") == 0


def test_opening_a_store_brings_its_index_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    journal = _journal(SqliteBackend(path))
    _fill(journal, 20)
    journal.close()
    _journal(SqliteBackend(path)).close()
    assert _ask(path, "SELECT count(*) FROM places") == 20


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM places WHERE version = 2",
        "UPDATE places SET seq = 1 WHERE version = 3",
        "UPDATE owner SET placed = placed + 1",
    ],
)
def test_an_index_that_is_wrong_is_found_and_made_anew(
    tmp_path: Path, harm: str
) -> None:
    path = tmp_path / "tasks.db"
    journal = _journal(SqliteBackend(path))
    _fill(journal, 30)
    journal.close()
    with closing(open_reader(path)) as reader:
        assert reader.damage() == []
        before = [reader.load(stream) for stream in STREAMS]
    _do(path, harm)
    with closing(open_reader(path)) as reader:
        assert "is not where the index says" in reader.damage()[0]
    address = str(path)
    assert split_address(address)[0] == "file"
    assert mend_file(address, "the index")
    with closing(open_reader(path)) as reader:
        assert reader.damage() == []
        assert [reader.load(stream) for stream in STREAMS] == before


def test_a_record_whose_type_has_no_text_is_not_sound(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    journal = _journal(SqliteBackend(path))
    _fill(journal, 3)
    journal.close()
    _do(path, "UPDATE types SET name = x'ff'")
    with closing(open_reader(path)) as reader:
        assert [sound for _, sound in reader.examined("a", 0, 9)][:1] == [False]


def _ask(path: Path, sql: str) -> Any:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).get
    finally:
        connection.close()


def _do(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql).fetchall()
    connection.close()
