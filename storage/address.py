"""Where a store is: a file, a folder or a database, and what opens it there.

tasks.db                      a file of SQLite
dir:./tasks                   a folder of JSON files
postgresql://HOST/DATABASE    tables in PostgreSQL (extra ``postgres``)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Protocol, Self, TypeAlias

from .backend import Backend
from .errors import CannotOpen
from .folder import FolderBackend
from .folder_inbox import FolderInbox
from .inbox import Inbox
from .records import Command
from .sqlite import SqliteBackend

__all__ = [
    "Address",
    "Sender",
    "backend_of",
    "file_of",
    "need_driver",
    "open_inbox",
    "split_address",
]

Address: TypeAlias = str | os.PathLike[str]
FOLDER = "dir:"
DATABASE = ("postgresql://", "postgres://")


class Sender(Protocol):
    """The slot of a store's inbox, for processes that do not own it."""

    def send(self, command: Command) -> None:
        """Keep a command; it is durable when this returns."""

    def close(self) -> None:
        """Let the store go."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def backend_of(address: Address, *, create: bool = True) -> Backend:
    """The back end of a store, not opened yet.

    Raises CannotOpen for a database whose driver is not installed.
    """
    kind, where = split_address(address)
    if kind == "database":
        need_driver(where)
        from .postgres import PostgresBackend

        return PostgresBackend(where, create=create)
    if kind == "folder":
        return FolderBackend(where, create=create)
    return SqliteBackend(where, create=create)


def open_inbox(address: Address) -> Sender:
    """Open the inbox of a store that another process may own; raises as a reader."""
    kind, where = split_address(address)
    if kind == "database":
        need_driver(where)
        from .postgres_inbox import PostgresInbox

        return PostgresInbox(where)
    return FolderInbox(where) if kind == "folder" else Inbox(where)


def file_of(address: Address) -> Path | None:
    """The store's file or folder; None for a database."""
    kind, where = split_address(address)
    return None if kind == "database" else Path(os.path.realpath(where))


def split_address(
    address: Address,
) -> tuple[Literal["file", "folder", "database"], str]:
    """What kind of place an address names, and which."""
    where = os.fspath(address)
    if where.startswith(DATABASE):
        return "database", where
    if where.startswith(FOLDER):
        return "folder", where.removeprefix(FOLDER)
    return "file", where


def need_driver(where: str) -> None:
    """Raise CannotOpen where what speaks to a database is not installed."""
    try:
        import psycopg  # noqa: F401 - only whether it is there
    except ImportError:
        raise CannotOpen(
            where.partition("@")[2] or where,
            "its driver is not installed",
            "install perdure[postgres]",
        ) from None
