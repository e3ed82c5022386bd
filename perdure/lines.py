"""Log lines in JSON: of an event with its fields, and of a flushed record."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from .actors.events import EVENTS, task_of
from .events import NAMES, line_of
from .storage.records import JSON_CODEC, Record
from .storage.upgrades import version_of

__all__ = ["TEXT_LIMIT", "encode", "encode_record"]

TEXT_LIMIT = 8_192  # characters of one field


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How the records of one type, of its newest version, become lines.

    A decoded body is the line but for its seq, and for the time, task and epoch of the
    record, each where the event has no field of that name itself.
    """

    decoder: msgspec.json.Decoder[Any]
    version: int
    at: bool
    task: bool
    epoch: bool


def encode(event: str, fields: Mapping[str, Any]) -> bytes:
    """Return the line of an event; long texts are cut to `TEXT_LIMIT` characters."""
    entry = {"event": event, **fields}
    for name, value in fields.items():
        if type(value) is str and len(value) > TEXT_LIMIT:
            entry[name] = _bounded(value)
    try:
        return msgspec.json.encode(entry, enc_hook=str) + b"\n"
    except Exception:  # a lone surrogate, an object without a text: never our crash
        entry = {name: _plain(value) for name, value in entry.items()}
        return msgspec.json.encode(entry) + b"\n"


def encode_record(record: Record) -> bytes:
    """Return the line of a flushed record: that of its event and fields, at once.

    See `line_of`; what is old, or cannot be read, goes that way.
    """
    shape = _shape(record.type)
    if shape is None or record.schema_version != shape.version:
        return encode(*line_of(record))
    if record.codec != JSON_CODEC:
        return encode(*line_of(record))
    try:
        line = shape.decoder.decode(record.body)
        line.seq = record.seq
        if shape.at:
            line.at = record.at
        if shape.task:
            line.task = task_of(record.stream)
        if shape.epoch:
            line.epoch = record.epoch
        if len(record.body) > TEXT_LIMIT:
            _cut(line)
        return _ENCODER.encode(line) + b"\n"
    except (msgspec.MsgspecError, OverflowError, UnicodeError):
        return encode(*line_of(record))


@functools.lru_cache(maxsize=512)
def _shape(kind: str) -> Shape | None:
    event = _EVENTS.get(kind)
    if event is None:
        return None
    own = {field.name: field for field in msgspec.structs.fields(event)}
    fields: dict[str, tuple[str, Any] | tuple[str, Any, Any]] = {
        "event": ("event", str, NAMES[kind]),
        "at": ("at", float, 0.0),
        "seq": ("seq", int, 0),
        "task": ("task", str, ""),
        "epoch": ("epoch", int, 0),
    }
    for name, field in own.items():
        if field.required:
            fields[name] = (name, field.type)
        elif field.default is msgspec.NODEFAULT:
            made = msgspec.field(default_factory=field.default_factory)
            fields[name] = (name, field.type, made)
        else:
            fields[name] = (name, field.type, field.default)
    made = getattr(event, "__post_init__", None)
    line = msgspec.defstruct(
        kind,
        list(fields.values()),
        kw_only=True,
        namespace=None if made is None else {"__post_init__": made},
    )
    return Shape(
        decoder=msgspec.json.Decoder(line),
        version=version_of(event),
        at="at" not in own,
        task="task" not in own,
        epoch="epoch" not in own,
    )


def _cut(line: msgspec.Struct) -> None:
    for name in line.__struct_fields__:
        value = getattr(line, name)
        if type(value) is str and len(value) > TEXT_LIMIT:
            setattr(line, name, _bounded(value))


def _bounded(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}… ({len(text)} characters)"


def _plain(value: Any) -> Any:
    """Return a number that JSON holds as it is, and the text of anything else."""
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    try:
        text = str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return _bounded(text.encode("utf-8", "replace").decode("utf-8"))


_EVENTS = {event.__name__: event for event in EVENTS}
_ENCODER = msgspec.json.Encoder()
