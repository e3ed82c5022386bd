"""The part of memory that keeps facts: one statement after the other, each once.

What is said is decided by what the store has, so a statement waits until the one
before it can be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ..errors import Misuse
from ..events import Event, FactEnded, FactStated
from ..names import FACT_REQUESTS, FACTS, FACTS_PAST
from ..protocol import ChangeFact, FactChanged
from . import facts
from .facts import Change, Fact, Held, Said
from .lookup import held, held_of

if TYPE_CHECKING:
    from .actor import Memory

__all__ = ["Keeper", "Wanted"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A change that waits for its turn.

    `request` names it: it is made once, and answered alike ever after. `look` reads
    what `decide` needs, `answer` hears whether it is done, what is said, and the `seq`
    to be flushed before anybody outside hears it.
    """

    request: str
    by: str
    look: Callable[[Reader], Any]
    decide: Callable[[Any], Change]
    answer: Callable[[FactChanged, int], None]


class Keeper:
    """Makes changes, and writes them down with the rows that hold what is known."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._waiting: deque[Wanted] = deque()

    @property
    def cap(self) -> int:
        """How many characters core facts may have in a request."""
        rules = self._memory.house.baseline
        return int(rules.request_limit * rules.core_share)

    def asked(self, message: ChangeFact) -> None:
        """A host, or a command of the inbox, has something to say."""
        what = message.what
        if isinstance(what, Said):
            look, decide = self.stating(what, message.by)
        else:
            look = partial(held_of, fact_id=what)
            decide = partial(self._by_id, message)
        self.change(
            Wanted(
                request=message.request,
                by=message.by,
                look=look,
                decide=decide,
                answer=partial(self._answer, message),
            )
        )

    def stating(
        self, said: Said, by: str, status: Literal["fact", "hypothesis"] = "fact"
    ) -> tuple[Callable[[Reader], Any], Callable[[Any], Change]]:
        """How a statement is looked up and decided."""

        def decide(found: Held | None) -> Change:
            if wrong := facts.why_not_said(said):
                return Change(said=wrong, done=False)
            if found is None:
                return Change(said=f"scope={said.scope!r}: no such task", done=False)
            return facts.state(
                said,
                found,
                status=status,
                fact_id=self.next_id(),
                now=self._memory.house.now(),
                by=by,
                cap=self.cap,
            )

        return lambda reader: held(reader, said), decide

    def next_id(self) -> str:
        """The id of a fact that is stated next; ids rise with time."""
        return f"f{self._memory.state.version + 1}"

    def change(self, wanted: Wanted) -> None:
        """Make a change when those before it are made."""
        self._waiting.append(wanted)
        if len(self._waiting) == 1:
            self._look()

    def _look(self) -> None:
        wanted = self._waiting[0]

        def look(reader: Reader) -> tuple[bytes | None, Any]:
            before = reader.row(FACT_REQUESTS, wanted.request)
            return before, None if before is not None else wanted.look(reader)

        def found(values: tuple[bytes | None, Any]) -> None:
            before, value = values
            self._waiting.popleft()
            if before is not None:
                answer = msgspec.json.decode(before, type=FactChanged)
                wanted.answer(answer, self._memory.last_seq)
            else:
                self._make(wanted, wanted.decide(value))
            if self._waiting:
                self._look()

        self._memory.read(look, found)

    def _make(self, wanted: Wanted, change: Change) -> None:
        memory = self._memory
        fact = change.stated.id if change.stated is not None else ""
        answer = FactChanged(
            request=wanted.request, done=change.done, said=change.said, fact=fact
        )
        events = _events(change, wanted.by)
        if events:
            kept = msgspec.json.encode(answer)
            row = Row(space=FACT_REQUESTS, key=wanted.request, value=kept)
            memory.append(*events, rows=[*_rows(change), row])
        wanted.answer(answer, memory.last_seq)
        moved = [*change.ended, *([change.stated] if change.stated else [])]
        for scope in {one.scope for one in moved if one.core}:
            memory.core.changed(scope)

    def _by_id(self, message: ChangeFact, found: tuple[Fact, Held] | None) -> Change:
        now = self._memory.house.now()
        if found is None:
            return Change(said=f"there is no current fact {message.what!r}", done=False)
        fact, beside = found
        if message.kind == "drop":
            return facts.drop(fact, now=now, by=message.by)
        if fact.status == "fact":
            return Change(said=f"{fact.id} is a fact already")
        return facts.confirm(
            beside, fact_id=self.next_id(), now=now, by=message.by, cap=self.cap
        )

    def _answer(self, message: ChangeFact, answer: FactChanged, seq: int) -> None:
        promise = message.promise
        if message.reply_to is not None:
            message.reply_to.tell(answer)
        elif promise is not None and not answer.done:
            promise.fail(Misuse(answer.said))
        elif promise is not None:
            self._memory.when_durable(seq, partial(promise.set, answer))


def _events(change: Change, by: str) -> list[Event]:
    found: list[Event] = []
    if (new := change.stated) is not None:
        found.append(
            FactStated(
                fact=new.id,
                scope=new.scope,
                subject=new.subject,
                key=new.key,
                value=new.value,
                core=new.core,
                status=new.status,
                evidence=new.evidence,
                by=by,
                at=new.at,
                until=new.until,
            )
        )
    for old in change.ended:
        assert old.how
        assert old.ended is not None
        found.append(
            FactEnded(
                fact=old.id,
                scope=old.scope,
                core=old.core,
                how=old.how,
                by=old.ended_by,
                at=old.ended,
            )
        )
    return found


def _rows(change: Change) -> list[Row]:
    found: dict[tuple[str, str], Row] = {}
    for old in change.ended:
        gone = Row(space=FACTS, key=_place(old), value=None)
        key = f"{old.scope}/{facts.fact_digest(old.subject, old.key)}/{old.id}"
        past = Row(space=FACTS_PAST, key=key, value=msgspec.json.encode(old))
        found |= {(one.space, one.key): one for one in (gone, past)}
    if (new := change.stated) is not None:
        row = Row(space=FACTS, key=_place(new), value=msgspec.json.encode(new))
        found[row.space, row.key] = row
    return list(found.values())


def _place(fact: Fact) -> str:
    layer = "core" if fact.core else "more" if fact.status == "fact" else "guess"
    return facts.place(fact.scope, fact.subject, fact.key, layer=layer)
