"""From flushed records to the log, to callers that wait, and to the host's callback."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from .actors.task.rows import RESTS
from .events import line_of
from .logs import Sink
from .storage.journal import Journal
from .storage.reader import Reader
from .storage.records import Record
from .supervision.dispatch import Dispatcher
from .supervision.lifecycle import crash_of
from .waiters import Waiters
from .watchers import Watchers

__all__ = ["Callback", "Notices", "Teller"]

STOPS = frozenset({"TaskPaused", "TaskParked", "TaskClosed"})
NOTICES = STOPS | {"Alerted", "ExpiryNear"}
WAITING = 10_000  # notices that a callback may be behind

Callback: TypeAlias = Callable[[str, Mapping[str, Any]], None]


class Notices:
    """Calls the host's `on_event` in the order of the log, on one thread of its own.

    What it raises is logged and nothing else; one that blocks holds up its own notices
    only, and when too many of them wait, new ones are logged as lost.
    """

    def __init__(
        self, callback: Callback, dispatcher: Dispatcher, log: Callable[..., None]
    ) -> None:
        self._callback = callback
        self._log = log
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._thread = dispatcher.background("on_event", self._call_next)

    def put(self, name: str, fields: dict[str, Any]) -> None:
        """Have the callback told; returns at once."""
        if len(self._waiting) >= WAITING:
            lost = f"{name} of task {fields['task']} was not told: {WAITING} wait"
            self._log("callback.failed", where="on_event", error=lost, traceback="")
            return
        self._waiting.append((name, fields))
        self._thread.wake()

    def _call_next(self) -> bool:
        if not self._waiting:
            return False
        name, fields = self._waiting.popleft()
        try:
            self._callback(name, fields)
        except BaseException as error:
            crash = crash_of(error)
            self._log(
                "callback.failed",
                where="on_event",
                error=crash.error,
                traceback=crash.traceback,
            )
        return bool(self._waiting)


class Teller:
    """Tells of every flushed record once, in the order of the log.

    A journal that failed may have flushed records that nobody heard of: the next one
    begins with them.
    """

    def __init__(
        self,
        sink: Sink,
        waiters: Waiters,
        watchers: Watchers,
        notices: Notices | None,
    ) -> None:
        self._sink = sink
        self._waiters = waiters
        self._watchers = watchers
        self._notices = notices
        self._told: int | None = None  # seq of the last record

    def follow(self, journal: Journal, reader: Reader) -> None:
        """Catch up with the store, then hear what the journal flushes.

        At the first opening only the log catches up, where it is one that can be
        continued.
        """
        if self._told is None:
            last = self._sink.last_seq()
            self._told = reader.durable_seq
            while last is not None and (page := reader.records(after_seq=last)):
                self._sink.write_records(page)
                self._told = last = page[-1].seq
        while page := reader.records(after_seq=self._told):
            self._tell(page)
        journal.on_flushed(self._tell)

    def _tell(self, records: Sequence[Record]) -> None:
        self._sink.write_records(records)
        self._told = records[-1].seq
        self._watchers.flushed(records)
        for record in records:
            if record.type in NOTICES:
                self._notice(record)

    def _notice(self, record: Record) -> None:
        name, fields = line_of(record)
        if record.type in STOPS:
            self._waiters.stopped(fields["task"])
            self._watchers.news([fields["task"]])  # a park stands in another stream
        if fields.get("reason") in RESTS:
            return  # it goes on by itself
        if self._notices is not None:
            self._notices.put(name, fields)
