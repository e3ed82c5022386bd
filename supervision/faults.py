"""Named points in the code where a plan may break something.

Without a plan `hit` costs one look at a global, and so does a message. A plan is data:
a list of `Fault` goes through JSON, so that a parent process can hand one to the child
it watches; `seeded_faults` draws one from a seed.

`DELIVERY` is the point of messages: what an actor tells another one in its turn. It is
not among the places where a process may be killed: a message that was sent and not
received leaves on disk what it leaves when the kill falls a point earlier. So `hit`
does not count messages, `observe` does not see them, and only a fault that names the
point concerns them. Timers, `Started`, `Exited`, `Up` and `Down`, what an actor tells
itself, and what threads outside the actors tell, always arrive.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from .lifecycle import Crash
from .turn import current

if TYPE_CHECKING:
    from .cell import Cell

__all__ = [
    "DELIVERY",
    "Action",
    "Fault",
    "FaultPlan",
    "InjectedCrash",
    "InjectedFault",
    "hit",
    "install",
    "installed",
    "seeded_faults",
    "uninstall",
]

Action: TypeAlias = Literal[
    "kill", "crash", "raise", "delay", "drop", "duplicate", "reorder"
]
DELIVERY = "mailbox.deliver"
OF_MESSAGES: tuple[Action, ...] = ("delay", "drop", "duplicate", "reorder")
OF_CODE: tuple[Action, ...] = ("kill", "crash", "raise", "delay")
HELD_BACK = 1.0  # seconds a reordered message waits for another one at most
DELAYS = (0.01, 0.3, 3.0, 20.0)  # seconds, that a seed draws from


class InjectedFault(Exception):
    """A fault plan raised here on purpose."""


class InjectedCrash(BaseException):
    """A fault plan ended the actor in whose turn this was raised."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, fired once, at the `nth` hit that matches.

    `point` and `subject` match where they are equal or None; the subject of a message
    is its receiver's name. With `after`, hits are counted only once that point has
    been hit (its own hit is not counted). What happens then is the `action`:

    - ``kill``: SIGKILL to this process.
    - ``crash``: the actor whose turn it is ends there and then, whatever its code
      catches. Hits outside a turn (a writer, a tool's thread) are not counted: there
      is no actor to crash.
    - ``raise``: InjectedFault.
    - ``delay``: at a point, the thread stays there for `seconds`, as `FaultPlan` says;
      a message is put in so much later, and others overtake it.
    - ``drop``: the message is lost, and counted as a dead letter.
    - ``duplicate``: the message is put in twice.
    - ``reorder``: the message is put in behind the next one to the same incarnation,
      that of its own sender included; after 1 s without one, alone.

    A message reaches the incarnation it was sent to, or none.
    """

    point: str | None
    nth: int = 1
    action: Action
    subject: str | None = None
    after: str | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.nth < 1:
            msg = f"Fault.nth = {self.nth}: hits are counted from 1"
            raise ValueError(msg)
        actions = _actions_at(self.point)
        if self.action not in actions:
            msg = (
                f"Fault.action = {self.action!r} at {self.point}: give one of "
                f"{', '.join(actions)}"
            )
            raise ValueError(msg)
        if (self.seconds > 0) != (self.action == "delay"):
            msg = (
                f"Fault.seconds = {self.seconds} with {self.action!r}: a delay takes "
                "seconds, over 0, and nothing else does"
            )
            raise ValueError(msg)


class FaultPlan:
    """Faults and their counts; may be hit from many threads.

    `observe(point, subject)` sees each hit before a fault fires at it, on the thread
    that hit it. `sleep` passes the seconds of a ``delay``: for a simulation, give its
    clock's `advance`, as the whole of it stands while one step takes its time.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        observe: Callable[[str, str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._faults = tuple(faults)
        self._observe = observe
        self._sleep = sleep
        self._lock = threading.Lock()
        self._armed = [fault.after is None for fault in self._faults]
        self._counts = [0] * len(self._faults)
        self._held: dict[Cell, list[Any]] = {}
        self.of_messages = any(fault.point == DELIVERY for fault in self._faults)

    def hit(self, point: str, subject: str) -> None:
        """Count one hit; fire what is due.

        Raises InjectedFault for ``raise``, InjectedCrash for ``crash``.
        """
        if self._observe is not None:
            self._observe(point, subject)
        for fault in self._due(point, subject):
            msg = f"injected at {point}" + (f" ({subject})" if subject else "")
            match fault.action:
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "crash":
                    cell = current.cell
                    assert cell is not None
                    cell.system.exit(cell, Crash(error=f"InjectedCrash: {msg}"))
                    raise InjectedCrash(msg)
                case "delay":
                    self._sleep(fault.seconds)
                case _:
                    raise InjectedFault(msg)

    def deliver(self, cell: Cell, message: Any) -> bool:
        """Put a message in as the plan says; False if the incarnation has ended."""
        if current.cell is None or current.cell is cell:
            return cell.post(message)
        actions = self._due(DELIVERY, cell.name)
        if not actions:
            there = cell.post(message)
            self._let_go(cell)
            return there
        fault = actions[0]
        match fault.action:
            case "drop":
                cell.system.count_dead_letters(1)
            case "delay":
                self._later(cell, fault.seconds, lambda: cell.post(message))
            case "duplicate":
                cell.post(message)
                cell.post(message)
            case _:
                with self._lock:
                    self._held.setdefault(cell, []).append(message)
                self._later(cell, HELD_BACK, lambda: self._let_go(cell))
        return not cell.closed

    def _let_go(self, cell: Cell) -> None:
        with self._lock:
            held = self._held.pop(cell, ())
        for message in held:
            cell.post(message)

    @staticmethod
    def _later(cell: Cell, seconds: float, callback: Callable[[], object]) -> None:
        def fire() -> None:
            callback()

        cell.system.dispatcher.call_later(seconds, fire)

    def _due(self, point: str, subject: str) -> list[Fault]:
        due = []
        with self._lock:
            for index, fault in enumerate(self._faults):
                if not self._armed[index]:
                    self._armed[index] = fault.after == point
                    continue
                if fault.point != point and (fault.point or point == DELIVERY):
                    continue
                if fault.action == "crash" and current.cell is None:
                    continue
                if fault.subject not in (None, subject):
                    continue
                self._counts[index] += 1
                if self._counts[index] == fault.nth:
                    due.append(fault)
        return due


_plan: FaultPlan | None = None
deliveries: FaultPlan | None = None  # the same plan, if it has faults of messages


def hit(point: str, subject: str = "") -> None:
    """Pass a fault point: nothing happens unless the installed plan says so."""
    if _plan is not None:
        _plan.hit(point, subject)


def install(plan: FaultPlan) -> None:
    """Make `plan` the one that hits go to, for the whole process."""
    global _plan, deliveries
    _plan = plan
    deliveries = plan if plan.of_messages else None


def uninstall() -> None:
    """Make hits do nothing again."""
    global _plan, deliveries
    _plan = deliveries = None


@contextmanager
def installed(plan: FaultPlan) -> Iterator[FaultPlan]:
    """Install `plan` for the length of a with block."""
    install(plan)
    try:
        yield plan
    finally:
        uninstall()


def seeded_faults(
    seed: int, *, hits: Mapping[str, int], count: int, actions: Sequence[Action]
) -> tuple[Fault, ...]:
    """Draw `count` faults from a seed: the same ones whenever they are asked for.

    `hits` says how often a run without faults passes each point: each hit is as likely
    as the other. A point gets one of the `actions` that fit it; raises ValueError where
    none fits any.
    """
    chance = random.Random(f"faults {seed}")  # noqa: S311 -- a plan, not a secret
    fitting = {
        point: [action for action in actions if action in _actions_at(point)]
        for point in hits
    }
    points = [point for point in hits if fitting[point]]
    if not points:
        msg = f"seeded_faults(actions={list(actions)}): none fits {', '.join(hits)}"
        raise ValueError(msg)
    weights = [hits[point] for point in points]
    return tuple(
        Fault(
            point=point,
            nth=chance.randint(1, hits[point]),
            action=(action := chance.choice(fitting[point])),
            seconds=chance.choice(DELAYS) if action == "delay" else 0.0,
        )
        for point in chance.choices(points, weights, k=count)
    )


def _actions_at(point: str | None) -> tuple[Action, ...]:
    return OF_MESSAGES if point == DELIVERY else OF_CODE
