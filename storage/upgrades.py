"""From an older version of a type to today's, one step at a time.

A step is a pure function from the JSON object of version n to that of n + 1. Steps are
never skipped and never changed once a version was released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from .errors import NewerSchema, NoUpgradePath, Undecodable

__all__ = ["Upgrader", "Upgraders", "path_from", "upgraded", "version_of"]

Upgrader: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
Upgraders: TypeAlias = Mapping[tuple[str, int], Upgrader]


def version_of(cls: type[msgspec.Struct]) -> int:
    """The version that a type is written at: its `schema_version`, else 1."""
    version = getattr(cls, "schema_version", 1)
    # A field of that name is a slot descriptor on the class, not a version.
    return version if isinstance(version, int) else 1


def path_from(
    name: str, found: int, known: int, upgraders: Upgraders
) -> list[Upgrader]:
    """The steps from version `found` of a type to `known`; none where they are equal.

    Raises:
        NewerSchema: newer code wrote it.
        NoUpgradePath: a step between the two is missing.
    """
    if found > known:
        raise NewerSchema(name, found, known)
    steps: list[Upgrader] = []
    for version in range(found, known):
        step = upgraders.get((name, version))
        if step is None:
            raise NoUpgradePath(name, version)
        steps.append(step)
    return steps


def upgraded(body: bytes, steps: list[Upgrader], subject: str) -> bytes:
    """The JSON after all steps. Raises Undecodable where one of them fails."""
    try:
        value = msgspec.json.decode(body, type=dict[str, Any])
        for step in steps:
            value = step(value)
        return msgspec.json.encode(value)
    except Exception as error:
        raise Undecodable(
            subject, f"an upgrader failed with {type(error).__name__}: {error}"
        ) from error
