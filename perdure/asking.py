"""How callers outside ask the services of a runtime, and when they are refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .actors import names
from .errors import RuntimeClosed, RuntimeFailed, UseAsync
from .logs import Sink
from .supervision.dispatch import Dispatcher
from .supervision.lifecycle import ActorStopped
from .supervision.promise import Promise
from .supervision.system import System
from .watch import Openings

__all__ = ["Asking"]

ASK_AGAIN = 0.01  # seconds
ASK_TIMEOUT = 30.0  # seconds for a call that only has to become durable


class Asking:
    """The part of a `Runtime` that asks its services, on any thread."""

    _closed: bool
    _dispatcher: Dispatcher
    _failed: RuntimeFailed | None
    _openings: Openings
    _pid: int
    _sink: Sink
    _system: System

    def _log(self, event: str, **fields: Any) -> None:
        self._sink.write(event, {"at": self._dispatcher.clock.time(), **fields})

    def _ask(self, make: Callable[[Promise], Any], *, to: str = names.ADMISSION) -> Any:
        """Ask a service; a restart of it in between only makes the answer later."""
        clock = self._dispatcher.clock
        until = clock.monotonic() + ASK_TIMEOUT
        while True:
            self._refuse_if_over()
            left = max(0.0, until - clock.monotonic())
            if not self._openings.is_up:
                self._openings.wait_for().result(left)
            try:
                return self._system.address(to).ask(make, left)
            except ActorStopped:
                if clock.monotonic() >= until:
                    raise
                # Its end is known here before those hear of it who see to its restart.
                with suppress(TimeoutError):
                    Promise(self._dispatcher).result(ASK_AGAIN)

    def _refuse_if_over(self) -> None:
        self._refuse_if_forked()
        if self._closed:
            raise RuntimeClosed
        if self._failed is not None:
            raise self._failed

    def _refuse_if_forked(self) -> None:
        # First of all: a lock that another thread held at the fork stays held here.
        if os.getpid() != self._pid:
            raise RuntimeClosed(
                "this process was forked from the runtime's: open a Runtime here"
            )

    @staticmethod
    def refuse_in_loop(call: str, twin: str) -> None:
        """Raise UseAsync where a blocking call would block an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise UseAsync(call, twin)
