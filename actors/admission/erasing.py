"""Admission's part for what is to be forgotten for good: tasks that have ended.

    look whether it may go -> search the log in slices -> one erasure, with its record

The record says who had which task erased, and when; nothing of what was in it stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ...storage.errors import Undecodable
from ...storage.inbox import answer_row
from ...storage.reader import Reader
from ..errors import Misuse
from ..events import CommandApplied, Event, TaskErased
from ..protocol import Erase
from ..task.rows import ENDED, ERASED
from .commands import CommandAnswer
from .search import Search

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Erasing"]

BEFORE = "it was erased before"
GONE = CommandAnswer(done=False, said="what it was about is erased")


def done(forks: Sequence[str]) -> str:
    """What is said of an erasure: forks hold what they took over of the task."""
    if not forks:
        return "it is erased"
    return f"it is erased; its forks keep what they took over: {', '.join(forks)}"


class Erasing:
    """Erases tasks with their sub-tasks, one after another.

    Two at once would each take the other for somebody who still needs a blob.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._asked: deque[Erase] = deque()  # the first of them is under way
        self._waits = False  # for its task to leave, which has just ended
        self._forked: dict[str, str] = {}  # made since the search began, by fork

    @property
    def busy(self) -> bool:
        """Whether an erasure is under way."""
        return bool(self._asked)

    def erase(self, message: Erase) -> None:
        """Have a task erased once those before it are; say so when it is durable."""
        self._asked.append(message)
        if len(self._asked) == 1:
            self._begin()

    def forked(self, source: str, fork: str) -> None:
        """A fork was made: perhaps of what is being erased."""
        if self._asked:
            self._forked[fork] = source

    def left(self) -> None:
        """A task has given its slot back: perhaps the one that is to be erased."""
        if self._waits:
            self._waits = False
            self._begin()

    def _begin(self) -> None:
        admission = self._admission
        self._forked.clear()
        search = Search(
            self._asked[0].task,
            admission.house.event_of,
            lambda event: admission.draft("", 1, event),
        )
        self._go_on(search)

    def _go_on(self, search: Search) -> None:
        admission = self._admission

        def run(reader: Reader) -> bool | Undecodable:
            try:
                return search.step(reader)
            except Undecodable as error:
                return error

        def found(more: bool | Undecodable) -> None:
            if isinstance(more, Undecodable):
                self._answer(False, str(more))
            elif wrong := self._wrong(search):
                self._answer(wrong == BEFORE, wrong)
            elif any(row.task in admission.state.tasks for row in search.tasks):
                self._waits = True
            elif more:
                self._go_on(search)
            else:
                # Before, and again once it is gone: who asked by a command reads its
                # answer as soon as that is flushed.
                names = [row.task for row in search.tasks]
                erase = admission.later(lambda _: self._erase(search))
                admission.house.library.forget(names, erase)

        admission.read(run, found)

    def _wrong(self, search: Search) -> str:
        """Why there is nothing to do, or why it may not be done; or nothing."""
        admission = self._admission
        places = admission.state.tasks
        task = search.task
        own = next((row for row in search.tasks if row.task == task), None)
        if own is None:
            return f"there is no task {task!r}"
        if own.status == ERASED:
            return BEFORE
        if own.parent:
            return f"task {task} is a sub-task: erase {own.parent}, it goes with it"
        for row in search.tasks:
            status = row.status
            if row.task in admission.held:
                return f"task {row.task} was left alone at the opening: resume it first"
            if status not in ENDED:
                if status == "queued" and row.task in places:
                    status = places[row.task].where
                return (
                    f"task {row.task} is {status}: cancel it first, and erase it when "
                    "it has ended"
                )
        return ""

    def _erase(self, search: Search) -> None:
        admission, message = self._admission, self._asked[0]
        now, by = admission.house.now(), message.by
        names = [row.task for row in search.tasks]
        if any(name in admission.forks.under_way for name in names):
            self._begin()  # what is made of it meanwhile is to be named
            return
        subtasks = tuple(one for one in names if one != message.task)
        known = dict.fromkeys(search.forks)
        for fork, source in self._forked.items():
            if source in names or source in known:
                known[fork] = None
        forks = tuple(known)
        said = done(forks)
        events: list[Event] = [
            TaskErased(
                task=message.task,
                by=by,
                erased_at=now,
                subtasks=subtasks,
                forks=forks,
            )
        ]
        rows = search.rows(by)
        if message.command:
            applied = CommandApplied(
                command=message.command,
                kind="erase",
                task=message.task,
                done=True,
                said=said,
            )
            events.append(applied)
            answer = CommandAnswer(done=True, said=said)
            rows.append(answer_row(message.command, msgspec.json.encode(answer)))
        gone = msgspec.json.encode(GONE)
        erasure = search.erasure(by, now, gone, message.command)
        admission.append(*events, rows=rows, erasure=erasure)
        # The state as of now knows nothing of it; the older snapshots did, and went.
        admission.snapshot("erased")
        for name in names:
            admission.verdicts.forget(name)
        self._told(message, True, names)
        self._next()

    def _answer(self, done: bool, said: str) -> None:
        message = self._asked[0]
        if message.command:
            self._admission.commands.apply(
                message.command, "erase", message.task, done, said
            )
        if done:
            self._told(message, False)
        elif message.promise is not None:
            message.promise.fail(Misuse(said))
        self._next()

    def _told(self, message: Erase, value: bool, names: Sequence[str] = ()) -> None:
        """Say so once it is durable, and the index of the record has let go of it."""
        admission, promise = self._admission, message.promise

        def say(_: object) -> None:
            if promise is not None:
                promise.set(value)

        library = admission.house.library
        admission.when_durable(admission.last_seq, lambda: library.forget(names, say))

    def _next(self) -> None:
        self._asked.popleft()
        self._forked.clear()
        if self._asked:
            self._begin()
