"""The callers of a runtime: what they are answered must be on disk by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import Budget
from perdure.errors import PerdureError
from perdure.supervision.faults import InjectedFault
from tests.simulation.outside import GOAL
from tests.simulation.process import Died

if TYPE_CHECKING:
    from tests.simulation.run import Run

__all__ = ["Callers"]


class Callers:
    """Submit, pause, resume, cancel, extend and close, as hosts do.

    What answers an approval or a timer joins here: one more order, and the record that
    its answer promises.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def call(self, what: str, number: int) -> None:
        """Do one thing to a task; what is answered must be on disk by then."""
        run = self._run
        runtime, place = run.process.runtime, len(run.witness.look())
        task = run.tasks.get(number, "")
        answered: Any = None
        try:
            match what:
                case "submit":
                    answered = self._submit(number)
                case "pause":
                    runtime.pause(task, "operator")
                case "resume":
                    answered = runtime.resume(task, "operator")
                case "cancel":
                    answered = runtime.ask_cancel(task, "operator")
                case "extend":
                    runtime.extend(task, Budget(model_calls=30))
                    answered = True
                case "close":
                    run.close()
        except PerdureError as error:
            if not run.over(error) and runtime._failed is not None:
                run.die(0.0)
                return
            self._may_refuse(what, error)
        except (TimeoutError, Died, InjectedFault) as error:
            if not run.over(error):
                run.note("live_after_faults", f"{what} of {task}: {error!r}")
        if answered and not run.process.dead:
            self._answered(what, run.tasks.get(number, task), place)

    def _submit(self, number: int) -> bool:
        run = self._run
        spec = run.schedule.tasks[number]
        handle = run.process.runtime.submit(
            "agent",
            GOAL.format(number=number),
            inputs={"number": number},
            budget=Budget(model_calls=spec.model_calls, tool_calls=80),
            priority=spec.priority,
            key=f"job {number}",
        )
        run.tasks[number] = handle.id
        return True

    def _may_refuse(self, what: str, error: PerdureError) -> None:
        run = self._run
        if not run.process.dead and not (
            what == "extend" and "has ended" in str(error)
        ):
            run.note("live_after_faults", f"{what}: {error!r}")

    def _answered(self, what: str, task: str, place: int) -> None:
        run = self._run
        kinds = {
            "submit": ("TaskQueued", 0),
            "resume": ("TaskWoken", 0),
            "cancel": ("TaskWoken", 0),
            "extend": ("Granted", place),
        }
        kind, first = kinds[what]
        found = any(
            one.type == kind and one.body["task"] == task
            for one in run.witness.since(first)
        )
        run.findings.check(
            "acked_durable", found, lambda: f"{what} of {task} was answered, not kept"
        )
