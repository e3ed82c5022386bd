"""A copy of an SQLite store that is in use: one moment of it, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import CannotOpen
from .posix import create_private, sync_file, sync_folder
from .sqlite_aside import connect_to_read
from .sqlite_file import cannot_open, errors_of, look

__all__ = ["copy_store"]


def copy_store(store: Path, target: Path) -> None:
    """Write a store as it is now into a new file of this user's; durable on return.

    It holds what was flushed before, rebuilt without free pages. The owner goes on
    writing meanwhile, and its log file grows until the copy is done. Not by SQLite's
    backup calls: those begin again whenever another process has written.

    Raises:
        CannotOpen: the store cannot be read, or the target is there, or cannot be made.
        NotAStore, NewerLayout: it is something else, or a newer perdure wrote it.
        StoreTrouble: there is no room for the copy.
        StoreFailed: the store is damaged, or a disk is.
    """
    look(store)
    partial = target.with_name(target.name + ".partial")
    journal = partial.with_name(partial.name + "-journal")
    if os.path.lexists(target):
        raise CannotOpen(str(target), "it is there already", "name a new file")
    for beside in ("-wal", "-journal"):  # SQLite would take it for this one's
        if os.path.lexists(f"{target}{beside}"):
            reason = f"{target.name}{beside} of an earlier file stands there"
            raise CannotOpen(str(target), reason, "name a new file, or remove that one")
    try:
        create_private(partial)
    except FileExistsError:
        raise CannotOpen(
            str(target),
            f"{partial.name} stands beside it: a copy is being made, or was cut off",
            "wait for it, or remove that file",
        ) from None
    except OSError as error:
        raise cannot_open(target, error) from error
    try:
        connection, _ = connect_to_read(store)
        try:
            with errors_of(str(target)):
                connection.execute("VACUUM INTO ?", (str(partial),))
        finally:
            connection.close()
        # SQLite does not: it takes the file of a copy for worth no more than a cache.
        sync_file(partial)
        partial.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        raise cannot_open(target, error) from error
    finally:
        for leftover in (partial, journal):
            leftover.unlink(missing_ok=True)
