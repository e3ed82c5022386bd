"""A store brought to this perdure's versions: its live states kept as they are written.

Records stay as they are: they are read through upgraders, however old. What is written
is a snapshot of each live stream that holds something older, so that the next start
need not upgrade it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Literal, TypeAlias

import msgspec

from .actors import names
from .actors.admission.queue import QueueState
from .actors.admission.resting import all_places
from .actors.admission.vetting import is_readable
from .actors.task.standing import newest
from .actors.upgrades import body_of, is_current
from .doctor.walk import fold_of
from .folds import event_of, fold, is_old
from .storage.address import Address, backend_of
from .storage.backend import Backend
from .storage.errors import StorageError, StoreFailed, StoreTrouble
from .storage.reader import Reader, open_reader
from .storage.records import Snapshot
from .storage.upgrades import version_of

__all__ = ["Part", "Upgrade", "upgrade"]

How: TypeAlias = Literal["current", "upgraded", "to upgrade", "held back"]
SERVICES = (names.ADMISSION, names.POOL, names.WINDOWS, names.MEMORY)
PARTS = ("", "/ledger", "/account")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A live task, or a service, and how it stands to this perdure."""

    name: str
    how: How
    why: str = ""


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each live task; ended ones are read as they are."""

    store: str
    dry: bool
    services: tuple[Part, ...]
    tasks: tuple[Part, ...]

    @property
    def held(self) -> int:
        """How many cannot be read by this perdure."""
        return sum(one.how == "held back" for one in (*self.services, *self.tasks))


def upgrade(address: Address, *, dry: bool = False) -> Upgrade:
    """Upgrade the live tasks of a store that no runtime owns; say what became of each.

    The old snapshot of a stream stays until the new one is committed. With `dry` only
    what would be done is said: nothing is written, and the store may be in use.

    Raises:
        StoreLocked: a runtime owns it.
        CannotOpen, NotAStore, NewerLayout: as a runtime's opening does.
        StoreTrouble, StoreFailed: it cannot be written.
    """
    if dry:
        with closing(open_reader(address)) as reader:
            return _report(address, reader, None)
    backend = backend_of(address, create=False)
    backend.open()
    try:
        with closing(backend.reader(_say_nothing)) as reader:
            return _report(address, reader, backend)
    finally:
        backend.close()


def _report(address: Address, reader: Reader, backend: Backend | None) -> Upgrade:
    services = tuple(_part(reader, backend, name, (name,)) for name in SERVICES)
    live: list[str] = []
    if services[0].how != "held back":
        how = fold_of(names.ADMISSION)
        assert how is not None
        queue = fold(reader, names.ADMISSION, *how)
        assert isinstance(queue, QueueState)
        places = {**all_places(reader), **queue.tasks}
        live = sorted(places, key=lambda task: places[task].place)
    tasks = tuple(
        _part(reader, backend, task, [names.family(task) + part for part in PARTS])
        for task in live
    )
    return Upgrade(
        store=os.fspath(address), dry=backend is None, services=services, tasks=tasks
    )


def _part(
    reader: Reader, backend: Backend | None, name: str, streams: Sequence[str]
) -> Part:
    """Upgrade the streams of one task or service together, or none of them."""
    try:
        made = [one for one in (_upgraded(reader, name) for name in streams) if one]
        refused = backend.write_snapshots(made) if backend and made else ()
    except (StoreTrouble, StoreFailed):
        raise
    except StorageError as error:
        return Part(name=name, how="held back", why=str(error))
    except Exception as error:  # whatever a fold trips over
        why = f"{type(error).__name__}: {error}"
        return Part(name=name, how="held back", why=why)
    if refused:
        return Part(name=name, how="held back", why="the log does not hold its state")
    if not made:
        return Part(name=name, how="current")
    return Part(name=name, how="to upgrade" if backend is None else "upgraded")


def _upgraded(reader: Reader, stream: str) -> Snapshot | None:
    """The snapshot that spares the next start an upgrade; None where there is none."""
    how = fold_of(stream)
    assert how is not None
    first, apply = how
    kind = type(first)
    old = is_readable(reader, is_old, stream, kind)
    state, seq = newest(reader, stream, event_of, first, apply)
    kept = reader.snapshots(stream)
    if not old and (not kept or is_current(kept[0], kind)):
        return None
    return Snapshot(
        stream=stream,
        version=state.version,
        covers=seq,
        state_schema=version_of(kind),
        body=body_of(state),
        reason="upgrade",
        at=time.time(),
    )


def _say_nothing(event: str, fields: Mapping[str, object]) -> None:
    return
