"""What a store says of facts, as plain data; reads only, and needs no ownership."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from .actors.memory import lookup
from .actors.memory.facts import Fact, is_current
from .storage.reader import Reader

__all__ = ["FactLine", "facts", "history"]


class FactLine(msgspec.Struct, frozen=True, kw_only=True):
    """A fact or a hypothesis; `value` is plain JSON, times are seconds since the epoch.

    Once it is over, `ended` is when, `how` why, and `ended_by` who said so.
    """

    id: str
    scope: str
    subject: str
    key: str
    value: Any
    core: bool
    status: Literal["fact", "hypothesis"]
    evidence: str
    at: float
    until: float | None
    ended: float | None
    how: str
    ended_by: str


def facts(
    reader: Reader, now: float, *, scope: str | None = None, subject: str | None = None
) -> list[FactLine]:
    """What is current at second `now`, oldest first; of one scope, of one subject."""
    found = lookup.current(reader, "" if scope is None else f"{scope}/")
    return _lines(
        one
        for one in found
        if is_current(one, now)
        and one.scope == (one.scope if scope is None else scope)
        and one.subject == (one.subject if subject is None else subject)
    )


def history(
    reader: Reader, key: str, *, scope: str | None = None, subject: str = ""
) -> list[FactLine]:
    """All that was ever said of a key, oldest first."""
    return _lines(lookup.history(reader, key, scope or "", subject))


def _lines(found: Iterable[Fact]) -> list[FactLine]:
    return [
        FactLine(
            **{
                name: getattr(one, name)
                for name in Fact.__struct_fields__
                if name != "value"
            },
            value=msgspec.json.decode(one.value),
        )
        for one in found
    ]
