"""The demo's data: the airports of the world in a SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "TABLE", "build_database", "countries", "open_database"]

TABLE = "airports"
COLUMNS = (
    "icao",
    "iata",
    "name",
    "city",
    "region",
    "country",
    "elevation",
    "lat",
    "lon",
    "tz",
)
SOURCE_FIELDS = {"region": "subd"}  # column here -> field there, where they differ

_CREATE = """
CREATE TABLE airports (
    icao TEXT PRIMARY KEY,
    iata TEXT NOT NULL,
    name TEXT NOT NULL,
    city TEXT NOT NULL,
    region TEXT NOT NULL,
    country TEXT NOT NULL,
    elevation REAL NOT NULL,
    lat REAL NOT NULL,
    lon REAL NOT NULL,
    tz TEXT NOT NULL
)
"""
_INDEX = "CREATE INDEX airports_by_country ON airports (country, region)"
_INSERT = "INSERT INTO airports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def build_database(path: Path) -> int:
    """Load the airports into `path`, unless it is there already; return their number.

    A build that is cut off leaves nothing under `path`.

    Raises:
        ImportError: The extra is not installed.
    """
    if not path.exists():
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        _fill(partial)
        partial.replace(path)
    with closing(open_database(path)) as database:
        count: int = database.execute("SELECT count(*) FROM airports").fetchone()[0]
    return count


def open_database(path: Path | str) -> sqlite3.Connection:
    """Open the file read-only; the caller closes it."""
    where = Path(path).absolute().as_uri()
    return sqlite3.connect(f"{where}?mode=ro", uri=True)


def countries() -> set[str]:
    """The ISO codes of the countries that have airports. Raises ImportError."""
    return {airport["country"] for airport in _airports().values()}


def _airports() -> dict[str, Any]:
    try:
        import airportsdata
    except ImportError as error:
        raise ImportError(
            "the demo needs the airports: pip install 'perdure[demo]'"
        ) from error
    found: dict[str, Any] = airportsdata.load("ICAO")
    return found


def _fill(path: Path) -> None:
    airports = _airports()
    fields = [SOURCE_FIELDS.get(column, column) for column in COLUMNS]
    rows = (
        [dict(airports[code])[field] for field in fields] for code in sorted(airports)
    )
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(_CREATE)
        database.executemany(_INSERT, rows)
        database.execute(_INDEX)
