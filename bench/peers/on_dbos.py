"""The work under DBOS: a workflow that calls one step again and again.

Each step's result is on disk before the next begins. On SQLite DBOS leaves SQLite's
own defaults, a rollback journal and ``synchronous=FULL``; the ways that say ``wal``
make the file in WAL mode before DBOS opens it: a favour, and just as durable.

The ways with ``threads`` start workflows with `start_workflow`, on DBOS's own threads;
those with ``async`` with `start_workflow_async`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from serving import Operation, serve

WORKFLOW = "the-one"
operation = Operation()


@DBOS.step()
def step(n: int) -> str:
    """Perform one operation."""
    return operation(n)


@DBOS.workflow()
def workflow(operations: int) -> int:
    """Perform them in turn."""
    for n in range(operations):
        step(n)
    return operations


@DBOS.step()
async def step_async(n: int) -> str:
    """Perform one operation."""
    return operation(n)


@DBOS.workflow()
async def workflow_async(operations: int) -> int:
    """Perform them in turn."""
    for n in range(operations):
        await step_async(n)
    return operations


class OnDbos:
    """DBOS, launched on a database."""

    def __init__(self, options: dict[str, Any], given: Operation) -> None:
        global operation
        operation = given
        self._store = options["store"]
        self._way = options["way"]
        self._schema = options.get("schema")

    def start(self) -> None:
        """Configure and launch it; what was interrupted goes on."""
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": self._store,
            "log_level": "ERROR",
        }
        if self._schema:
            config["dbos_system_schema"] = self._schema
        elif "wal" in self._way:
            path = self._store.removeprefix("sqlite:///")
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
        DBOS(config=config)
        DBOS.launch()

    def run(self, tasks: int, operations: int) -> None:
        """Start the workflows, and wait for their ends."""
        if "async" in self._way:
            asyncio.run(self._run_async(tasks, operations))
            return
        if operation.die_at is not None:
            with SetWorkflowID(WORKFLOW):
                workflow(operations)
        elif tasks == 1:
            workflow(operations)
        else:
            handles = [DBOS.start_workflow(workflow, operations) for _ in range(tasks)]
            for handle in handles:
                handle.get_result()

    async def _run_async(self, tasks: int, operations: int) -> None:
        handles = [
            await DBOS.start_workflow_async(workflow_async, operations)
            for _ in range(tasks)
        ]
        for handle in handles:
            await handle.get_result()

    def resume(self) -> None:
        """Wait for the workflow that its launch has recovered."""
        DBOS.retrieve_workflow(WORKFLOW).get_result()

    def facts(self) -> dict[str, Any]:
        """The settings of its file, as another connection finds them."""
        if self._schema:
            return {}
        path = self._store.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous")
            }

    def close(self) -> None:
        """Let it go."""
        DBOS.destroy()


if __name__ == "__main__":
    serve(OnDbos)
