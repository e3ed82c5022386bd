"""Who waits until when: rows of the store, and one timer for the next of them.

It has no stream of its own. The wait is the row that the task or admission wrote, and
what ends it stands in their streams: this actor only says when it is time, and says it
again where nobody may have heard.

Rows stand in the order of their times. Only the next page of them is in memory, however
many there are; what comes later is read when its page is due.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import Any

import msgspec

from ...storage.records import Row
from ...supervision.actor import Actor
from ...supervision.lifecycle import Up
from ..house import House
from ..names import ADMISSION, TIMER_ROWS
from ..protocol import Remind, WakeAgain, Warn
from ..requests import BACKSTOP
from ..task.rows import TimerRow, timer_key

__all__ = ["Timers"]

LONGEST = 3600.0  # seconds; the clock may be set meanwhile
PAGE = 1_000  # rows
SHORTEST = 0.001  # seconds; the clock may run slower than the time waited


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: int
    rows: list[Row] | BaseException


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
        self._waiting: list[tuple[float, str, str]] = []  # in order
        self._until = -inf  # second up to which all are in it; all of them: inf
        self._last = ""  # the key of the row that was read last
        self._reads = 0  # under way
        self._rings_at = 0.0
        self._looks_again = False
        self._is_up = False

    def started(self) -> None:
        """Read the first rows, behind all appends so far."""
        self.monitor(self.house.address(ADMISSION))
        self._read("")

    def _read(self, after: str) -> None:
        address, incarnation = self.address, self.incarnation
        self._reads += 1

        def done(rows: list[Row] | BaseException) -> None:
            address.tell(_Found(incarnation=incarnation, rows=rows))

        self.house.journal.read(
            lambda reader: reader.rows_after(TIMER_ROWS, after, PAGE), done
        )

    def _found(self, rows: list[Row]) -> None:
        self._reads -= 1
        if len(rows) == PAGE:
            self._last = rows[-1].key
        found = [msgspec.json.decode(one.value or b"", type=TimerRow) for one in rows]
        self._until = found[-1].at if len(rows) == PAGE else inf
        keys = {(row.at, row.task, row.warns) for row in found}
        self._waiting = sorted(keys.union(self._waiting))
        if not self._is_up:
            self._is_up = True
            self.ready()

    def receive(self, message: Any) -> None:
        """Keep who waits, and wake those whose time has come."""
        match message:
            case _Found(incarnation=incarnation, rows=rows):
                if incarnation != self.incarnation:
                    return
                if isinstance(rows, BaseException):
                    raise rows
                self._found(rows)
            case Remind(task=task, at=at, warns=warns):
                # A later one is a row, and read with its page; unless that is under
                # way, and may have passed it.
                if at <= self._until or self._reads:
                    self._keep((at, task, warns))
            case Up(name=name) if name == ADMISSION:
                self._read("")
            case _LookAgain():
                self._looks_again = False
                self._read("")
            case _Ring():
                self._rings_at = 0.0
        self._tell_due()
        if not self._reads and self._is_next_page_due():
            self._read(self._last)

    def _keep(self, one: tuple[float, str, str]) -> None:
        waiting = self._waiting
        place = bisect_left(waiting, one)
        if place == len(waiting) or waiting[place] != one:
            waiting.insert(place, one)
        if len(waiting) > 2 * PAGE and not self._reads:
            del waiting[PAGE:]
            self._until = waiting[-1][0]
            self._last = timer_key(self._until, "", 0)  # others of that second follow

    def _is_next_page_due(self) -> bool:
        next_at = self._waiting[0][0] if self._waiting else inf
        return next_at > self._until

    def _tell_due(self) -> None:
        now = self.house.now()
        admission = self.house.address(ADMISSION)
        while self._waiting and self._waiting[0][0] <= now:
            _, task, warns = self._waiting.pop(0)
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
