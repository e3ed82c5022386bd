"""Whether the main thread has ended: then the process ends, and starts nothing more."""

from __future__ import annotations

import threading

__all__ = ["main_thread_over"]


class _Main:
    over = False


def main_thread_over() -> bool:
    """Whether the main thread has run its last line; daemonic threads may go on.

    A flag, since this is asked several times an operation, and ``Thread.is_alive``
    takes a lock. It is set where `concurrent.futures` hears of the same: before the
    threads that are not daemonic are waited for.
    """
    return _Main.over


def _end() -> None:
    _Main.over = True


try:
    threading._register_atexit(_end)  # type: ignore[attr-defined]  # noqa: SLF001 -- as above
except RuntimeError:  # first imported when it had ended
    _end()
