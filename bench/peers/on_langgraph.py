"""The work under LangGraph: a graph of one node that leads back to itself.

The state grows by each result, in a list with a reducer, as its messages do. Every call
has ``durability="sync"``: a checkpoint is on disk before the next step begins.
`SqliteSaver` sets WAL and leaves SQLite's default, ``synchronous=FULL``; it is set here
once more, so that nobody has to wonder.

The way ``threads`` has `SqliteSaver` and `invoke`, a thread for each task; ``async``
has `AsyncSqliteSaver` and `ainvoke`.
"""

from __future__ import annotations

import asyncio
import operator
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Annotated, Any, TypedDict

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from serving import Operation, serve

FULL = "PRAGMA synchronous=FULL"


def appended(held: list[str], writes: Sequence[list[str]]) -> list[str]:
    """The reducer of a delta channel: it is given several writes at once."""
    return [*held, *(one for write in writes for one in write)]


def state_of(*, delta: bool) -> Any:
    """The state's type, with the results in full or as a delta channel."""
    reducer: Any = operator.add
    if delta:
        from langgraph.channels.delta import DeltaChannel

        reducer = DeltaChannel(appended)
    results = Annotated[list[str], reducer]
    return TypedDict("State", {"operations": int, "results": results})  # type: ignore[misc]


class OnLangGraph:
    """A compiled graph on a checkpointer."""

    def __init__(self, options: dict[str, Any], operation: Operation) -> None:
        self._path = options["store"]
        self._async = options["way"] == "async"
        self._threads = count()
        state = state_of(delta=options["delta"])

        def work(state: Any) -> dict[str, Any]:
            return {"results": [operation(len(state["results"]))]}

        async def work_async(state: Any) -> dict[str, Any]:
            return work(state)

        def more(state: Any) -> str:
            return "work" if len(state["results"]) < state["operations"] else END

        builder = StateGraph(state)
        builder.add_node("work", work_async if self._async else work)
        builder.add_edge(START, "work")
        builder.add_conditional_edges("work", more, ["work", END])
        self._builder = builder

    def start(self) -> None:
        """Open the store and compile the graph."""
        if self._async:
            self._loop = asyncio.new_event_loop()
            self._loop.run_until_complete(self._open_async())
        else:
            self._connection = sqlite3.connect(self._path, check_same_thread=False)
            self._connection.execute(FULL)
            saver = SqliteSaver(self._connection)
            self._graph = self._builder.compile(checkpointer=saver)

    async def _open_async(self) -> None:
        self._aconnection = await aiosqlite.connect(self._path)
        await self._aconnection.execute(FULL)
        saver = AsyncSqliteSaver(self._aconnection)
        self._graph = self._builder.compile(checkpointer=saver)

    def run(self, tasks: int, operations: int) -> None:
        """Invoke the graph on a thread of its store for each task."""
        names = [str(next(self._threads)) for _ in range(tasks)]
        given = {"operations": operations, "results": []}
        if self._async:
            self._loop.run_until_complete(self._gather(names, given, operations))
        else:
            with ThreadPoolExecutor(tasks) as pool:
                list(
                    pool.map(lambda name: self._invoke(name, given, operations), names)
                )

    async def _gather(self, names: list[str], given: Any, operations: int) -> None:
        await asyncio.gather(
            *(
                self._graph.ainvoke(given, _config(name, operations), durability="sync")
                for name in names
            )
        )

    def _invoke(self, name: str, given: Any, operations: int) -> None:
        self._graph.invoke(given, _config(name, operations), durability="sync")

    def resume(self) -> None:
        """Go on with the first thread."""
        self._invoke("0", None, 10**6)

    def facts(self) -> dict[str, Any]:
        """The settings of its connection."""
        if self._async:
            return {}
        return {
            name: self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        }

    def close(self) -> None:
        """Close the connection."""
        if self._async:
            self._loop.run_until_complete(self._aconnection.close())
            self._loop.close()
        else:
            self._connection.close()


def _config(name: str, operations: int) -> Any:
    return {
        "configurable": {"thread_id": name},
        "recursion_limit": operations + 10,
    }


if __name__ == "__main__":
    serve(OnLangGraph)
