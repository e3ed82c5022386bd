"""A one-shot answer that a thread outside the actors waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from .lifecycle import crash_of
from .turn import refuse_in_turn

if TYPE_CHECKING:
    from types import TracebackType

    from .cell import Cell
    from .dispatch import Dispatcher

__all__ = ["Promise"]


class Promise:
    """An answer to come: the first `set` or `fail` counts, later ones do nothing.

    A promise that travelled in an ask fails with `ActorStopped` when the actor asked
    ends without answering it.
    """

    # Two locks, where a pykka future is a queue with three conditions: one is made for
    # each call of a host.

    def __init__(self, dispatcher: Dispatcher | None = None) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._gate = threading.Lock()  # held until it is done
        self._gate.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._callbacks: list[Callable[[Promise], object]] = []
        self._done = False
        self.asked: Cell | None = None  # whose end fails it

    @property
    def done(self) -> bool:
        """Whether it has an answer or an error."""
        return self._done

    def set(self, value: Any = None) -> bool:
        """Answer; False if it was answered before. Never blocks, never raises."""
        return self._finish(value, None)

    def fail(self, error: BaseException) -> bool:
        """Answer with an error; False if it was answered before. Never raises."""
        return self._finish(None, error)

    def result(self, timeout: float | None = None) -> Any:
        """Wait up to `timeout` seconds for the answer and return it.

        Raises TimeoutError, what `fail` was given, or RuntimeError in an actor's turn.
        """
        if not self._done:
            refuse_in_turn("waiting for a promise")
            if self._dispatcher is not None:
                return self._dispatcher.wait(self, timeout)
        return self.get(timeout)

    def get(self, timeout: float | None) -> Any:
        """Wait on this thread, whatever drives the actors; raises as `result`."""
        if not self._done:
            wait = -1 if timeout is None else min(max(timeout, 0), TIMEOUT_MAX)
            if not self._gate.acquire(timeout=wait):
                msg = f"no answer within {timeout} s"
                raise TimeoutError(msg)
            self._gate.release()  # whoever else waits goes on, too
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        return self._value

    def add_done_callback(self, callback: Callable[[Promise], object]) -> None:
        """Call `callback(promise)` once it is done, at once if it is already.

        It runs on the thread that answers, often a turn: keep it as short as a
        ``loop.call_soon_threadsafe``. What it raises is logged and goes no further.
        """
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _finish(self, value: Any, error: BaseException | None) -> bool:
        with self._lock:
            if self._done:
                return False
            if error is not None:
                self._error, self._traceback = error, error.__traceback__
            self._value = value
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
        self._gate.release()
        asked, self.asked = self.asked, None
        if asked is not None:
            asked.promises.pop(self, None)
        for callback in callbacks:
            self._call(callback)
        return True

    def _call(self, callback: Callable[[Promise], object]) -> None:
        try:
            callback(self)
        except BaseException as error:
            if self._dispatcher is None:
                return
            crash = crash_of(error)
            self._dispatcher.log(
                "callback.failed",
                where="promise",
                error=crash.error,
                traceback=crash.traceback,
            )
