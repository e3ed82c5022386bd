from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from perdure.demo.query import Query, run, schema_of

ROWS = [
    ("a", "north", 3),
    ("b", "south", 1),
    ("d", None, 2),
    ("c", "north", 2),
]


@pytest.fixture
def things() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE things (name, side, size)")
        database.execute('CREATE TABLE "odd ""name" (x)')
        database.executemany("INSERT INTO things VALUES (?, ?, ?)", ROWS)
        yield database


def ask(database: sqlite3.Connection, **query: Any) -> list[tuple[Any, ...]]:
    rows = run(database, Query(**{"table": "things", "columns": ["name"]} | query))
    return [tuple(row) for row in rows]


def test_the_schema_is_read_from_the_database(things: sqlite3.Connection) -> None:
    assert schema_of(things) == {
        "things": ["name", "side", "size"],
        'odd "name': ["x"],
    }


def test_values_come_in_the_order_they_were_asked_for(
    things: sqlite3.Connection,
) -> None:
    rows = run(things, Query(table="things", columns=["size", "name"], limit=1))
    assert rows == [[1, "b"]]


def test_every_name_given_must_match(things: sqlite3.Connection) -> None:
    assert ask(things, where={"side": "north", "size": 2}) == [("c",)]


def test_none_matches_a_missing_value(things: sqlite3.Connection) -> None:
    assert ask(things, where={"side": None}) == [("d",)]


def test_groups_are_aggregated(things: sqlite3.Connection) -> None:
    found = ask(
        things,
        columns=["side", "count(*)", "min(size)", "max(size)", "sum(size)"],
        group_by=["side"],
    )
    assert found == [
        (None, 1, 2, 2, 2),
        ("north", 2, 2, 3, 5),
        ("south", 1, 1, 1, 1),
    ]


def test_ties_of_the_order_are_broken_by_the_other_columns(
    things: sqlite3.Connection,
) -> None:
    assert ask(things, columns=["name", "size"], order_by=["-size"]) == [
        ("a", 3),
        ("c", 2),
        ("d", 2),
        ("b", 1),
    ]


def test_an_aggregate_can_be_the_order(things: sqlite3.Connection) -> None:
    found = ask(
        things,
        columns=["side", "count(*)"],
        group_by=["side"],
        order_by=["-count(*)", "-side"],
    )
    assert found == [("north", 2), ("south", 1), (None, 1)]


def test_no_more_rows_than_the_limit(things: sqlite3.Connection) -> None:
    assert ask(things, limit=2) == [("a",), ("b",)]


def test_a_name_with_quotes_is_a_name(things: sqlite3.Connection) -> None:
    assert ask(things, table='odd "name', columns=["x"]) == []


@pytest.mark.parametrize(
    "query",
    [
        {"table": "things; DROP TABLE things"},
        {"columns": ["name FROM things; --"]},
        {"columns": ["load_extension(name)"]},
        {"columns": ["max(size) FROM things --"]},
        {"columns": ["max(nothing)"]},
        {"where": {"1=1 OR name": 1}},
        {"group_by": ["count(*)"]},
        {"order_by": ["name; --"]},
    ],
    ids=repr,
)
def test_what_is_no_name_is_refused(
    things: sqlite3.Connection, query: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"no (table|column) "):
        ask(things, **query)


def test_no_columns_are_refused(things: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="columns is empty; name some of name, side"):
        ask(things, columns=[])
