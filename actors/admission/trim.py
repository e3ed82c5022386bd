"""Finding the scratch of tasks that ended a while ago, and taking it in small parts.

Everything is read in slices on the journal's reader, and nothing is changed here. The
parts of a task are taken from the end of its streams, the mark of it first: killed in
between, the next round goes on with what is left.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from ...storage.erasure import Erasure, Redaction, digests_in
from ...storage.errors import StorageError, Undecodable
from ...storage.reader import Reader
from ...storage.records import Draft, Record, Row
from ..events import (
    EffectRecorded,
    EffectRegistered,
    Event,
    RequestBuilt,
    TaskTrimmed,
)
from ..ledger.places import own_key
from ..ledger.trimmed import emptied, is_scratch
from ..names import EFFECT_KEYS, EVIDENCE, TASK_ROWS, family, ledger
from ..task import trimmed
from ..task.rows import ENDED, ERASED, TaskRow
from ..task.standing import newest
from ..task.state import TaskState, apply

__all__ = ["Part", "Round"]

PAGE = 1_000  # records of one slice
PART = 500  # records that one transaction takes or changes at most


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction lets go of a task; `over` says that it is the last.

    `records` of its streams go, `emptied` lose their words. The last one has the
    `names` of the task and its sub-tasks, and says `why` the rest stays, where it does.
    """

    task: str
    erasure: Erasure | None = None
    rows: tuple[Row, ...] = ()
    records: int = 0
    emptied: int = 0
    over: bool = False
    names: tuple[str, ...] = ()
    why: str = ""


