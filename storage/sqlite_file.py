"""Looking at, making and opening an SQLite store file; errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import apsw

from .errors import CannotOpen, NewerLayout, NotAStore, StoreFailed, StoreTrouble
from .layout import APPLICATION_ID, LAYOUT, SCHEMA
from .posix import create_private, sync_folder

__all__ = ["connect", "create", "errors_of", "is_missing", "look"]

BUSY_TIMEOUT = 1000  # milliseconds; longer waits are retries


def is_missing(path: Path) -> bool:
    """Tell whether there is no file yet, or an empty one that nobody wrote to.

    Raises:
        CannotOpen: the path leads through a file, or into a folder we may not enter,
            or names a folder.
    """
    try:
        if path.is_dir():
            raise CannotOpen(str(path), "it is a folder", "name a file inside it")
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True
    except OSError as error:
        raise cannot_open(path, error) from error


def cannot_open(path: Path, error: OSError) -> CannotOpen:
    """Say why a file operation beside the store was refused, and what would help."""
    folder = path.parent
    if isinstance(error, NotADirectoryError):
        return CannotOpen(
            str(path), f"{folder} is not a folder", "name a file inside a folder"
        )
    if isinstance(error, FileNotFoundError):
        return CannotOpen(str(path), f"{folder} does not exist", "make that folder")
    if isinstance(error, PermissionError):
        return CannotOpen(
            str(path),
            "permission was denied",
            f"make it and {folder} readable and writable for this user",
        )
    reason = error.strerror or str(error)
    return CannotOpen(str(path), reason.lower(), f"put {folder} right")


def look(path: Path) -> None:
    """Check that a file is a store that this code knows, and change nothing.

    `immutable` keeps SQLite from making files beside it and from taking locks. Not
    read by hand: closing our own descriptor would drop the locks of a connection that
    this process may have open on the same file.

    Raises:
        NotAStore: something else.
        NewerLayout: a newer perdure wrote it.
        CannotOpen: it cannot be read.
    """
    if is_missing(path):
        raise CannotOpen(str(path), "there is no store", "check the path")
    uri = f"file:{quote(str(path))}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(uri, flags=flags)
        try:
            application = connection.pragma("application_id")
            layout = connection.pragma("user_version")
        finally:
            connection.close()
    except apsw.CantOpenError:
        try:
            path.open("rb").close()
        except OSError as error:
            raise cannot_open(path, error) from error
        raise NotAStore(str(path)) from None
    except (apsw.NotADBError, apsw.CorruptError):
        raise NotAStore(str(path)) from None
    except apsw.Error as error:
        raise StoreFailed(str(path), str(error)) from error
    if application != APPLICATION_ID:
        raise NotAStore(str(path))
    if layout > LAYOUT:
        raise NewerLayout(str(path), layout, LAYOUT)


def create(path: Path) -> None:
    """Make a new store, complete or not at all: built beside it and renamed.

    The caller holds the owner's lock.
    """
    new = path.with_name(path.name + ".new")
    for leftover in (new, new.with_name(new.name + "-journal")):
        leftover.unlink(missing_ok=True)
    create_private(new)
    with errors_of(str(path)):
        connection = apsw.Connection(str(new))
        try:
            # Room can only be given back later if the file was made for it.
            connection.pragma("auto_vacuum", "INCREMENTAL")
            connection.pragma("synchronous", "FULL")
            connection.pragma("fullfsync", 1)
            with connection:
                connection.pragma("application_id", APPLICATION_ID)
                connection.pragma("user_version", LAYOUT)
                connection.execute(SCHEMA).fetchall()
        finally:
            connection.close()
    new.rename(path)
    sync_folder(path.parent)


def connect(path: Path, *, write: bool) -> apsw.Connection:
    """Open a connection to a file that `look` has passed.

    Closing it never checkpoints by itself: after an error nothing may be touched, and
    a reader changes nothing.
    """
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    with errors_of(str(path)):
        connection = apsw.Connection(str(path), flags=flags)
        connection.set_busy_timeout(BUSY_TIMEOUT)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Stored data must not be able to call functions through a doctored schema.
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        return connection


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Turn SQLite's errors into `StoreTrouble` (retry) or `StoreFailed` (unknown)."""
    try:
        yield
    except apsw.FullError as error:
        raise StoreTrouble(path, "full", str(error)) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreTrouble(path, "busy", str(error)) from error
    except apsw.ReadOnlyError as error:
        raise StoreTrouble(path, "readonly", str(error)) from error
    except apsw.Error as error:
        raise StoreFailed(path, f"{type(error).__name__}: {error}") from error
