"""Which definition of its agent, and which baseline, a task runs under (B5)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .actors import names
from .actors.events import AgentChanged, TaskSubmitted
from .folds import event_of, records_of
from .storage.reader import Reader

__all__ = ["RulesLine", "rules_of", "rules_text"]


class RulesLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a task ran under from second `at` since the epoch on.

    `changes` are the differences to the definition before, `by` is who adopted them.
    """

    at: float
    digest: str
    baseline: str
    changes: tuple[str, ...] = ()
    by: str = ""


def rules_of(reader: Reader, task: TaskSubmitted, at: float) -> tuple[RulesLine, ...]:
    """What a task was submitted under, `at` that second, and each change since."""
    found = [RulesLine(at=at, digest=task.agent_digest, baseline=task.baseline)]
    brought = f"{names.family(task.task)}/services"  # of one that was imported
    for record in (*records_of(reader, names.ADMISSION), *records_of(reader, brought)):
        if record.type != AgentChanged.__name__:
            continue
        event = event_of(record)
        assert isinstance(event, AgentChanged)
        if event.task == task.task:
            line = RulesLine(
                at=record.at,
                digest=event.digest,
                baseline=event.baseline,
                changes=event.changes,
                by=event.by,
            )
            found.append(line)
    return tuple(found)


def rules_text(lines: Iterable[RulesLine]) -> str:
    """Those, one a line: what a task ran under, and why that changed."""
    from .views_text import time_text

    said: list[str] = []
    for one in lines:
        text = f"{one.digest}, baseline {one.baseline}"
        if said:
            text += f", since {time_text(one.at)}"
        if one.by:
            text += f", adopted by {one.by}"
        if one.changes:
            text += f": {'; '.join(one.changes)}"
        said.append(text)
    return "\n".join(said)
