"""A store's folder as it is held in memory, by its owner and by each reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .backend import Batch, Warn
from .folder_files import (
    errors_of,
    inbox_file,
    names_of,
    read_batch,
    read_command,
    read_snapshots,
    remove,
    write_command,
)
from .memory import MemoryReader, MemoryStore, keep_snapshot
from .records import Command, Record, Row, Snapshot

__all__ = ["FolderReader", "Image"]


class Image:
    """What the files say, read as far as they went at the last `refresh`.

    One that is `owned` is ahead of no file and behind none but the inbox's: who owns
    the store writes the others, and tells it so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.store = MemoryStore()
        self._upto = 0  # the last file of the log that was read
        self._base = 0
        self._snapshots_at = 0
        self._snapshot_files: dict[str, tuple[object, list[tuple[Snapshot, int]]]] = {}
        self.owned = False

    def forget(self) -> None:
        """Hold nothing, so that the next `refresh` reads every file again."""
        self.replace(MemoryStore(), 0)
        self._snapshots_at = 0
        self.owned = False

    def refresh(self) -> None:
        """Read what was written since the last time; under the lock of the store."""
        with errors_of(str(self._path)):
            if not self.owned:
                self._refresh_log()
                self._refresh_snapshots()
            self._refresh_inbox()

    def _refresh_log(self) -> None:
        while not self._read_on():
            pass

    def _read_on(self) -> bool:
        """Read what is new; False where a base came meanwhile.

        Files that it is in place of may have gone, between one look and the next.
        """
        base = self._newest_base()
        try:
            if base > self._base:  # something was erased: what we hold is not the store
                self.replace(MemoryStore(), base)
                self._snapshots_at = 0  # that store has none yet
                self._read("base", base)
            for number in map(_number, names_of(self._path / "log")):
                if number > self._upto:
                    self._read("log", number)
        except FileNotFoundError:
            if self._newest_base() == base:
                raise
        return self._newest_base() == base

    def _newest_base(self) -> int:
        return max(map(_number, names_of(self._path / "base")), default=0)

    def _read(self, folder: str, number: int) -> None:
        whole = read_batch(self._path / folder / f"{number:016}.json")
        self.store.keep(whole.batch)
        self._upto = number
        if whole.inbox is not None:
            self.store.inbox = whole.inbox

    def _refresh_inbox(self) -> None:
        # Not by the folder's time of change: two commands may share one.
        folder = self._path / "inbox"
        known = len(self.store.inbox)
        for name in names_of(folder):
            if int(name.partition("-")[0]) > known:
                self.store.inbox.append(read_command(folder / name))

    def _refresh_snapshots(self) -> None:
        folder = self._path / "snapshots"
        at = folder.stat().st_mtime_ns if folder.exists() else 0
        if at == self._snapshots_at:
            return
        before, self._snapshot_files = self._snapshot_files, {}
        for name in names_of(folder):
            try:
                stat = (folder / name).stat()
            except FileNotFoundError:  # erased since
                continue
            mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            known = before.get(name)
            if known is None or known[0] != mark:
                known = mark, read_snapshots(folder / name)
            self._snapshot_files[name] = known
        found = [kept for _, kept in self._snapshot_files.values() if kept]
        self.store.snapshots = {kept[0][0].stream: kept for kept in found}
        self._snapshots_at = at

    def unreadable(self) -> list[str]:
        """The files of snapshots that hold none."""
        folder = self._path / "snapshots"
        with errors_of(str(self._path)):
            return [
                f"snapshots/{name} cannot be read"
                for name in names_of(folder)
                if not read_snapshots(folder / name) and (folder / name).exists()
            ]

    def keep(self, batch: Batch) -> None:
        """Take a batch whose file was written."""
        with self.store.lock:
            self.store.keep(batch)
            self._upto = batch.upto

    def after(self, batch: Batch) -> MemoryStore:
        """A copy of the store with a batch in it, which is not written yet."""
        new, old = MemoryStore(), self.store
        with old.lock:
            self._refresh_inbox()  # what came meanwhile may be meant, too
            new.log = list(old.log)
            new.streams = {name: list(kept) for name, kept in old.streams.items()}
            new.rows = {space: dict(rows) for space, rows in old.rows.items()}
            new.blobs = dict(old.blobs)
            new.inbox = list(old.inbox)
            new.snapshots = dict(old.snapshots)
        new.keep(batch)
        return new

    def replace(self, store: MemoryStore, upto: int) -> None:
        """Hold another store from here, which the base of that number is."""
        with self.store.lock:
            self.store = store
            self._upto = self._base = upto

    def drop_what_base_replaced(self) -> None:
        """Remove the files of the log that a base stands for, and older bases."""
        for folder in ("log", "base"):
            for name in names_of(self._path / folder):
                number = _number(name)
                if number < self._base or (folder == "log" and number == self._base):
                    remove(self._path / folder / name)
        if not self._base:
            return
        for command in self.store.inbox:
            file = inbox_file(self._path, command)
            if file.exists() and read_command(file) != command:
                write_command(self._path, command)

    def keep_snapshot(self, snapshot: Snapshot) -> bool:
        """Take a snapshot; False where the log does not hold what it covers."""
        with self.store.lock:
            records = self.store.streams.get(snapshot.stream, [])
            covered = records[snapshot.version - 1 : snapshot.version]
            if [record.seq for record in covered] != [snapshot.covers]:
                return False
            keep_snapshot(self.store, snapshot)
            return True


class FolderReader(MemoryReader):
    """A reader that looks for new files before each thing it is asked."""

    def __init__(self, image: Image, warn: Warn) -> None:
        self._image = image
        super().__init__(image.store, warn)

    def _look(self) -> None:
        with self._image.store.lock:
            self._image.refresh()
            self._store = self._image.store

    @property
    def durable_seq(self) -> int:
        """The seq of the last record, 0 in an empty store."""
        self._look()
        return super().durable_seq

    def row(self, space: str, key: str) -> bytes | None:
        """Return the value of one row, None where there is none."""
        self._look()
        return super().row(space, key)

    def rows(self, space: str, prefix: str = "") -> list[Row]:
        """Return the rows of a space whose keys begin with `prefix`, by key."""
        self._look()
        return super().rows(space, prefix)

    def rows_after(self, space: str, after: str, limit: int) -> list[Row]:
        """Return at most `limit` rows of a space with keys behind `after`, by key."""
        self._look()
        return super().rows_after(space, after, limit)

    def digests(self, after: str, limit: int) -> list[str]:
        """Return the names of at most `limit` blobs behind `after`, in order."""
        self._look()
        return super().digests(after, limit)

    def damage(self) -> list[str]:
        """Name the files of snapshots that cannot be read: loads go without them."""
        return self._image.unreadable()

    def commands(self, after: int = 0) -> list[Command]:
        """Return the commands behind place `after` without an answer, in order."""
        self._look()
        return super().commands(after)

    def sent(self, subjects: Iterable[str]) -> list[Command]:
        """Return all commands about these subjects, answered or not, in order."""
        self._look()
        return super().sent(subjects)

    def streams(self, prefix: str = "") -> list[str]:
        """Return the names of a family's streams in order, all of them for ""."""
        self._look()
        return super().streams(prefix)

    def blob(self, digest: str) -> bytes | None:
        """Return the blob of this SHA-256, None where there is none."""
        self._look()
        return super().blob(digest)

    def _stretch(self, stream: str, after: int, limit: int) -> list[Record]:
        self._look()
        return super()._stretch(stream, after, limit)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._look()
        with self._store.lock:
            yield


def _number(name: str) -> int:
    return int(name.partition(".")[0])
