"""A store that is owned to be repaired: what is written is durable, step by step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Self

from ..actors import names
from ..actors.events import EVENTS, Event
from ..storage.address import Address, backend_of
from ..storage.codec import Codec
from ..storage.erasure import Erasure
from ..storage.errors import StoreFailed
from ..storage.journal import Journal
from ..storage.reader import Reader, open_reader
from ..storage.records import Draft, Lease, Row, Snapshot

__all__ = ["Owned"]

_CODEC = Codec(EVENTS)


class _ByHand:
    """The journal's steps are run by who calls."""

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        return

    def wake(self) -> None:
        return

    def stop(self, timeout: float) -> None:
        return


class Owned:
    """The store with a reader, and a journal that each change goes through.

    Raises:
        StoreLocked: a runtime owns the store.
        CannotOpen, NotAStore, NewerLayout: as `Runtime` does.
    """

    def __init__(self, address: Address) -> None:
        self._name = os.fspath(address)
        self._journal = Journal(
            backend_of(address, create=False),
            time=time.time,
            background=_ByHand,
            call_later=lambda *_: None,
        )
        try:
            epoch = self._journal.runtime_epoch
            self._quarantine = self._journal.acquire(names.QUARANTINE, epoch)
            self.admission = self._journal.acquire(names.ADMISSION, epoch)
            self.reader: Reader = open_reader(address)
        except BaseException:
            self._journal.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        self._journal.close()

    @property
    def durable_seq(self) -> int:
        """The seq of the last record."""
        return self._journal.durable_seq

    def append(
        self,
        event: Event,
        rows: Iterable[Row],
        also: Iterable[tuple[Lease, list[Draft]]] = (),
        erasure: Erasure | None = None,
    ) -> None:
        """Write an event of the quarantine, and all else with it; durable on return.

        Raises StoreTrouble or StoreFailed where it is not.
        """
        draft = self.draft(names.QUARANTINE, event, rows)
        changes = [*also, (self._quarantine, [draft])]
        last = self._journal.append(changes, erasure)[-1].seq
        self._commit()
        if self._journal.durable_seq < last:
            raise StoreFailed(self._name, self._journal.health().detail)

    def draft(self, stream: str, event: Event, rows: Iterable[Row] = ()) -> Draft:
        """The next record of a stream."""
        kind, schema, body = _CODEC.encode(event)
        return Draft(
            stream=stream,
            version=self.reader.head(stream) + 1,
            type=kind,
            schema_version=schema,
            body=body,
            rows=tuple(rows),
        )

    def keep(self, snapshot: Snapshot) -> None:
        """Write a snapshot, which older ones may give way to."""
        self._journal.snapshot(snapshot)
        self._commit()

    def _commit(self) -> None:
        while self._journal.commit_batch():
            pass
