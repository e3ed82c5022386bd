"""Who follows which task in this process: woken by flushes, told what models say."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from typing import TypeAlias

from .actors.events import task_of
from .actors.speech import Piece
from .storage.records import Record
from .supervision.dispatch import Dispatcher
from .supervision.promise import Promise

__all__ = ["Attempt", "Watch", "Watchers"]

HEARD_LIMIT = 65_536  # characters of pieces that a watcher may be behind
Attempt: TypeAlias = tuple[str, int, int]  # task, op, attempt


class Watchers:
    """All watches of a runtime. It keeps none alive: one that is let go of is gone."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._keys = itertools.count()
        self._lock = threading.Lock()
        # Not a WeakSet: while one thread goes through it, the end of a watch on
        # another may change its size.
        self._all: dict[int, weakref.ref[Watch]] = {}
        self._over: BaseException | None = None

    def watch(self, task: str, *, subtasks: bool, partial: bool) -> Watch:
        """Begin to watch a task; with `partial`, hear what its models say."""
        key = next(self._keys)
        watch = Watch(key, task, subtasks, partial)
        self._all[key] = weakref.ref(watch, lambda _: self._all.pop(key, None))
        return watch

    @property
    def alive(self) -> list[Watch]:
        """The watches that somebody still holds."""
        found = [one() for one in list(self._all.values())]
        return [watch for watch in found if watch is not None]

    def flushed(self, records: Sequence[Record]) -> None:
        """These records can be read now."""
        if self._all:
            self.news({task_of(record.stream) for record in records})

    def news(self, tasks: Collection[str]) -> None:
        """Something has come of these tasks that their watchers should read."""
        with self._lock:
            woken = [one for one in self.alive if one.concerns(tasks)]
            promises = [one.take_promise(due=True) for one in woken]
        _keep(promises)

    def say(self, piece: Piece) -> None:
        """A model has said something; nobody waits for those who do not listen."""
        if not self._all:
            return
        with self._lock:
            woken = [
                one for one in self.alive if one.partial and one.concerns({piece.task})
            ]
            for one in woken:
                one.hear(piece)
            promises = [one.take_promise(due=False) for one in woken]
        _keep(promises)

    def fail(self, error: BaseException) -> None:
        """Nothing will come any more: the runtime has ended."""
        with self._lock:
            self._over = error
            promises = [one.take_promise(due=False) for one in self.alive]
        for promise in promises:
            if promise is not None:
                promise.fail(error)

    def promise_of(self, watch: Watch) -> Promise | None:
        """A promise of news, None where there are some.

        Raises what `fail` was given where none can come.
        """
        with self._lock:
            if watch.has_news:
                return None
            if self._over is not None:
                raise self._over
            return watch.give_promise(Promise(self._dispatcher))

    def begin(self, watch: Watch) -> tuple[bool, int]:
        """Whether records are due, and how many pieces were heard before that."""
        with self._lock:
            return watch.begin()

    def pull(
        self, watch: Watch, recorded: Collection[Attempt], heard: int
    ) -> list[Piece]:
        """Take pieces: of attempts that are `recorded`, and the first `heard` ones."""
        with self._lock:
            return watch.pull(recorded, heard)

    def close(self, watch: Watch) -> None:
        """Nobody reads there any more; whoever waits is woken."""
        with self._lock:
            self._all.pop(watch.key, None)
            promise = watch.take_promise(due=True)  # who comes to wait sees it, too
        _keep([promise])


class Watch:
    """What one watcher has yet to read and hear; its methods hold the watchers' lock.

    Pieces beyond `HEARD_LIMIT` characters push out the oldest.
    """

    def __init__(self, key: int, task: str, subtasks: bool, partial: bool) -> None:
        self.key = key
        self.task = task
        self.partial = partial
        self._subtasks = subtasks
        self._due = True
        self._pieces: deque[tuple[int, Piece]] = deque()
        self._size = 0  # characters
        self._heard = 0
        self._promise: Promise | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is something to read or to hear."""
        return self._due or bool(self._pieces)

    def concerns(self, tasks: Collection[str]) -> bool:
        """Whether one of these is its task, or a sub-task that it follows."""
        if self.task in tasks:
            return True
        under = f"{self.task}."
        return self._subtasks and any(one.startswith(under) for one in tasks)

    def hear(self, piece: Piece) -> None:
        """Keep a piece until it is pulled, or pushed out."""
        self._heard += 1
        self._pieces.append((self._heard, piece))
        self._size += len(piece.text)
        while self._size > HEARD_LIMIT:
            self._size -= len(self._pieces.popleft()[1].text)

    def begin(self) -> tuple[bool, int]:
        """See `Watchers.begin`."""
        due, self._due = self._due, False
        return due, self._heard

    def pull(self, recorded: Collection[Attempt], heard: int) -> list[Piece]:
        """See `Watchers.pull`."""
        pulled: list[Piece] = []
        left: deque[tuple[int, Piece]] = deque()
        for number, piece in self._pieces:
            if number <= heard or (piece.task, piece.op, piece.attempt) in recorded:
                pulled.append(piece)
                self._size -= len(piece.text)
            else:
                left.append((number, piece))
        self._pieces = left
        return pulled

    def give_promise(self, promise: Promise) -> Promise:
        """Keep this one at the next news; it takes the place of the one before."""
        self._promise = promise
        return promise

    def take_promise(self, *, due: bool) -> Promise | None:
        """The promise that is to be kept now; `due` says that there are records."""
        self._due = self._due or due
        promise, self._promise = self._promise, None
        return promise


def _keep(promises: Sequence[Promise | None]) -> None:
    for promise in promises:
        if promise is not None:
            promise.set(None)
