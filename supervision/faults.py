"""Named points in the code where a plan may kill the process or raise.

Without a plan `hit` costs one look at a global. A plan is data: a list of `Fault`
goes through JSON, so that a parent process can hand one to the child it watches.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

__all__ = [
    "Fault",
    "FaultPlan",
    "InjectedFault",
    "hit",
    "install",
    "installed",
    "uninstall",
]


class InjectedFault(Exception):
    """A fault plan raised here on purpose."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, fired once, at the `nth` hit that matches.

    `point` and `subject` match where they are equal or None. With `after`, hits are
    counted only once that point has been hit (its own hit is not counted).
    """

    point: str | None
    nth: int = 1
    action: Literal["kill", "raise"]
    subject: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        if self.nth < 1:
            msg = f"Fault.nth = {self.nth}: hits are counted from 1"
            raise ValueError(msg)


class FaultPlan:
    """Faults and their counts; may be hit from many threads.

    `observe(point, subject)` sees each hit before a fault fires at it, on the thread
    that hit it.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        observe: Callable[[str, str], None] | None = None,
    ) -> None:
        self._faults = tuple(faults)
        self._observe = observe
        self._lock = threading.Lock()
        self._armed = [fault.after is None for fault in self._faults]
        self._counts = [0] * len(self._faults)

    def hit(self, point: str, subject: str) -> None:
        """Count one hit; fire what is due. Raises InjectedFault for ``raise``."""
        if self._observe is not None:
            self._observe(point, subject)
        for fault in self._due(point, subject):
            if fault.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            msg = f"injected at {point} ({subject})" if subject else f"at {point}"
            raise InjectedFault(msg)

    def _due(self, point: str, subject: str) -> list[Fault]:
        due = []
        with self._lock:
            for index, fault in enumerate(self._faults):
                if not self._armed[index]:
                    self._armed[index] = fault.after == point
                    continue
                if fault.point not in (None, point):
                    continue
                if fault.subject not in (None, subject):
                    continue
                self._counts[index] += 1
                if self._counts[index] == fault.nth:
                    due.append(fault)
        return due


_plan: FaultPlan | None = None


def hit(point: str, subject: str = "") -> None:
    """Pass a fault point: nothing happens unless the installed plan says so."""
    if _plan is not None:
        _plan.hit(point, subject)


def install(plan: FaultPlan) -> None:
    """Make `plan` the one that hits go to, for the whole process."""
    global _plan
    _plan = plan


def uninstall() -> None:
    """Make hits do nothing again."""
    global _plan
    _plan = None


@contextmanager
def installed(plan: FaultPlan) -> Iterator[FaultPlan]:
    """Install `plan` for the length of a with block."""
    install(plan)
    try:
        yield plan
    finally:
        uninstall()
