"""Big values: that each is what its name says, and that each name stands for one."""

from __future__ import annotations

from ..actors.events import EffectRecorded, Event, RequestBuilt
from ..storage.erasure import digests_in
from ..storage.errors import StoreFailed, Undecodable
from ..storage.reader import Reader
from ..storage.records import Record
from .report import Findings

__all__ = ["Blobs"]

PAGE = 1_000  # names


class Blobs:
    """The blobs that were there first, and which of them no record has named so far.

    All are listed before any record is read: a record comes with its blob.
    """

    def __init__(self, reader: Reader, found: Findings) -> None:
        self._reader = reader
        self._found = found
        self._named: dict[bytes, bool] = {}
        self._missing: set[str] = set()

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._named)

    def look(self) -> None:
        """List them all, and check the bytes of each."""
        after = ""
        while names := self._reader.digests(after, PAGE):
            for name in names:
                self._check(name)
                self._named[_short(name)] = False
            after = names[-1]

    def _check(self, name: str) -> None:
        try:
            self._reader.blob(name)
        except Undecodable as error:
            self._found.add("blob_bytes", f"blob {name}", error.reason)
        except StoreFailed as error:
            self._found.add("unreadable", f"blob {name}", str(error))

    def body(self, body: bytes) -> None:
        """Hear of a record's body: what it mentions is no orphan."""
        for name in digests_in([body]):
            if _short(name) in self._named:
                self._named[_short(name)] = True

    def each(self, record: Record, event: Event) -> None:
        """See that what a record needs is there."""
        match event:
            case EffectRecorded(blob=name) | RequestBuilt(fixed=name) if name:
                pass
            case _:
                return
        if _short(name) in self._named or name in self._missing:
            return
        try:
            there = self._reader.blob(name) is not None
        except Undecodable:
            there = True
        if not there and self._reader.fetch([record.seq]):  # or it was erased since
            self._missing.add(name)
            where = f"record {record.seq}: {record.stream} {record.version}"
            self._found.add("blob_missing", where, f"blob {name}")

    def end(self) -> None:
        """Name those that no record has mentioned."""
        for name, named in self._named.items():
            if not named:
                self._found.add("blob_orphaned", f"blob {name.hex()}", "not named")


def _short(name: str) -> bytes:
    """A name in half the room."""
    try:
        return bytes.fromhex(name)
    except ValueError:
        return name.encode()
