"""Money: that every account adds up, and has of the pool what the pool gave it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..actors import names
from ..actors.budget.account import conserved, left_over, lowered
from ..actors.events import (
    AccountClosed,
    Event,
    Granted,
    GrantReturned,
    GrantTaken,
    TaskImported,
)
from ..storage.reader import Reader
from ..storage.records import Record
from .report import Findings
from .walk import Walk

__all__ = ["Money"]


class Money:
    """The pool's side, read first: what it granted, and what came back.

    Kept as checksums, so that a hundred thousand tasks take little room.
    """

    def __init__(
        self, reader: Reader, found: Findings, bodies: Callable[[bytes], None]
    ) -> None:
        self._found = found
        self._granted: dict[str, int] = {}
        self._given: dict[str, list[str]] = {}  # the grants of tasks that live
        self._partly: set[str] = set()  # of which not all came from the pool
        self._returned: dict[str, tuple[int, int]] = {}
        self._imported: set[str] = set()  # another store's pool gave to these
        self._lopsided = False  # the account in hand was named already
        self.pool = Walk(reader, names.POOL, found, bodies, self._pooled)

    def _pooled(self, _: Record, event: Event, __: Any, ___: Any) -> None:
        match event:
            case Granted(grant=grant, task=task, amounts=amounts, parent=parent):
                self._granted[grant] = _sum((task, amounts))
                self._given.setdefault(task, []).append(grant)
                if parent or lowered(amounts):
                    self._partly.add(task)
            case GrantReturned(task=task, amounts=amounts):
                given = self._given.pop(task, [])
                if task not in self._partly:
                    # Of a sub-task's grant the pool has only its part back.
                    self._returned[task] = _sum(amounts), _names(given)
                self._partly.discard(task)

    def queued(self, _: Record, event: Event, __: Any, ___: Any) -> None:
        """Hear of tasks that came from another store, whose pool gave them grants."""
        if isinstance(event, TaskImported):
            self._imported |= {event.task, *event.subtasks}

    def begin(self) -> None:
        """Go on to another account."""
        self._lopsided = False

    def each(self, record: Record, event: Event, before: Any, after: Any) -> None:
        """Check one event of an account."""
        where = f"record {record.seq}: {record.stream} {record.version}"
        if isinstance(event, GrantTaken):
            self._check_grant(where, record.stream, event)
        if self._lopsided:
            return
        what = ", ".join(
            f"{name} is off by {n}" for name, n in conserved(after).items()
        )
        if isinstance(event, AccountClosed) and (
            before.reserved or event.returned != left_over(before)
        ):
            what = f"it gives back {event.returned}, and has {left_over(before)}"
        if what:
            self._lopsided = True
            self._found.add("money", where, what)

    def _check_grant(self, where: str, stream: str, event: GrantTaken) -> None:
        grant, task = event.grant, stream.split("/")[1]
        if task in self._imported:
            return
        if grant not in self._granted:
            self.pool.on()
        if not self.pool.whole:
            return
        if self._granted.get(grant) != _sum((task, event.amounts)):
            gave = "another one" if grant in self._granted else "none of that name"
            self._found.add("grant", where, f"it took {grant}; the pool gave {gave}")

    def end(self, task: str, account: Any) -> None:
        """Check what the pool says came back from an account that was read."""
        returned = self._returned.get(task)
        if returned is None or self._lopsided or not self.pool.whole:
            return
        amounts, grants = returned
        where = names.account(task)
        if not account.closed:
            self._found.add("grant", where, "the pool has all back of one still open")
        elif grants == _names(account.grants) and amounts != _sum(account.returned):
            self._found.add("grant", where, "the pool has another amount back")


def _sum(value: Any) -> int:
    return zlib.crc32(msgspec.json.encode(value, order="sorted"))


def _names(grants: Iterable[str]) -> int:
    return _sum(sorted(grants))
