"""Who hears of what the journal does; a listener that raises harms nobody else."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence

from .errors import StorageError
from .records import Record

__all__ = ["EVENTS", "Listeners"]

EVENTS: dict[str, tuple[str, ...]] = {
    "journal.callback_failed": ("callback", "error", "traceback"),
    # Somebody still reads what was erased: its bytes go when he has ended.
    "journal.erasure_waits": ("detail",),
    "journal.resumed": ("retries",),
    # The WAL is over 64 MiB, since somebody reads what stood there before: its bytes,
    # and the ids of processes that read just now. Once, until the other line.
    "journal.wal_held": ("size", "holders"),
    "journal.wal_free": ("size",),  # it starts over; how long it was at most
    "journal.trouble": ("kind", "detail", "retry_in"),  # retry_in in seconds
    # Objects of what was erased could not be removed: it is tried again.
    "objects.erasure_waits": ("of", "detail"),
    # Objects that no snapshot names any more could not be removed.
    "objects.not_removed": ("of", "detail"),
    # A snapshot could not be put into the object store: the store itself keeps it.
    "objects.trouble": ("stream", "version", "detail"),
    # The store has snapshots in an object store, and the runtime was given none.
    "objects.unnamed": (),
    "snapshot.not_written": ("stream", "version", "reason"),
    "snapshot.skipped": ("stream", "version", "reason"),
}


class Listeners:
    """The callbacks registered with one journal."""

    def __init__(self) -> None:
        self.flushed: list[Callable[[Sequence[Record]], None]] = []
        self.fenced: list[Callable[[Sequence[Record]], None]] = []
        self.failed: list[Callable[[StorageError], None]] = []
        self.warned: list[Callable[[str, Mapping[str, object]], None]] = []

    def each(self, callbacks: Iterable[Callable[..., object]], *args: object) -> None:
        """Call every one of them, whatever the others do."""
        for callback in list(callbacks):
            try:
                callback(*args)
            except BaseException as error:
                self.warn(
                    "journal.callback_failed",
                    {
                        "callback": getattr(callback, "__qualname__", repr(callback)),
                        "error": f"{type(error).__name__}: {error}",
                        "traceback": traceback.format_exc(),
                    },
                )

    def warn(self, event: str, fields: Mapping[str, object]) -> None:
        """Report an event; a listener that fails at this has nobody to tell."""
        for listener in list(self.warned):
            try:
                listener(event, fields)
            except BaseException:  # noqa: S112 - nobody is left to report it to
                continue
