"""What a crash takes with it: one actor, or a process and what it had not flushed."""

from __future__ import annotations

from typing import Any

from ..runtime import Runtime
from ..storage.journal import Journal
from ..storage.memory import MemoryStore
from ..supervision.simulation import SimulatedDispatcher
from ..watch import FRONT

__all__ = ["crash_one", "cut_off"]


def crash_one(sim: SimulatedDispatcher, which: float) -> dict[str, Any]:
    """Crash one of the living actors; `which` is in [0, 1). Its name and instance.

    Not the front desk: it stands outside the tree and nobody restarts it.
    """
    names = sorted(
        name for name, cell in sim._cells.items() if not cell.closed and name != FRONT
    )
    if not names:
        return {}
    name = names[int(which * len(names))]
    instance = sim._cells[name].actor
    sim.crash(name)
    return {name: instance}


def cut_off(
    store: MemoryStore,
    runtime: Runtime | None,
    reached: float,
    *,
    straggling: bool = False,
) -> Journal | None:
    """Keep what was flushed, and of the appends that wait the first share `reached`.

    They reached the disk and nobody heard of it. With `straggling` the journal is
    returned, with the others still waiting in it: its writer may wake up once more.
    """
    journal = None if runtime is None else runtime._house.journal
    backend = store.owner
    if journal is None or backend is None or backend is not journal._backend:
        store.cut()
        return None
    pending = journal._pending
    appends = list(pending._queue)
    count = int(len(appends) * reached)
    pending._queue.clear()
    pending._queue.extend(appends[:count])
    written = backend._written  # between the write and its flush
    if written is not None and reached > 0:
        store.keep(written)
    in_order = written is None or reached > 0
    store.cut(pending.take() if in_order else None)
    if not straggling:
        return None
    pending._queue.extend(appends[count:])
    return journal
