"""Content that is not one text: typed parts, and how long each type counts.

A part is an object with a ``type``, as the vendors' APIs have it. Text counts as the
JSON it is. What a model does not read as characters (an image) has a declared figure.
Parts are never changed: what a vendor signed (``thinking``) stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import ContextBudgetError, Misuse
from ..model import Message

__all__ = [
    "ANTHROPIC",
    "ANY",
    "OPENAI",
    "SIGNED",
    "Provider",
    "measurable",
    "says_nothing",
    "text_of",
]

LEAST = 2  # characters: a stand-in is a JSON text, which has two quotes
CHARACTERS_A_TOKEN = 4  # of English, a rule of thumb
WORDS = "the "  # one token

# Parts that their vendor takes back unchanged or not at all.
SIGNED = frozenset({"thinking", "redacted_thinking", "reasoning"})


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider takes in one message, and how long it counts.

    Args:
        name: what errors call it.
        parts: part types beside ``text``, each with the characters that one part
            counts, or None for those of its own JSON, base64 included.
        most_calls: tool calls in one message; None for no limit.

    Raises `Misuse` when built with a figure that is none.
    """

    name: str
    parts: Mapping[str, int | None] = {}
    most_calls: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise Misuse(
                f"Provider.name={self.name!r} must be text, the name that errors use"
            )
        if not isinstance(self.parts, Mapping):
            raise Misuse(
                f"Provider.parts={self.parts!r} must map part types to characters, "
                "such as {'image': 4000}"
            )
        for kind, size in self.parts.items():
            if not isinstance(kind, str):
                raise Misuse(
                    f"Provider.parts holds {kind!r}, which is no part type; give the "
                    "text that stands as its type"
                )
            if kind == "text":
                raise Misuse("Provider.parts: text counts as it is; leave it out")
            if size is not None and (type(size) is not int or size < LEAST):
                raise Misuse(
                    f"Provider.parts[{kind!r}] must be an int of at least {LEAST} "
                    f"characters, or None for its JSON, not {size!r}"
                )
        most = self.most_calls
        if most is not None and (type(most) is not int or most < 1):
            raise Misuse(
                f"Provider.most_calls must be an int of at least 1, or None, not "
                f"{most!r}"
            )

    def refuse(self, parts: list[Any], where: str) -> None:
        """Raise `ContextBudgetError` for a part that this provider does not declare."""
        for place, part in enumerate(parts):
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(kind, str):
                raise ContextBudgetError(
                    f"part {place} of {where} must be an object with a type"
                )
            if kind == "text":
                if not isinstance(part.get("text"), str):
                    raise ContextBudgetError(f"part {place} of {where} has no text")
            elif kind not in self.parts:
                raise ContextBudgetError(
                    f"part {place} of {where} is of the type {kind!r}, which "
                    f"{self.name} does not declare; say in Provider(parts=...) how "
                    "many characters it counts"
                )


# By what others report of the vendor's guide, an image costs at most 3,779 tokens at
# the detail `high` (1,536 patches of 2.46); some models and details cost more: declare
# your own figure. Audio and files cost by their length, which their host knows: declare
# them. More than 128 tool calls in a message are refused (array_above_max_length).
OPENAI = Provider(
    name="openai",
    parts={"image_url": 3_779 * CHARACTERS_A_TOKEN, "refusal": None},
    most_calls=128,
)

# By what others report of the vendor's guide, an image costs at most 4,784 tokens, on
# models that take 2,576 pixels an edge, and is scaled down beyond. Thinking is given
# back unchanged, with its signature. Documents cost by the page: declare them.
ANTHROPIC = Provider(
    name="anthropic",
    parts={
        "image": 4_784 * CHARACTERS_A_TOKEN,
        "thinking": None,
        "redacted_thinking": None,
    },
)

# Where the provider is not said: what the vendors name, images at the dearest figure
# of the two; audio and files as their JSON, an upper bound.
ANY = Provider(
    name="the default provider",
    parts={
        **OPENAI.parts,
        **ANTHROPIC.parts,
        **dict.fromkeys(("image_url", "input_image"), 4_784 * CHARACTERS_A_TOKEN),
        **dict.fromkeys(
            ("reasoning", "audio", "input_audio", "file", "input_file", "document")
        ),
    },
)


def measurable(message: Message, provider: Provider) -> Message:
    """Return what to measure of a message: parts with a figure as texts of that size.

    A stand-in, so that every measure, of characters or of tokens, can take it.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    stands: list[Any] = []
    for part in content:
        size = provider.parts.get(part["type"])
        stands.append(part if size is None else _words(size - LEAST))
    return {**message, "content": stands}


def text_of(content: Any) -> str:
    """Return the text of a content: itself, or its text parts in one."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or () if part["type"] == "text")


def says_nothing(content: Any) -> bool:
    """Whether a content is null, empty, or of empty texts alone."""
    if isinstance(content, list):
        return all(part == {"type": "text", "text": ""} for part in content)
    return content is None or content == ""


def _words(size: int) -> str:
    return (WORDS * (size // len(WORDS) + 1))[:size]
