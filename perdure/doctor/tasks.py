"""Tasks: that their rows say what their streams say, and that the live ones can go on.

Who writes the store meanwhile must not look like damage: where a row is compared with a
stream, the stream is read on after the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..actors import names
from ..actors.admission.place import Place
from ..actors.admission.queue import MOVES, placed
from ..actors.admission.vetting import differences
from ..actors.agent import Agent
from ..actors.definition import held_by, in_words
from ..actors.events import Event, TaskQueued, TaskRecalled
from ..actors.task.rows import ENDED, ERASED, TaskRow
from ..storage.errors import StorageError
from ..storage.reader import Reader
from ..storage.records import Record
from .report import Findings, Held
from .walk import Each, Walk, fold_of

__all__ = ["Tasks"]

MOST = 1_000  # tasks held back that are named
_PARTS = ("", "/ledger", "/account")


class Tasks:
    """The queue's side, read first, and what was seen of each task's own stream."""

    def __init__(
        self,
        reader: Reader,
        found: Findings,
        bodies: Callable[[bytes], None],
        agents: Mapping[str, Agent] | None,
        queued: Each | None = None,
    ) -> None:
        self._reader = reader
        self._found = found
        self._agents = agents
        self.queue = Walk(reader, names.ADMISSION, found, bodies, self._queued)
        self._heard = queued
        self._rests: dict[str, Place] = {}
        self._suspects: set[str] = set()
        self._rowless: set[str] = set()
        self.held: list[Held] = []
        self.count = 0
        self.live = 0
        self.loads = 0

    def suspect(self, task: str) -> None:
        """Something is amiss in a stream of this task."""
        self._suspects.add(task)

    def check_part(self, task: str) -> None:
        """See that a stream under a task's own is of a task that there is."""
        if self._reader.row(names.TASK_ROWS, task) is None:
            self._miss(task)

    def check(self, task: str, walk: Walk) -> None:
        """Compare a task's row with its own stream, which was read."""
        closed = walk.state.status if walk.whole and not walk.erased else ""
        row = self._row(task)
        if row is None:
            return
        walk.on()
        if not walk.whole:
            return
        if walk.erased or row.status == ERASED:
            if not (walk.erased and row.status == ERASED) and not self._went(task):
                said = "erased" if walk.erased else walk.state.status
                self._differs(task, f"status {row.status}", said)
            return
        self._compare(task, row, walk.state, closed)
        if row.status not in ENDED:
            self._check_queue(task)

    def _compare(self, task: str, row: TaskRow, state: Any, closed: str) -> None:
        submitted, outcome = state.task, state.outcome
        if row.status in ENDED and (outcome is None or outcome.status != row.status):
            said = state.status if outcome is None else outcome.status
            self._differs(task, f"status {row.status}", said)
        elif closed in ENDED and row.status != closed:
            self._differs(task, f"status {row.status}", closed)
        for name in ("agent", "parent", "group", "priority"):
            if getattr(row, name) != getattr(submitted, name):
                ours, theirs = getattr(row, name), getattr(submitted, name)
                self._differs(task, f"{name} {ours!r}", repr(theirs))
        key = submitted.key
        if key is None or self._reader.row(names.KEYS, key) == task.encode():
            return
        if not self._went(task):
            where = f"row {names.KEYS}/{key}"
            self._found.add("row_differs", where, f"it does not name task {task}")

    def _differs(self, task: str, row: str, stream: str) -> None:
        where = f"row {names.TASK_ROWS}/{task}"
        self._found.add("row_differs", where, f"{row}; its stream says {stream}")

    def _row(self, task: str) -> TaskRow | None:
        where = f"row {names.TASK_ROWS}/{task}"
        value = self._reader.row(names.TASK_ROWS, task)
        if value is None:
            self._miss(task)
            return None
        try:
            return msgspec.json.decode(value, type=TaskRow)
        except msgspec.MsgspecError as error:
            self._found.add("row_unreadable", where, str(error))
            return None

    def _miss(self, task: str) -> None:
        if task not in self._rowless:
            self._rowless.add(task)
            where = f"row {names.TASK_ROWS}/{task}"
            self._found.add("row_missing", where, f"of streams task/{task}")

    def _went(self, task: str) -> bool:
        """Whether the task was erased while it was looked at."""
        first = self._reader.stretch(names.family(task), 0, 1)
        return bool(first) and first[0].type == "TaskErased"

    def _check_queue(self, task: str) -> None:
        if not self.queue.whole or self._stands(task):
            return
        self.queue.on()
        if not self.queue.whole or self._stands(task):
            return
        value = self._reader.row(names.TASK_ROWS, task)  # or it has ended since
        row = msgspec.json.decode(value or b"null", type=TaskRow | None)
        if row is not None and row.status not in ENDED:
            self._found.add("not_queued", f"task {task}", f"status {row.status}")

    def _queued(self, record: Record, event: Event, before: Any, after: Any) -> None:
        """Keep where the queue has those that rest."""
        if self._heard is not None:
            self._heard(record, event, before, after)
        if isinstance(event, TaskRecalled):
            self._rests.pop(event.task, None)
        elif isinstance(event, (*MOVES, TaskQueued)):
            place = placed(before, event)
            if place.rests:
                self._rests[event.task] = place

    def _stands(self, task: str) -> bool:
        """Whether the queue knows a task: in its state, or by the row of its place."""
        if task not in self._rests:
            return task in self.queue.state.tasks
        value = self._reader.row(names.PLACES, task)
        return value == msgspec.json.encode(self._rests[task])

    def end(self) -> None:
        """See which of the live tasks this code, and these agents, can go on with."""
        if not self.queue.whole:
            return
        for task, place in {**self._rests, **self.queue.state.tasks}.items():
            self.live += 1
            why = self._unloadable(task) if task in self._suspects else ""
            why = why or self._without_agent(task, place)
            if not why:
                self.loads += 1
            elif len(self.held) < MOST:
                self.held.append(Held(task=task, why=why))

    def _unloadable(self, task: str) -> str:
        """Why a task's state does not come back, from its newest good snapshot on."""
        from ..folds import fold

        for part in _PARTS:
            stream = names.family(task) + part
            how = fold_of(stream)
            assert how is not None
            try:
                fold(self._reader, stream, *how)
            except StorageError as error:
                return str(error)
            except Exception as error:
                return f"{stream}: {type(error).__name__}: {error}"
        return ""

    def _without_agent(self, task: str, place: Place) -> str:
        """Why a task would be parked; one goes on over a compatible change."""
        name = place.agent
        if self._agents is None:
            return ""
        agent = self._agents.get(name)
        if agent is None:
            self._found.add("agent_missing", f"task {task}", f"agent {name}")
            return f"its agent {name} is not among those given"
        first = self._reader.examined(names.family(task), 0, 1)
        if first and first[0][1] and first[0][0].type == "TaskSubmitted":
            body = msgspec.json.decode(first[0][0].body)
            before = place.digest or body["agent_digest"]
            held = held_by(differences(self._reader, before, agent))
            if held and not agent.adopts(before):
                what = (
                    f"agent {name} was {before} and is {agent.digest()}: "
                    f"{in_words(held)}"
                )
                self._found.add("agent_changed", f"task {task}", what)
                return what
        return ""
