"""Reading an SQLite store where nothing may be written, not even beside it.

To read a store in WAL mode, SQLite makes a ``-wal`` and a ``-shm`` file where they are
missing. On a read-only mount it cannot; a user who may write the folder but not the
store could, but what that user leaves there would keep the owner from writing. Both
read a copy.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import apsw

from .errors import CannotOpen, StoreFailed, StoreTrouble
from .posix import create_private
from .sqlite_file import cannot_open, connect, errors_of, in_wal_mode

__all__ = ["connect_to_read", "copy_files", "may_write"]

CHUNK = 1 << 20  # bytes
ATTEMPTS = 5  # copies, until a writer has let one be whole
WAL_HEADER = 32  # bytes; https://www.sqlite.org/fileformat.html#the_write_ahead_log
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
BESIDE = ("-wal", "-journal")


def connect_to_read(path: Path) -> tuple[apsw.Connection, bool]:
    """Open a read-only connection, to the file or to a copy; and say whether to a copy.

    In place, what is read is one moment, whoever writes: on one machine reader and
    writer share their locks, through a read-only mount too. A copy is the store as it
    was at one moment; its files are gone when this returns, and their room with the
    connection. Only a kill amid the copying leaves a folder ``perdure-…`` behind.

    Raises:
        NotAStore, NewerLayout: as `connect` does.
        CannotOpen: it may not be read, or there is no room for the copy.
        StoreTrouble: it was written to all the while.
        StoreFailed: it cannot be read.
    """
    if _stands_in_place(path):
        try:
            return connect(path, write=False), False
        except StoreFailed:
            if _stands_in_place(path):  # else it was opened or closed meanwhile
                raise
    return _connect_to_copy(path), True


def may_write(path: Path) -> bool:
    """Tell whether this user may write the store's file, and others beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _stands_in_place(path: Path) -> bool:
    if may_write(path):
        return True
    if os.access(f"{path}-wal", os.R_OK) and os.access(f"{path}-shm", os.R_OK):
        return True
    # A journal would have to be rolled back first.
    return not (in_wal_mode(path) or _size(path, "-wal") or _size(path, "-journal"))


def _connect_to_copy(path: Path) -> apsw.Connection:
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="perdure-"))
        copy = folder / path.name
        copy_files(path, copy)
        _settle(path, copy)
        return connect(path, write=False, at=copy)
    except OSError as error:
        if error.errno in NO_ROOM or folder is None:
            raise _no_room(path) from error
        raise cannot_open(path, error) from error
    except StoreTrouble as error:
        if error.kind == "full":
            raise _no_room(path) from error
        raise
    finally:
        if folder is not None:
            # The connection keeps what it has open: nothing is left, however we end.
            shutil.rmtree(folder, ignore_errors=True)


def _no_room(path: Path) -> CannotOpen:
    return CannotOpen(
        str(path),
        "it cannot be written here, so that a copy of it is read, and there is no room "
        f"for that in {tempfile.gettempdir()}",
        "free some, or set TMPDIR to a folder that has some",
    )


def copy_files(path: Path, copy: Path) -> None:
    """Copy a store's files, as they were at one moment; what has their names goes.

    The file first, then its WAL: while the WAL has the same beginning, all that a
    checkpoint moved into the file meanwhile still stands in it.

    Raises StoreTrouble where they did not rest for as long as that takes.
    """
    for _ in range(ATTEMPTS):
        before = _generation(path)
        for end in ("", *BESIDE):
            Path(f"{copy}{end}").unlink(missing_ok=True)
        whole = _copy_file(path, copy)
        for end in BESIDE:
            if _size(path, end):
                create_private(Path(f"{copy}{end}"))
                shutil.copyfile(f"{path}{end}", f"{copy}{end}")
        if whole and _generation(path) == before:
            return
    raise StoreTrouble(str(path), "busy", f"it changed in each of {ATTEMPTS} copyings")


def _copy_file(path: Path, copy: Path) -> bool:
    """Copy the file itself; False where it was cut shorter meanwhile.

    Through SQLite's file layer: closing a descriptor of our own would drop the locks of
    a connection that this process may have on it under another name.
    """
    create_private(copy)
    flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
    with errors_of(str(path)):
        file = apsw.VFSFile("", str(path), flags)
        try:
            size = file.xFileSize()
            with copy.open("wb") as out:
                for at in range(0, size, CHUNK):
                    out.write(file.xRead(min(CHUNK, size - at), at))
        except apsw.IOError:
            if file.xFileSize() < size:
                return False
            raise
        finally:
            file.xClose()
    return True


def _generation(path: Path) -> tuple[object, ...]:
    """What stays the same for as long as a copy that is being made is of one moment."""
    wal = Path(f"{path}-wal")
    beginning = b""
    if _size(path, "-wal"):
        with wal.open("rb") as file:
            beginning = file.read(WAL_HEADER)
    stands = [_stat(path, "-journal")]
    if not beginning:
        stands.append(_stat(path, ""))
    return (beginning, *stands)


def _stat(path: Path, end: str) -> tuple[int, int, int] | None:
    try:
        found = Path(f"{path}{end}").stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _size(path: Path, end: str) -> int:
    found = _stat(path, end)
    return 0 if found is None else found[1]


def _settle(path: Path, copy: Path) -> None:
    """Make one plain file of a copy and what stands beside it, as an owner would."""
    connection = connect(path, write=True, at=copy)
    try:
        with errors_of(str(path)):
            connection.pragma("synchronous", "OFF")
            connection.pragma("journal_mode", "DELETE")
    finally:
        connection.close()
