"""Rows that an actor has written, until whoever reads is sure to find them.

Reads end in their order, and each goes behind all appends before it: what a read found
that was asked for earlier is older than what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from .durable import Durable

__all__ = ["Written"]

V = TypeVar("V")


class Written(Generic[V]):
    """The newest values by key; None is a row that was taken away."""

    def __init__(self, actor: Durable[Any]) -> None:
        self._actor = actor
        self._values: dict[str, V | None] = {}

    def newest(self, key: str, found: V | None) -> V | None:
        """The value of a row that a read found so."""
        return self._values.get(key, found)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def keep(self, values: Mapping[str, V | None]) -> None:
        """They were just appended: hold them until they can be read."""
        if not values:
            return
        self._values.update(values)

        def readable(_: object) -> None:
            for key, value in values.items():
                if key in self._values and self._values[key] is value:
                    del self._values[key]

        self._actor.read(lambda _: None, readable)
