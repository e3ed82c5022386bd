"""Snapshots whose body lies in an object store: what stands in the journal for them."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote, unquote

import msgspec

from .errors import CannotOpen, Undecodable
from .records import Snapshot, blob_digest

__all__ = [
    "Pointer",
    "Source",
    "folder_of",
    "key_of",
    "place_of",
    "pointer_of",
    "pointer_to",
    "prefix_of",
    "whole",
]

_UNDER = "snapshots"  # between a stream and its versions


class Source(Protocol):
    """Where bodies are read from."""

    def get(self, key: str) -> bytes:
        """Return them; raises ObjectMissing or ObjectTrouble."""


class Pointer(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False
):
    """The body of such a snapshot: where its own is, how long, and its SHA-256."""

    object: str
    size: int
    digest: str


def pointer_of(snapshot: Snapshot) -> Pointer | None:
    """What a snapshot points to; None where its body is its own."""
    if not snapshot.body.startswith(b'{"object":'):
        return None
    try:
        return msgspec.json.decode(snapshot.body, type=Pointer)
    except msgspec.MsgspecError:
        return None


def pointer_to(snapshot: Snapshot) -> Snapshot:
    """The same snapshot, with its body under `key_of` it."""
    pointer = Pointer(
        object=key_of(snapshot),
        size=len(snapshot.body),
        digest=blob_digest(snapshot.body),
    )
    return msgspec.structs.replace(snapshot, body=msgspec.json.encode(pointer))


def whole(snapshot: Snapshot, source: Source | None) -> Snapshot:
    """A snapshot with its own body, wherever that is.

    Raises:
        CannotOpen: there is no source to ask.
        ObjectMissing, ObjectTrouble: as the source does.
        Undecodable: what is there are other bytes.
    """
    pointer = pointer_of(snapshot)
    if pointer is None:
        return snapshot
    if source is None:
        raise CannotOpen(
            f"of object {pointer.object}", "none is named", "give objects=ADDRESS"
        )
    body = source.get(pointer.object)
    if len(body) != pointer.size or blob_digest(body) != pointer.digest:
        raise Undecodable(
            f"object {pointer.object}", "its bytes do not match its digest"
        )
    return msgspec.structs.replace(snapshot, body=body)


def prefix_of(stream: str) -> str:
    """What the keys of a stream begin with, and those of the streams under it."""
    return "/".join(_quoted(part) for part in stream.split("/"))


def folder_of(stream: str) -> str:
    """What the keys of a stream alone begin with."""
    return f"{prefix_of(stream)}/{_UNDER}"


def key_of(snapshot: Snapshot) -> str:
    """Where the body of a snapshot is put: never the same for two bodies."""
    digest = blob_digest(snapshot.body)
    return f"{folder_of(snapshot.stream)}/{snapshot.version:012d}-{digest}"


def place_of(key: str) -> tuple[str, int] | None:
    """Stream and version of a key; None where it is no snapshot's."""
    stream, mark, name = key.rpartition(f"/{_UNDER}/")
    version = name.partition("-")[0]
    if not mark or not version.isdecimal():
        return None
    parts = (unquote(part.replace("=", "%")) for part in stream.split("/"))
    return "/".join(parts), int(version)


def _quoted(part: str) -> str:
    # Not with "%" as in addresses: clients differ on whether that is quoted again.
    return quote(part, safe="").replace("%", "=")
