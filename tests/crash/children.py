"""Child processes that are started, perhaps killed, and must end well otherwise."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

__all__ = ["SPAWN", "Wrong", "was_killed"]

SPAWN = multiprocessing.get_context("forkserver")
TIMEOUT = 120.0  # seconds one start may take

# Starting a process also looks after all others: a child's status that two threads
# read at once is lost to one of them, which then reports 255.
_STATUSES = threading.Lock()


class Wrong(Exception):
    """A run did not end as the unkilled one did."""


def was_killed(
    target: Callable[..., None], *arguments: Any, after: float | None = None
) -> bool:
    """Run `target` in a child; kill it `after` so many seconds, if given.

    Returns:
        True where it was killed, by this or by itself, and False where it ended well.

    Raises:
        Wrong: it failed, or did not end.
    """
    child = SPAWN.Process(target=target, args=arguments)
    with _STATUSES:
        child.start()
    ended = bool(wait([child.sentinel], TIMEOUT if after is None else after))
    if not ended:
        child.kill()
        wait([child.sentinel])
        if after is None:
            raise Wrong(f"a start did not end within {TIMEOUT:g} s")
    with _STATUSES:
        code = child.exitcode
    if code not in (0, -signal.SIGKILL):
        raise Wrong(f"a start ended with {code}")
    return code != 0
