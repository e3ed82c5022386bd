"""The queue as admission keeps it: who rests is put aside, and recalled before use."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.actors.admission import lines
from perdure.actors.admission.lines import Lines
from perdure.actors.admission.place import Place
from perdure.actors.admission.queue import MOVES, QueueState, apply, placed
from perdure.actors.events import Event, TaskQueued, TaskRecalled

__all__ = ["Line", "due"]


def due(state: QueueState, **options: Any) -> list[str]:
    """Whose turn it is in a queue, looked at as a whole."""
    return lines.due(Lines(state.tasks), state.rounds, **options)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and the places beside it."""

    state: QueueState = QueueState()
    rests: dict[str, Place] = msgspec.field(default_factory=dict)

    def after(self, *events: Event) -> Line:
        """The line once these events were folded."""
        line = self
        for event in events:
            line = line._after(event)
        return line

    def place(self, task: str) -> Place:
        """Where a task stands."""
        return self.state.tasks.get(task) or self.rests[task]

    @property
    def places(self) -> dict[str, Place]:
        """Where all of them stand, in the order of their submission."""
        both = {**self.state.tasks, **self.rests}
        return dict(sorted(both.items(), key=lambda one: one[1].place))

    def _after(self, event: Event) -> Line:
        state, rests = self.state, dict(self.rests)
        if isinstance(event, MOVES) and event.task in rests:
            recalled = TaskRecalled(task=event.task, place=rests.pop(event.task))
            state = apply(state, recalled)
        if isinstance(event, (*MOVES, TaskQueued)):
            place = placed(state, event)
            if place.rests:
                rests[event.task] = place
        return Line(state=apply(state, event), rests=rests)
