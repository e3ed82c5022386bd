"""The catalogue of log events, and the sinks that a runtime's `log=` may name.

Events are `snake.dotted` names with fields, never sentences. Nothing here touches the
root logger, configures logging, or writes to stdout.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from .actors.errors import Misuse
from .actors.memory.library import INDEX
from .events import DOMAIN, NAMES, line_of
from .logfile import FileSink
from .storage.address import file_of
from .storage.listeners import EVENTS as WARNED
from .storage.records import Record
from .supervision.dispatch import Dispatcher
from .supervision.events import EVENTS

__all__ = [
    "CATALOGUE",
    "COMMON",
    "LoggerSink",
    "Sink",
    "check",
    "check_log",
    "open_sink",
    "read_log",
]

STORE_ENDS = ("-wal", "-shm", ".lock", INDEX, f"{INDEX}-wal", f"{INDEX}-shm")
COMMON = ("at", "seq")  # any event may carry them; a domain event carries both

FRONT: dict[str, tuple[str, ...]] = {
    # A tool that takes `ctx` said something.
    "tool.log": ("task", "op", "tool", "message", "fields"),
    # A worker ended after its deadline; its outcome is evidence, and moves nothing.
    "effect.late": ("task", "work", "name", "status", "detail"),
    # Cost is limited, and no price is known: the limit does not hold for this task.
    "price.unknown": ("agent", "model", "said"),
    # An event loop took no turns for 5 s: whose calls blocked it, how many ran on it.
    "loop.abandoned": ("names", "running"),
    # The index of the record was damaged, or of another log; it is made again.
    "recall.rebuilt": ("reason",),
    # The host's embedding made no vectors: words alone decided.
    "recall.vectors_failed": ("error",),
    # A record that this build does not know, of a newer one.
    "record.unknown": ("task", "epoch", "type"),
    # `close` did not wait any longer for the operations that still run.
    "runtime.drain_incomplete": ("running",),
    "log.stopped": ("path",),  # the disk refused too many lines; they are in the store
}
CATALOGUE: dict[str, tuple[str, ...]] = {**EVENTS, **WARNED, **DOMAIN, **FRONT}

ERRORS = frozenset(
    {
        "actor.crashed",
        "callback.failed",
        "job.failed",
        "log.stopped",
        "supervisor.gave_up",
    }
)
WARNINGS = frozenset(
    {
        "account.alerted",
        "anchors.refused",
        "drift.found",
        "effect.late",
        "guard.found",
        "journal.trouble",
        "journal.wal_held",
        "loop.abandoned",
        "mailbox.dropped",
        "message.unexpected",
        "objects.erasure_waits",
        "objects.not_removed",
        "objects.trouble",
        "objects.unnamed",
        "plan.refused",
        "price.unknown",
        "queue.parked",
        "recall.rebuilt",
        "recall.vectors_failed",
        "record.unknown",
        "recovery.began",
        "runtime.drain_incomplete",
        "snapshot.not_written",
        "snapshot.skipped",
        "supervisor.restarting",
        "task.paused",
        "turn.slow",
    }
)
# Types of records whose events are information, whatever they say.
QUIET = frozenset(
    kind
    for kind, event in NAMES.items()
    if event not in ERRORS | WARNINGS | {"inbox.applied"}
)


class Sink(Protocol):
    """Where log events go. Called on any thread; no method raises."""

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take one event; what cannot be written now is not lost for a file."""

    def write_records(self, records: Sequence[Record]) -> None:
        """Take the events of flushed records in order, as `write` takes each."""

    def last_seq(self) -> int | None:
        """Return the `seq` of the newest record in a log that is continued.

        0 where it holds none yet, None where the sink cannot be continued.
        """

    def close(self) -> None:
        """Release what the sink holds; later writes are ignored."""


