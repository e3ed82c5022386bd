"""The part of memory that erases all facts about one subject, wherever they were put.

    end the current ones -> running tasks take what is left -> search -> redact
         -> search again, until nothing is found -> say so

What a task took before is redacted in its stream, so that it renders no more. Nobody's
words are kept in doing so: the record of it counts facts and names who had it done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ...storage.erasure import Erasure, Redaction
from ...storage.errors import ObjectMissing, StorageError
from ...storage.reader import Reader
from ...storage.records import Record, Row, Snapshot
from ..errors import Misuse
from ..events import Event, FactsErased, FactStated, KnowledgeTaken, Known, task_of
from ..names import FACTS, FACTS_PAST, MEMORY
from ..names import task as task_name
from ..protocol import EraseFacts, FactChanged
from . import facts
from .facts import Change, Fact
from .keeper import Wanted
from .lookup import current
from .wordless import commands_about, without, without_words

if TYPE_CHECKING:
    from .actor import Memory

__all__ = ["Forgetting", "SearchAgain"]

PAGE = 1_000  # records of one slice
AGAIN = 0.1  # seconds until running tasks are looked at again
GONE = b'{"done":false,"said":"what it was about is erased"}'


class SearchAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Running tasks have had some time to take what is left."""

    request: str


class Found(msgspec.Struct, kw_only=True):
    """All that a pass over the log has found about a subject.

    `holders` are tasks whose newest knowledge has some of it, `current` says that
    some of it was stated meanwhile.
    """

    redactions: list[Redaction] = msgspec.field(default_factory=list)
    rows: list[Row] = msgspec.field(default_factory=list)
    commands: list[str] = msgspec.field(default_factory=list)
    facts: int = 0
    current: bool = False
    taken: dict[str, Record] = msgspec.field(default_factory=dict)  # newest, by stream
    holders: dict[str, bool] = msgspec.field(default_factory=dict)


