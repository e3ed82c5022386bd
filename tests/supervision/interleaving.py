"""Runs the product's own mailbox, stop and address in every order of their accesses.

Each logical thread is a real one, but only the one that holds the baton runs. Before
each access to something shared (a mailbox, a flag, a lock, the table of names) it asks
the `Explorer` who goes on. All orders with at most so many preemptions are tried, depth
first: a switch away from a thread that could have gone on is one, a switch away from
one that waits or has ended is free.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any
from unittest import mock

from perdure.supervision import Promise
from perdure.supervision import address as address_module
from perdure.supervision import cell as cell_module
from perdure.supervision import idle as idle_module
from perdure.supervision import pool as pool_module
from perdure.supervision import system as system_module
from perdure.supervision.cell import Cell

__all__ = [
    "Explorer",
    "WatchedCell",
    "WatchedDeque",
    "WatchedDict",
    "WatchedList",
    "WatchedLock",
    "access",
    "explore",
]

STEPS = 2_000  # accesses of one run; more means that it spins
PATIENCE = 30.0  # seconds; only a broken explorer waits that long


class Stuck(Exception):
    """A run took too many steps."""


class _Over(BaseException):
    """The run is over: ends a thread that waits."""


class _Thread:
    def __init__(
        self, explorer: Explorer, number: int, body: Callable[[], None]
    ) -> None:
        self.number = number
        self.baton = threading.Semaphore(0)
        self.waits: Callable[[], bool] | None = None  # until this holds
        self.ended = False
        self._explorer = explorer
        self._body = body
        self.real = threading.Thread(target=self._run, daemon=True)

    @property
    def enabled(self) -> bool:
        return not self.ended and (self.waits is None or self.waits())

    def _run(self) -> None:
        here.thread = self
        self.baton.acquire()
        try:
            if not self._explorer.over:
                self._body()
        except _Over:
            pass
        except BaseException as error:
            self._explorer.errors.append(error)
        self.ended = True
        self._explorer.hand_over()


class _Here(threading.local):
    thread: _Thread | None = None


here = _Here()
explorer: Explorer | None = None


class Explorer:
    """One run: follows `prefix`, then goes on without preemptions, and notes it all."""

    def __init__(self, prefix: tuple[int, ...] = ()) -> None:
        self.prefix = prefix
        self.choices: list[int] = []
        self.enabled: list[tuple[int, ...]] = []
        self.before: list[int] = []  # who had the baton
        self.errors: list[BaseException] = []
        self.over = False
        self._threads: list[_Thread] = []
        self._done = threading.Event()

    def run(self, *bodies: Callable[[], None]) -> None:
        """Run the bodies until none can go on."""
        self._threads = [
            _Thread(self, number, body) for number, body in enumerate(bodies)
        ]
        for thread in self._threads:
            thread.real.start()
        self._pass_on(self._choose(-1))
        assert self._done.wait(PATIENCE)

    def end(self) -> None:
        """End the threads that still wait."""
        self.over = True
        for thread in self._threads:
            thread.baton.release()
            thread.real.join(PATIENCE)
        if self.errors:
            raise self.errors[0]

    def access(self) -> None:
        """Before an access to something shared: whose turn is it?"""
        thread = here.thread
        if thread is None or self.over:
            return
        chosen = self._choose(thread.number)
        if chosen != thread.number:
            self._pass_on(chosen)
            self._take(thread)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Go on once `holds()`; nothing runs between that and what follows."""
        thread = here.thread
        assert thread is not None
        while not holds():
            if self.over:
                raise _Over
            thread.waits = holds
            self._pass_on(self._choose(thread.number))
            self._take(thread)
            thread.waits = None

    def hand_over(self) -> None:
        """A thread has ended."""
        if not self.over:
            self._pass_on(self._choose(-1))

    def _take(self, thread: _Thread) -> None:
        thread.baton.acquire()
        if self.over:
            raise _Over

    def _choose(self, last: int) -> int | None:
        enabled = tuple(one.number for one in self._threads if one.enabled)
        if not enabled:
            return None
        if len(self.choices) > STEPS:
            self.errors.append(Stuck(f"no end after {STEPS} accesses"))
            return None
        if len(enabled) == 1:
            return enabled[0]
        place = len(self.choices)
        if place < len(self.prefix):
            chosen = self.prefix[place]
        else:
            chosen = last if last in enabled else enabled[0]
        self.choices.append(chosen)
        self.enabled.append(enabled)
        self.before.append(last)
        return chosen

    def _pass_on(self, chosen: int | None) -> None:
        if chosen is None:
            self._done.set()
        else:
            self._threads[chosen].baton.release()

    def preemptions(self, places: int) -> int:
        """How many of the first choices took the baton from one that could go on."""
        return sum(
            self.before[place] in self.enabled[place]
            and self.choices[place] != self.before[place]
            for place in range(places)
        )

    def branches(self, bound: int) -> list[tuple[int, ...]]:
        """The prefixes of other runs, that differ first behind this one's prefix."""
        found: list[tuple[int, ...]] = []
        for place in range(len(self.prefix), len(self.choices)):
            spent = self.preemptions(place)
            for other in self.enabled[place]:
                cost = self.before[place] in self.enabled[place]
                if other != self.choices[place] and spent + cost <= bound:
                    found.append((*self.choices[:place], other))
        return found


