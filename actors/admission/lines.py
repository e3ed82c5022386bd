"""Who waits for a slot, in lines, and whose turn it is; kept up place by place.

What would else be looked for among all tasks, at every message, stands here: it costs
what changes, however many are queued.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from .place import Place
from .queue import Rounds

__all__ = ["Lines", "due"]

Key: TypeAlias = tuple[int, str]  # the priority, less is sooner, and the group
Waiting: TypeAlias = tuple[int, str]  # its place, and the task


class Lines:
    """The tasks of a queue's state, by where they stand.

    Those of one priority and group are a line, the oldest first.
    """

    def __init__(self, tasks: Mapping[str, Place]) -> None:
        self.active: set[str] = set()
        self.queued: dict[str, Place] = {}
        self.lines: dict[Key, list[Waiting]] = {}
        self._places: dict[str, Place] = {}
        self._ending: dict[str, None] = {}
        self._parts: dict[str, set[str]] = {}  # the sub-tasks of each
        self._keys: dict[str, str] = {}
        for task, place in tasks.items():
            self.put(task, place)

    def put(self, task: str, place: Place | None) -> None:
        """A task stands there now; None where it rests or has left."""
        old = self._places.pop(task, None)
        if old is not None:
            self._take_out(task, old)
        if place is None:
            return
        self._places[task] = place
        if place.where == "active":
            self.active.add(task)
        elif place.where == "queued":
            self.queued[task] = place
            line = self.lines.setdefault(_line_of(place), [])
            insort(line, (place.place, task))
        if place.ending:
            self._ending[task] = None
        if place.parent:
            self._parts.setdefault(place.parent, set()).add(task)
        if place.key is not None:
            self._keys[place.key] = task

    def _take_out(self, task: str, old: Place) -> None:
        self.active.discard(task)
        if self.queued.pop(task, None) is not None:
            key = _line_of(old)
            line = self.lines[key]
            del line[bisect_left(line, (old.place, task))]
            if not line:
                del self.lines[key]
        self._ending.pop(task, None)
        if old.parent:
            parts = self._parts[old.parent]
            parts.discard(task)
            if not parts:
                del self._parts[old.parent]
        if old.key is not None and self._keys.get(old.key) == task:
            del self._keys[old.key]

    def with_key(self, key: str) -> str | None:
        """The unfinished task that was submitted with `key`, unless it rests."""
        return self._keys.get(key)

    def winding_up(self) -> list[str]:
        """The queued tasks that are only to end, in order of submission.

        A cancelled task is one; so is a sub-task of one that waits for its end with a
        slot in hand.
        """
        if not self._ending:
            return []
        found: set[str] = set()
        for task in self._ending:
            if task in self.active:
                found |= self._parts.get(task, set())
            else:
                found.add(task)
        places = [
            (self.queued[task].place, task) for task in found & self.queued.keys()
        ]
        return [task for _, task in sorted(places)]


def _line_of(place: Place) -> Key:
    return -place.priority, place.group


def due(
    lines: Lines,
    rounds: Mapping[int, Rounds],
    *,
    slots: int,
    held: AbstractSet[str],
    now: float,
    ripe: AbstractSet[str] = frozenset(),
    starting: AbstractSet[str] = frozenset(),
) -> list[str]:
    """The tasks to activate now: by priority, group by group, in order of submission.

    Of groups that wait with the same priority, each gets a slot in turn: a thousand
    tasks do not keep one of another group waiting. A task that only winds up needs no
    free slot and takes nobody's turn. `held` are left alone, and those whose
    time has not come at second `now` since the epoch; that of the `ripe` ones has,
    whatever a clock that was set back says. `starting` were chosen before: they have
    their slots, and their groups have had these turns.
    """
    if not lines.queued:
        return []
    ending = lines.winding_up()
    chosen = [task for task in ending if task not in held and task not in starting]
    free = slots - len(lines.active)
    if held:
        free += len(lines.active & held)
    if free <= 0:
        return chosen
    first = (lines.queued.keys() & starting).difference(ending)
    free -= len(first)
    if free <= 0 or len(first) + len(ending) == len(lines.queued):
        return chosen  # nobody has room, or nobody waits
    passed = {*held, *starting, *ending}

    def waiting(line: list[Waiting]) -> Iterator[Waiting]:
        for one in line:
            task = one[1]
            if task not in passed:
                early = lines.queued[task].not_before
                if early <= now or task in ripe:
                    yield one

    turns = dict(rounds)
    before: dict[Key, list[Waiting]] = {}
    for task in first:
        place = lines.queued[task]
        insort(before.setdefault(_line_of(place), []), (place.place, task))
    _in_turn(before, turns, len(first))
    of_all = {key: waiting(line) for key, line in lines.lines.items()}
    return chosen + _in_turn(of_all, turns, free)


def _in_turn(
    lines: Mapping[Key, Iterable[Waiting]], rounds: dict[int, Rounds], most: int
) -> list[str]:
    """At most so many of the tasks, in the order of their turns; `rounds` go on."""
    rest = {key: iter(line) for key, line in lines.items()}
    heads = {key: head for key, line in rest.items() if (head := next(line, None))}

    def turn(key: Key) -> tuple[int, int, int]:
        back, group = key
        at = rounds.get(-back, Rounds())
        return back, at.of(group), heads[key][0]

    chosen: list[str] = []
    while heads and len(chosen) < most:
        key = min(heads, key=turn)
        chosen.append(heads[key][1])
        rounds[-key[0]] = rounds.get(-key[0], Rounds()).given(key[1])
        head = next(rest[key], None)
        if head is None:
            del heads[key]
        else:
            heads[key] = head
    return chosen
