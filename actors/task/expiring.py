"""The time that an approval or a question is good for, as rows: its end, and a warning.

Nobody is kept awake for either. The row of the warning goes with the event that gives
it, so that it is given once, over every restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.records import Row
from ..names import TIMER_ROWS
from ..protocol import Remind
from .rows import TimerRow, no_timer, timer_key, timer_row

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["expiry_rows", "no_expiry", "no_warning", "remind", "warning_key"]

LEFT = 0.2  # of its time, when the warning is given


def warning_key(task: str, op: int, at: float, expires: float) -> str:
    """The key of the row of an operation's warning."""
    return timer_key(_warns_at(at, expires), task, op, "/warning")


def expiry_rows(
    task: str, op: int, subject: str, at: float, expires: float
) -> list[Row]:
    """The rows for what is asked at second `at`, and of no use from `expires` on."""
    warns = TimerRow(task=task, at=_warns_at(at, expires), warns=subject)
    value = msgspec.json.encode(warns)
    warning = Row(space=TIMER_ROWS, key=warning_key(task, op, at, expires), value=value)
    return [timer_row(task, op, expires), warning]


def no_warning(task: str, op: int, at: float, expires: float | None) -> list[Row]:
    """Nobody is to be warned any more of what was asked at second `at`."""
    if expires is None:
        return []
    key = warning_key(task, op, at, expires)
    return [Row(space=TIMER_ROWS, key=key, value=None)]


def no_expiry(task: str, op: int, at: float, expires: float) -> list[Row]:
    """It is over: answered, dropped, or expired."""
    return [no_timer(task, op, expires), *no_warning(task, op, at, expires)]


def remind(task: Task, seq: int, subject: str, at: float, expires: float) -> None:
    """Have both told in time, by the rows that are durable with `seq`."""
    task.remind(seq, expires)
    warns = _warns_at(at, expires)
    if warns > task.house.now():
        message = Remind(task=task.id, at=warns, warns=subject)
        timers = task.timers
        task.when_durable(seq, lambda: timers.tell(message))


def _warns_at(at: float, expires: float) -> float:
    return expires - LEFT * (expires - at)
