"""The log and the index of it, together: what is taken in, and what is answered.

Whatever the index says is held against the log before it is told (A26): a hit whose
record is not there any more, or is another one, is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ...storage.records import Record, in_family
from ..events import EffectRecorded as Recorded
from ..events import Event, TaskClosed, task_of
from ..evidence import evidence_id
from ..names import TASK_ROWS
from ..task.rows import ERASED, TaskRow
from .episodes import MENTIONED, TEXT, call_after, episode_of
from .index import Index, Mark, Place, Row
from .searching import Hit, Question, merged, snippet
from .words import wanted

__all__ = [
    "Decode",
    "answer",
    "belongs",
    "forget_erased",
    "take_anew",
    "take_page",
    "take_task",
]

PAGE = 200  # records that are taken in at a time
WIDE = 4  # how many times as many are ranked where two rankings are merged
BLOB = 4 * TEXT  # bytes of a big result that are read for its first characters

Decode = Callable[[Record], Event]
_TYPES = frozenset(kind.__name__ for kind in MENTIONED)


def belongs(index: Index, reader: Reader) -> bool:
    """Tell whether the index was made from this log, as it still is."""
    mark = index.mark
    if mark.seq == 0:
        return True
    found = _fetched(reader, [mark.seq])
    return mark.seq in found and found[mark.seq].checksum == mark.checksum


def forget_erased(index: Index, reader: Reader) -> None:
    """Forget tasks that were erased when nobody could tell the index."""
    for task in index.tasks():
        row = reader.row(TASK_ROWS, task)
        if row is not None and msgspec.json.decode(row, type=TaskRow).status == ERASED:
            index.forget(task)


def take_page(index: Index, reader: Reader, decode: Decode) -> bool:
    """Take in the next records of the log; False where there are none.

    A damaged record is passed over: whoever needs it says so, and the others are found.
    """
    records = _page(reader, index.mark.seq, None)
    _take_all(index, reader, decode, records)
    return bool(records)


def take_task(index: Index, reader: Reader, decode: Decode, task: str) -> None:
    """Take in all records of one task: for an index that is asked once."""
    seen = 0
    while records := _page(reader, seen, f"task/{task}"):
        _take_all(index, reader, decode, records)
        seen = records[-1].seq


def take_anew(index: Index, reader: Reader, decode: Decode, task: str) -> None:
    """Take in what is left of a task whose scratch was let go, in place of what was."""
    index.end_calls(task)
    index.drop(index.places(task))
    seen, mark = 0, index.mark
    while records := _page(reader, seen, f"task/{task}"):
        seen = records[-1].seq
        known = [record for record in records if record.seq <= mark.seq]
        _take_all(index, reader, decode, known, mark)


def _page(reader: Reader, seen: int, family: str | None) -> list[Record]:
    try:
        return reader.records(seen, PAGE, family)
    except Undecodable:
        return _one_by_one(reader, seen, family)


def _take_all(
    index: Index,
    reader: Reader,
    decode: Decode,
    records: Sequence[Record],
    mark: Mark | None = None,
) -> None:
    if not records:
        return
    last = records[-1]
    with index.page(mark or Mark(seq=last.seq, checksum=last.checksum)):
        for record in records:
            if record.type in _TYPES and (task := task_of(record.stream)):
                _take(index, reader, decode, task, record)


def _take(
    index: Index, reader: Reader, decode: Decode, task: str, record: Record
) -> None:
    try:
        event = decode(record)
    except Undecodable:
        return
    if isinstance(event, TaskClosed):
        index.end_calls(task)
        return
    op = getattr(event, "op", 0)
    call = index.call(task, op)
    if (after := call_after(call, event)) is not None:
        index.keep_call(task, *after)
    whole = None
    if isinstance(event, Recorded):
        whole = _whole(reader, event, model=call.kind == "model")
        if event.status == "completed":
            index.end_calls(task, op)
    episode = episode_of(event, call, whole)
    if episode is not None and episode.text.strip():
        place = Place(seq=record.seq, checksum=record.checksum, task=task, at=record.at)
        index.add(place, episode)


def _whole(reader: Reader, event: Recorded, *, model: bool) -> str | None:
    """The beginning of a big result; all of a model's reply, which is JSON."""
    if not event.blob:
        return None
    try:
        body = reader.blob(event.blob)
    except Undecodable:
        body = None
    if body is None:
        return None
    return (body if model else body[:BLOB]).decode("utf-8", "ignore")


def answer(
    index: Index,
    reader: Reader,
    asked: Question,
    nearest: Callable[[Index, Question, int], Sequence[int]] | None = None,
) -> list[Hit]:
    """The best hits, best first, each held against the log.

    `nearest` ranks by vectors: its ranking and that by words are merged.
    """
    query = wanted(asked.query)
    while True:
        ids = index.search(asked, asked.limit)
        if nearest is not None and query:
            wide = asked.limit * WIDE
            ranking = index.search(asked, wide), list(nearest(index, asked, wide))
            ids = merged(*ranking)[: asked.limit]
        rows = index.rows(ids)
        places = [row.place for row in rows]
        gone = _gone(reader, places)
        if not gone:
            return [_as_hit(row, snippet(row.episode.text, query)) for row in rows]
        _let_go(index, reader, gone)


def _gone(reader: Reader, places: Sequence[Place]) -> list[Place]:
    gone: list[Place] = []
    for start in range(0, len(places), PAGE):
        some = places[start : start + PAGE]
        found = _fetched(reader, [place.seq for place in some])
        gone += (
            place
            for place in some
            if place.seq not in found or found[place.seq].checksum != place.checksum
        )
    return gone


def _let_go(index: Index, reader: Reader, gone: Sequence[Place]) -> None:
    """Drop all of these tasks that is not in the log any more, with its bytes."""
    for task in {place.task for place in gone}:
        index.drop(_gone(reader, index.places(task)))


def _as_hit(row: Row, text: str) -> Hit:
    place, episode = row.place, row.episode
    return Hit(
        evidence=evidence_id(episode.op) if episode.op else "",
        task=place.task,
        step=episode.step,
        tool=episode.tool,
        kind=episode.kind,
        outcome=episode.outcome,
        at=place.at,
        seq=place.seq,
        snippet=text,
    )


def _fetched(reader: Reader, seqs: list[int]) -> dict[int, Record]:
    try:
        return {record.seq: record for record in reader.fetch(seqs)}
    except Undecodable:  # one of them is damaged: the others are not
        found: dict[int, Record] = {}
        if len(seqs) > 1:
            for seq in seqs:
                found |= _fetched(reader, [seq])
        return found


def _one_by_one(reader: Reader, seen: int, family: str | None) -> list[Record]:
    """The next records without the damaged ones."""
    last = reader.durable_seq
    while seen < last:
        found = _fetched(reader, list(range(seen + 1, min(seen + PAGE, last) + 1)))
        seen += PAGE
        mine = [
            record
            for record in found.values()
            if family is None or in_family(record.stream, family)
        ]
        if mine:
            return mine
    return []
