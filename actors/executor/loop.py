"""One event loop on a thread of its own, for models and async tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

__all__ = ["Loop", "run_inline"]


class _Serving:
    """A loop and what its thread has to know."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.over = False
        self.ended: Callable[[], None] | None = None


class Loop:
    """Starts its thread with the first coroutine; the thread is daemonic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._serving: _Serving | None = None

    def submit(
        self, make: Callable[[], Coroutine[Any, Any, None]], name: str | None = None
    ) -> Callable[[], None]:
        """Run a coroutine that catches everything; return what cancels it.

        Both may be called from any thread. `name` is what `blocked_by` tells.
        """
        loop = self._running().loop
        holder: list[asyncio.Task[None]] = []

        def begin() -> None:
            holder.append(loop.create_task(make(), name=name))

        def cancel() -> None:
            for task in holder:
                task.cancel()

        loop.call_soon_threadsafe(begin)
        return lambda: _soon(loop, cancel)

    def ask(self, heard: Callable[[], None]) -> None:
        """Have the loop call `heard` in its next turn; at once where there is none."""
        serving = self._serving
        if serving is None:
            heard()
        else:
            _soon(serving.loop, heard)

    def blocked_by(self) -> str | None:
        """The name of the coroutine whose turn it is, where that can be told."""
        serving = self._serving
        task = None
        if serving is not None:
            with suppress(RuntimeError):
                task = asyncio.current_task(serving.loop)
        return None if task is None else task.get_name()

    def abandon(self, ended: Callable[[], None]) -> None:
        """Leave the loop to what blocks it; the next coroutine gets a new one.

        Should it ever take a turn again, it cancels what it has and ends, and its
        thread calls `ended` last.
        """
        with self._lock:
            serving, self._serving = self._serving, None
        if serving is None:
            ended()
            return
        serving.ended = ended
        self._let_go(serving)

    def close(self) -> None:
        """Stop the loop; what still ran on it is abandoned."""
        with self._lock:
            serving, self._serving = self._serving, None
        if serving is not None:
            self._let_go(serving)

    def _let_go(self, serving: _Serving) -> None:
        serving.over = True
        _soon(serving.loop, serving.loop.stop)

    def _running(self) -> _Serving:
        with self._lock:
            if self._serving is None:
                serving = _Serving()
                threading.Thread(
                    target=_serve, args=(serving,), name="perdure-loop", daemon=True
                ).start()
                self._serving = serving
            return self._serving


def _serve(serving: _Serving) -> None:
    loop = serving.loop
    asyncio.set_event_loop(loop)
    while not serving.over:
        # SystemExit of a task that a tool left behind comes out here.
        with suppress(BaseException):
            loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    with suppress(BaseException):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    if serving.ended is not None:
        serving.ended()


def run_inline(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable to its end on this thread, on a loop of its own."""

    async def whole() -> Any:
        return await awaitable

    return asyncio.run(whole())


def _soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return  # the loop is closed, and so is what ran on it