class Round:
    """Some tasks that are due, with their sub-tasks; `step` reads until a part is due.

    Args:
        tasks: those at the top, oldest first.
        event_of: decodes a record.
        encode: makes a draft of an event; its stream and version do not matter.
        now: second since the epoch, for what is written of it.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        event_of: Callable[[Record], Event],
        encode: Callable[[Event], Draft],
        now: float,
    ) -> None:
        self._tasks = tasks
        self._event_of = event_of
        self._encode = encode
        self._now = now
        self._reader: Reader
        self._free: set[str] = set()  # digests that nothing else mentions
        self._searched = 0
        self._slices = self._run()

    def step(self, reader: Reader) -> Part | bool:
        """Read one slice: a part to be taken, or whether there is more to read."""
        self._reader = reader
        found = next(self._slices, False)
        return True if found is None else found

    def _run(self) -> Iterator[Part | None]:
        trims: list[tuple[str, _Trim]] = []
        for root in self._tasks:
            for name in self._family(root):
                trim = _Trim(name, self._event_of, self._encode, self._now)
                trims.append((root, trim))
                yield from trim.search(lambda: self._reader)
        yield from self._scan([trim for _, trim in trims])
        last: dict[str, _Trim] = {}  # that lets go of a value
        for _, trim in trims:
            last.update(dict.fromkeys(trim.named, trim))
        failed: dict[str, str] = {}
        for root, trim in trims:
            mine = {one for one in self._free if last.get(one) is trim}
            if trim.why:
                failed.setdefault(root, trim.why)
            else:
                yield from trim.parts(lambda: self._reader, mine, self._searched)
            if trim.task == root:
                names = tuple(one.task for top, one in trims if top == root)
                why = failed.get(root, "")
                yield Part(task=root, over=True, names=names, why=why)

    def _family(self, root: str) -> list[str]:
        below = [row.key for row in self._reader.rows(TASK_ROWS, f"{root}.")]
        return [*reversed(below), root]

    def _scan(self, trims: Collection[_Trim]) -> Iterator[None]:
        """Find which of the big values are named by nothing that stays."""
        for trim in trims:
            self._free |= trim.named.keys()
        for trim in trims:
            self._free -= trim.kept
        if not self._free:
            return
        going = {family(trim.task) for trim in trims if not trim.why}
        try:
            yield from self._others(going)
        except Undecodable as error:  # perhaps it names one of them
            for trim in trims:
                if trim.named:
                    trim.why = trim.why or str(error)

    def _others(self, going: set[str]) -> Iterator[None]:
        for page in _pages(lambda: self._reader, ""):
            others = (
                one.body
                for one in page
                if "/".join(one.stream.split("/", 2)[:2]) not in going
            )
            self._free -= digests_in(others)
            self._searched = page[-1].seq
            yield


class _Trim:
    """The scratch of one task; `named` are the big values that it alone may name."""

    def __init__(
        self,
        task: str,
        event_of: Callable[[Record], Event],
        encode: Callable[[Event], Draft],
        now: float,
    ) -> None:
        self.task = task
        self.why = ""
        self.named: dict[str, int] = {}  # by digest: the record that is taken last
        self.kept: set[str] = set()
        self._event_of = event_of
        self._encode = encode
        self._now = now
        self._gone = array("q")  # seqs of the task's stream
        self._emptied = array("q")  # of its ledger's
        self._host: Redaction | None = None

    def search(self, reader: Callable[[], Reader]) -> Iterator[None]:
        """Read the task's streams; `why` says afterwards what keeps it as it is."""
        try:
            yield from self._search(reader)
        except Undecodable as error:
            self.why = str(error)
        except StorageError:
            raise
        except Exception as error:  # whatever a fold trips over
            self.why = f"{type(error).__name__}: {error}"

    def _search(self, reader: Callable[[], Reader]) -> Iterator[None]:
        value = reader().row(TASK_ROWS, self.task)
        row = None if value is None else msgspec.json.decode(value, type=TaskRow)
        if row is None or row.status not in ENDED:
            self.why = f"task {self.task} has not ended"
            return
        if row.status == ERASED:
            return  # nothing is left that could go
        own, first = family(self.task), TaskState()
        state, _ = newest(reader(), own, self._event_of, first, apply)
        if state.outcome is None or state.submitted is None:
            self.why = f"the stream of task {self.task} has no end"
            return
        host: Record | None = None
        named: dict[str, int] = {}
        doubtful: set[int] = set()  # operations that lose their words
        for page in _pages(reader, own):
            for record in page:
                if record.stream == own:
                    host = self._note(record, state, host, named)
                elif record.stream == ledger(self.task):
                    self._note_effect(record, doubtful)
                else:
                    self.kept |= digests_in([record.body])
            yield
        if not state.trimmed and host is None:
            self._gone = array("q")
        elif host is not None:
            mark = self._encode(trimmed.trimmed_to(state, self._now))
            self._host = _redaction(host, mark)
            for digest in _digests(host, self._event_of(host)):
                named.setdefault(digest, host.seq)
        found = named | self.named  # the ledger's part comes last
        self.named = {
            digest: seq
            for digest, seq in found.items()
            if reader().blob(digest) is not None
        }

    def _note(
        self,
        record: Record,
        state: TaskState,
        host: Record | None,
        named: dict[str, int],
    ) -> Record | None:
        """Look at a record of the task's stream; the one that the mark replaces."""
        event = self._event_of(record)
        if isinstance(event, TaskTrimmed) or not trimmed.is_scratch(event):
            self.kept |= digests_in([record.body])
            return host
        if host is None and not state.trimmed and trimmed.hosts(event):
            return record
        self._gone.append(record.seq)
        for digest in _digests(record, event):
            named.setdefault(digest, record.seq)
        return host

    def _note_effect(self, record: Record, doubtful: set[int]) -> None:
        event = self._event_of(record)
        match event:
            case EffectRegistered() if is_scratch(event):
                doubtful.add(event.op)
                mine = not event.trimmed
            case EffectRegistered(op=op):
                doubtful.discard(op)
                mine = False
            case EffectRecorded(op=op):
                words = event.result or event.blob or event.anchors
                mine = op in doubtful and bool(words)
            case _:
                mine = False
        digests = digests_in([record.body])
        if not mine:
            self.kept |= digests
            return
        self._emptied.append(record.seq)
        for digest in digests:
            self.named.setdefault(digest, record.seq)

    def parts(
        self, reader: Callable[[], Reader], free: set[str], searched: int
    ) -> Iterator[Part | None]:
        """What goes, in transactions; `free` are the big values that go with it."""
        last: dict[int, list[str]] = {}
        for digest in free:
            last.setdefault(self.named[digest], []).append(digest)
        host, stream = self._host, family(self.task)
        while host is not None or self._gone:
            seqs = _taken(self._gone)
            redactions = () if host is None else (host,)
            touched = [*seqs, *(one.seq for one in redactions)]
            erasure = Erasure(
                gone={stream: tuple(seqs), ledger(self.task): ()},
                redactions=redactions,
                blobs=_values(last, touched),
                searched=searched,
                scrub=False,
            )
            yield Part(task=self.task, erasure=erasure, records=len(seqs))
            host = None
        while self._emptied:
            seqs = _taken(self._emptied)
            records = reader().fetch(seqs)
            events = [self._event_of(one) for one in records]
            less = [
                emptied(one)
                for one in events
                if isinstance(one, EffectRegistered | EffectRecorded)
            ]
            erasure = Erasure(
                redactions=tuple(
                    _redaction(record, self._encode(event))
                    for record, event in zip(records, less, strict=True)
                ),
                blobs=_values(last, seqs),
                searched=searched,
                scrub=False,
            )
            keys = {own_key(self.task, one.op) for one in less}
            gone = (Row(space=EVIDENCE, key=key, value=None) for key in sorted(keys))
            yield Part(
                task=self.task,
                erasure=erasure,
                rows=tuple(gone),
                emptied=len(seqs),
            )
        beginning = f"{self.task}:"
        while found := reader().rows_after(EFFECT_KEYS, beginning, PART):
            mine = [one.key for one in found if one.key.startswith(beginning)]
            if not mine:
                return
            gone = (Row(space=EFFECT_KEYS, key=key, value=None) for key in mine)
            yield Part(task=self.task, rows=tuple(gone))


def _digests(record: Record, event: Event) -> set[str]:
    """What a record may name of big values; the digest of a request is of none."""
    found = digests_in([record.body])
    if isinstance(event, RequestBuilt):
        found.discard(event.digest)
    return found


def _pages(reader: Callable[[], Reader], prefix: str) -> Iterator[list[Record]]:
    seen = 0
    while page := reader().records(seen, PAGE, prefix):
        seen = page[-1].seq
        yield page


def _taken(seqs: array[int]) -> list[int]:
    """The last of them, which are not among them any more."""
    found = seqs[-PART:].tolist()
    del seqs[-PART:]
    return found


def _values(last: dict[int, list[str]], seqs: Sequence[int]) -> tuple[str, ...]:
    """The big values that go with the last records that name them."""
    return tuple(digest for seq in seqs for digest in last.get(seq, ()))


def _redaction(record: Record, draft: Draft) -> Redaction:
    return Redaction(
        stream=record.stream,
        seq=record.seq,
        type=draft.type,
        schema_version=draft.schema_version,
        body=draft.body,
    )
