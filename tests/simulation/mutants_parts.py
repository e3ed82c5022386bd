"""Deliberate faults of what hands work on: parents, sub-tasks, and their money."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import msgspec

from perdure.actors.admission.callers import Callers
from perdure.actors.budget.account import Books
from perdure.actors.budget.pool import Pool
from perdure.actors.events import Granted
from perdure.actors.protocol import Given
from perdure.actors.task import subtasks

__all__ = ["PART_MUTANTS"]


def forget_the_parent() -> Any:
    """A sub-task that ends wakes nobody."""

    def alone(callers: Callers, message: Any, row: Any, left: Any) -> None:
        callers._admission.append(left)

    return patch.object(Callers, "wake_parent", alone)


def pay_a_sub_task_twice() -> Any:
    """The pool counts a grant as out that a parent passed on."""
    fold = Pool.fold

    def forgetful(pool: Pool, state: Any, event: Any) -> Any:
        if isinstance(event, Granted):
            event = msgspec.structs.replace(event, parent="")
        return fold(pool, state, event)

    return patch.object(Pool, "fold", forgetful)


def charge_the_whole_share() -> Any:
    """A parent pays all that it handed on, whatever the sub-task used of it."""

    def whole(books: Any, granted: Any) -> Any:
        return msgspec.structs.replace(books, spent={**books.spent, **granted})

    return patch.object(subtasks, "charged", whole)


def end_before_the_sub_tasks() -> Any:
    """A task that is cancelled tells its sub-tasks, and does not wait for them."""

    def hasty(parts: subtasks.Subtasks, op: Any) -> None:
        text = f"sub-task {op.child} ended as cancelled"
        given = Given(status="failed", text=text, books=Books())
        parts._ended(op, "cancelled", given)

    return patch.object(subtasks.Subtasks, "cancel", hasty)


PART_MUTANTS: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        forget_the_parent,
        pay_a_sub_task_twice,
        charge_the_whole_share,
        end_before_the_sub_tasks,
    )
}
