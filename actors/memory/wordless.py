"""What is left of facts once they are erased: their places, without their words. Pure.

A record that says nothing more is folded as it was before (P5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ...storage.records import Command
from ..events import Event, FactEnded, FactStated, KnowledgeTaken, Known

__all__ = ["commands_about", "without", "without_words"]


def without_words(event: Event) -> Event:
    """What an event of the memory's says without anybody's words."""
    change = msgspec.structs.replace
    match event:
        case FactStated():
            return change(event, subject="", key="", value="null", evidence="", by="")
        case FactEnded():
            return change(event, by="")
    return event


def without(taken: KnowledgeTaken, gone: Callable[[Known], bool]) -> KnowledgeTaken:
    """What a task took, but for the facts that are gone; it says how many they are."""
    left = tuple(one for one in taken.facts if not gone(one))
    return KnowledgeTaken(
        facts=left, erased=taken.erased + len(taken.facts) - len(left)
    )


def commands_about(
    commands: Iterable[Command], gone: Callable[[dict[str, Any]], bool]
) -> list[str]:
    """The ids of the commands that have a fact kept which is gone, by its fields."""
    found = []
    for command in commands:
        try:
            body = msgspec.json.decode(command.body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        fact = body.get("fact") if isinstance(body, dict) else None
        if isinstance(fact, dict) and gone(fact):
            found.append(command.id)
    return found
