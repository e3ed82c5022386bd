"""The front desk: an actor that tells threads outside how the tree is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .actors.names import ADMISSION, ROOT
from .supervision.actor import Actor
from .supervision.dispatch import Dispatcher
from .supervision.lifecycle import Crash, Down, NotRunning, Up
from .supervision.promise import Promise

__all__ = ["FrontDesk", "Openings"]

FRONT = "front"


class Openings:
    """Promises of threads that wait for admission to be up; safe from any thread."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._up = False
        self._over: BaseException | None = None
        self._waiting: list[Promise] = []

    @property
    def is_up(self) -> bool:
        """Whether admission is up, and the runtime not at its end."""
        return self._up and self._over is None

    def wait_for(self) -> Promise:
        """A promise that is kept once admission is up, at once if it is."""
        promise = Promise(self._dispatcher)
        with self._lock:
            over = self._over
            if over is None and not self._up:
                self._waiting.append(promise)
                return promise
        if over is not None:
            promise.fail(over)
        else:
            promise.set(None)
        return promise

    def set(self, up: bool) -> None:
        """Admission came up, or went down."""
        with self._lock:
            self._up = up
            waiting: list[Promise] = []
            if up:
                waiting, self._waiting = self._waiting, []
        for promise in waiting:
            promise.set(None)

    def fail(self, error: BaseException) -> None:
        """Nothing will come up any more."""
        with self._lock:
            self._over = error
            waiting, self._waiting = self._waiting, []
        for promise in waiting:
            promise.fail(error)


class FrontDesk(Actor):
    """Watches admission and root; outside the tree, so that it sees the tree's end.

    Args:
        openings: told of admission.
        root: makes the tree; started from here, so that no `Up` is missed.
        failed: called once root has given up, with its reason as text.
    """

    def __init__(
        self,
        openings: Openings,
        root: Callable[[], Actor],
        failed: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._openings = openings
        self._root = root
        self._failed = failed
        self._newest = 0  # incarnation of admission

    def started(self) -> None:
        """Begin to watch, then start the tree."""
        self.monitor(self.system.address(ROOT))
        self.monitor(self.system.address(ADMISSION))
        self.system.spawn(ROOT, self._root)

    def receive(self, message: Any) -> None:
        """Pass on what is heard."""
        match message:
            case Up(name=name, incarnation=number) if name == ADMISSION:
                self._newest = number
                self._openings.set(True)
            case Down(name=name, incarnation=number) if name == ADMISSION:
                if number >= self._newest:  # not of one before, heard late
                    self._openings.set(False)
            case Down(name=name, reason=reason) if name == ROOT:
                if isinstance(reason, Crash):
                    self._failed(reason.error)
                elif not isinstance(reason, NotRunning):
                    self._openings.set(False)
