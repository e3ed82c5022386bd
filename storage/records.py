"""What the log is made of: drafts, records, rows, snapshots and leases."""

from __future__ import annotations

import hashlib
import struct
import zlib
from functools import lru_cache

import msgspec

__all__ = [
    "JSON_CODEC",
    "Command",
    "Draft",
    "Head",
    "Lease",
    "Loaded",
    "Origin",
    "Record",
    "Row",
    "Snapshot",
    "blob_digest",
    "family_bounds",
    "in_family",
    "record_checksum",
    "snapshot_checksum",
]

JSON_CODEC = "json"
NAMES_KEPT = 4_096  # of streams and types together, whose checksum is known


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A keyed value written in the transaction of its record; None deletes it."""

    space: str
    key: str
    value: bytes | None


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """When a record was written in another log, and by whom; see `Draft.origin`."""

    at: float
    epoch: int
    incarnation: int


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A record before it has its place in the log.

    `version` is the one it will have in its stream (the head plus one), `body` is
    JSON. `rows` and `blobs` are committed with it or not at all. One with an `origin`
    is brought back from elsewhere, and says what it said there.
    """

    stream: str
    version: int
    type: str
    body: bytes
    schema_version: int = 1
    rows: tuple[Row, ...] = ()
    blobs: tuple[bytes, ...] = ()
    origin: Origin | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the log. `at` is seconds since the epoch, by the writer's clock."""

    seq: int
    stream: str
    version: int
    type: str
    schema_version: int
    codec: str
    at: float
    epoch: int
    incarnation: int
    body: bytes
    checksum: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a stream after record `version`, whose seq is `covers`.

    `covers` pins the snapshot to that very record: if the log holds another one
    there, the snapshot is not written. `at` is filled in when it is queued.
    """

    stream: str
    version: int
    covers: int
    state_schema: int
    body: bytes
    reason: str
    at: float = 0.0


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to append to one stream, until a newer one is given out."""

    stream: str
    epoch: int
    incarnation: int


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What another process asks of the owner: kind, what it concerns, the rest in JSON.

    `id` is the sender's, unique for good. `at` is seconds since the epoch, by the
    sender's clock. `place` is the order of arrival, given when it is sent.
    """

    id: str
    kind: str
    subject: str
    at: float
    body: bytes = b"{}"
    place: int = 0


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stream ends; all zero for a stream without records."""

    version: int = 0
    seq: int = 0
    epoch: int = 0
    incarnation: int = 0


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as of one moment: a snapshot, the records after it, and its head.

    `head` is the version of the last record, `seq` that record's place in the log.
    """

    stream: str
    snapshot: Snapshot | None
    records: tuple[Record, ...]
    head: int
    seq: int


def in_family(stream: str, family: str) -> bool:
    """Tell whether `stream` is `family` itself or stands under it."""
    return stream == family or stream.startswith(
        family if family.endswith("/") else family + "/"
    )


def family_bounds(prefix: str) -> tuple[str, str, str]:
    """Return the family's own name and the bounds of the names under it."""
    name = prefix.removesuffix("/")
    own = prefix if prefix == name else ""
    return own, name + "/", name + "0"  # "0" follows "/" in the order of bytes


def record_checksum(
    seq: int,
    stream: str,
    version: int,
    type_name: str,
    schema_version: int,
    codec: str,
    at: float,
    epoch: int,
    incarnation: int,
    body: bytes,
) -> int:
    """CRC-32 over every field, so that a record moved elsewhere shows too.

    What no record can hold, where a store is damaged, has a checksum that none has.
    """
    try:
        names = _names(stream, type_name, codec)
        numbers = _NUMBERS.pack(seq, version, schema_version, at, epoch, incarnation)
    except (struct.error, TypeError):
        return -1
    return zlib.crc32(body, zlib.crc32(numbers, names))


_NUMBERS = struct.Struct("<qqqdqq")


@lru_cache(NAMES_KEPT)
def _names(*names: str) -> int:
    return zlib.crc32("\0".join(names).encode())


def snapshot_checksum(snapshot: Snapshot) -> int:
    """CRC-32 over every field of a snapshot."""
    head = (
        f"{snapshot.stream}\0{snapshot.version}\0{snapshot.covers}\0"
        f"{snapshot.state_schema}\0{snapshot.at!r}\0{snapshot.reason}\0"
    )
    return zlib.crc32(snapshot.body, zlib.crc32(head.encode()))


def blob_digest(body: bytes) -> str:
    """SHA-256 in hex: the name under which a blob is stored once."""
    return hashlib.sha256(body).hexdigest()
