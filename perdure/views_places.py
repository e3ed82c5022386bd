"""Where unfinished tasks stand: those at work by the queue, others by their rows.

Read before rows and streams: what those say is then not older.
"""

from __future__ import annotations

from .actors import names
from .actors.admission.place import Place
from .actors.admission.queue import QueueState, apply
from .actors.admission.resting import all_places, places_of
from .folds import fold
from .storage.reader import Reader

__all__ = ["place_of", "places"]


def places(reader: Reader) -> dict[str, Place]:
    """Where each unfinished task stands."""
    before = all_places(reader)  # and after: what was recalled, or rests since
    state = fold(reader, names.ADMISSION, QueueState(), apply)
    return {**before, **all_places(reader), **state.tasks}


def place_of(reader: Reader, task: str) -> Place | None:
    """Where one of them stands; None once it has ended."""
    before = places_of(reader, [task])
    state = fold(reader, names.ADMISSION, QueueState(), apply)
    return {**before, **places_of(reader, [task]), **state.tasks}.get(task)
