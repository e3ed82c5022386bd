"""Effects of a step that is done again: found in the record, so that none is repeated.

What a step did leaves the ledger's state as the next one begins. Where it comes back,
its effects are read from the stream once, page by page, before its first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.records import Record
from ..events import EffectRecorded, EffectRegistered, Event
from ..names import ledger as ledger_name
from ..protocol import Perform
from .entry import Earlier, Entry, LedgerState, apply, earlier_of

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["Reopened"]

PAGE = 1_000  # records of one read


class Reopened:
    """The ledger's part for them; only one step runs at a time, and only it is kept."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._step = ""
        self._entries: dict[int, Entry] = {}
        self._earlier: dict[str, Earlier] = {}  # by the effect's key, the newest
        self._waiting: dict[int, Perform] = {}  # calls that wait for the read

    def knows(self, wanted: Perform) -> bool:
        """Whether a call can be judged; if not, it is performed once that is so."""
        ledger = self._ledger
        if wanted.step not in ledger.state.left or wanted.step == self._step:
            return wanted.op not in self._waiting
        reads = bool(self._waiting)
        self._waiting[wanted.op] = wanted
        if not reads:
            self._entries = {}
            self._read(0)
        return False

    def find(self, key: str, op: int) -> Earlier | None:
        """What became of an effect when its step ran before."""
        found = self._earlier.get(key)
        return None if found is None or found.op == op else found

    def _read(self, seen: int) -> None:
        stream = ledger_name(self._ledger.task)
        self._ledger.read(
            lambda reader: reader.records(seen, PAGE, stream), self._take_page
        )

    def _take_page(self, records: list[Record]) -> None:
        """Take a page; after the last one the calls that waited go on."""
        ledger = self._ledger
        step = next(iter(self._waiting.values())).step
        for record in records:
            if record.type in ("EffectRegistered", "EffectRecorded"):
                self._take(ledger.house.event_of(record), step)
        if records:
            self._read(records[-1].seq)
            return
        self._step = step
        entries = sorted(self._entries.values(), key=lambda one: one.op)
        self._earlier = {one.key: earlier_of(one) for one in entries}
        self._entries = {}
        waiting, self._waiting = self._waiting, {}
        for wanted in waiting.values():
            ledger.perform(wanted)

    def _take(self, event: Event, step: str) -> None:
        assert isinstance(event, EffectRegistered | EffectRecorded)
        held = self._entries.get(event.op)
        if isinstance(event, EffectRegistered):
            other = event.step != step or event.effect == "read" or event.named
            if other or event.undoes is not None:
                return
        elif held is None or held.attempt != event.attempt:
            return
        before = LedgerState(entries={event.op: held} if held else {})
        self._entries[event.op] = apply(before, event).entries[event.op]
