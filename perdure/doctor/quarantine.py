"""What repairs have set aside: rows of the store itself, each under its task.

An item is noted (it stays where it is, and is known from then on), or holds what was
taken from its place, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from ..actors.names import QUARANTINED
from ..storage.reader import Reader
from ..storage.records import Row

__all__ = ["Item", "Taken", "held", "item_id", "items", "rows_of", "without"]

PART = 512 * 1024  # bytes of a row
NO_TASK = "-"

Taken: TypeAlias = Literal["", "row", "blob", "snapshot"]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in quarantine.

    `kind`, `where` and `what` are those of the finding. Something that was `taken` from
    its place is held in `parts` rows; `name` says which it is: of a row its space and
    key, of a blob its digest, of a snapshot its stream and version. `instead` is the
    digest of what stands in its place since, and `parked` says that a live task was
    parked for it.
    """

    id: str
    kind: str
    where: str
    what: str
    at: float
    task: str = ""
    taken: Taken = ""
    name: str = ""
    parts: int = 0
    instead: str = ""
    parked: bool = False

    @property
    def noted(self) -> bool:
        """Whether it stays where it is, and is no finding any more."""
        return not (self.taken or self.instead or self.kind == "file")


def item_id(kind: str, where: str, what: str) -> str:
    """The id under which a finding is in quarantine."""
    words = f"{kind}\n{where}\n{what}".encode(errors="surrogatepass")
    return f"q-{hashlib.sha256(words).hexdigest()[:12]}"


def items(reader: Reader) -> Iterator[Item]:
    """All that is in quarantine, by task."""
    for row in reader.rows(QUARANTINED):
        if row.key.count("/") == 1:
            yield msgspec.json.decode(row.value or b"", type=Item)


def held(reader: Reader, item: Item) -> bytes:
    """What was taken from its place, as it stood there.

    Before the body of a snapshot there is a line of JSON with the rest of it.
    """
    found = [
        reader.row(QUARANTINED, f"{_key(item)}/{part}") for part in range(item.parts)
    ]
    return b"".join(one or b"" for one in found)


def rows_of(item: Item, body: bytes) -> list[Row]:
    """The rows of an item that holds this."""
    parts = [body[at : at + PART] for at in range(0, len(body), PART)]
    whole = msgspec.structs.replace(item, parts=len(parts))
    rows = [Row(space=QUARANTINED, key=_key(item), value=msgspec.json.encode(whole))]
    return rows + [
        Row(space=QUARANTINED, key=f"{_key(item)}/{number}", value=part)
        for number, part in enumerate(parts)
    ]


def without(item: Item) -> list[Row]:
    """What takes an item's rows away."""
    keys = [_key(item), *(f"{_key(item)}/{part}" for part in range(item.parts))]
    return [Row(space=QUARANTINED, key=key, value=None) for key in keys]


def _key(item: Item) -> str:
    return f"{item.task or NO_TASK}/{item.id}"
