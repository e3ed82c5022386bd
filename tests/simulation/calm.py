"""The end of a run, without faults: every task must come to its end, and in time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.run import Run

__all__ = ["CALM", "Calm"]

CALM = 50.0  # virtual seconds without faults in which every task must reach a stop
STOPS = 20  # how often a task is told to go on before the run is given up
STOPPED = ("paused", "parked")


class Calm:
    """Tells stopped tasks to go on, and counts the time in which nobody waits for it.

    A task that sleeps is as good as stopped until its time has come; from then on it
    must be woken. So must one whose approvals have all been answered.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._reopened = 0

    def last(self) -> None:
        """Run on until every task has ended, or will not."""
        run = self._run
        while run.live_on():
            pass
        run.calm = True
        for number in range(len(run.schedule.tasks)):  # as a caller that tries again
            run.callers.call("submit", number)
            if run.live_on():  # the last fault had the runtime give up
                self._reopened += 1
                run.callers.call("submit", number)
        while run.process.sim.asleep and run.process.sim.step():
            pass
        if self._all_go_on():
            rows = [run.witness.row(task) for task in run.witness.parents]
            run.findings.check(
                "live_after_faults",
                run.all_ended(),
                lambda: f"{CALM} s without faults: {rows}",
            )
            self._answer_late()

    def _all_go_on(self) -> bool:
        """Whether nobody had to be told too often."""
        run = self._run
        since = run.clock.monotonic()
        told: Counter[str] = Counter()
        while not run.all_ended():
            if self._reopened < 1 and run.live_on():
                self._reopened += 1
                since = run.clock.monotonic()
            elif (task := self._stopped()) is not None:
                told[task] += 1
                if told[task] > STOPS:
                    row = run.witness.row(task)
                    run.note("live_after_faults", f"stops for ever: {row}")
                    return False
                self._have_go_on(task)
                since = run.clock.monotonic()
            else:
                asleep = self._asleep()
                if self._is_over(since):
                    break
                since = run.clock.monotonic() if asleep else since
        return True

    def _answer_late(self) -> None:
        """What is answered after the end changes nothing, and is answered itself."""
        people = self._run.people
        people.answer_all()
        since = self._run.clock.monotonic()
        while people.unanswered and not self._is_over(since):
            pass
        self._run.findings.check(
            "live_after_faults",
            not people.unanswered,
            lambda: f"commands without an answer: {people.unanswered}",
        )

    def _have_go_on(self, task: str) -> None:
        run = self._run
        match run.witness.row(task)["reason"]:
            case "approval":
                run.people.answer_all(task)
            case "budget":
                run.callers.call("extend", 0, task)
            case _:
                run.callers.call("resume", 0, task)

    def _asleep(self) -> bool:
        """Whether somebody still waits for a time that is to come."""
        now = self._run.clock.time()
        return any(at > now for at in self._run.witness.due.values())

    def _is_over(self, since: float) -> bool:
        """Take one step; whether there was none, or no time for it."""
        run = self._run
        return run.clock.monotonic() - since > CALM or not run.process.sim.step()

    def _stopped(self) -> str | None:
        """The first task that does not go on unless somebody does something."""
        run = self._run
        for task in run.witness.parents:
            row = run.witness.row(task)
            if row.get("status") not in STOPPED:
                continue
            if row["reason"] != "approval" or run.people.owe(task):
                return task
        return None
