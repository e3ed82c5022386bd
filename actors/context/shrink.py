"""A newest exchange that alone overflows: its bulky results become references.

Only what the fitter may not drop is shrunk, and only as far as needed. The whole
result stays in the record; head, tail, size and digest stay in the request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import ContextBudgetError
from ..model import Message
from .layers import Assembled, Block, assemble

__all__ = ["assemble_shrinking", "reference"]

KEEP = (4_000, 2_000, 1_000, 500, 250)  # characters of each result, first that fits


def assemble_shrinking(
    fixed: Sequence[Block],
    stable: Sequence[Block],
    scratch: Sequence[Block],
    moving: Block,
    tools: Sequence[Any],
    **options: Any,
) -> Assembled:
    """`assemble`, with the newest exchange's results shrunk where they overflow.

    Takes the options of `assemble` and raises what it raises, where even references
    do not fit. Same input, same bytes.
    """
    try:
        return assemble(fixed, stable, scratch, moving, tools, **options)
    except ContextBudgetError:
        if not scratch:
            raise
    *older, newest = scratch
    for keep in KEEP[:-1]:
        try:
            shorter = [*older, _shrunk(newest, keep)]
            return assemble(fixed, stable, shorter, moving, tools, **options)
        except ContextBudgetError:
            continue
    last = [*older, _shrunk(newest, KEEP[-1])]
    return assemble(fixed, stable, last, moving, tools, **options)


def reference(text: str, keep: int) -> str:
    """Head and tail of a text, with its size and digest; the text itself if short."""
    if len(text) <= keep:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    head, tail = keep * 2 // 3, keep // 3
    return (
        f"{text[:head]}\n(cut here; the whole result has {len(text)} characters, "
        f"SHA-256 {digest}…)\n{text[len(text) - tail :]}"
    )


def _shrunk(block: Block, keep: int) -> Block:
    messages: list[Message] = [
        {**message, "content": reference(message["content"], keep)}
        if message["role"] == "tool"
        else message
        for message in block.messages
    ]
    return msgspec.structs.replace(block, messages=tuple(messages))
