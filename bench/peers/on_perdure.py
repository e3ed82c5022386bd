"""The work under perdure: a policy that calls one `once` tool, with all that is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structlog
from serving import Operation, serve

from perdure import (
    Agent,
    Budget,
    Call,
    DidNotHappen,
    Effect,
    Finish,
    PolicyView,
    Runtime,
    tool,
)

WAIT = 600  # seconds
CRITICAL = 50  # nothing that is logged is as bad

_SILENT = structlog.wrap_logger(
    structlog.PrintLogger(),
    wrapper_class=structlog.make_filtering_bound_logger(CRITICAL),
)


class OnPerdure:
    """A runtime, given tasks."""

    def __init__(
        self, options: dict[str, Any], operation: Operation, *, log: bool = True
    ) -> None:
        self._store = options["store"]
        # Without a file its lines go nowhere: nobody listens to that logger.
        self._log = Path(options["folder"]) / "perdure.log" if log else _SILENT

        def not_yet(_: Effect) -> DidNotHappen:
            return DidNotHappen()  # it dies before it begins

        @tool(effect="once", probe=not_yet, settle=0.0)
        def work(n: int) -> str:
            return operation(n)

        def decide(view: PolicyView) -> Call | Finish:
            if view.count >= view.inputs["operations"]:
                return Finish(view.count)
            return Call("work", {"n": view.count})

        self._agent = Agent(name="worker", policy=decide, tools=[work])

    def start(self) -> None:
        """Open the store; what was interrupted goes on."""
        self._runtime = Runtime(
            self._store,
            agents=[self._agent],
            active=100,
            log=self._log,
            pool=Budget(tool_calls=10**9),
        )

    def run(self, tasks: int, operations: int) -> None:
        """Submit the tasks, and wait for their ends."""
        handles = [
            self._runtime.submit(
                "worker",
                "Work",
                inputs={"operations": operations},
                budget=Budget(tool_calls=operations + 1),
            )
            for _ in range(tasks)
        ]
        for handle in handles:
            result = handle.wait(timeout=WAIT)
            if result.status != "completed":
                raise SystemExit(str(result))

    def resume(self) -> None:
        """Wait for the task that the store has."""
        (task,) = self._runtime.tasks()
        result = self._runtime.task(task.task).wait(timeout=WAIT)
        if result.status != "completed":
            raise SystemExit(str(result))

    def facts(self) -> dict[str, Any]:
        """It knows no other setting than full durability."""
        return {"log": True, "budget": True}

    def close(self) -> None:
        """Close the runtime."""
        self._runtime.close()


if __name__ == "__main__":
    serve(OnPerdure)
