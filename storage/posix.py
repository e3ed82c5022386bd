"""What only a POSIX system offers: the owner's lock, forks, and syncing a folder."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import StoreLocked

__all__ = [
    "PRIVATE",
    "OwnerLock",
    "create_private",
    "forget_cached",
    "lock_holders",
    "locked",
    "process",
    "sync_file",
    "sync_folder",
]

PRIVATE = 0o600
OWNER_TEXT = 200  # bytes
LOCK_WORDS = 8  # of a line of /proc/locks that is no waiter's


class OwnerLock:
    """The right to write a store, held until `release` or the end of the process.

    It stands on a file of its own beside the store: closing any descriptor of the
    database itself would drop the locks that SQLite holds there. The file stays when
    the lock goes, since removing it would race with the next owner.

    Raises:
        StoreLocked: another runtime holds it, in this process or in another one.
        OSError: the file cannot be made there.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".lock")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = os.pread(self._file, OWNER_TEXT, 0).decode("utf-8", "replace")
            os.close(self._file)
            if not isinstance(error, BlockingIOError):
                raise
            owner = text.strip() or "another process"
            raise StoreLocked(str(store), owner) from None
        text = f"process {os.getpid()} on {socket.gethostname()}\n"
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text.encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Give the lock up; safe to call twice."""
        if self in _held:
            _held.discard(self)
            os.ftruncate(self._file, 0)
            os.close(self._file)

    def drop_in_child(self) -> None:
        """Close a forked child's copy, which would outlive its parent's lock."""
        os.close(self._file)


_held: set[OwnerLock] = set()


class _Process:
    """Which process this is, without asking the system each time."""

    def __init__(self) -> None:
        self.pid = os.getpid()


process = _Process()


def _drop_all_in_child() -> None:
    process.pid = os.getpid()
    for lock in _held:
        lock.drop_in_child()
    _held.clear()


os.register_at_fork(after_in_child=_drop_all_in_child)


def create_private(path: Path) -> None:
    """Make an empty file that only its owner may read or write."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file for the length of a with block; waits for who has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_holders(path: Path, first: int, last: int) -> tuple[int, ...]:
    """Ids of processes with a POSIX lock on these bytes of a file, where it is known.

    Only Linux says, and only of processes that this one can see.
    """
    try:
        about = path.stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}"
    file = f"{device}:{about.st_ino}"
    found = set()
    for line in lines:  # 1: POSIX  ADVISORY  READ 4711 fd:00:1234 123 123
        words = line.split()
        if len(words) < LOCK_WORDS or words[1] != "POSIX" or words[5] != file:
            continue
        pid, begin, end = words[4], int(words[6]), words[7]
        if begin <= last and (end == "EOF" or int(end) >= first) and int(pid) > 0:
            found.add(int(pid))
    return tuple(sorted(found))


def sync_file(path: Path) -> None:
    """Make what was written to a file durable."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def forget_cached(path: Path) -> None:
    """Make the system read a file from the disk again, where it offers that.

    After a failed sync Linux shows pages that it did not write and will not write any
    more. A commit found in them would count as durable, and be gone after a power cut
    with all that was written behind it.
    """
    if hasattr(os, "posix_fadvise"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
