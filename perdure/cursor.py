"""One follower's place: what it has yet to hand out, and what it waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .feed import Page, Place, TaskEvent, Wanted

if TYPE_CHECKING:
    from .actors.speech import Piece
    from .supervision.promise import Promise
    from .watchers import Attempt, Watchers

__all__ = ["Cursor"]

RECORDED = "effect.recorded"
SAID = "model.text"


class Cursor:
    """What an iterator over a task's events knows; reads and waits are its owner's.

    Records are read from the store by pages, so that a slow reader holds one page and
    nothing else. Nobody but the iterator holds this: letting go of that frees it.
    """

    def __init__(
        self, watchers: Watchers, wanted: Wanted, place: Place, partial: bool
    ) -> None:
        self.wanted = wanted
        self.place = place
        self.over = False  # nothing follows
        self.unsure = False  # the store is to be asked again soon
        self._watchers = watchers
        self._watch = watchers.watch(
            wanted.task, subtasks=wanted.subtasks, partial=partial
        )
        self._ready: deque[TaskEvent] = deque()
        self._more = False
        self._heard = 0

    def pop(self) -> TaskEvent | None:
        """The next event, None where one must be read or waited for first."""
        return self._ready.popleft() if self._ready else None

    def promise(self) -> Promise | None:
        """What to wait for; None where there is something to take now.

        Raises RuntimeClosed or RuntimeFailed where nothing will come.
        """
        return None if self._more else self._watchers.promise_of(self._watch)

    def begin(self) -> bool:
        """Begin to take; whether the store has to be read for it."""
        due, self._heard = self._watchers.begin(self._watch)
        due, self._more = due or self._more, False
        return due

    def look(self) -> None:
        """Have the store read again, whatever was heard."""
        self._more = True

    def unread(self) -> None:
        """The store could not be read."""
        self.unsure = True

    def absorb(self, page: Page | None) -> None:
        """Take what was read, None where nothing was due, and what was heard."""
        if self.over:  # closed meanwhile
            return
        events = page.events if page is not None else ()
        if page is not None:
            self._more = page.more
        recorded = {_attempt(event) for event in events if event.type == RECORDED}
        heard = 0 if self._more else self._heard
        pieces = self._watchers.pull(self._watch, recorded, heard)
        self._ready += _merged(self.place.seq, events, pieces)
        if page is not None:
            self.place = page.place
            self.unsure = page.stand == "unsure" and not page.more
            if page.stand == "there" and not page.more:
                self.over = True
                self._watchers.close(self._watch)

    def close(self) -> None:
        """Hand out nothing more; whoever waits is woken."""
        self.over = True
        self._ready.clear()
        self._watchers.close(self._watch)


def _merged(
    seq: int, events: Iterable[TaskEvent], pieces: list[Piece]
) -> Iterator[TaskEvent]:
    """What a model said stands before the record of its reply, the rest at the end."""
    said: dict[Attempt, list[Piece]] = {}
    for piece in pieces:
        said.setdefault((piece.task, piece.op, piece.attempt), []).append(piece)
    for event in events:
        if event.type == RECORDED:
            for piece in said.pop(_attempt(event), ()):
                yield _provisional(piece, seq)
        yield event
        seq = event.seq
    for attempt in said.values():
        for piece in attempt:
            yield _provisional(piece, seq)


def _attempt(event: TaskEvent) -> Attempt:
    return event.task, event.fields["op"], event.fields["attempt"]


def _provisional(piece: Piece, seq: int) -> TaskEvent:
    fields = {
        "op": piece.op,
        "attempt": piece.attempt,
        "index": piece.index,
        "text": piece.text,
    }
    return TaskEvent(
        seq=seq,
        at=piece.at,
        type=SAID,
        task=piece.task,
        stream="",
        fields=fields,
        provisional=True,
    )
