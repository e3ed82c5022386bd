"""A one-shot answer that a thread outside the actors waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pykka

from .lifecycle import crash_of
from .turn import refuse_in_turn

if TYPE_CHECKING:
    from .cell import Cell
    from .dispatch import Dispatcher

__all__ = ["Promise"]


class Promise:
    """An answer to come: the first `set` or `fail` counts, later ones do nothing.

    A promise that travelled in an ask fails with `ActorStopped` when the actor asked
    ends without answering it.
    """

    def __init__(self, dispatcher: Dispatcher | None = None) -> None:
        self._dispatcher = dispatcher
        self._future: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Promise], object]] = []
        self._done = False
        self.asked: Cell | None = None  # whose end fails it

    @property
    def done(self) -> bool:
        """Whether it has an answer or an error."""
        return self._done

    def set(self, value: Any = None) -> bool:
        """Answer; False if it was answered before. Never blocks, never raises."""
        try:
            self._future.set(value)
        except queue.Full:
            return False
        self._finish()
        return True

    def fail(self, error: BaseException) -> bool:
        """Answer with an error; False if it was answered before. Never raises."""
        try:
            self._future.set_exception((type(error), error, error.__traceback__))
        except queue.Full:
            return False
        self._finish()
        return True

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
        try:
            return self._future.get(timeout=timeout)
        except pykka.Timeout:
            msg = f"no answer within {timeout} s"
            raise TimeoutError(msg) from None

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

    def _finish(self) -> None:
        with self._lock:
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
        asked, self.asked = self.asked, None
        if asked is not None:
            asked.promises.pop(self, None)
        for callback in callbacks:
            self._call(callback)

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
