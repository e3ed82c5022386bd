"""Who waits until when: rows of the store, and one timer for the next of them.

It has no stream of its own. The wait is the row that the task or admission wrote, and
what ends it stands in their streams: this actor only says when it is time, and says it
again where nobody may have heard.
"""

from __future__ import annotations

import heapq
from typing import Any

import msgspec

from ...storage.reader import Reader
from ...supervision.actor import Actor
from ...supervision.lifecycle import Up
from ..house import House
from ..names import ADMISSION, TIMER_ROWS
from ..protocol import Remind, WakeAgain, Warn
from ..requests import BACKSTOP
from ..task.rows import TimerRow

__all__ = ["Timers"]

LONGEST = 3600.0  # seconds; the clock may be set meanwhile
SHORTEST = 0.001  # seconds; the clock may run slower than the time waited


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: int
    rows: list[TimerRow] | BaseException


class _LookAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Who was woken may not have heard it: then its row is still there."""


class _Ring(msgspec.Struct, frozen=True, kw_only=True):
    """It may be time for the next."""


class Timers(Actor):
    """Tells admission which task's time has come.

    Whatever is not sure to have been heard is told again, some time later and when
    admission comes up: the rows are read anew then.
    """

    ready_when_started = False

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house
        self._waiting: list[tuple[float, str, str]] = []  # a heap
        self._rings_at = 0.0
        self._looks_again = False
        self._is_up = False

    def started(self) -> None:
        """Read the rows, behind all appends so far."""
        self.monitor(self.house.address(ADMISSION))
        self._read()

    def _read(self) -> None:
        address, incarnation = self.address, self.incarnation

        def read(reader: Reader) -> list[TimerRow]:
            rows = reader.rows(TIMER_ROWS)
            return [
                msgspec.json.decode(one.value or b"", type=TimerRow) for one in rows
            ]

        def done(rows: list[TimerRow] | BaseException) -> None:
            address.tell(_Found(incarnation=incarnation, rows=rows))

        self.house.journal.read(read, done)

    def receive(self, message: Any) -> None:
        """Keep who waits, and wake those whose time has come."""
        match message:
            case _Found(incarnation=incarnation, rows=rows):
                if incarnation != self.incarnation:
                    return
                if isinstance(rows, BaseException):
                    raise rows
                found = {(row.at, row.task, row.warns) for row in rows}
                self._waiting = sorted(found.union(self._waiting))
                if not self._is_up:
                    self._is_up = True
                    self.ready()
            case Remind(task=task, at=at, warns=warns):
                if (at, task, warns) not in self._waiting:
                    heapq.heappush(self._waiting, (at, task, warns))
            case Up(name=name) if name == ADMISSION:
                self._read()
            case _LookAgain():
                self._looks_again = False
                self._read()
            case _Ring():
                self._rings_at = 0.0
        self._tell_due()

    def _tell_due(self) -> None:
        now = self.house.now()
        admission = self.house.address(ADMISSION)
        while self._waiting and self._waiting[0][0] <= now:
            _, task, warns = heapq.heappop(self._waiting)
            if warns:
                admission.tell(Warn(subject=warns))
            else:
                admission.tell(WakeAgain(task=task, by="timer"))
            if not self._looks_again:
                self._looks_again = True
                self.after(BACKSTOP, _LookAgain())
        if not self._waiting:
            return
        at = min(self._waiting[0][0], now + LONGEST)
        if not self._rings_at or at < self._rings_at:
            self._rings_at = at
            self.after(max(at - now, SHORTEST), _Ring())
