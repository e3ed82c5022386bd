"""A bulky result as a reference: head, tail, size, digest, and how to open it again.

The whole result stays in the record (A40).
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from ..model import Message
from .blocks import Block

__all__ = ["BULKY", "SHOWN", "by_reference", "reference"]

SHOWN = 300  # characters of an old result that its reference still shows
BULKY = 2  # times as long as its reference: less is not worth a change

# What the record says at the end of a result that it holds in a blob.
_WHOLE = re.compile(r"\n\(cut: the whole result has ([0-9]+) characters, SHA-256 .*\)$")


def reference(text: str, keep: int, source: str = "") -> str:
    """Head and tail of a text, with its size and digest; the text itself if short.

    `keep` characters are shown. `source` is the evidence id under which
    `read_evidence` opens the whole text, where somebody can.
    """
    if len(text) <= keep:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    head, tail = keep * 2 // 3, keep // 3
    size = len(text)
    if noted := _WHOLE.search(text):
        size, tail = int(noted[1]), 0
    opened = f'; read_evidence(id="{source}") opens it' if source else ""
    end = f"\n{text[len(text) - tail :]}" if tail else ""
    return (
        f"{text[:head]}\n(cut here; the whole result has {size} characters, "
        f"SHA-256 {digest}…{opened}){end}"
    )


def by_reference(block: Block, *, opens: bool, keep: int | None = None) -> Block:
    """Return the block with its bulky results as references; itself if it has none.

    With `keep`, every result that this makes shorter is cut to that many characters;
    else those that are `BULKY` times as long as their reference. `opens` says whether
    the model has a tool that opens them.
    """
    messages: list[Message] = []
    place = 0
    changed = False
    for message in block.messages:
        shown = message
        if message["role"] == "tool":
            named = opens and place < len(block.sources)
            source = block.sources[place] if named else ""
            text = message["content"]
            if isinstance(text, str):  # typed parts are not cut
                shorter = reference(text, keep or SHOWN, source)
                if len(text) > (1 if keep else BULKY) * len(shorter):
                    shown = {**message, "content": shorter}
                    changed = True
            place += 1
        messages.append(shown)
    if not changed:
        return block
    return msgspec.structs.replace(block, messages=tuple(messages))
