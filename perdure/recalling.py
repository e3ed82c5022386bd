"""Searching the record: by a runtime's callers, and by a process that only reads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

from .actors import names
from .actors.executor.executor import Executor
from .actors.memory.index import Index
from .actors.memory.library import CLOSED, INDEX, Library
from .actors.memory.record import answer, take_page, take_task
from .actors.memory.searching import Hit, Question, question
from .actors.memory.vectors import Vectors
from .asking import ASK_TIMEOUT, Asking
from .errors import Misuse, RuntimeClosed, StoreRefused
from .folds import event_of
from .storage.address import file_of
from .storage.reader import Reader
from .supervision.dispatch import Dispatcher
from .supervision.promise import Promise

__all__ = ["Recalling", "check_vectors", "library_of", "search"]

LONGEST_WAIT = 31_536_000.0  # seconds, a year; clocks end somewhere beyond


class Recalling(Asking):
    """The part of a `Runtime` that searches what its tasks did."""

    _library: Library

    def recall(
        self, query: str, *, timeout: float | None = ASK_TIMEOUT, **filters: Any
    ) -> list[Hit]:
        """Search the record of all tasks by words, best hits first, newest on ties.

        Found is what holds all words of the query, or else any of them: words, parts
        of identifiers, numbers, and any two Chinese or Japanese characters in a row. A
        query without a word finds the newest. The first search makes the index of the
        store (3 s of CPU and 10 MB for 10,000 calls with 500 characters each, on one
        core); later ones only add what is new.

        Args:
            query: words; nothing in it is syntax.
            timeout: seconds to wait for the answer; None waits as long as it takes.
            filters: `task` (with its sub-tasks), `step`, `tool`, `outcome`; `since`
                and `until` in seconds since the epoch; `limit` of hits, 10.

        Raises:
            Misuse: naming the argument, the value and the fix.
            StoreRefused: the record cannot be searched just now.
            TimeoutError: it took longer; the index is still being made.
            UseAsync: inside an event loop.
        """
        self.refuse_in_loop("recall", "`await runtime.arecall(...)`")
        return self._recall(query, timeout, filters)

    async def arecall(
        self,
        query: str,
        *,
        timeout: float | None = ASK_TIMEOUT,  # noqa: ASYNC109 - recall's
        **filters: Any,
    ) -> list[Hit]:
        """`recall` for event loops; the same arguments."""
        return await asyncio.to_thread(self._recall, query, timeout, filters)

    def _recall(
        self, query: str, timeout: float | None, filters: dict[str, Any]
    ) -> list[Hit]:
        self._refuse_if_over()
        asked = _question(query, filters)
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (number and 0 <= timeout <= LONGEST_WAIT):
            raise Misuse(
                f"recall: timeout={timeout!r} must be seconds from 0 to "
                f"{LONGEST_WAIT:.0f}, or None"
            )
        promise = Promise(self._dispatcher)
        self._library.ask(asked, promise.set)
        said: list[Hit] | str = promise.result(timeout)
        if isinstance(said, list):
            return said
        raise RuntimeClosed if said == CLOSED else StoreRefused(said)


def search(reader: Reader, query: str, **filters: Any) -> list[Hit]:
    """`Runtime.recall` for a process that only reads: with an index of its own.

    That is made in a temporary file from all that is searched, one task or the whole
    log, and is gone with the answer. Raises Misuse.
    """
    asked = _question(query, filters)
    with closing(Index(None)) as index:
        if asked.task:
            below = reader.rows(names.TASK_ROWS, f"{asked.task}.")
            for task in (asked.task, *(row.key for row in below)):
                take_task(index, reader, event_of, task)
        else:
            while take_page(index, reader, event_of):
                pass
        return answer(index, reader, asked)


def _question(query: str, filters: dict[str, Any]) -> Question:
    try:
        return question(query, **filters)
    except TypeError:
        known = ", ".join(Question.__struct_fields__[1:])
        given = ", ".join(sorted(map(str, filters)))
        raise Misuse(f"recall: of {given} it knows these filters: {known}") from None


def check_vectors(vectors: object) -> None:
    """Raise Misuse for what cannot be given as `Runtime(recall=…)`."""
    if not isinstance(vectors, Vectors | None):
        raise Misuse(f"recall={vectors!r} is no Vectors; give Vectors(embed=…)")


def library_of(
    store: object,
    dispatcher: Dispatcher,
    executor: Executor,
    open_reader: Callable[[], Reader],
    vectors: Vectors | None,
) -> Library:
    """The searcher of a store; its index stands beside a store that is a file."""

    def log(event: str, **fields: Any) -> None:
        dispatcher.log(event, **fields)  # its system's, from when there is one

    path = None
    if isinstance(store, str | os.PathLike) and (real := file_of(store)):
        path = real.with_name(real.name + INDEX)
    return Library(
        dispatcher=dispatcher,
        executor=executor,
        open_reader=open_reader,
        decode=event_of,
        path=path,
        vectors=vectors,
        log=log,
    )
