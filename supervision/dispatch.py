"""What actors need to run, as they see it: turns, timers, threads, time and chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .threads import Job

if TYPE_CHECKING:
    from .cell import Cell
    from .clock import Clock
    from .promise import Promise

__all__ = ["Background", "Dispatcher", "Job", "Mailbox", "Timer"]


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Make it not happen; nothing if it has."""
        ...


class Background(Protocol):
    """A step that runs on a thread of its own whenever it is woken."""

    def wake(self) -> None:
        """Have the step run again until it returns False; cheap, from any thread."""
        ...

    def stop(self, timeout: float) -> bool:
        """Let it finish, then end; False if it still runs after `timeout` seconds."""
        ...


class Mailbox(Protocol):
    """The part of a deque that a cell uses; both calls are atomic."""

    def append(self, message: Any, /) -> None:
        """Put one message in."""
        ...

    def popleft(self) -> Any:
        """Take the next one out; raises IndexError when there is none."""
        ...

    def __len__(self) -> int: ...


class Dispatcher(Protocol):
    """What actors need to run: turns, timers, threads, time and chance.

    `log` is set by the `System` on it. After a fork the child is refused: calls raise
    RuntimeError, and nothing runs. After `close` nothing new starts.
    """

    @property
    def clock(self) -> Clock:
        """What tells the time here."""
        ...

    log: Callable[..., None]

    def mailbox(self) -> Mailbox:
        """A mailbox for one incarnation."""
        ...

    def schedule(self, cell: Cell) -> None:
        """Give `cell` a turn; the caller holds its flag, so never twice at once."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back in `delay` seconds, off the actors: keep it short."""
        ...

    def background(self, name: str, step: Callable[[], bool]) -> Background:
        """A place of its own for `step`, which returns whether more is to do."""
        ...

    def when_idle(self, name: str, step: Callable[[], bool]) -> Background:
        """A step of ours that runs between turns, when nothing else is to do.

        It may block for a moment. It waits for some milliseconds at most.
        """
        ...

    def start_job(self, name: str, job: Job) -> None:
        """Run user code on a thread that has nothing else to do until it ends.

        What it returns is called next, on that thread: it must not block. Raises
        RuntimeError once the dispatcher is closed or the main thread has ended.
        """
        ...

    def wait(self, promise: Promise, timeout: float | None) -> Any:
        """The promise's answer; raises its error, or TimeoutError after `timeout` s."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def token(self) -> str:
        """Twelve hexadecimal digits that no one had before."""
        ...

    def close(self, timeout: float) -> None:
        """Finish the backgrounds and end the threads, within `timeout` seconds."""
        ...
