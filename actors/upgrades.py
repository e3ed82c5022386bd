"""What takes old records and snapshots to today's form: one table for all of them.

Whoever renames or drops a field of an event or of a state raises that class's
`schema_version` (a `ClassVar[int]`, 1 where there is none) and gives the step from the
version before. A state holds events: it changes with those that it holds. A new field
with a default needs neither.
"""

from __future__ import annotations

import functools
from typing import TypeVar

import msgspec

from ..storage.errors import Undecodable
from ..storage.records import Snapshot
from ..storage.upgrades import Upgrader, path_from, upgraded, version_of

__all__ = ["UPGRADERS", "body_of", "is_current", "state_of", "todays"]

S = TypeVar("S", bound=msgspec.Struct)

UPGRADERS: dict[tuple[str, int], Upgrader] = {}
"""By class name and version n: a pure function from its JSON object to the next one."""


def is_current(snapshot: Snapshot, kind: type[msgspec.Struct]) -> bool:
    """Whether a snapshot is as this code writes them."""
    return snapshot.state_schema == version_of(kind)


def todays(snapshot: Snapshot, kind: type[msgspec.Struct]) -> bytes:
    """A snapshot's JSON in today's form.

    Raises NewerSchema or NoUpgradePath: a snapshot is a cache, go without it.
    """
    known, name = version_of(kind), kind.__name__
    if snapshot.state_schema == known:
        return snapshot.body
    steps = path_from(name, snapshot.state_schema, known, UPGRADERS)
    return upgraded(snapshot.body, steps, _subject(snapshot))


def state_of(snapshot: Snapshot, kind: type[S]) -> S:
    """The state that a snapshot holds, upgraded to today's form.

    Raises NewerSchema, NoUpgradePath or Undecodable: go without it.
    """
    try:
        return msgspec.json.decode(todays(snapshot, kind), type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Undecodable(_subject(snapshot), str(error)) from error


def body_of(state: msgspec.Struct) -> bytes:
    """A state's JSON, as its snapshot holds it.

    A part of it that is as it began is left out however it came to be so: msgspec knows
    only the very object of the default.
    """
    again = {
        name: default
        for name, default in _beginnings(type(state)).items()
        if (part := getattr(state, name)) is not default and part == default
    }
    return msgspec.json.encode(
        msgspec.structs.replace(state, **again) if again else state
    )


@functools.cache
def _beginnings(kind: type[msgspec.Struct]) -> dict[str, msgspec.Struct]:
    return {
        field.name: field.default
        for field in msgspec.structs.fields(kind)
        if isinstance(field.default, msgspec.Struct)
    }


def _subject(snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.version} of {snapshot.stream}"
