"""Following a task: its events from the log, and then those that come."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from .asking import Asking
from .cursor import Cursor
from .errors import Misuse, StoreRefused
from .feed import Page, Place, TaskEvent, Wanted, read_page
from .reading import Reading
from .stands import FollowUntil
from .storage.errors import Undecodable
from .storage.reader import Reader
from .waiters import LOOK_AGAIN, as_future
from .watchers import Watchers

if TYPE_CHECKING:
    from .supervision.promise import Promise

__all__ = ["AsyncEvents", "Events", "Following"]


class Following(Asking):
    """The part of a `Runtime` that tasks are followed by."""

    _reading: Reading
    _watchers: Watchers

    def events(
        self,
        task: str,
        after: int,
        *,
        until: FollowUntil,
        subtasks: bool,
        partial: bool,
        timeout: float | None,
    ) -> Events:
        """See `Handle.events`."""
        self.refuse_in_loop("events", "`async for event in handle.aevents()`")
        if timeout is not None and not (
            isinstance(timeout, int | float) and 0 <= timeout < math.inf
        ):
            raise Misuse(f"events: timeout={timeout!r}: give seconds, or None")
        return Events(
            self, self._cursor(task, after, until, subtasks, partial), timeout
        )

    def aevents(
        self,
        task: str,
        after: int,
        *,
        until: FollowUntil,
        subtasks: bool,
        partial: bool,
    ) -> AsyncEvents:
        """See `Handle.aevents`."""
        return AsyncEvents(self, self._cursor(task, after, until, subtasks, partial))

    def _cursor(
        self, task: str, after: int, until: FollowUntil, subtasks: bool, partial: bool
    ) -> Cursor:
        self._refuse_if_forked()
        if not isinstance(partial, bool):
            raise Misuse(f"events: partial={partial!r} must be True or False")
        wanted = Wanted(task=task, until=until, subtasks=subtasks)
        return Cursor(self._watchers, wanted, Place(seq=after), partial)

    def next_promise(self, cursor: Cursor) -> Promise | None:
        """See `Cursor.promise`; refused in a forked child."""
        self._refuse_if_forked()
        return cursor.promise()

    def next_page(self, wanted: Wanted, place: Place) -> Page | None:
        """What follows in the store; None where it cannot be read just now.

        Changes nothing: a caller that is gone has not read it. Raises StoreRefused
        where what stands there is damaged.
        """

        def read(reader: Reader) -> Page | Undecodable:
            try:
                return read_page(reader, wanted, place)
            except Undecodable as error:
                return error

        try:
            page = self._reading.read(read)
        except StoreRefused:  # its journal has just failed and is opened again
            return None
        if isinstance(page, Undecodable):
            raise StoreRefused(str(page))
        return page

    def wait_for_news(
        self, cursor: Cursor, promise: Promise, over: float | None
    ) -> None:
        """Wait until there may be news, to second `over` of the clock at most.

        Raises TimeoutError.
        """
        clock = self._dispatcher.clock
        left = None if over is None else max(0.0, over - clock.monotonic())
        if cursor.unsure:
            left = LOOK_AGAIN if left is None else min(left, LOOK_AGAIN)
        try:
            promise.result(left)
        except TimeoutError:
            if not cursor.unsure or (over is not None and clock.monotonic() >= over):
                raise TimeoutError(
                    f"nothing new of task {cursor.wanted.task}; the next call waits on"
                ) from None
            cursor.look()

    def by_the_clock(self, timeout: float | None) -> float | None:
        """The second of the clock that is `timeout` seconds away."""
        return None if timeout is None else self._dispatcher.clock.monotonic() + timeout


class Events:
    """Iterates over the events of a task on the caller's thread; for one at a time.

    Letting go of it, or `close`, frees all that it holds. `close` may come from
    another thread: the loop then ends.
    """

    def __init__(
        self, runtime: Following, cursor: Cursor, timeout: float | None
    ) -> None:
        self._runtime = runtime
        self._cursor = cursor
        self._timeout = timeout

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TaskEvent:
        """The next event, waited for. See `Handle.events` for what it raises."""
        runtime, cursor = self._runtime, self._cursor
        over = runtime.by_the_clock(self._timeout)
        while (event := cursor.pop()) is None:
            if cursor.over:
                raise StopIteration
            promise = runtime.next_promise(cursor)
            if promise is not None:
                runtime.refuse_in_loop("events", "`handle.aevents()`")
                runtime.wait_for_news(cursor, promise, over)
            elif not cursor.begin():
                cursor.absorb(None)
            elif (page := runtime.next_page(cursor.wanted, cursor.place)) is not None:
                cursor.absorb(page)
            else:
                cursor.unread()
        return event

    def close(self) -> None:
        """End it; again is a no-op."""
        self._cursor.close()


class AsyncEvents:
    """`Events` for event loops: it holds no thread while it waits."""

    def __init__(self, runtime: Following, cursor: Cursor) -> None:
        self._runtime = runtime
        self._cursor = cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskEvent:
        """The next event, awaited; a cancelled call loses none."""
        runtime, cursor = self._runtime, self._cursor
        while (event := cursor.pop()) is None:
            if cursor.over:
                raise StopAsyncIteration
            promise = runtime.next_promise(cursor)
            if promise is not None:
                await _news(cursor, promise)
                continue
            page = None
            if cursor.begin():
                try:
                    page = await asyncio.to_thread(
                        runtime.next_page, cursor.wanted, cursor.place
                    )
                except BaseException:
                    cursor.look()
                    raise
                if page is None:
                    cursor.unread()
                    continue
            cursor.absorb(page)
        return event

    async def aclose(self) -> None:
        """End it; a call that waits ends the loop."""
        self._cursor.close()


async def _news(cursor: Cursor, promise: Promise) -> None:
    news = as_future(promise, asyncio.get_running_loop())
    if not cursor.unsure:
        await news
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(news, LOOK_AGAIN)
        return
    cursor.look()