class Forgetting:
    """Erases subjects, one after another; each is asked for once by `request`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._asked: deque[EraseFacts] = deque()
        self._erased = 0  # facts of the one under way
        self._rounds = 0  # how often its current facts were ended

    def asked(self, message: EraseFacts) -> None:
        """Erase a subject when those before it are."""
        if any(one.request == message.request for one in self._asked):
            return  # under way: its answer comes
        self._asked.append(message)
        if len(self._asked) == 1:
            self._begin()

    def again(self, message: SearchAgain) -> None:
        """Look whether running tasks have let go of it."""
        if self._asked and self._asked[0].request == message.request:
            self._search()

    def _begin(self) -> None:
        message = self._asked[0]
        self._erased = self._rounds = 0
        if wrong := _why_not(message.subject):
            self._answer(FactChanged(request=message.request, done=False, said=wrong))
        else:
            self._end()

    def _end(self) -> None:
        memory, message = self._memory, self._asked[0]
        self._rounds += 1

        def decide(found: list[Fact]) -> Change:
            return facts.erase(found, now=memory.house.now(), by="")

        def look(reader: Reader) -> list[Fact]:
            return [one for one in current(reader) if one.subject == message.subject]

        memory.keeper.change(
            Wanted(
                request=f"{message.request}/{self._rounds}",
                by=message.by,
                look=look,
                decide=decide,
                answer=lambda *_: self._search(),
            )
        )

    def _search(self) -> None:
        self._go_on(Found(), None)

    def _go_on(self, found: Found, slices: Iterator[None] | None) -> None:
        memory, subject = self._memory, self._asked[0].subject

        def run(reader: Reader) -> Iterator[None] | None:
            steps = slices or self._pass(reader, subject, found)
            return steps if next(steps, steps) is None else None

        def then(more: Iterator[None] | None) -> None:
            if more is not None:
                self._go_on(found, more)
            else:
                self._decide(found)

        memory.read(run, then)

    def _pass(self, reader: Reader, subject: str, found: Found) -> Iterator[None]:
        for space in (FACTS, FACTS_PAST):
            for row in reader.rows(space):
                fact = msgspec.json.decode(row.value or b"", type=Fact)
                if fact.subject == subject:
                    found.rows.append(Row(space=space, key=row.key, value=None))
                    found.current |= space == FACTS
        found.commands = commands_about(
            reader.sent([""]), lambda fact: fact.get("subject") == subject
        )
        yield
        seen = 0
        while page := reader.records(seen, PAGE):
            seen = page[-1].seq
            for record in page:
                self._note(record, subject, found)
            yield
        # A task that loaded what it took before that was redacted.
        named = b'"subject":' + msgspec.json.encode(subject)
        for stream, record in found.taken.items():
            known = record.seq in {one.seq for one in found.redactions}
            kept = reader.snapshots(stream)
            if not known and any(_may_hold(reader, one, named) for one in kept):
                found.redactions.append(_same(record))

    def _note(self, record: Record, subject: str, found: Found) -> None:
        less: Event
        if record.type == FactStated.__name__ and record.stream == MEMORY:
            stated = self._memory.house.event_of(record)
            if not isinstance(stated, FactStated) or stated.subject != subject:
                return
            found.facts += 1
            less = without_words(stated)
        elif record.type == KnowledgeTaken.__name__:
            taken = self._memory.house.event_of(record)
            assert isinstance(taken, KnowledgeTaken)
            less = without(taken, partial(_is_about, subject))
            found.holders[task_of(record.stream)] = less != taken
            found.taken[record.stream] = record
            if less == taken:
                return
        else:
            return
        draft = self._memory.draft("", 1, less)
        found.redactions.append(
            Redaction(
                stream=record.stream,
                seq=record.seq,
                type=draft.type,
                schema_version=draft.schema_version,
                body=draft.body,
            )
        )

    def _decide(self, found: Found) -> None:
        """Wait for running tasks, redact what was found, or be done."""
        memory, message = self._memory, self._asked[0]
        if found.current:
            self._end()
            return
        holding = [name for name, holds in found.holders.items() if holds]
        if any(memory.core.tells(task_name(task)) for task in holding):
            memory.after(AGAIN, SearchAgain(request=message.request))
            return
        clean = not (found.redactions or found.rows or found.commands)
        self._erased += found.facts
        if not clean or message.command:
            # Its own command goes last: until then it would be done again.
            commands = [one for one in found.commands if one != message.command]
            if clean:
                commands = [message.command]
            erased = FactsErased(
                by=message.by, erased_at=memory.house.now(), facts=found.facts
            )
            erasure = Erasure(
                redactions=tuple(found.redactions),
                commands=tuple(commands),
                answer=GONE,
            )
            memory.append(erased, rows=found.rows, erasure=erasure)
            memory.snapshot("erased")
        if not clean:
            self._search()
            return
        said = f"{self._erased} facts are erased"
        self._answer(FactChanged(request=message.request, done=True, said=said))

    def _answer(self, answer: FactChanged) -> None:
        memory, message = self._memory, self._asked.popleft()
        promise = message.promise
        if message.reply_to is not None:
            message.reply_to.tell(answer)
        elif promise is not None and not answer.done:
            promise.fail(Misuse(answer.said))
        elif promise is not None:
            count = self._erased
            memory.when_durable(memory.last_seq, partial(promise.set, count))
        if self._asked:
            self._begin()


def _same(record: Record) -> Redaction:
    """The record as it is: only the snapshots of its stream go."""
    return Redaction(
        stream=record.stream,
        seq=record.seq,
        type=record.type,
        schema_version=record.schema_version,
        body=record.body,
    )


def _may_hold(reader: Reader, snapshot: Snapshot, named: bytes) -> bool:
    """Whether a snapshot names the subject, as far as anybody can tell."""
    try:
        return named in reader.whole(snapshot).body
    except ObjectMissing:
        return False
    except StorageError:
        return True


def _is_about(subject: str, fact: Known) -> bool:
    return fact.subject == subject


def _why_not(subject: str) -> str:
    """Why nothing is erased: facts about nobody in particular are no subject's."""
    return "" if subject else "name a subject; facts without one are dropped by id"
