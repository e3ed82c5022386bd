"""Threads and coroutines that wait for tasks to stop."""

from __future__ import annotations

import asyncio
import threading

from .supervision.dispatch import Dispatcher
from .supervision.promise import Promise

__all__ = ["LOOK_AGAIN", "Waiters", "as_future"]

LOOK_AGAIN = 1.0  # seconds until a waiter looks again at a store that did not answer


class Waiters:
    """One promise a waiting caller; kept when the task's stop is flushed."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Promise]] = {}
        self._over: BaseException | None = None

    def next_stop(self, task: str) -> Promise:
        """A promise of the task's next stop; fails when the runtime ends."""
        promise = Promise(self._dispatcher)
        with self._lock:
            if self._over is None:
                self._waiting.setdefault(task, []).append(promise)
                return promise
        promise.fail(self._over)
        return promise

    def drop(self, task: str, promise: Promise) -> None:
        """The caller waits no more."""
        with self._lock:
            waiting = self._waiting.get(task, [])
            if promise in waiting:
                waiting.remove(promise)
            if not waiting:
                self._waiting.pop(task, None)

    def stopped(self, task: str) -> None:
        """The record of a stop is flushed."""
        with self._lock:
            waiting = self._waiting.pop(task, [])
        for promise in waiting:
            promise.set(None)

    def look_again(self) -> None:
        """Tasks may have stopped unheard: have every caller look at the store."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for promises in waiting.values():
            for promise in promises:
                promise.set(None)

    def fail(self, error: BaseException) -> None:
        """Nothing will stop any more: the runtime has ended."""
        with self._lock:
            self._over = error
            waiting, self._waiting = self._waiting, {}
        for promises in waiting.values():
            for promise in promises:
                promise.fail(error)


def as_future(
    promise: Promise, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[None]:
    """The promise as something to await in `loop`."""
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if future.done():
            return
        try:
            future.set_result(promise.get(0.0))
        except BaseException as error:
            future.set_exception(error)

    promise.add_done_callback(lambda _: loop.call_soon_threadsafe(settle))
    return future
