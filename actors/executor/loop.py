"""One event loop on a thread of its own, for models and async tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

__all__ = ["Loop", "run_inline"]


class Loop:
    """Starts its thread with the first coroutine; the thread is daemonic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def submit(
        self, make: Callable[[], Coroutine[Any, Any, None]]
    ) -> Callable[[], None]:
        """Run a coroutine that catches everything; return what cancels it.

        Both may be called from any thread.
        """
        loop = self._running()
        holder: list[asyncio.Task[None]] = []

        def begin() -> None:
            holder.append(loop.create_task(make()))

        def cancel() -> None:
            for task in holder:
                task.cancel()

        loop.call_soon_threadsafe(begin)
        return lambda: _soon(loop, cancel)

    def close(self) -> None:
        """Stop the loop; what still ran on it is abandoned."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None:
            _soon(loop, loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._serve, args=(loop,), name="perdure-loop", daemon=True
                ).start()
                self._loop = loop
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._closed:
            # SystemExit of a task that a tool left behind comes out here.
            with suppress(BaseException):
                loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with suppress(BaseException):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()


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
