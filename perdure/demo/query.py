"""Structured queries: what a model writes is data, and never becomes SQL text.

Table and column names are looked up in the schema before they are used, and values
are bound.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

__all__ = ["Query", "Scalar", "run", "schema_of"]

Scalar: TypeAlias = str | int | float | None
Schema: TypeAlias = Mapping[str, Sequence[str]]  # table -> its columns

COUNT = "count(*)"
AGGREGATE = re.compile(r"(min|max|sum)\((\w+)\)")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table.

    Args:
        table: Its name.
        columns: Names, or ``count(*)``, ``min(column)``, ``max(...)``, ``sum(...)``.
        where: Column -> the value it must equal; None matches missing values.
        group_by: Columns to group by.
        order_by: Members of `columns` or names; a leading ``-`` turns the order round.
        limit: At most so many rows; None for all of them.
    """

    table: str
    columns: Sequence[str]
    where: Mapping[str, Scalar] = {}
    group_by: Sequence[str] = ()
    order_by: Sequence[str] = ()
    limit: int | None = None


def schema_of(database: sqlite3.Connection) -> dict[str, list[str]]:
    """The tables and their columns, in the database's order."""
    names = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    ).fetchall()
    return {
        name: [
            column
            for (column,) in database.execute(
                "SELECT name FROM pragma_table_info(?)", (name,)
            )
        ]
        for (name,) in names
    }


def run(database: sqlite3.Connection, query: Query) -> list[list[Any]]:
    """Run a query; each row has its values in the order of `query.columns`.

    Rows come in one order only: ties of `order_by` are broken by the other columns.

    Raises:
        ValueError: A table, column or aggregate that does not exist; no columns.
    """
    sql, values = _statement(schema_of(database), query)
    return [list(row) for row in database.execute(sql, values)]


def _statement(schema: Schema, query: Query) -> tuple[str, list[Scalar]]:
    if query.table not in schema:
        raise ValueError(
            f"no table {query.table!r}; there is {', '.join(sorted(schema))}"
        )
    known = schema[query.table]
    if not query.columns:
        raise ValueError(f"columns is empty; name some of {', '.join(known)}")
    selected = [_expression(name, known) for name in query.columns]
    parts = ["SELECT", ", ".join(selected), "FROM", _quoted(query.table)]
    if query.where:
        tests = [f"{_column(name, known)} IS ?" for name in query.where]
        parts.append(f"WHERE {' AND '.join(tests)}")
    if query.group_by:
        groups = [_column(name, known) for name in query.group_by]
        parts.append(f"GROUP BY {', '.join(groups)}")
    parts.append(f"ORDER BY {', '.join(_order(query, known, selected))}")
    values = list(query.where.values())
    if query.limit is not None:
        parts.append("LIMIT ?")
        values.append(query.limit)
    return " ".join(parts), values


def _order(query: Query, known: Sequence[str], selected: Sequence[str]) -> list[str]:
    wanted = [
        f"{_expression(name.removeprefix('-'), known)}"
        f"{' DESC' if name.startswith('-') else ''}"
        for name in query.order_by
    ]
    return [*wanted, *selected]


def _expression(name: str, known: Sequence[str]) -> str:
    if name == COUNT:
        return COUNT
    if aggregate := AGGREGATE.fullmatch(name):
        return f"{aggregate[1]}({_column(aggregate[2], known)})"
    return _column(name, known)


def _column(name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise ValueError(f"no column {name!r}; there are {', '.join(known)}")
    return _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
