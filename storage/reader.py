"""Reading a store, with or without owning it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .address import Address, need_driver, split_address
from .backend import Warn
from .base_reader import Reader
from .folder import look_at
from .folder_image import FolderReader, Image
from .sqlite_file import look
from .sqlite_reader import SqliteReader

__all__ = ["Reader", "open_reader"]


def open_reader(address: Address, *, warn: Warn | None = None) -> Reader:
    """Open a store for reading, whoever owns it, running or killed; changes nothing.

    Args:
        address: the store.
        warn: hears the name and fields of what a load has to skip.

    Raises:
        CannotOpen: there is none, or it cannot be read.
        NotAStore: it is something else.
        NewerLayout: a newer perdure wrote it.
    """
    kind, where = split_address(address)
    if kind == "database":
        need_driver(where)
        from .postgres_reader import PostgresReader

        return PostgresReader(where, warn or _say_nothing, check=True)
    path = Path(os.path.realpath(where))
    if kind == "folder":
        look_at(path)
        return FolderReader(Image(path), warn or _say_nothing)
    look(path)
    return SqliteReader(path, warn or _say_nothing)


def _say_nothing(event: str, fields: Mapping[str, object]) -> None:
    return
