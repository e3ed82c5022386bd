"""The threads that a journal is given, as it sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

__all__ = ["Background", "Step"]

Step: TypeAlias = Callable[[], bool]


class Background(Protocol):
    """A step that runs on a thread of its own."""

    def wake(self) -> None:
        """Run the step until it returns False, soon and not on this thread."""
        ...

    def stop(self, timeout: float) -> object:
        """Let the running step finish, then end; wait `timeout` seconds at most."""
        ...
