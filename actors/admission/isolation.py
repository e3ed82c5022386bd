"""A process that dies again and again: who did it is found by running one at a time.

A task whose tool segfaults takes the whole process with it, and every other task that
was active looks just as guilty. After two such ends without progress anywhere, and
where a task has been there at as many as would park it without getting further itself,
what was interrupted is recovered one by one until a task gets further. Only whoever is
alone when the process dies takes a strike, and is parked at the limit of crash loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events import ProgressSeen, QueueReopened
from .queue import QueueState

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["ENDS_IN_VAIN", "Isolation", "suspects"]

ENDS_IN_VAIN = 2  # of processes in a row; then one task at a time


def suspects(state: QueueState, held: frozenset[str]) -> list[str]:
    """Who is still to be recovered after the last process end, the likeliest first.

    That is who was there at most of the ends; equals in order of submission. Who is to
    end, and waits for sub-tasks that are suspects too, comes after them. `held` are
    left alone.
    """
    running = set(state.running())
    names = [
        name for name in state.active() if name not in running and name not in held
    ]
    parents = {state.tasks[name].parent for name in names}

    def rank(name: str) -> tuple[bool, int, int]:
        place = state.tasks[name]
        waits = place.ending and name in parents
        return waits, -place.deaths, place.place

    return sorted(names, key=rank)


class Isolation:
    """Admission's part for process ends. It is on until a task gets further or ends.

    Meanwhile nobody else is activated, not from the queue either.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def opened(self) -> None:
        """Write down, once a process, whom the end of the one before interrupted."""
        state = self._admission.state
        interrupted = tuple(state.running())
        if not interrupted and not state.unclean:
            return
        limit = self._admission.house.baseline.park_without_progress
        loops = [name for name in interrupted if state.tasks[name].deaths + 1 >= limit]
        alone = bool(loops) or (bool(interrupted) and state.unclean + 1 >= ENDS_IN_VAIN)
        self._admission.append(QueueReopened(interrupted=interrupted, alone=alone))

    @property
    def on(self) -> bool:
        """Whether tasks are recovered one at a time now."""
        state = self._admission.state
        return state.alone and bool(state.running() or self._suspects())

    def ran(self, task: str) -> bool:
        """Whether the task was activated in this process."""
        state = self._admission.state
        return state.tasks[task].opening == state.openings

    def struck(self, task: str) -> bool:
        """Whether the recovery that is about to begin counts against the task.

        What ended within this process was the task's own.
        """
        return self.ran(task) or self._admission.state.tasks[task].struck

    def progressed(self, task: str) -> None:
        """A recovered task got further: write it down where a process died under it."""
        place = self._admission.state.tasks.get(task)
        if place is not None and place.deaths:
            self._admission.append(ProgressSeen(task=task))

    def go_on(self) -> bool:
        """Recover the next, or all who wait here; True while the others must wait."""
        activation, state = self._admission.activation, self._admission.state
        if not self.on:
            if activation.idle:
                for task in state.active():
                    if task in activation.idle and task not in self._admission.held:
                        activation.activate(task)
            return False
        if not activation.starting and not state.running():
            first = self._suspects()[0]
            if first in activation.idle:  # else its `Down` is still to come
                activation.activate(first)
        for task in self._awaited():
            if task not in activation.starting:
                activation.activate(task)
        return True

    def _awaited(self) -> list[str]:
        """The queued sub-tasks without whose end a running task cannot end."""
        state = self._admission.state
        ending = {name for name in state.running() if state.tasks[name].ending}
        return [
            name
            for name, one in state.tasks.items()
            if one.where == "queued" and one.parent in ending
        ]

    def _suspects(self) -> list[str]:
        return suspects(self._admission.state, frozenset(self._admission.held))
