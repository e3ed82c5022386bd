"""The store as a folder of JSON files: one a batch, to be read, diffed and copied.

    store.json            layout, and the epoch of the newest runtime
    log/SEQ.json          a batch: records, rows and blobs, named by its last record
    base/SEQ.json         all of the store up to there; written when something is erased
    inbox/PLACE-ID.json   a command
    snapshots/NAME.json   the newest two snapshots of a stream

A file is complete or absent: it is written beside its place, synced, then renamed. The
owner and each reader hold the whole store in memory, so this is for small ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .backend import Batch, HeldUp, Opening, Warn
from .base_reader import Reader
from .errors import CannotOpen, Fenced, NewerLayout, NotAStore, StoreTrouble
from .folder_files import (
    LAYOUT,
    Mark,
    errors_of,
    names_of,
    read_mark,
    remove,
    snapshot_file,
    write_base,
    write_batch,
    write_mark,
    write_snapshots,
)
from .folder_image import FolderReader, Image
from .posix import OwnerLock
from .records import Snapshot

__all__ = ["FolderBackend", "look_at"]

FOLDERS = ("log", "base", "inbox", "snapshots")


class FolderBackend:
    """One opening of a folder.

    Args:
        path: the folder; its parent exists.
        create: make it on `open` where it does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self._path = Path(os.path.realpath(path))
        self._create = create
        self._lock: OwnerLock | None = None
        self._image = Image(self._path)
        self._epoch = 0
        self._written: Batch | None = None
        self._replaced = False  # files stand there that a base is in place of
        self._sent = 0  # commands that `changed` has seen

    @property
    def path(self) -> str:
        """How messages name this store."""
        return str(self._path)

    def open(self) -> Opening:
        """Become the one owner, then raise the runtime's epoch before any read.

        Raises:
            CannotOpen: it is missing, or cannot be written.
            NotAStore: the folder holds something else.
            NewerLayout: a newer perdure wrote it.
            StoreLocked: another runtime owns it.
        """
        if not self._create or self._path.exists():
            look_at(self._path, may_be_empty=self._create)
        try:
            self._path.mkdir(mode=0o700, exist_ok=True)
            self._lock = OwnerLock(self._path)
        except OSError as error:
            raise _cannot_open(self._path, error) from error
        try:
            return self._open()
        except BaseException:
            self.abandon()
            raise

    def _open(self) -> Opening:
        try:
            for name in FOLDERS:
                (self._path / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _cannot_open(self._path, error) from error
        look_at(self._path, may_be_empty=self._create)
        with errors_of(self.path):
            before = read_mark(self._path)
            self._epoch = (before.epoch if before is not None else 0) + 1
            write_mark(self._path, Mark(perdure=LAYOUT, epoch=self._epoch))
            self._image.refresh()
            self._image.owned = True
            self._image.drop_what_base_replaced()
        log = self._image.store.log
        return Opening(runtime_epoch=self._epoch, last_seq=log[-1].seq if log else 0)

    def write(self, batch: Batch) -> None:
        """Hold a batch that the next `flush` makes durable."""
        self._written = batch

    def flush(self) -> None:
        """Check the runtime's epoch, write the batch's file and sync it."""
        batch, self._written = self._written, None
        if batch is None:
            return
        image = self._image
        with errors_of(self.path):
            self._refuse_if_stale()
            if batch.erasure is None:
                write_batch(self._path, batch)
                image.keep(batch)
                return
            erased = image.after(batch)
            for stream in image.store.snapshots:
                if batch.erasure.touches(stream):  # a cache: first of all
                    remove(snapshot_file(self._path, stream))
            write_base(self._path, batch.upto, erased)
            image.replace(erased, batch.upto)
            self._replaced = True

    def rollback(self) -> None:
        """Forget the batch that `write` was given."""
        self._written = None

    def scrub(self) -> None:
        """Remove the files that hold what a flushed erasure took out."""
        with errors_of(self.path):
            self._image.drop_what_base_replaced()
        self._replaced = False

    def write_snapshots(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Store snapshots, the newest two a stream; return those not written."""
        image = self._image
        with errors_of(self.path):
            self._refuse_if_stale()
            refused = [one for one in snapshots if not image.keep_snapshot(one)]
            for stream in sorted({one.stream for one in snapshots}):
                write_snapshots(self._path, image.store.snapshots.get(stream, []))
        return refused

    def reader(self, warn: Warn) -> Reader:
        """Return a reader of what was flushed."""
        return FolderReader(self._image, warn)

    def watch(self, notice: Callable[[], object]) -> bool:
        """A folder calls nobody: say that `changed` is to be asked."""
        return True

    def changed(self) -> bool:
        """Tell whether a command was sent since the last call."""
        with errors_of(self.path):
            sent = len(names_of(self._path / "inbox"))
        before, self._sent = self._sent, sent
        return sent != before

    def tidy(self, *, idle: bool) -> bool:
        """Remove the files that a base has replaced; a later call may succeed."""
        if self._replaced:
            with suppress(StoreTrouble):
                self.scrub()
        return self._replaced

    def held_up(self) -> HeldUp | None:
        """Tell of nothing: no reader holds anything up."""
        return None

    def close(self) -> None:
        """Give the store up; it has no other form at rest."""
        self.abandon()

    def abandon(self) -> None:
        """Give the store up as it is."""
        self._written = None
        self._image.owned = False
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _refuse_if_stale(self) -> None:
        mark = read_mark(self._path)
        current = mark.epoch if mark is not None else 0
        if current != self._epoch or self._lock is None:
            raise Fenced(
                self.path,
                f"it was opened again (runtime epoch {current}, ours {self._epoch})",
            )


def look_at(path: Path, *, may_be_empty: bool = False) -> None:
    """Check that a folder is a store that this code knows, and change nothing.

    Raises:
        CannotOpen: there is no such folder, or nothing in it unless it `may_be_empty`.
        NotAStore: it holds something else.
        NewerLayout: a newer perdure wrote it.
    """
    try:
        mark = read_mark(path)
        empty = mark is None and not any(
            one.name not in FOLDERS for one in path.iterdir()
        )
    except OSError as error:
        raise _cannot_open(path, error) from error
    except ValueError:
        raise NotAStore(str(path)) from None
    if mark is None:
        if not empty:
            raise NotAStore(str(path))
        if not may_be_empty:
            raise CannotOpen(str(path), "there is no store", "check the path")
    elif mark.perdure > LAYOUT:
        raise NewerLayout(str(path), mark.perdure, LAYOUT)


def _cannot_open(path: Path, error: OSError) -> CannotOpen:
    if isinstance(error, FileNotFoundError):
        return CannotOpen(str(path), "there is no such folder", "check the path")
    if isinstance(error, NotADirectoryError | FileExistsError):
        return CannotOpen(str(path), "it is no folder", "name a folder")
    reason = (error.strerror or str(error)).lower()
    return CannotOpen(str(path), reason, f"put {path} right")
