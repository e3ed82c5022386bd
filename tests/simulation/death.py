"""What the death of a process leaves on the disk."""

from __future__ import annotations

from perdure import Runtime
from perdure.storage.journal import Journal
from perdure.storage.memory import MemoryStore

__all__ = ["cut_off"]


def cut_off(
    store: MemoryStore,
    runtime: Runtime | None,
    reached: float,
    *,
    straggling: bool,
) -> Journal | None:
    """Keep what was flushed, and of the appends that wait the first share `reached`.

    They reached the disk and nobody heard of it. With `straggling` the journal is
    returned, with the others still waiting in it: its writer may wake up once more.
    """
    journal = None if runtime is None else runtime._house.journal
    if journal is None or store.owner is not journal._backend:
        store.cut()
        return None
    pending = journal._pending
    appends = list(pending._queue)
    count = int(len(appends) * reached)
    pending._queue.clear()
    pending._queue.extend(appends[:count])
    written = journal._backend._written  # between the write and its flush
    if written is not None and reached > 0:
        store.keep(written)
    in_order = written is None or reached > 0
    store.cut(pending.take() if in_order else None)
    if not straggling:
        return None
    pending._queue.extend(appends[count:])
    return journal
