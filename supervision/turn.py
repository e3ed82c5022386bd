"""Which actor's turn the current thread is in, if any."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cell import Cell
    from .worker import Worker

__all__ = ["current", "refuse_in_turn"]


class _Turn(threading.local):
    cell: Cell | None = None
    worker: Worker | None = None  # on the threads of a pool


current = _Turn()


def refuse_in_turn(what: str) -> None:
    """Raise RuntimeError where an actor would block the thread it shares."""
    cell = current.cell
    if cell is not None:
        msg = (
            f"{what} blocks, and {cell.name} is in its turn: send a message that "
            "carries reply_to, and go on when the answer arrives"
        )
        raise RuntimeError(msg)
