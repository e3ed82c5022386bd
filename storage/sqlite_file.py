"""Looking at, making and opening an SQLite store file; errors as ours."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import apsw

from .errors import CannotOpen, NewerLayout, NotAStore, StoreFailed, StoreTrouble
from .layout import APPLICATION_ID, LAYOUT, SCHEMA
from .posix import create_private, sync_folder

__all__ = [
    "cannot_open",
    "connect",
    "create",
    "errors_of",
    "in_wal_mode",
    "is_missing",
    "look",
    "wal_of",
]

BUSY_TIMEOUT = 1000  # milliseconds; longer waits are retries

# https://www.sqlite.org/fileformat.html#the_database_header
HEADER = 100  # bytes
MAGIC = b"SQLite format 3\0"
READ_AT, LAYOUT_AT, APPLICATION_AT = 19, 60, 68


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


def wal_of(path: Path) -> Path | None:
    """Return the file's WAL where there is one with something in it."""
    wal = path.with_name(path.name + "-wal")
    return wal if wal.exists() and wal.stat().st_size else None


def look(path: Path) -> None:
    """Check that a file is a store that this code knows, and change nothing.

    Only the header is read. Not by an `immutable` connection: it takes a store whose
    last checkpoint was cut short for damaged.

    Raises:
        NotAStore: something else.
        NewerLayout: a newer perdure wrote it.
        CannotOpen: it cannot be read.
    """
    if is_missing(path):
        raise CannotOpen(str(path), "there is no store", "check the path")
    header = _header_of(path)
    if header.startswith(MAGIC) and len(header) == HEADER:
        layout, application = (
            int.from_bytes(header[at : at + 4]) for at in (LAYOUT_AT, APPLICATION_AT)
        )
        _check_layout(path, application, layout)
    elif not _interrupted(path):
        raise NotAStore(str(path))


def _header_of(path: Path) -> bytes:
    """The file's first bytes, at most `HEADER`; `look` says what is raised.

    Through SQLite's own file layer, which takes no locks for that. Not by hand: closing
    our own descriptor would drop the locks of a connection that this process may have
    open on the same file.
    """
    flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
    try:
        file = apsw.VFSFile("", str(path), flags)
        try:
            header: bytes = file.xRead(min(HEADER, file.xFileSize()), 0)
        finally:
            file.xClose()
    except apsw.CantOpenError:
        try:
            path.open("rb").close()
        except OSError as error:
            raise cannot_open(path, error) from error
        raise NotAStore(str(path)) from None
    except apsw.Error as error:
        raise StoreFailed(str(path), str(error)) from error
    return header


def in_wal_mode(path: Path) -> bool:
    """Tell whether the file can only be read with what stands beside it."""
    return _header_of(path)[READ_AT : READ_AT + 1] == b"\2"


def _interrupted(path: Path) -> bool:
    # A power cut may have spoilt the page that was being overwritten. Then SQLite has
    # another copy of it beside the file, puts it right, and `connect` looks again.
    if not path.with_name(path.name + ".lock").exists():
        return False
    return bool(wal_of(path)) or path.with_name(path.name + "-journal").exists()


def _check_layout(path: Path, application: int, layout: int) -> None:
    if application != APPLICATION_ID:
        raise NotAStore(str(path))
    if layout > LAYOUT:
        raise NewerLayout(str(path), layout, LAYOUT)


def create(path: Path) -> None:
    """Make a new store, complete or not at all: built beside it and renamed.

    The caller holds the owner's lock.

    Raises:
        CannotOpen: a WAL without its store stands there, which SQLite would copy into
            the new one.
    """
    if wal := wal_of(path):
        raise CannotOpen(
            str(path),
            f"it is away and its {wal.name} is there",
            "put the file back, or remove that one too",
        )
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


def connect(path: Path, *, write: bool, at: Path | None = None) -> apsw.Connection:
    """Open a connection to a file that `look` has passed, or to its copy; look again.

    What stands in the file itself may be older than its WAL, which only a connection
    reads. Closing it never checkpoints by itself: after an error nothing may be
    touched, and a reader changes nothing.

    Raises:
        NotAStore: something else.
        NewerLayout: a newer perdure wrote it.
        CannotOpen: an owner has to put it right before it can be read.
    """
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    with errors_of(str(path)):
        connection = apsw.Connection(str(at or path), flags=flags)
        connection.set_busy_timeout(BUSY_TIMEOUT)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Stored data must not be able to call functions through a doctored schema.
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        try:
            application = connection.pragma("application_id")
            _check_layout(path, application, connection.pragma("user_version"))
        except apsw.NotADBError:
            connection.close(True)
            raise NotAStore(str(path)) from None
        except apsw.ReadOnlyError as error:
            connection.close(True)
            if write:
                raise
            raise CannotOpen(
                str(path),
                "the machine stopped while it was being opened or closed",
                "open it once with its runtime, which puts it right",
            ) from error
        except BaseException:
            connection.close(True)
            raise
        return connection


class errors_of:  # noqa: N801 - it reads like a function where it is used
    """Turn SQLite's errors into `StoreTrouble` (retry) or `StoreFailed` (unknown)."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise the error of this room for one of SQLite's."""
        if not isinstance(error, apsw.Error):
            return
        for known, name in _TROUBLES:
            if isinstance(error, known):
                raise StoreTrouble(self._path, name, str(error)) from error
        text = f"{type(error).__name__}: {error}"
        raise StoreFailed(self._path, text) from error


_TROUBLES: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "full"),
    (apsw.BusyError, "busy"),
    (apsw.LockedError, "busy"),
    (apsw.ReadOnlyError, "readonly"),
)
