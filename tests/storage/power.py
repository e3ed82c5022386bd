"""A disk that loses power: an SQLite VFS that knows what was synced and what was not.

Writes go to the real files at once, so that every connection reads them as from a
page cache. Beside that the disk keeps what a power cut would find on the platter; a
cut makes the files that, plus a random part of what was not synced. SQLite's own crash
tests (test6.c) do the same; the damage here falls on single sectors.
"""

# ruff: noqa: N802 - SQLite names what it calls

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from unittest import mock

import apsw
import msgspec

__all__ = ["SECTOR", "Damage", "Disk", "Fault"]

SECTOR = 512  # bytes; the unit that a cut spares or spoils
SPARED = (0.0, 0.1, 0.5, 0.9, 0.99)  # how likely a sector survives, one for each cut
SHM_SIZE = 32768  # bytes of the index that processes share; never synced

Operation = Literal["write", "sync", "read"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the disk.

    `code` is SQLite's extended result, `nth` the operation that it hits first and
    `times` for how many it stays (-1: for good). `file` is the end of the files' names.
    `but` says what becomes of the operation all the same: nothing, all of it, or, for
    a sync, that what it should have written is never written later either, though it
    can be read until the power goes (Linux marks the pages clean).
    """

    operation: Operation
    code: int
    nth: int = 1
    times: int = 1
    file: str = ""
    but: Literal["not done", "done", "lost"] = "not done"


class Damage(msgspec.Struct, kw_only=True):
    """What one cut did to the sectors that were not synced."""

    kept: int = 0
    dropped: int = 0
    torn: int = 0
    garbled: int = 0

    @property
    def any(self) -> bool:
        """Whether a sector is not what was written."""
        return bool(self.dropped or self.torn or self.garbled)

    def plus(self, other: Damage) -> Damage:
        """Return the damage of two cuts."""
        return Damage(
            kept=self.kept + other.kept,
            dropped=self.dropped + other.dropped,
            torn=self.torn + other.torn,
            garbled=self.garbled + other.garbled,
        )


class _Content:
    """One file as the platter has it, and what was done to it since its last sync."""

    def __init__(self, platter: bytes, *, named: bool) -> None:
        self.platter = bytearray(platter)
        self.named = named  # whether the folder on the platter lists it
        self.unsynced: list[tuple[int, bytes | None]] = []  # None: cut off here

    def sync(self) -> None:
        for offset, data in self.unsynced:
            _apply(self.platter, offset, data)
        self.unsynced.clear()

    def cached(self) -> bytes:
        """Return what is read once the system has dropped the pages it thinks clean."""
        found = bytearray(self.platter)
        for offset, data in self.unsynced:
            _apply(found, offset, data)
        return bytes(found)

    def after_cut(self, rng: random.Random, spared: float, damage: Damage) -> bytes:
        """Return what is found: each sector of each write fares for itself."""
        found = bytearray(self.platter)
        for offset, data in self.unsynced:
            if data is None:
                if rng.random() < max(spared, 0.5):
                    _apply(found, offset, None)
                continue
            if rng.random() < 0.5 and len(found) < offset + len(data):
                found.extend(bytes(offset + len(data) - len(found)))
            place = 0
            while place < len(data):
                end = place + SECTOR - (offset + place) % SECTOR
                piece = data[place:end]
                _apply(found, offset + place, _spoil(piece, rng, spared, damage))
                place = end
        return bytes(found)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    elif data:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data


def _spoil(piece: bytes, rng: random.Random, spared: float, damage: Damage) -> bytes:
    # Only the bytes that were being written suffer: SQLite relies on that much
    # ("powersafe overwrite"), and every disk of this century gives it.
    if rng.random() < spared:
        damage.kept += 1
        return piece
    match rng.choice(("drop", "drop", "tear", "garble")):
        case "tear":
            damage.torn += 1
            return piece[: rng.randrange(len(piece))]
        case "garble":
            damage.garbled += 1
            return rng.randbytes(len(piece))
        case _:
            damage.dropped += 1
            return b""


class Disk(apsw.VFS):
    """The disk of one folder; SQLite's default VFS while it is `plugged_in`.

    Args:
        folder: its files are held back, others pass.
        rng: decides what a cut spares.
        cut_at: the sync at which the power goes, counted from 1; 0 for never.
        trace: told, in words, what the disk was asked and did.
        on_sleep: told the seconds that SQLite's busy handler would have waited.
    """

    def __init__(
        self,
        folder: Path,
        rng: random.Random,
        *,
        cut_at: int = 0,
        trace: Callable[[str], object] | None = None,
        on_sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.base = "unix"
        self.name = f"power-{id(self)}"
        super().__init__(self.name, self.base)
        self.cut_at = cut_at
        self.syncs = 0
        self.dead = False
        self.faults_hit = 0
        self._folder = folder
        self._rng = rng
        self._trace = trace
        self._on_sleep = on_sleep
        self._files: dict[str, _Content] = {}
        self._removed: dict[str, _Content] = {}  # whose names the platter still has
        self._renamed: dict[str, str] = {}  # new name -> the platter's
        self._fault: Fault | None = None
        self._count = 0

    @contextmanager
    def plugged_in(self) -> Iterator[Disk]:
        """Put every connection and every sync of a folder through this disk."""
        before = apsw.vfs_names()[0]
        apsw.set_default_vfs(self.name)
        apsw.randomness(0)  # SQLite asks again, so that a seed is all it depends on
        try:
            with (
                mock.patch("perdure.storage.sqlite_file.sync_folder", self._folders),
                mock.patch("perdure.storage.sqlite.forget_cached", self._reread),
            ):
                yield self
        finally:
            apsw.set_default_vfs(before)
            apsw.unregister_vfs(self.name)

    def fail(self, fault: Fault) -> None:
        """Let this error happen, in place of any other."""
        self._fault, self._count = fault, 0

    def heal(self) -> None:
        """Let all go well again."""
        self._fault = None

    def die(self) -> None:
        """Cut the power: nothing is read or written until `reboot`."""
        self.dead = True

    def reboot(self, *, cut_at: int = 0) -> Damage:
        """Make the files what the cut left, and give them back.

        Every connection must be closed. `cut_at` counts on from now.
        """
        damage = Damage()
        spared = self._rng.choice(SPARED)
        for new, old in self._renamed.items():
            if self._rng.random() < 0.5:
                Path(new).rename(old)
                self._files[old] = self._files.pop(new)
        for name in sorted(self._files.keys() | self._removed.keys()):
            content = self._which(name)
            found = content and content.after_cut(self._rng, spared, damage)
            self._say(f"found {Path(name).name}: {found and len(found)} bytes")
            if found is None:
                Path(name).unlink(missing_ok=True)
            else:
                Path(name).write_bytes(found)
        for shared in self._folder.glob("*-shm"):
            shared.write_bytes(self._rng.randbytes(SHM_SIZE))
        for forgotten in (self._files, self._removed, self._renamed):
            forgotten.clear()
        self._say(f"damage: {damage}")
        self.dead, self.cut_at, self.syncs = False, cut_at, 0
        return damage

    # -- what SQLite calls ---------------------------------------------------------

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:
        self.alive()
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        content = None
        if path is not None and Path(path).parent == self._folder:
            content = self._files.get(path)
            if content is None:
                there = Path(path).exists()
                platter = Path(path).read_bytes() if there else b""
                content = self._files[path] = _Content(platter, named=there)
        return _File(self, name, flags, content, Path(path or "temporary").name)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.alive()
        super().xDelete(filename, False)
        content = self._files.pop(filename, None)
        if content is not None and content.named:
            self._removed[filename] = content
        self._say(f"delete {Path(filename).name}")
        if syncdir:
            self.sync_names()

    def xRandomness(self, numbytes: int) -> bytes:
        return self._rng.randbytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        if self._on_sleep is None:
            return super().xSleep(microseconds)
        self._on_sleep(microseconds / 1_000_000)
        return microseconds

    def excepthook(self, *_: object) -> bool:
        return True  # SQLite ignores the error, as it may

    # -- what its files call -------------------------------------------------------

    def alive(self) -> None:
        """Raise an I/O error after a cut."""
        if self.dead:
            raise apsw.exception_for(apsw.SQLITE_IOERR)

    def fault(self, operation: Operation, file: str) -> Fault | None:
        """Count an operation and return the error that is due to it."""
        self.alive()
        fault = self._fault
        if (
            fault is None
            or fault.operation != operation
            or not file.endswith(fault.file)
        ):
            return None
        self._count += 1
        past = self._count - fault.nth
        if past < 0 or 0 <= fault.times <= past:
            return None
        self.faults_hit += 1
        self._say(f"{operation} {file}: error {fault.code}, {fault.but}")
        return fault

    def count_sync(self, what: str) -> None:
        """Count a sync; the power may go in the middle of it."""
        self.alive()
        self.syncs += 1
        self._say(f"sync {self.syncs}: {what}")
        if self.syncs == self.cut_at:
            self._say("the power goes")
            self.die()
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)

    def sync_names(self) -> None:
        """Put the names in the folder on the platter."""
        self._removed.clear()
        self._renamed.clear()
        for content in self._files.values():
            content.named = True

    def _folders(self, folder: Path) -> None:
        for name in list(self._files):
            renamed = name.removesuffix(".new")
            if renamed != name and not Path(name).exists():
                self._renamed[renamed] = name
                self._files[renamed] = self._files.pop(name)
        try:
            self.count_sync("the folder")
        except apsw.IOError as error:
            raise OSError("the power went") from error
        self.sync_names()

    def _reread(self, path: Path) -> None:
        content = self._files.get(str(path))
        if content is not None:
            path.write_bytes(content.cached())

    def _which(self, name: str) -> _Content | None:
        """Choose among the files that may stand under a name after a cut."""
        new, old = self._files.get(name), self._removed.get(name)
        if new is not None and new.named:
            return new
        return self._rng.choice((new, old))

    def _say(self, text: str) -> None:
        if self._trace is not None:
            self._trace(text)


class _File(apsw.VFSFile):
    """One open file of a `Disk`; `content` is None where it is not of its folder."""

    def __init__(
        self,
        disk: Disk,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        content: _Content | None,
        label: str,
    ) -> None:
        made = flags[0] & apsw.SQLITE_OPEN_CREATE
        kinds = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        super().__init__(disk.base, name, flags)
        self._disk = disk
        self._content = content
        self._label = label
        # The unix VFS syncs the folder with the first sync of such a file.
        self._names_too = bool(made and flags[0] & kinds)

    def xRead(self, amount: int, offset: int) -> bytes:
        if fault := self._disk.fault("read", self._label):
            raise apsw.exception_for(fault.code)
        return super().xRead(amount, offset)

    def xWrite(self, data: apsw.Buffer, offset: int) -> None:
        written = bytes(data)
        fault = self._disk.fault("write", self._label)
        if fault is not None and fault.but == "not done":
            written = written[: len(written) // 2]  # a disk fills up in mid-write
        super().xWrite(written, offset)
        if self._content is not None:
            self._content.unsynced.append((offset, written))
        if fault is not None:
            raise apsw.exception_for(fault.code)

    def xTruncate(self, newsize: int) -> None:
        self._disk.alive()
        super().xTruncate(newsize)
        if self._content is not None:
            self._content.unsynced.append((newsize, None))

    def xSync(self, flags: int) -> None:
        self._disk.count_sync(self._label)
        fault = self._disk.fault("sync", self._label)
        if self._content is not None:
            if fault is None or fault.but == "done":
                self._content.sync()
                if self._names_too:
                    self._names_too = False
                    self._disk.sync_names()
            elif fault.but == "lost":
                self._content.unsynced.clear()
        if fault is not None:
            raise apsw.exception_for(fault.code)

    def excepthook(self, *_: object) -> bool:
        return True
