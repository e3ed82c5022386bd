"""Parameters of a statement as PostgreSQL's own bytes.

A batch is some twenty arrays. The driver builds one element by element in Python, which
took four times as long as what the server then does with it; here an array is one
`struct.pack` or one join. The format is `array_send`'s: dimensions, whether there are
nulls, the type, then length and lower bound, then each value behind its size.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

__all__ = [
    "BIGINT",
    "BIGINTS",
    "BYTEAS",
    "DOUBLES",
    "TEXTS",
    "bigint",
    "bigints",
    "byteas",
    "doubles",
    "texts",
]

# Numbers of the types in pg_type, the same on every server.
BIGINT = 20
TEXTS, BIGINTS, DOUBLES, BYTEAS = 1009, 1016, 1022, 1001
_BYTEA, _TEXT, _DOUBLE = 17, 25, 701
_HEAD = struct.Struct("!5i")
_size = struct.Struct("!i").pack


def bigint(value: int) -> bytes:
    """Return a ``bigint``."""
    return struct.pack("!q", value)


def bigints(values: Sequence[int]) -> bytes:
    """Return a ``bigint[]``."""
    return _packed(BIGINT, "iq", values)


def doubles(values: Sequence[float]) -> bytes:
    """Return a ``double precision[]``."""
    return _packed(_DOUBLE, "id", values)


def texts(values: Sequence[str]) -> bytes:
    """Return a ``text[]``; names come again and again, and are encoded once."""
    return _head(_TEXT, len(values)) + b"".join(map(_text, values))


def byteas(values: Sequence[bytes]) -> bytes:
    """Return a ``bytea[]``."""
    parts = [_head(_BYTEA, len(values))]
    for value in values:
        parts += (_size(len(value)), value)
    return b"".join(parts)


def _packed(kind: int, pair: str, values: Sequence[float]) -> bytes:
    flat: list[float] = []
    for value in values:
        flat += (8, value)  # bytes
    return _head(kind, len(values)) + struct.pack("!" + pair * len(values), *flat)


def _head(kind: int, length: int) -> bytes:
    if not length:
        return struct.pack("!3i", 0, 0, kind)
    return _HEAD.pack(1, 0, kind, length, 1)


@lru_cache(4096)
def _text(value: str) -> bytes:
    encoded = value.encode()
    return _size(len(encoded)) + encoded
