"""How far a task's plan is, from the log; reads only."""

from __future__ import annotations

from . import views
from .actors import events, names
from .actors.plan.result import PlanResult, plan_result, revisions_of
from .actors.task import state as task_state
from .actors.task.state import TaskState
from .errors import Misuse
from .folds import whole
from .storage.reader import Reader

__all__ = ["plan"]


def plan(reader: Reader, task: str) -> PlanResult:
    """The plan of a task, by its id.

    Raises TaskNotFound, and Misuse where the task was erased.
    """
    status = views.task_line(reader, task).status
    stream = [event for _, event in whole(reader, names.family(task))]
    if isinstance(stream[0], events.TaskErased):
        raise Misuse(f"task {task} was erased by {stream[0].by}: no plan is left")
    state = TaskState()
    for event in stream:
        state = task_state.apply(state, event)
    return plan_result(state, status, revisions_of(stream))
