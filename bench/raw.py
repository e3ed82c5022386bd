"""What the rates of benches are held against: a loop that commits one row a flush.

A row is 500 characters. The loop has nothing around it: one connection, one table, one
row inserted and committed, durable before the next.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

__all__ = [
    "PAYLOAD",
    "PostgresLoop",
    "SqliteLoop",
    "in_schema",
    "schema_bytes",
    "schema_in",
    "spread",
]

PAYLOAD = "x" * 500


def spread(figures: Sequence[float], digits: int = 2) -> list[float]:
    """Median, least and most of the windows' figures."""
    three = statistics.median(figures), min(figures), max(figures)
    return [round(one, digits) for one in three]


class SqliteLoop:
    """The loop on a file: WAL, ``synchronous=FULL``."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "WAL")
        self._connection.pragma("synchronous", "FULL")
        self._connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, body)")

    def rate(self, rows: int) -> float:
        """Commit so many rows; return how many a second."""
        insert = "INSERT INTO kept (body) VALUES (?)"
        return _rate(rows, lambda: self._connection.execute(insert, (PAYLOAD,)))

    def close(self) -> None:
        self._connection.close()


class PostgresLoop:
    """The loop on a server: autocommit, ``synchronous_commit=on``."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET synchronous_commit = on")
        self._connection.execute(
            "CREATE TABLE kept (id bigserial PRIMARY KEY, body text)"
        )

    def rate(self, rows: int) -> float:
        """Commit so many rows; return how many a second."""
        insert = "INSERT INTO kept (body) VALUES (%s)"
        run = self._connection.execute
        return _rate(rows, lambda: run(insert, (PAYLOAD,), prepare=True))

    def close(self) -> None:
        self._connection.close()


def _rate(rows: int, commit: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(rows):
        commit()
    return rows / (time.perf_counter() - began)


@contextmanager
def schema_in(url: str) -> Iterator[str]:
    """A schema of its own in a database, dropped at the end; yields its name."""
    import psycopg

    name = f"bench_{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    try:
        yield name
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def in_schema(url: str, name: str) -> str:
    """The address of a database, with the tables in that schema."""
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"


def schema_bytes(url: str, name: str) -> int:
    """What the tables of a schema and their indexes take on the server's disk."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint"
            " FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace"
            " WHERE nspname = %s AND relkind IN ('r', 'p')",
            (name,),
        ).fetchone()
    assert found is not None
    size: int = found[0]
    return size
