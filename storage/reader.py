"""Reading a store, with or without owning it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .backend import Warn
from .base_reader import Reader
from .sqlite_file import look
from .sqlite_reader import SqliteReader

__all__ = ["Reader", "open_reader"]


def open_reader(path: str | os.PathLike[str], *, warn: Warn | None = None) -> Reader:
    """Open a store for reading, whoever owns it, running or killed; changes nothing.

    Args:
        path: the store's file.
        warn: hears the name and fields of what a load has to skip.

    Raises:
        CannotOpen: there is no such file, or it cannot be read.
        NotAStore: it is something else.
        NewerLayout: a newer perdure wrote it.
    """
    resolved = Path(os.path.realpath(path))
    look(resolved)
    return SqliteReader(resolved, warn or _say_nothing)


def _say_nothing(event: str, fields: Mapping[str, object]) -> None:
    return
