"""Calls that a sub-task or a person carried out: recorded like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...supervision.faults import hit
from ..events import EffectRecorded
from ..protocol import Given, Perform
from ..tool import Tool
from .entry import effect_key

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["give"]


def give(
    ledger: Ledger, wanted: Perform, tool: Tool, arguments: str, given: Given
) -> None:
    """Record what a sub-task or a person brought, and what is to be paid here."""
    key = effect_key(ledger.task, wanted.step, tool.name, arguments, wanted.occurrence)
    now, door = ledger.house.now(), ledger.door
    result, blob, blobs = ledger.kept(tool, given.text, wanted.op)
    done = given.status == "completed"
    beside = {"unknown": given.books.unknown, "recovery": given.books.recovery}
    ledger.append(
        door.registration(wanted, tool.effect, key, now, arguments=arguments),
        EffectRecorded(
            op=wanted.op,
            attempt=wanted.attempt,
            status=given.status,
            by="answer" if given.who else "subtask",
            result=result if done else "",
            blob=blob if done else "",
            error="" if done else given.text,
            usage=given.books.spent,
            beside={book: used for book, used in beside.items() if used},
            who=given.who,
            said_at=given.said_at,
        ),
        blobs=blobs if done else (),
    )
    hit("effect.recorded", tool.name)
    ledger.decide(ledger.state.entries[wanted.op])
