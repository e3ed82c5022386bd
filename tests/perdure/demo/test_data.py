from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import airportsdata
import pytest

from perdure.demo.data import build_database, open_database


def test_every_airport_of_the_package_is_a_row(database: Path) -> None:
    with closing(open_database(database)) as opened:
        rows = opened.execute("SELECT icao, region FROM airports").fetchall()
    airports = airportsdata.load()
    assert dict(rows) == {code: airports[code]["subd"] for code in airports}


def test_two_builds_are_the_same_bytes(database: Path, tmp_path: Path) -> None:
    build_database(tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == database.read_bytes()


def test_a_database_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    path = tmp_path / "airports.db"
    count = build_database(path)
    built = path.stat().st_ino
    assert build_database(path) == count
    assert path.stat().st_ino == built


def test_what_a_killed_build_left_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "airports.db"
    (tmp_path / ".airports.db.partial").write_bytes(b"half a file")
    build_database(path)
    assert list(tmp_path.iterdir()) == [path]


def test_the_database_is_opened_to_read_only(database: Path) -> None:
    with (
        closing(open_database(database)) as opened,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        opened.execute("DELETE FROM airports")
