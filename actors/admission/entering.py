"""A task enters the queue: its stream, its rows and its place, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ...storage.records import Row
from ...supervision.faults import hit
from ..events import Event, TaskQueued, TaskSubmitted
from ..names import KEYS, TIMERS
from ..protocol import Remind
from ..task.rows import task_row, timer_row

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["enter"]


def enter(
    admission: Admission,
    task: TaskSubmitted,
    *,
    begins: Sequence[Event] = (),
    beside: Sequence[Event] = (),
    rows: Sequence[Row] = (),
    notes: int = 0,
) -> int:
    """Queue a task; return the last seq. Raises Rejected or Fenced.

    Args:
        admission: whose turn it is.
        task: the submission, the first event of its stream.
        begins: the events that follow it there.
        beside: events of the queue's own stream, with `rows`.
        notes: how many of people's it begins with.
    """
    stream = f"task/{task.task}"
    mine = [task_row(task, "queued")]
    mine += admission.vetting.definition(task.agent, task.agent_digest)
    if task.key is not None:
        mine.append(Row(space=KEYS, key=task.key, value=task.task.encode()))
    if task.not_before is not None:
        mine.append(timer_row(task.task, 0, task.not_before))
    drafts = [
        admission.draft(stream, version, event)
        for version, event in enumerate((task, *begins), 1)
    ]
    drafts[-1] = msgspec.structs.replace(drafts[-1], rows=tuple(mine))
    queued = TaskQueued(
        task=task.task,
        agent=task.agent,
        group=task.group,
        priority=task.priority,
        key=task.key,
        not_before=task.not_before,
        parent=task.parent,
        notes=notes,
    )
    lease = admission.house.journal.acquire(stream, 0)
    seq = admission.append(queued, *beside, rows=rows, also=[(lease, drafts)])
    admission.vetting.wrote(task.agent_digest)
    hit("admission.queued", task.agent)
    if task.not_before is not None:
        hit("timer.set", task.agent)
        remind = Remind(task=task.task, at=task.not_before)
        timers = admission.house.address(TIMERS)
        admission.when_durable(seq, lambda: timers.tell(remind))
    return seq