def check(event: str, fields: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless the catalogue lists `event` with exactly `fields`.

    `COMMON` fields may be there or not. For tests: a runtime emits nothing else.
    """
    if event not in CATALOGUE:
        raise ValueError(f"{event!r} is no event of the catalogue")
    wanted = set(CATALOGUE[event])
    given = set(fields) - (set(COMMON) - wanted)
    if given != wanted:
        missing, extra = sorted(wanted - given), sorted(given - wanted)
        raise ValueError(f"{event}: missing fields {missing}, unlisted fields {extra}")


def level(event: str, fields: Mapping[str, Any]) -> int:
    """Return the stdlib level of an event: error, warning or info.

    A command of another process that was not done is a warning: whoever sent it may
    have long stopped waiting for the answer.
    """
    if event in ERRORS:
        return logging.ERROR
    refused = event == "inbox.applied" and not fields["done"]
    return logging.WARNING if refused or event in WARNINGS else logging.INFO


class LoggerSink:
    """Hands events to a structlog logger.

    May miss the events of the last instant before a kill. What the host's handlers
    raise is dropped: a log must not end a task.
    """

    def __init__(
        self, logger: Any, hears: Callable[[int], bool] = lambda _: True
    ) -> None:
        self._logger = logger
        self._hears = hears  # events of this level

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        # The writer of the journal is among the callers: not even a SystemExit may
        # get through to it.
        with contextlib.suppress(BaseException):
            self._logger.log(level(event, fields), event, **fields)

    def write_records(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.type not in QUIET or self._hears(logging.INFO):
                self.write(*line_of(record))

    def last_seq(self) -> int | None:
        return None

    def close(self) -> None:
        """Leave the logger open: it is the host's."""


def _stdlib_sink() -> Sink:
    """The stdlib logger `perdure`, as structlog speaks to it: no global set-up."""
    import structlog

    stdlib = logging.getLogger("perdure")
    logger = structlog.wrap_logger(
        stdlib,
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, _as_record],
    )
    return LoggerSink(logger, stdlib.isEnabledFor)


def _as_record(
    _logger: Any, _method: str, entry: Any
) -> tuple[tuple[str, str, str], dict[str, Any]]:
    """The arguments of a stdlib log call: name and fields, and the fields as extra."""
    fields = dict(entry)
    event = fields.pop("event")
    extra = {"perdure": {"event": event, **fields}}
    return ("%s %s", event, json.dumps(fields, default=str)), {"extra": extra}


def check_log(log: Any, store: Any) -> None:
    """Refuse a log that cannot be one, before the store is touched. Raises Misuse."""
    if log is None or _is_structlog(log):
        return
    if not isinstance(log, str | os.PathLike):
        raise Misuse(
            f"log={log!r} is no log: give a path, a structlog logger, "
            "or nothing for the stdlib logger 'perdure'"
        )
    path = Path(os.path.realpath(log))
    own = file_of(store) if isinstance(store, str | os.PathLike) else None
    if own is not None and str(path) in {f"{own}{end}" for end in ("", *STORE_ENDS)}:
        raise Misuse(f"log={str(log)!r} is the store's own file; give another one")
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise Misuse(
            f"log={str(log)!r} cannot be written: "
            "give a file in a folder that exists and can be written"
        )


def _is_structlog(log: Any) -> bool:
    return callable(getattr(log, "bind", None)) and callable(getattr(log, "log", None))


def open_sink(log: Any = None, dispatcher: Dispatcher | None = None) -> Sink:
    """Return the sink that `log` names.

    Args:
        log: A path (JSON lines, continued and rotated), a structlog logger, or None
            for the stdlib logger `perdure`.
        dispatcher: Of the runtime that it is for; see `FileSink`.

    Raises:
        Misuse: `log` is something else, or the path cannot be written.
    """
    check_log(log, None)
    if log is None:
        return _stdlib_sink()
    if isinstance(log, str | os.PathLike):
        path = Path(log)
        try:
            return FileSink(path, dispatcher=dispatcher)
        except OSError as error:
            reason = error.strerror or str(error)
            raise Misuse(
                f"log={str(path)!r} cannot be written ({reason}): "
                "give a file in a folder that exists and can be written"
            ) from error
    return LoggerSink(log)


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a log file, oldest first, rotated parts included.

    Lines that a kill or a power cut tore are skipped.
    """
    for part in FileSink.parts(path):
        for line in part.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError, ValueError):
                event = msgspec.json.decode(line)
                if isinstance(event, dict):
                    yield event
