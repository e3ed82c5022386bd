"""Where resting tasks stand: a row each, and nothing in memory.

    it rests -> its place becomes a row, in that transaction, and leaves the state
    something comes -> the row is read with what it is about -> recalled, row and all

Rows are read behind the appends before, and what was written since stands here until
it is sure to be read: whoever looks finds the newest place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ..events import Event, TaskQueued, TaskRecalled
from ..names import LACKING, PLACES
from ..written import Written
from .place import Place
from .queue import MOVES, apply, placed

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Resting", "all_places", "lacking", "places_of"]


class Resting:
    """Admission's part for tasks that rest; the only one who writes these rows."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._written = Written[Place](admission)
        self._found: dict[str, Place] = {}  # by the read that is being heard

    def place(self, task: str) -> Place | None:
        """Where a task rests, if the read that is being heard was about it."""
        return self._written.newest(task, self._found.get(task))

    @contextmanager
    def found(self, places: dict[str, Place]) -> Iterator[None]:
        """A read is being heard, that found these places."""
        self._found = places
        try:
            yield
        finally:
            self._found = {}

    def complete(
        self, events: Sequence[Event]
    ) -> tuple[list[Event], list[Row], dict[str, Place | None]]:
        """These events, with what rests taken into account.

        Each task that rests is recalled before its own event. Returned with the events
        are the rows of who rests after them and of who does so no longer, and both by
        task, for `keep`.
        """
        state = self._admission.state
        all_: list[Event] = []
        rests: dict[str, Place | None] = {}
        rows: dict[str, list[Row]] = {}

        def recalled(event: TaskRecalled) -> None:
            rests[event.task] = None
            rows[event.task] = _rows(event.task, event.place, rests=False)

        for event in events:
            if isinstance(event, MOVES) and event.task not in state.tasks:
                place = rests.get(event.task) or self.place(event.task)
                if place is not None:
                    recall = TaskRecalled(task=event.task, place=place)
                    all_.append(recall)
                    state = apply(state, recall)
                    recalled(recall)
            all_.append(event)
            if isinstance(event, TaskRecalled):
                recalled(event)
            elif isinstance(event, (*MOVES, TaskQueued)):
                place = placed(state, event)
                if place.rests:
                    rests[event.task] = place
                    rows[event.task] = _rows(event.task, place, rests=True)
            if event is not events[-1]:
                state = apply(state, event)
        return all_, [row for some in rows.values() for row in some], rests

    def keep(self, rests: dict[str, Place | None]) -> None:
        """They are appended: whoever looks from now on finds them."""
        self._written.keep(rests)


def _rows(task: str, place: Place, *, rests: bool) -> list[Row]:
    value = msgspec.json.encode(place) if rests else None
    rows = [Row(space=PLACES, key=task, value=value)]
    if place.lacks_agent or place.unfit:
        named = task.encode() if rests else None
        rows.append(Row(space=LACKING, key=f"{place.agent}/{task}", value=named))
    return rows


def places_of(reader: Reader, tasks: Iterable[str]) -> dict[str, Place]:
    """Where each of these tasks rests; who does not is left out."""
    found = {task: reader.row(PLACES, task) for task in tasks}
    return {
        task: msgspec.json.decode(value, type=Place)
        for task, value in found.items()
        if value is not None
    }


def all_places(reader: Reader) -> dict[str, Place]:
    """Where every resting task rests: for who shows them all, and for no start."""
    return {
        row.key: msgspec.json.decode(row.value or b"", type=Place)
        for row in reader.rows(PLACES)
    }


def lacking(reader: Reader, agents: Iterable[str]) -> dict[str, Place]:
    """The parked tasks of these agents that lacked them, or other code, by id."""
    known = set(agents)
    tasks = {
        (row.value or b"").decode()
        for agent in known
        for row in reader.rows(LACKING, f"{agent}/")
    }
    found = places_of(reader, sorted(tasks))
    return {task: place for task, place in found.items() if place.agent in known}
