"""The callers of a runtime: what they are answered must be on disk by then."""

from __future__ import annotations

from collections.abc import Callable
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
    """Submit, pause, resume, cancel, extend, answer wrongly and close, as hosts do."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def call(self, what: str, number: int, task: str = "") -> None:
        """Do one thing to a task, or to that sub-task of it.

        What is answered must be on disk by then.
        """
        run = self._run
        place = len(run.witness.look())
        task = task or run.tasks.get(number, "")
        answered = self.attempt(what, task, lambda: self._do(what, number, task))
        if answered and not run.process.dead:
            self._answered(what, task or run.tasks[number], place)

    def attempt(self, what: str, task: str, do: Callable[[], Any]) -> Any:
        """What a call gives; None where it ended with the process, or was refused."""
        run = self._run
        try:
            return do()
        except PerdureError as error:
            if not run.over(error) and run.process.runtime._failed is not None:
                run.die(0.0)
            else:
                self._may_refuse(what, error)
        except (TimeoutError, Died, InjectedFault) as error:
            if not run.over(error):
                run.note("live_after_faults", f"{what} of {task}: {error!r}")
        return None

    def _do(self, what: str, number: int, task: str) -> bool:
        run = self._run
        runtime = run.process.runtime
        match what:
            case "submit":
                return self._submit(number)
            case "pause":
                runtime.pause(task, "operator")
            case "resume":
                return runtime.resume(task, "operator")
            case "cancel":
                return runtime.ask_cancel(task, "operator")
            case "extend":
                runtime.extend(task, Budget(model_calls=30, tool_calls=10))
                return True
            case "stray":
                foreign = run.people.stray(task)
                runtime.answer(task, foreign, "operator", "", approved=True)
                run.note("once_at_most_once", f"{task} was given {foreign}")
            case "close":
                run.close()
        return False

    def _submit(self, number: int) -> bool:
        run = self._run
        spec = run.schedule.tasks[number]
        handle = run.process.runtime.submit(
            spec.agent,
            GOAL.format(number=number),
            inputs={"number": number},
            budget=Budget(model_calls=spec.model_calls, tool_calls=80),
            priority=spec.priority,
            not_before=None if spec.after is None else run.clock.time() + spec.after,
            key=f"job {number}",
        )
        run.tasks[number] = handle.id
        return True

    def _may_refuse(self, what: str, error: PerdureError) -> None:
        run = self._run
        expected = {"extend": "has ended", "stray": "there is no approval"}
        if not run.process.dead and expected.get(what, "?") not in str(error):
            run.note("live_after_faults", f"{what}: {error!r}")

    def _answered(self, what: str, task: str, place: int) -> None:
        run = self._run
        kinds = {
            "submit": (("TaskQueued",), 0),
            "resume": (("TaskWoken", "PauseLifted"), 0),
            "cancel": (("TaskWoken",), 0),
            "extend": (("Granted",), place),
        }
        types, first = kinds[what]
        found = any(
            one.type in types and one.body["task"] == task
            for one in run.witness.since(first)
        )
        run.findings.check(
            "acked_durable", found, lambda: f"{what} of {task} was answered, not kept"
        )
