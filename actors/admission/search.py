"""Finding all that the store has of a task that is to be erased, page by page.

The log is read in slices on the journal's reader; nothing is changed here. What a
newer perdure wrote in the task's own streams need not be understood to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ...storage.erasure import Erasure, Redaction, digests_in
from ...storage.reader import Reader
from ...storage.records import Draft, Record, Row, in_family
from ..belongings import named_by, rows_under
from ..events import (
    AgentChanged,
    ApprovalAnswered,
    CommandApplied,
    EffectResolved,
    Event,
    ExpiryNear,
    NoteGiven,
    PauseAsked,
    PauseLifted,
    QuestionAnswered,
    TaskActivated,
    TaskErased,
    TaskParked,
    TaskQueued,
    TaskRecalled,
    TaskWoken,
)
from ..memory.lineage import forks_of
from ..memory.wordless import commands_about, without_words
from ..names import (
    ADMISSION,
    APPROVALS,
    ENDED_ROWS,
    MEMORY,
    QUESTIONS,
    TASK_ROWS,
    family,
)
from ..task.rows import ERASED, TaskRow

__all__ = ["Search", "wordless"]

PAGE = 1_000  # records of one slice


def wordless(event: Event) -> Event:
    """What an event of the queue's says without anybody's words; folded as before."""
    change = msgspec.structs.replace
    match event:
        case TaskQueued():
            return change(event, key=None)
        case TaskWoken():
            return change(event, by="", retry="")
        case TaskRecalled(place=place):
            pausing = "somebody" if place.pausing else ""
            plain = change(
                place, key=None, by="", resumer="", retry="", pausing=pausing
            )
            return change(event, place=plain)
        case TaskActivated():
            return change(event, by="")
        case TaskParked():
            return change(event, reason="")
        case ApprovalAnswered():
            # The id of an approval is a digest of the arguments: those can be guessed.
            return change(event, approval="", by="", why="", tool="", arguments="")
        case AgentChanged() | NoteGiven() | PauseAsked() | PauseLifted():
            return change(event, by="")
        case ExpiryNear():
            return change(event, subject="")
        case QuestionAnswered():
            return change(event, answer="", by="")
        case EffectResolved():
            return change(event, by="", result="")
        case CommandApplied():
            return change(event, said="")
    return event


class Search:
    """All about a task and its sub-tasks, once `step` has said that it is done.

    Args:
        task: a task that has ended.
        event_of: decodes a record of the queue's stream.
        encode: makes a draft of an event; its stream and version do not matter.
    """

    def __init__(
        self,
        task: str,
        event_of: Callable[[Record], Event],
        encode: Callable[[Event], Draft],
    ) -> None:
        self.task = task
        self.tasks: list[TaskRow] = []
        self.forks: tuple[str, ...] = ()  # they keep what they took over
        self._event_of = event_of
        self._encode = encode
        self._slices: Iterator[None] | None = None
        self._reader: Reader
        self._first: dict[str, Record] = {}  # by task
        self._others: list[Redaction] = []
        self._named: set[tuple[str, str]] = set()  # rows, by space and key
        self._asked: set[str] = set()
        self._blobs: set[str] = set()
        self._searched = 0
        self._commands: list[str] = []

    def step(self, reader: Reader) -> bool:
        """Read one slice more; True while there are others."""
        self._reader = reader
        if self._slices is None:
            self._slices = self._run()
        return next(self._slices, self) is None

    def erasure(self, by: str, at: float, answer: bytes, but: str) -> Erasure:
        """What to take out; `by`, and `at` in seconds, stand in what stays."""
        left = [
            self._redaction(record, TaskErased(task=task, by=by, erased_at=at))
            for task, record in self._first.items()
        ]
        names = [row.task for row in self.tasks]
        return Erasure(
            families=tuple(family(name) for name in names),
            redactions=(*left, *self._others),
            blobs=tuple(sorted(self._blobs)),
            searched=self._searched,
            subjects=(*names, *sorted(self._asked)),
            answer=answer,
            but=but,
            commands=tuple(self._commands),
        )

    def rows(self, by: str) -> list[Row]:
        """What becomes of the rows: most go, those of the tasks say that they did."""
        rows = [
            Row(space=space, key=key, value=None) for space, key in sorted(self._named)
        ]
        for row in self.tasks:
            left = TaskRow(
                task=row.task,
                agent=row.agent,
                goal="",
                status=ERASED,
                group=row.group,
                priority=row.priority,
                parent=row.parent,
                detail=f"by {by}",
                books=row.books,
            )
            value = msgspec.json.encode(left)
            rows.append(Row(space=TASK_ROWS, key=row.task, value=value))
        return rows

    def _run(self) -> Iterator[None]:
        rows = self._reader.rows(TASK_ROWS, f"{self.task}.")
        own = self._reader.row(TASK_ROWS, self.task)
        values = [own, *(row.value for row in rows)]
        self.tasks = [
            msgspec.json.decode(value, type=TaskRow) for value in values if value
        ]
        self.forks = forks_of(self._reader, [row.task for row in self.tasks])
        self._named |= {
            (ENDED_ROWS, row.key)
            for row in self._reader.rows(ENDED_ROWS)
            if row.key.partition("/")[2] == self.task
        }
        scopes = {f"task:{row.task}" for row in self.tasks}
        self._commands = commands_about(
            self._reader.sent([""]), lambda fact: fact.get("scope") in scopes
        )
        yield
        for row in self.tasks:
            self._named.update(rows_under(self._reader, row.task))
            for page in self._pages(family(row.task)):
                for record in page:
                    self._note(row.task, record)
                yield
        for page in self._pages(ADMISSION):
            self._search_queue(page)
            yield
        for page in self._pages(MEMORY):
            self._search_facts(page)
            yield
        if self._blobs:
            for page in self._pages(""):
                others = [one.body for one in page if not self._is_mine(one.stream)]
                self._blobs -= digests_in(others)
                self._searched = page[-1].seq
                yield

    def _pages(self, prefix: str) -> Iterator[list[Record]]:
        seen = 0
        while page := self._reader.records(seen, PAGE, prefix):
            seen = page[-1].seq
            yield page

    def _is_mine(self, stream: str) -> bool:
        return any(in_family(stream, family(row.task)) for row in self.tasks)

    def _note(self, task: str, record: Record) -> None:
        """What a record of the task's own names outside its streams."""
        if record.stream == family(task) and record.version == 1:
            self._first[task] = record
        self._blobs |= digests_in([record.body])
        for space, key in named_by(record):
            self._named.add((space, key))
            if space in (APPROVALS, QUESTIONS):
                self._asked.add(key)

    def _search_queue(self, page: list[Record]) -> None:
        tasks = {row.task for row in self.tasks}
        for record in page:
            event = self._event_of(record)
            if getattr(event, "task", "") in tasks:
                less = wordless(event)
                if less != event:
                    self._others.append(self._redaction(record, less))

    def _search_facts(self, page: list[Record]) -> None:
        scopes = {f"task:{row.task}" for row in self.tasks}
        for record in page:
            event = self._event_of(record)
            if getattr(event, "scope", "") in scopes:
                less = without_words(event)
                if less != event:
                    self._others.append(self._redaction(record, less))

    def _redaction(self, record: Record, event: Event) -> Redaction:
        draft = self._encode(event)
        return Redaction(
            stream=record.stream,
            seq=record.seq,
            type=draft.type,
            schema_version=draft.schema_version,
            body=draft.body,
        )
