"""Events to JSON and back, through single-step upgraders.

Nothing that is stored names a module or a class path: a record carries a type name
and a schema version, and this registry says what they mean today.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from .errors import Rejected, Undecodable, UnknownType
from .records import JSON_CODEC, Record
from .upgrades import Upgrader, Upgraders, path_from, upgraded, version_of

__all__ = ["Codec"]

_PLAIN = frozenset({str, int, bool, type(None)})


class Codec:
    """The event types that this code knows, at the version it writes.

    Args:
        event_classes: frozen `msgspec.Struct` classes. The type name is the struct's
            tag, else the class's name; the class attribute `schema_version` (1 where
            there is none) is the version written. Where a class has a method
            ``stored``, the JSON is made of what that gives back, and read as equal to
            the event.
        upgraders: ``(type name, n)`` to a function that turns the JSON object of
            version n into that of n + 1.

    Raises:
        ValueError: two classes share a type name.
    """

    def __init__(
        self,
        event_classes: Iterable[type[msgspec.Struct]],
        upgraders: Upgraders | None = None,
    ) -> None:
        self._encoder = msgspec.json.Encoder(order="deterministic")
        self._versions: dict[str, int] = {}
        self._decoders: dict[str, msgspec.json.Decoder[msgspec.Struct]] = {}
        self._names: dict[type[msgspec.Struct], str] = {}
        self._stored: dict[type[msgspec.Struct], Callable[[Any], msgspec.Struct]] = {}
        self._upgraders = {} if upgraders is None else upgraders
        for cls in event_classes:
            name = _type_name(cls)
            if name in self._versions:
                raise ValueError(f"two event classes are named {name!r}; rename one")
            self._names[cls] = name
            if stored := getattr(cls, "stored", None):
                self._stored[cls] = stored
            self._versions[name] = version_of(cls)
            self._decoders[name] = msgspec.json.Decoder(cls)

    def encode(self, event: msgspec.Struct) -> tuple[str, int, bytes]:
        """Return the event's type name, schema version and JSON.

        Equal events give equal bytes. What could not be read back is refused.

        Raises:
            Rejected: the class is not registered, or a value has no JSON of its own;
                the message names the path of the field.
        """
        name, version, body, _ = self.settle(event)
        return name, version, body

    def settle(self, event: msgspec.Struct) -> tuple[str, int, bytes, msgspec.Struct]:
        """Encode an event; return also the event that its JSON will be read as.

        Raises what `encode` raises.
        """
        name = self._names.get(type(event))
        if name is None:
            raise Rejected(
                type(event).__name__, "its class is not registered with the codec"
            )
        try:
            stored = self._stored.get(type(event))
            body = self._encoder.encode(event if stored is None else stored(event))
            read = self._decoders[name].decode(body)
        except (msgspec.MsgspecError, OverflowError, TypeError, ValueError) as error:
            _refuse_unstorable(event, name)  # names the field, where it can
            raise Rejected(name, str(error)) from error
        if read != event:  # a sequence of another type, or what has no JSON form
            _refuse_unstorable(event, name)
        return name, self._versions[name], body, read

    def decode(self, record: Record) -> msgspec.Struct:
        """Return the event that a record holds, upgraded to today's version.

        Raises:
            UnknownType: newer code wrote the record, or it is not perdure's.
            NewerSchema: newer code wrote the record.
            NoUpgradePath: a step between its version and today's is missing.
            Undecodable: unknown codec, or a body that does not fit its type.
        """
        name, body = record.type, record.body
        if record.schema_version != self._versions.get(name):
            body = upgraded(body, self._path(record), _subject(record))
        if record.codec != JSON_CODEC:
            raise Undecodable(
                _subject(record), f"the codec {record.codec!r} is not known"
            )
        try:
            return self._decoders[name].decode(body)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Undecodable(_subject(record), str(error)) from error

    def check(self, record: Record) -> bool:
        """Raise as `decode` does for a type or version that this code cannot read.

        The body is not looked at. Returns whether it is of an older version.
        """
        if record.schema_version == self._versions.get(record.type):
            return False
        self._path(record)
        return True

    def _path(self, record: Record) -> list[Upgrader]:
        known = self._versions.get(record.type)
        if known is None:
            raise UnknownType(_subject(record), record.type)
        return path_from(record.type, record.schema_version, known, self._upgraders)


def _subject(record: Record) -> str:
    return f"record {record.seq} ({record.type}) of {record.stream}"


def _type_name(cls: type[msgspec.Struct]) -> str:
    tag = cls.__struct_config__.tag
    return tag if isinstance(tag, str) else cls.__name__


def _refuse_unstorable(value: Any, path: str) -> None:
    kind = type(value)
    if kind in _PLAIN:
        if kind is str:
            _refuse_surrogates(value, path)
        return
    match value:
        case float() | Decimal():
            if not math.isfinite(value):
                raise Rejected(path, f"{value} has no JSON form")
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _refuse_unstorable(getattr(value, name), f"{path}.{name}")
        case dict():
            for key, item in value.items():
                if type(key) is not str:
                    raise Rejected(path, f"the key {key!r} is not a str")
                _refuse_surrogates(key, path)
                _refuse_unstorable(item, f"{path}[{key!r}]")
        case list() | tuple():
            for index, item in enumerate(value):
                _refuse_unstorable(item, f"{path}[{index}]")
        case Enum() | msgspec.UnsetType():
            return
        case _:
            raise Rejected(path, f"a {kind.__name__} cannot be stored as JSON")


def _refuse_surrogates(text: str, path: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Rejected(path, "the text holds a lone surrogate") from None
