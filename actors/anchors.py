"""Anchors: variables that stay before a model until its task ends. Pure.

They are never trimmed, so that they are bounded: what does not fit is refused and
said, and nothing that stands is lost for it. The same name again takes the newer
value. Source of the rule: B14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from .context.measure import canonical
from .events import Anchor

if TYPE_CHECKING:
    from .tool import Tool

__all__ = [
    "ANCHORS",
    "ANCHOR_NAME",
    "ANCHOR_VALUE",
    "MODEL",
    "admit",
    "anchored",
    "collect",
    "fields",
]

ANCHORS = 32  # of one call
ANCHOR_NAME = 64  # characters
ANCHOR_VALUE = 1_000  # characters; a longer one is no variable but a document
MODEL = "model"  # who put an anchor that is a claim, not a record


def collect(into: dict[str, str], name: object, value: object) -> None:
    """Take what a tool hands in, whatever it is, in bounded memory.

    One name more, and one character more, than is kept: so that whoever admits
    anchors sees that there was more, and says so.
    """
    key = _text(name)[: ANCHOR_NAME + 1]
    if key in into or len(into) <= ANCHORS:
        into[key] = _text(value)[: ANCHOR_VALUE + 1]


def fields(text: str, paths: tuple[str, ...]) -> dict[str, str]:
    """The fields of a JSON result that a tool's declaration names, by their paths.

    A path is names and, for lists, places from 0, with dots between: ``rows.0.id``.
    What is not there, or null, is left out. A text is kept as it is, all else as the
    JSON that stood there: ``007`` is never 7, and no digit is lost.
    """
    found: dict[str, str] = {}
    for path in paths:
        value = _field(text.encode("utf-8", "replace"), path)
        if value is not None:
            found[path] = value[: ANCHOR_VALUE + 1]
    return found


def _field(body: bytes, path: str) -> str | None:
    try:
        for part in path.split("."):
            body = bytes(_inside(body, part)).strip()
        if body.startswith(b'"'):
            return msgspec.json.decode(body, type=str)
    except (msgspec.DecodeError, KeyError, IndexError, ValueError, RecursionError):
        return None
    value = body.decode()
    return None if value == "null" else value


def _inside(body: bytes, part: str) -> msgspec.Raw:
    if body.lstrip().startswith(b"[") and part.isdecimal():
        return msgspec.json.decode(body, type=list[msgspec.Raw])[int(part)]
    return msgspec.json.decode(body, type=dict[str, msgspec.Raw])[part]


def anchored(
    tool: Tool | None, text: str, given: Mapping[str, str], op: int
) -> dict[str, Anchor]:
    """What operation `op` puts before the model: declared fields, then its own word.

    `text` is the whole result, `given` what its function handed in.
    """
    if tool is None or not (tool.anchors or given):
        return {}
    schema = f"schema of {tool.name}"
    own = MODEL if tool.claims else f"tool {tool.name}"
    found = {
        name: Anchor(value=value, evidence=op, by=schema)
        for name, value in fields(text, tool.anchors).items()
    }
    put = {
        name: Anchor(value=value, evidence=op, by=own) for name, value in given.items()
    }
    return {**found, **put}


def admit(
    have: Mapping[str, Anchor],
    new: Mapping[str, Anchor],
    *,
    names: int,
    characters: int,
) -> tuple[dict[str, Anchor], dict[str, str]]:
    """Return which of the `new` anchors a task keeps, and why it refuses the others.

    A task has at most so many `names`, and `characters` of names and values as JSON.
    What rests on older evidence than what stands is passed over.
    """
    kept: dict[str, Anchor] = {}
    refused: dict[str, str] = {}
    used = sum(_size(name, one.value) for name, one in have.items())
    for place, (name, anchor) in enumerate(new.items()):
        old = have.get(name)
        if old is not None and old.evidence > anchor.evidence:
            continue
        size = _size(name, anchor.value) - (_size(name, old.value) if old else 0)
        why = _wrong(name, anchor.value)
        if not why and place >= ANCHORS:
            why = f"one call puts {ANCHORS} at most"
        if not why and old is None and len(have.keys() | kept.keys()) >= names:
            why = f"the task keeps {names} names at most"
        if not why and size > 0 and used + size > characters:
            why = f"the task keeps {characters} characters at most"
        if why:
            refused[name[:ANCHOR_NAME]] = why + (
                f"; its value of op{old.evidence} stands" if old else ""
            )
        else:
            kept[name] = anchor
            used += size
    return kept, refused


def _wrong(name: str, value: str) -> str:
    if not name.strip() or len(name) > ANCHOR_NAME:
        return f"a name has 1 to {ANCHOR_NAME} characters"
    if len(value) > ANCHOR_VALUE:
        return f"a value has {ANCHOR_VALUE} characters at most"
    return ""


def _size(name: str, value: str) -> int:
    return len(canonical([name, value]))


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()  # no lone surrogates
