"""Setting the files of a damaged store right where that loses nothing.

What is replaced is kept: beside an SQLite store, in ``quarantine`` of a folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from .address import Address, split_address
from .errors import StoreFailed
from .folder_files import errors_of as folder_errors_of
from .posix import OwnerLock, sync_file, sync_folder
from .sqlite_aside import copy_files
from .sqlite_file import connect, errors_of, look
from .sqlite_places import MISPLACED, note_anew

__all__ = ["mend_file"]


def mend_file(address: Address, what: str) -> str:
    """Set one thing right that `Reader.damage` has said; returns where the old is.

    Of an SQLite file the indexes are made anew from their tables, `places` too, and the
    whole file is copied before; of a folder a file of snapshots that cannot be read is
    moved away. Returns nothing where that does not help, with the store as it was.

    Raises:
        StoreLocked: a runtime owns it.
        CannotOpen, StoreTrouble, StoreFailed: it cannot be written.
    """
    kind, where = split_address(address)
    path = Path(os.path.realpath(where))
    if kind == "folder" and what.startswith("snapshots/"):
        return _move(path, what.partition(" ")[0])
    return _index_anew(path) if kind == "file" else ""


def _move(folder: Path, name: str) -> str:
    lock = OwnerLock(folder)
    try:
        with folder_errors_of(str(folder)):
            aside = folder / "quarantine"
            aside.mkdir(mode=0o700, exist_ok=True)
            target = _free(aside / Path(name).name)
            (folder / name).rename(target)
            sync_folder(aside)
    finally:
        lock.release()
    return str(target)


def _index_anew(path: Path) -> str:
    look(path)
    lock = OwnerLock(path)
    try:
        connection = connect(path, write=True)
        try:
            with errors_of(str(path)):
                if _is_in_order(connection):
                    return ""
                connection.execute("BEGIN IMMEDIATE")
                _make_indexes(connection)
                helps = _is_in_order(connection)
                connection.execute("ROLLBACK")
                if not helps:
                    return ""
                copy = _keep(path)
                with connection:
                    _make_indexes(connection)
                return copy
        except StoreFailed:
            return ""  # more is damaged than that
        finally:
            connection.close(True)
    finally:
        lock.release()


def _is_in_order(connection: apsw.Connection) -> bool:
    misplaced = connection.execute(MISPLACED).fetchall()
    return connection.pragma("integrity_check") == "ok" and not misplaced


def _make_indexes(connection: apsw.Connection) -> None:
    connection.execute("REINDEX")
    note_anew(connection)


def _keep(path: Path) -> str:
    """Copy the files as they are; durable when this returns."""
    copy = _free(path.with_name(path.name + ".quarantine"))
    copy_files(path, copy)
    for end in ("", "-wal"):
        if os.path.lexists(f"{copy}{end}"):
            sync_file(Path(f"{copy}{end}"))
    sync_folder(path.parent)
    return str(copy)


def _free(path: Path) -> Path:
    number = 1
    while os.path.lexists(f"{path}-{number}"):
        number += 1
    return path.with_name(f"{path.name}-{number}")
