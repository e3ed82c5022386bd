"""The object store that a runtime, or a command, is given beside its store."""

from __future__ import annotations

import time
from collections.abc import Callable

from .errors import Misuse
from .storage.backend import Backend, Warn
from .storage.errors import CannotOpen
from .storage.objects import ObjectStore
from .storage.offload import OBJECT_ROWS, USED, OffloadingBackend
from .storage.reader import Reader
from .supervision.dispatch import Dispatcher

__all__ = ["FAMILY", "beside", "is_unnamed", "open_objects"]

FAMILY = "task"  # the streams whose snapshots go there: ids are unique over all stores


def open_objects(
    address: object,
    monotonic: Callable[[], float] = time.monotonic,
    *,
    create: bool = True,
) -> ObjectStore | None:
    """The object store of an address, None where none is given; raises Misuse."""
    if address is None:
        return None
    if not isinstance(address, str):
        raise Misuse(f"objects={address!r} is no text; give 's3://BUCKET/PREFIX'")
    try:
        return ObjectStore(address, create=create, monotonic=monotonic)
    except CannotOpen as error:
        raise Misuse(f"objects: {error}") from None


def beside(
    backend: Backend, objects: ObjectStore | None, dispatcher: Dispatcher, warn: Warn
) -> Backend:
    """A back end with the snapshots of tasks in an object store, if there is one."""
    if objects is None:
        return backend
    return OffloadingBackend(
        backend,
        objects,
        family=FAMILY,
        background=dispatcher.background,
        call_later=dispatcher.call_later,
        warn=warn,
    )


def is_unnamed(reader: Reader, objects: ObjectStore | None) -> bool:
    """Tell whether a store has snapshots in an object store, and none was given."""
    return objects is None and reader.row(OBJECT_ROWS, USED) is not None
