"""Calls of a store's own functions, prepared once and sent as bytes.

They go past the driver's cursor to libpq itself, which it hands on: a cursor took as
much time on one small batch as its commit to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

__all__ = ["call", "prepare"]


def prepare(
    connection: psycopg.Connection[Any], function: str, types: Sequence[int]
) -> None:
    """Make `function` ready for `call`; `types` are its parameters' in pg_type."""
    places = ", ".join(f"${place}" for place in range(1, len(types) + 1))
    sql = f"SELECT {function}({places})"
    _checked(connection.pgconn.prepare(function.encode(), sql.encode(), types))


def call(
    connection: psycopg.Connection[Any], function: str, parameters: list[bytes]
) -> bytes:
    """Call it and return what it returns, as text; committed when this returns.

    Raises what the driver raises; `psycopg.OperationalError` for a lost connection.
    """
    formats = [Format.BINARY] * len(parameters)
    try:
        found = connection.pgconn.exec_prepared(function.encode(), parameters, formats)
    except MemoryError:  # what the driver says where libpq sends nothing any more
        raise psycopg.OperationalError("the connection is closed") from None
    return _checked(found).get_value(0, 0) or b""


def _checked(result: PGresult) -> PGresult:
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise psycopg.errors.error_from_result(result)
    return result
