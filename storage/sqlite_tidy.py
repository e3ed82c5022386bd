"""Keeping an SQLite store's files short: its WAL starts over, and free room goes back.

Nothing here takes long: a WAL is copied as far as nobody reads it, and free pages are
cut off a few at a time, when nothing else is to be written.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from .backend import HeldUp
from .errors import StoreTrouble
from .posix import lock_holders
from .sqlite_file import BUSY_TIMEOUT, errors_of

__all__ = ["Tidying", "give_back", "has_room"]

WAL_PAGES = 1000  # a checkpoint is due above
WAL_HELD = 64 * 1024 * 1024  # bytes from which a WAL that cannot start over is told of
READ_MARKS = (123, 127)  # bytes of the -shm that are locked by who reads a WAL
VACUUM_FROM = 16  # free pages that are worth giving back
VACUUM_STEP = 1024  # pages given back at a time


class Tidying:
    """What is known of the WAL of one opening; `used` says that it holds something."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pages = 0  # since the last checkpoint
        self.used = False  # whether its file is longer than nothing
        self.held_up: HeldUp | None = None

    def count(self, _: apsw.Connection, __: str, pages: int) -> int:
        """Hear of a commit: so many pages stand in the WAL."""
        self._pages = pages
        self.used = True
        return apsw.SQLITE_OK

    def copy(self, connection: apsw.Connection) -> None:
        """Copy a long WAL into the file, so that it starts over from its beginning."""
        if self._pages < WAL_PAGES:
            if self._pages:
                self.held_up = None
            return
        self._pages = 0
        try:
            with errors_of(str(self._path)):
                pages, copied = connection.wal_checkpoint(
                    mode=apsw.SQLITE_CHECKPOINT_PASSIVE
                )
                size = pages * connection.pragma("page_size")
        except StoreTrouble:
            return  # the WAL stays long a little longer, and nothing is lost
        if size > WAL_HELD and copied < pages:
            shm = self._path.with_name(self._path.name + "-shm")
            self.held_up = HeldUp(size=size, holders=lock_holders(shm, *READ_MARKS))

    def empty(self, connection: apsw.Connection) -> None:
        """Copy whatever the WAL holds and cut it to nothing, unless somebody reads."""
        try:
            with errors_of(str(self._path)):
                connection.set_busy_timeout(0)  # whoever reads just now goes first
                try:
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                finally:
                    connection.set_busy_timeout(BUSY_TIMEOUT)
        except StoreTrouble:
            return
        self._pages = 0
        self.used = False
        self.held_up = None


def has_room(connection: apsw.Connection) -> bool:
    """Whether so much is free that it is not left for what is written next."""
    return bool(connection.pragma("freelist_count") >= VACUUM_FROM)


def give_back(connection: apsw.Connection) -> None:
    """Cut some free pages off the file's end, in the transaction that is open."""
    connection.execute(f"PRAGMA incremental_vacuum({VACUUM_STEP})").fetchall()
