"""Connecting to PostgreSQL; its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo

from .errors import CannotOpen, NewerLayout, NotAStore, StoreFailed, StoreTrouble
from .postgres_schema import LAYOUT

__all__ = ["connect", "errors_of", "is_missing", "look", "shown"]

CONNECT_TIMEOUT = 10  # seconds
BUSY_TIMEOUT = "5s"  # for a lock that somebody else holds

# https://www.postgresql.org/docs/current/errcodes-appendix.html
FULL = ("53100", "53200", "53400")  # disk full, out of memory, a limit of its settings
BUSY = ("55P03", "40001", "40P01", "57014")  # locks, serialization, deadlock, timeout
READ_ONLY = ("25006",)


def shown(url: str) -> str:
    """How messages name a store: its address without the password."""
    try:
        found = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "postgresql"
    host = found.get("host") or "localhost"
    port = f":{found['port']}" if found.get("port") else ""
    return f"postgresql://{host}{port}/{found.get('dbname') or ''}"


def connect(url: str, *, write: bool) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a connection, which commits each statement unless a transaction is begun.

    Raises:
        CannotOpen: the address is none, the server does not answer or lets us not in.
    """
    try:
        connection = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT,
            application_name="perdure",
            prepare_threshold=2,
        )
    except psycopg.ProgrammingError as error:
        raise CannotOpen(
            shown(url), str(error).strip(), "give postgresql://HOST/DATABASE"
        ) from error
    except psycopg.OperationalError as error:
        raise CannotOpen(
            shown(url),
            " ".join(str(error).split()),
            "start the server, or put the address right",
        ) from error
    with errors_of(shown(url)):
        connection.execute(f"SET lock_timeout = '{BUSY_TIMEOUT}'")
        if write:
            connection.execute("SET synchronous_commit = on")
        else:
            connection.execute("SET default_transaction_read_only = on")
    return connection


def is_missing(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether no store was made in this database and schema yet."""
    found = connection.execute("SELECT to_regclass('perdure_owner')").fetchone()
    return found is None or found[0] is None


def look(connection: psycopg.Connection[Any], url: str) -> None:
    """Check that there is a store that this code knows, and change nothing.

    Raises:
        CannotOpen: there is none.
        NotAStore: a table of that name is something else.
        NewerLayout: a newer perdure made it.
    """
    with errors_of(shown(url)):
        if is_missing(connection):
            raise CannotOpen(shown(url), "there is no store", "check the address")
        try:
            found = connection.execute("SELECT layout FROM perdure_owner").fetchone()
        except psycopg.errors.UndefinedColumn:
            raise NotAStore(shown(url)) from None
    if found is None:
        raise NotAStore(shown(url))
    if found[0] > LAYOUT:
        raise NewerLayout(shown(url), found[0], LAYOUT)


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Turn the driver's errors into `StoreTrouble` (retry) or `StoreFailed` (unknown).

    A connection that is lost is unknown: what was being committed may be there.
    """
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        detail = " ".join(str(error).split())
        if state in FULL:
            raise StoreTrouble(path, "full", detail) from error
        if state in BUSY:
            raise StoreTrouble(path, "busy", detail) from error
        if state in READ_ONLY:
            raise StoreTrouble(path, "readonly", detail) from error
        raise StoreFailed(path, f"{type(error).__name__}: {detail}") from error
