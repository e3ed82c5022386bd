"""A backup of a store that may be in use."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from .errors import Misuse
from .storage.address import Address, split_address
from .storage.backup import copy_store
from .storage.reader import open_reader

__all__ = ["Backup", "back_up"]

_INSTEAD = {
    "folder": "close its runtime and copy the folder: cp -a",
    "database": "use its own means, which need no pause: pg_dump",
}


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A copy: its file, the seq of its last record, and its size."""

    file: str
    seq: int
    bytes: int


def back_up(store: Address, file: str | os.PathLike[str]) -> Backup:
    """Copy an SQLite store into a new file, while a runtime works on it or not.

    The copy is a store of its own, at rest: all that was acknowledged before the call
    is in it. Opening it with its agents goes on with its live tasks, as the store
    itself does: never open both.

    Raises:
        Misuse: the store is kept elsewhere, and has other means.
        CannotOpen: there is no store, or the file is there or cannot be made.
        StoreTrouble, StoreFailed: no room, or damage; the file is not there then.
    """
    kind, where = split_address(store)
    if kind != "file":
        raise Misuse(f"backup copies SQLite stores only; for this one {_INSTEAD[kind]}")
    target = Path(file).absolute()  # a link is not followed
    copy_store(Path(os.path.realpath(where)), target)
    with open_reader(target) as reader:
        seq = reader.durable_seq
    return Backup(file=os.fspath(file), seq=seq, bytes=target.stat().st_size)
