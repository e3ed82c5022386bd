"""The base of actors whose state is the fold of one stream (P5).

An actor's turn appends what it decided and applies it at once; nothing here waits for
the flush. What leaves the runtime waits for it with `when_durable`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from ..storage.erasure import Erasure
from ..storage.reader import Reader
from ..storage.records import Draft, Lease, Loaded, Row, Snapshot
from ..storage.upgrades import version_of
from ..supervision.actor import Actor
from ..supervision.faults import hit
from .events import Event
from .house import House
from .loads import Loads, load
from .upgrades import body_of, state_of

__all__ = ["Durable", "Folded", "Found"]

S = TypeVar("S", bound=msgspec.Struct)
NODE_EVENTS = 8  # events since the last snapshot that make one before a node worth it


class _StreamLoaded(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: int
    loaded: Loaded | BaseException


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor waited for, a read or a flush, has ended; for `Durable.hear`."""

    incarnation: int
    value: Any
    then: Callable[[Any], None]


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """How a state was rebuilt: from a snapshot at a version, and how many events."""

    snapshot: int
    replayed: int


class Durable(Actor, Generic[S]):
    """An event-sourced actor: one stream, one state, one writer.

    A subclass names its state's first value and its fold, and implements `loaded`
    (once, in the actor's turn) and `handle` (a message after that). Messages that come
    before the state is loaded are kept in order; only then does the actor count as up.
    """

    ready_when_started = False
    label = "durable"  # the first word of this actor's fault points

    def __init__(
        self,
        house: House,
        stream: str,
        epoch: int,
        first: S,
        loads: Loads | None = None,
    ) -> None:
        super().__init__()
        self.house = house
        self.stream = stream
        self.epoch = epoch
        self.state: S = first
        self._state_type = type(first)
        self._early: deque[Any] | None = deque()
        self._since_snapshot = 0  # events
        self._bytes_since = 0  # of those events
        self._snapshot_size = 0  # bytes of the last one
        self.last_seq = 0
        self._lease: Lease | None = None
        self._loads = loads

    def fold(self, state: S, event: Event) -> S:
        """Return the state after `event`; pure."""
        raise NotImplementedError

    def loaded(self, folded: Folded) -> None:
        """Go on from the loaded state."""

    def handle(self, message: Any) -> None:
        """Handle one message; the state is loaded."""
        raise NotImplementedError

    def started(self) -> None:
        """Take the stream over from any earlier incarnation, then load it."""
        self._lease = self.house.journal.acquire(self.stream, self.epoch)
        ready = None if self._loads is None else self._loads.take(self.stream)
        if ready is not None:
            self._go_on(ready)
            return
        incarnation, address = self.incarnation, self.address

        def done(loaded: Loaded | BaseException) -> None:
            address.tell(_StreamLoaded(incarnation=incarnation, loaded=loaded))

        self.house.journal.read(self._load, done)

    def receive(self, message: Any) -> None:
        """Load first, then hand messages on in the order they came."""
        if self._early is None:
            if not isinstance(message, _StreamLoaded):
                self.handle(message)
            return
        if not isinstance(message, _StreamLoaded):
            self._early.append(message)
            return
        if message.incarnation != self.incarnation:
            return
        self._go_on(message.loaded)

    def _go_on(self, loaded: Loaded | BaseException) -> None:
        if isinstance(loaded, BaseException):
            raise loaded
        folded = self._rebuild(loaded)
        early, self._early = self._early or (), None
        self.loaded(folded)
        self.ready()
        for kept in early:
            self.handle(kept)

    def _load(self, reader: Reader) -> Loaded:
        return load(reader, self.stream, self._state_type)

    def _rebuild(self, loaded: Loaded) -> Folded:
        base = 0
        self.last_seq = loaded.seq
        if loaded.snapshot is not None:
            base = loaded.snapshot.version
            self._snapshot_size = len(loaded.snapshot.body)
            self.state = state_of(loaded.snapshot, self._state_type)
        for record in loaded.records:
            self.state = self.fold(self.state, self.house.event_of(record))
        self._since_snapshot = len(loaded.records)
        self._bytes_since = sum(len(record.body) for record in loaded.records)
        return Folded(snapshot=base, replayed=len(loaded.records))

    def append(
        self,
        *events: Event,
        rows: Sequence[Row] = (),
        blobs: Sequence[bytes] = (),
        also: Sequence[tuple[Lease, Sequence[Draft]]] = (),
        erasure: Erasure | None = None,
    ) -> int:
        """Append events to the stream and apply them; return the last `seq`.

        `rows` and `blobs` are written with the last event, `also` in the same
        transaction, and an `erasure` before them in it. Raises Rejected or Fenced, with
        nothing written or applied.
        """
        assert self._lease is not None
        version: int = getattr(self.state, "version")  # noqa: B009 - every state has one
        drafts: list[Draft] = []
        read: list[Event] = []
        size = 0
        for event in events:
            version += 1
            draft, as_read = self._encoded(self.stream, version, event)
            drafts.append(draft)
            read.append(as_read)
            size += len(draft.body)
        if rows or blobs:
            drafts[-1] = msgspec.structs.replace(
                drafts[-1], rows=tuple(rows), blobs=tuple(blobs)
            )
        records = self.house.journal.append([(self._lease, drafts), *also], erasure)
        last = drafts[-1].type
        hit(f"{self.label}.append.after", last)
        for one in read:
            # Not the events as they were handed in: what is applied is what a later
            # incarnation will read, to the order of the keys.
            self.state = self.fold(self.state, one)
        hit(f"{self.label}.apply.after", last)
        self.last_seq = records[len(events) - 1].seq
        self._since_snapshot += len(events)
        self._bytes_since += size
        if self._is_worth_a_snapshot(self.house.baseline.snapshot_events):
            self.snapshot("events")
        return records[-1].seq

    def draft(self, stream: str, version: int, event: Event) -> Draft:
        """Encode one event for a stream."""
        return self._encoded(stream, version, event)[0]

    def _encoded(self, stream: str, version: int, event: Event) -> tuple[Draft, Event]:
        kind, schema, body, read = self.house.codec.settle(event)
        assert isinstance(read, Event)
        draft = Draft(
            stream=stream, version=version, type=kind, schema_version=schema, body=body
        )
        return draft, read

    def snapshot(self, reason: str) -> None:
        """Have the state kept as it is now; `reason` says why (B30)."""
        body = body_of(self.state)
        self._since_snapshot = self._bytes_since = 0
        self._snapshot_size = len(body)
        self.house.journal.snapshot(
            Snapshot(
                stream=self.stream,
                version=getattr(self.state, "version"),  # noqa: B009 - as above
                covers=self.last_seq,
                state_schema=version_of(self._state_type),
                body=body,
                reason=reason,
            )
        )
        hit("snapshot.taken", self.label)

    def snapshot_before(self, reason: str) -> None:
        """Snapshot at a key node, unless hardly anything came since the last one."""
        if self._is_worth_a_snapshot(NODE_EVENTS):
            self.snapshot(reason)

    def _is_worth_a_snapshot(self, events: int) -> bool:
        """Whether so many events came, and no less than the last snapshot wrote (B75).

        So snapshots never write more than events do, however big the state is, and
        there is no more to read after one than in it.
        """
        if self._since_snapshot < events:
            return False
        return self._bytes_since >= self._snapshot_size

    def owns(self) -> bool:
        """Tell, on any thread, whether this incarnation still may write its stream."""
        return self._lease is not None and self.house.journal.holds(self._lease)

    def when_durable(self, seq: int, callback: Callable[[], object]) -> None:
        """Call back, off its turn, once `seq` is flushed."""
        self.house.journal.when_durable(seq, callback)

    # ── what ends in a later turn ────────────────────────────────────────────────

    def read(self, run: Callable[[Reader], Any], then: Callable[[Any], None]) -> None:
        """Read behind all appends so far; `then` runs in a turn of this incarnation.

        What `run` raises crashes this actor, whoever asked: it catches what a damaged
        record of one task may raise.
        """
        self.house.journal.read(run, self.later(then))

    def later(self, then: Callable[[Any], None]) -> Callable[[Any], None]:
        """A callback for any thread, that has `then` run in a turn of this incarnation.

        What it is given crashes this actor, where that is an exception.
        """
        address, incarnation = self.address, self.incarnation

        def done(value: Any) -> None:
            address.tell(Found(incarnation=incarnation, value=value, then=then))

        return done

    def once_durable(self, seq: int, then: Callable[[], None]) -> None:
        """Run `then` in a turn of this incarnation once `seq` is flushed."""
        done = self.later(lambda _: then())
        self.when_durable(seq, lambda: done(None))

    def hear(self, found: Found) -> None:
        """Go on with what was waited for, unless another incarnation did."""
        if found.incarnation != self.incarnation:
            return
        if isinstance(found.value, BaseException):
            raise found.value
        found.then(found.value)
