"""One incarnation of an actor: its mailbox, its turns and its end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .actor import Actor
from .lifecycle import ActorStopped, Crash, Reason, Started, crash_of
from .turn import current

if TYPE_CHECKING:
    from .dispatch import Mailbox, Timer
    from .promise import Promise
    from .system import System

__all__ = ["Cell", "Later"]


class Later:
    """A message to come; the mailbox holds it as it is, so that cancel always works."""

    __slots__ = ("cancelled", "cell", "message", "timer")

    def __init__(self, cell: Cell, message: Any) -> None:
        self.cell = cell
        self.message = message
        self.cancelled = False
        self.timer: Timer | None = None

    def fire(self) -> None:
        """Put it into the mailbox; on the timers' thread."""
        if not self.cancelled:
            self.cell.post(self)

    def cancel(self) -> None:
        """Make sure that the message is not received any more."""
        self.cancelled = True
        self.cell.timers.pop(self, None)
        if self.timer is not None:
            self.timer.cancel()


class Cell:
    """Mailbox and state of one incarnation.

    `_scheduled` is a lock used as an atomic flag: who acquires it hands the cell to the
    dispatcher, and it stays held until the turn is over. `closed` is set before the
    mailbox is emptied, and read after a message is put in, so that each message is
    either received or counted, once.
    """

    __slots__ = (
        "__weakref__",
        "_claim",
        "_ending",
        "_factory",
        "_ready",
        "_schedule",
        "_scheduled",
        "_stops",
        "actor",
        "address",
        "children",
        "closed",
        "incarnation",
        "name",
        "parent",
        "promises",
        "queue",
        "system",
        "timers",
        "watching",
    )

    def __init__(
        self,
        system: System,
        name: str,
        incarnation: int,
        factory: Callable[[], Actor],
        parent: Cell | None,
    ) -> None:
        self.system = system
        self.name = name
        self.address = system.address(name)
        self.incarnation = incarnation
        self.parent = parent
        self.actor: Actor | None = None
        self.children: dict[str, Cell] = {}
        self.watching: dict[str, None] = {}
        self.promises: dict[Promise, None] = {}
        self.timers: dict[Later, None] = {}
        self.queue: Mailbox = system.dispatcher.mailbox()
        self.closed = False
        self._factory: Callable[[], Actor] | None = factory
        self._ready = False
        self._ending: Reason | None = None
        self._stops: deque[Reason] = deque()
        self._scheduled = threading.Lock()
        self._claim = self._scheduled.acquire
        self._schedule = system.dispatcher.schedule

    def __str__(self) -> str:
        return f"{self.name}#{self.incarnation}"

    def post(self, message: Any) -> bool:
        """Put a message in; False, and counted, if the incarnation has ended."""
        self.queue.append(message)
        if self.closed:
            self.drop_unread()
            return False
        if self._claim(False):
            self._schedule(self)
        return True

    def post_ask(self, message: Any, promise: Promise) -> None:
        """Put a message in whose promise fails when this incarnation ends."""
        promise.asked = self
        self.promises[promise] = None
        if promise.done:
            self.promises.pop(promise, None)
        if not self.post(message):
            promise.fail(ActorStopped(f"{self.name} is not running"))

    def wake(self) -> None:
        """Have a turn soon, whether or not there is a message."""
        if self._claim(False):
            self._schedule(self)

    def ask_to_stop(self, reason: Reason) -> None:
        """End soon, ahead of everything in the mailbox; from any thread."""
        self._stops.append(reason)
        self.wake()

    def end(self, reason: Reason) -> None:
        """End when the message in hand is done; in a turn of this cell."""
        if self._ending is None:
            self._ending = reason

    def after(self, delay: float, message: Any) -> Later:
        """Put `message` in after `delay` seconds, unless the incarnation has ended."""
        later = Later(self, message)
        if self.closed:
            later.cancelled = True
            return later
        self.timers[later] = None
        later.timer = self.system.dispatcher.call_later(delay, later.fire)
        return later

    def run(self, limit: int) -> bool:
        """Take a turn of up to `limit` messages; True if another must follow.

        Called by the dispatcher with the flag held; never raises.
        """
        current.cell = self
        try:
            self._turn(limit)
        except BaseException as error:
            self.system.exit(self, crash_of(error))
        finally:
            current.cell = None
        self._scheduled.release()
        if self.closed or not (self.queue or self._stops):
            return False
        return self._claim(False)

    def _turn(self, limit: int) -> None:
        if self._factory is not None and not self._begin():
            return
        actor = self.actor
        if actor is None or self.closed:
            return
        take, receive = self.queue.popleft, actor.receive
        while not self.closed:
            if self._stops:
                actor.asked_to_stop(self._stops.popleft())
            if self._ending is not None:
                actor.stopped()
                self.system.exit(self, self._ending)
                return
            if not limit:
                return
            limit -= 1
            try:
                message = take()
            except IndexError:
                return
            if self.closed:
                # It ended since the last look, and what stood before this message
                # is dropped: it goes the same way, so that no order is broken.
                self.queue.append(message)
                self.drop_unread()
                return
            if type(message) is Later:
                self.timers.pop(message, None)
                if message.cancelled:
                    continue
                message = message.message
            receive(message)

    def _begin(self) -> bool:
        factory, self._factory = self._factory, None
        if self.closed:
            return False
        if self._stops:
            self.system.exit(self, self._stops[0])
            return False
        assert factory is not None
        actor = factory()
        if not isinstance(actor, Actor):
            msg = f"the factory of {self.name} made {actor!r}: return an Actor"
            raise TypeError(msg)
        actor.bind(self)
        self.actor = actor
        actor.started()
        if actor.ready_when_started:
            self.ready()
        return True

    def ready(self) -> None:
        """Tell supervisor and monitors that this incarnation is up, once."""
        if self._ready or self.closed:
            return
        self._ready = True
        system = self.system
        system.log("actor.started", name=self.name, incarnation=self.incarnation)
        if self.parent is not None and not self.parent.closed:
            self.parent.post(Started(child=self.name, incarnation=self.incarnation))
        system.announce(self)

    def release(self, reason: Reason) -> None:
        """Let go of everything after the end: timers, mailbox, open asks."""
        for later in list(self.timers):
            later.cancel()
        if self.actor is not None:
            self.actor.actor_stopped.set()
        self.actor = self._factory = None
        self.drop_unread()
        if self.promises:
            how = reason.error if isinstance(reason, Crash) else "it stopped"
            for promise in list(self.promises):
                promise.fail(ActorStopped(f"{self.name} did not answer: {how}"))

    def drop_unread(self) -> None:
        """Empty the mailbox of an ended incarnation; count and log what was left."""
        count = 0
        while True:
            try:
                message = self.queue.popleft()
            except IndexError:
                break
            count += type(message) is not Later
        if count:
            self.system.count_dead_letters(count)
            self.system.log(
                "mailbox.dropped",
                name=self.name,
                incarnation=self.incarnation,
                count=count,
            )
