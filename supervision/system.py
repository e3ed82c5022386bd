"""Who is running under which name."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .actor import Actor
from .address import Address
from .cell import Cell
from .dispatch import Dispatcher
from .lifecycle import (
    SHUTDOWN,
    ActorStopped,
    Crash,
    Down,
    Exited,
    Normal,
    NotRunning,
    Reason,
    Shutdown,
    Up,
)
from .promise import Promise
from .turn import current

__all__ = ["System"]


class System:
    """Names, each with its current incarnation, on one dispatcher.

    `log(event, **fields)` gets the events of `perdure.supervision.events`; what it
    raises is swallowed. A supervisor that ends takes its children along. In a forked
    child every name is dead.
    """

    def __init__(self, dispatcher: Dispatcher, log: Callable[..., None]) -> None:
        self.dispatcher = dispatcher
        self.clock = dispatcher.clock
        self._log = log
        self._lock = threading.RLock()
        self._cells: dict[str, Cell] = {}
        self._monitors: dict[str, dict[Cell, None]] = {}
        self._joins: dict[str, list[Promise]] = {}
        self._newest = 0  # incarnation; each is one more than the one before
        self._dead_letters = 0
        dispatcher.log = self.log
        _systems.add(self)

    @property
    def dead_letters(self) -> int:
        """Messages that no incarnation has read or will read."""
        return self._dead_letters

    def log(self, event: str, **fields: Any) -> None:
        """Log one event; never raises, so that a bad sink stops no actor."""
        with suppress(BaseException):
            self._log(event, **fields)

    def address(self, name: str) -> Address:
        """The address of a name, whether or not anyone bears it yet."""
        return Address(self, name, self._cells)

    def spawn(
        self,
        name: str,
        factory: Callable[[], Actor],
        supervisor: Address | None = None,
    ) -> Address:
        """Start an actor under `name` and return at once.

        The instance is made and `started` in its own first turn: what either raises is
        a crash of the new incarnation. `supervisor` gets `Started` and `Exited`.

        Raises ValueError if the name is taken, ActorStopped if the supervisor, or the
        actor in whose turn this is called, has ended.
        """
        caller = current.cell
        with self._lock:
            parent = None
            if supervisor is not None:
                parent = self._cells.get(supervisor.name)
                if parent is None:
                    msg = f"spawn({name!r}): {supervisor.name} is not running"
                    raise ActorStopped(msg)
            if caller is not None and caller.closed:
                msg = f"spawn({name!r}): {caller} was ended during this turn"
                raise ActorStopped(msg)
            if name in self._cells:
                msg = f"spawn({name!r}): {self._cells[name]} is running; stop it first"
                raise ValueError(msg)
            self._newest += 1
            cell = Cell(self, name, self._newest, factory, parent)
            self._cells[name] = cell
            if parent is not None:
                parent.children[name] = cell
        cell.wake()
        return self.address(name)

    @property
    def newest(self) -> int:
        """The incarnation that was started last, of whatever name."""
        return self._newest

    def is_running(self, name: str) -> bool:
        """Whether an incarnation of the name is starting or up."""
        return name in self._cells

    def stop(self, name: str, reason: Reason = SHUTDOWN) -> bool:
        """Ask the current incarnation to end ahead of its mailbox; False if none."""
        cell = self._cells.get(name)
        if cell is None:
            return False
        cell.ask_to_stop(reason)
        return True

    def kill(self, name: str, reason: Crash) -> bool:
        """End the current incarnation here and now; False if none.

        A turn in progress elsewhere cannot be interrupted: it runs out on an instance
        that gets no more messages, and whose end nobody hears a second time.
        """
        cell = self._cells.get(name)
        return cell is not None and self.exit(cell, reason)

    def join(self, name: str, timeout: float) -> bool:
        """Wait, on a thread outside, until the name has no incarnation.

        False after `timeout` seconds. A supervisor may start the next one meanwhile.
        """
        promise = Promise(self.dispatcher)
        with self._lock:
            if name not in self._cells:
                return True
            self._joins.setdefault(name, []).append(promise)
        try:
            promise.result(timeout)
        except TimeoutError:
            return False
        return True

    def monitor(self, watcher: Cell, name: str, *, absent: bool = True) -> None:
        """Have `watcher` hear `Down` and `Up` of the name; of who is absent at once."""
        with self._lock:
            if watcher.closed:
                return
            watcher.watching[name] = None
            self._monitors.setdefault(name, {})[watcher] = None
            if absent and name not in self._cells:
                watcher.post(Down(name=name, incarnation=0, reason=NotRunning()))

    def demonitor(self, watcher: Cell, name: str) -> None:
        """Have `watcher` hear nothing more of the name."""
        with self._lock:
            watcher.watching.pop(name, None)
            self._forget(watcher, name)

    def _forget(self, watcher: Cell, name: str) -> None:
        watchers = self._monitors.get(name)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._monitors[name]

    def announce(self, cell: Cell) -> None:
        """Tell the monitors that `cell` is up."""
        with self._lock:
            if not cell.closed:
                self._notify(Up(name=cell.name, incarnation=cell.incarnation))

    def _notify(self, notice: Up | Down) -> None:
        # With the lock held that guards who is running: what a monitor hears is never
        # older than what it heard before.
        for watcher in list(self._monitors.get(notice.name, ())):
            watcher.post(notice)

    def exit(self, cell: Cell, reason: Reason) -> bool:
        """End an incarnation and tell who must know; False if it had ended before."""
        caller, current.cell = current.cell, cell
        try:
            with self._lock:
                if self._cells.get(cell.name) is not cell:
                    return False
                del self._cells[cell.name]
                cell.closed = True
                for name in cell.watching:
                    self._forget(cell, name)
                cell.watching.clear()
                children = list(cell.children.values())
                if cell.parent is not None:
                    cell.parent.children.pop(cell.name, None)
                joins = self._joins.pop(cell.name, [])
                self._notify(
                    Down(name=cell.name, incarnation=cell.incarnation, reason=reason)
                )
            self._log_exit(cell, reason)
            for child in reversed(children):
                self.exit(child, Crash(error=f"its supervisor {cell} ended"))
            cell.release(reason)
            if cell.parent is not None and not cell.parent.closed:
                cell.parent.post(
                    Exited(child=cell.name, incarnation=cell.incarnation, reason=reason)
                )
            for promise in joins:
                promise.set()
        finally:
            current.cell = caller
        return True

    def _log_exit(self, cell: Cell, reason: Reason) -> None:
        match reason:
            case Crash(error=error, traceback=traceback):
                self.log(
                    "actor.crashed",
                    name=cell.name,
                    incarnation=cell.incarnation,
                    error=error,
                    traceback=traceback,
                )
            case Normal() | Shutdown() | NotRunning():
                tag = "normal" if isinstance(reason, Normal) else "shutdown"
                self.log(
                    "actor.stopped",
                    name=cell.name,
                    incarnation=cell.incarnation,
                    reason=tag,
                    detail=getattr(reason, "detail", ""),
                )

    def count_dead_letters(self, count: int) -> None:
        """Count messages that nobody reads."""
        with self._lock:
            self._dead_letters += count

    def leave_to_parent(self) -> None:
        """After a fork, in the child: the actors are the parent's alone."""
        self._lock = threading.RLock()
        self._cells.clear()
        self._monitors.clear()


_systems: weakref.WeakSet[System] = weakref.WeakSet()


def _after_fork() -> None:
    for system in list(_systems):
        system.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