def explore(scenario: Callable[[Explorer], None], bound: int) -> int:
    """Run a scenario in all orders of at most `bound` preemptions; how many there are.

    What the scenario raises gets the schedule that led to it as a note.
    """
    global explorer
    todo: list[tuple[int, ...]] = [()]
    runs = 0
    with instrumented():
        while todo:
            explorer = Explorer(todo.pop())
            try:
                scenario(explorer)
            except BaseException as error:
                error.add_note(f"in run {runs} with the choices {explorer.choices}")
                raise
            finally:
                one, explorer = explorer, None
            runs += 1
            todo.extend(one.branches(bound))
    return runs


def access() -> None:
    if explorer is not None:
        explorer.access()


# ── what is shared, instrumented ─────────────────────────────────────────────────


class WatchedDeque(deque[Any]):
    """A deque whose every use is an access."""

    def append(self, item: Any, /) -> None:
        access()
        super().append(item)

    def popleft(self) -> Any:
        access()
        return super().popleft()

    def __len__(self) -> int:
        access()
        return super().__len__()

    def __bool__(self) -> bool:
        access()
        return super().__len__() > 0


class WatchedList(list[Any]):
    """A list whose every use is an access."""

    def append(self, item: Any, /) -> None:
        access()
        super().append(item)

    def pop(self, *where: Any) -> Any:
        access()
        return super().pop(*where)

    def remove(self, item: Any, /) -> None:
        access()
        super().remove(item)

    def __len__(self) -> int:
        access()
        return super().__len__()

    def __bool__(self) -> bool:
        access()
        return super().__len__() > 0


class WatchedDict(dict[Any, Any]):
    """A dict whose every use is an access."""

    def get(self, *key: Any) -> Any:
        access()
        return super().get(*key)

    def pop(self, *key: Any) -> Any:
        access()
        return super().pop(*key)

    def __setitem__(self, key: Any, value: Any) -> None:
        access()
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        access()
        super().__delitem__(key)

    def __contains__(self, key: Any) -> bool:
        access()
        return super().__contains__(key)


class WatchedLock:
    """A lock, or one that its owner may take again, whose every use is an access."""

    def __init__(self, *, again: bool = False) -> None:
        self._again = again
        self._owner: Any = None
        self._depth = 0

    def _free(self) -> bool:
        mine = self._again and self._owner is here.thread
        return self._depth == 0 or mine

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        access()
        if not self._free():
            if not blocking:
                return False
            assert explorer is not None
            explorer.wait_until(self._free)
        self._owner = here.thread
        self._depth += 1
        return True

    def release(self) -> None:
        access()
        self._depth -= 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class WatchedCell(Cell):
    """The product's cell; its lock and deques are watched, and `closed` is too."""

    __slots__ = ()

    @property
    def closed(self) -> bool:  # type: ignore[override]
        access()
        found: bool = Cell.closed.__get__(self)  # type: ignore[attr-defined]
        return found

    @closed.setter
    def closed(self, value: bool) -> None:
        access()
        Cell.closed.__set__(self, value)  # type: ignore[attr-defined]


class WatchedPromise(Promise):
    """The product's promise; whether it is done is an access."""

    @property
    def done(self) -> bool:
        access()
        return super().done


@contextmanager
def instrumented() -> Any:
    """What the rooms' modules make their locks, deques, cells and promises of."""
    fake = mock.Mock(wraps=threading)
    fake.Lock = WatchedLock
    fake.RLock = lambda: WatchedLock(again=True)
    with (
        mock.patch.object(cell_module, "threading", fake),
        mock.patch.object(cell_module, "deque", WatchedDeque),
        mock.patch.object(system_module, "threading", fake),
        mock.patch.object(pool_module, "deque", WatchedDeque),
        mock.patch.object(idle_module, "threading", fake),
        mock.patch.object(address_module, "Promise", WatchedPromise),
    ):
        yield
