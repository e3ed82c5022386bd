"""The recovery stream is written for tasks that are there, and for no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from perdure import Baseline
from perdure.actors.admission.gate import Gate
from perdure.actors.admission.place import Place
from perdure.actors.admission.queue import QueueState
from perdure.actors.events import ProgressMade, RecoveryBegan
from perdure.storage.records import Record
from tests.actors.admission.test_strikes import records


class Journal:
    """Counts what is written."""

    def __init__(self) -> None:
        self.appended = 0
        self.epochs: list[int] = []

    def acquire(self, stream: str, epoch: int) -> None:
        self.epochs.append(epoch)

    def append(self, changes: Any) -> Sequence[Record]:
        self.appended += 1
        return records("ProgressMade")


class Admission:
    """As much of it as the gate needs; a read ends when the test says so.

    Supervisors up to incarnation `over` are of before the last activation.
    """

    def __init__(self, *, over: int = 0) -> None:
        self.over = over
        self.house = self.activation = self
        self.baseline = Baseline()
        self.journal = Journal()
        place = Place(agent="a", group="", priority=0, place=1, epoch=1, where="active")
        self.state = QueueState(tasks={"t": place})
        self.found: Callable[[Any], None] | None = None

    def place(self, task: str) -> Place | None:
        return self.state.tasks.get(task)

    def read_about(self, of: Any, run: Any, then: Callable[[Any], None]) -> None:
        self.found = then

    def address(self, name: str) -> None:
        return

    def is_over(self, task: str, incarnation: int) -> bool:
        return incarnation <= self.over

    def now(self) -> float:
        return 0.0

    def read(self, run: Any, then: Callable[[Any], None]) -> None:
        self.found = then

    def draft(self, stream: str, version: int, event: Any) -> None:
        return

    def when_durable(self, seq: int, callback: Any) -> None:
        return


def progressed(*, ended: bool) -> int:
    """How often the stream is written when a recovered task gets further."""
    admission = Admission()
    Gate(admission).progressed("t")  # type: ignore[arg-type]
    if ended:
        admission.state = QueueState()
    assert admission.found is not None
    admission.found(records("RecoveryBegan"))
    return admission.journal.appended


def test_progress_of_a_task_that_has_ended_meanwhile_is_not_written() -> None:
    assert (progressed(ended=False), progressed(ended=True)) == (1, 0)


@pytest.mark.parametrize(("recovered", "written"), [(1, [2]), (2, [])])
def test_progress_of_a_task_that_was_activated_anew_meanwhile(
    recovered: int, written: list[int]
) -> None:
    # It is written as the newest owner, and not for a recovery that began since.
    admission = Admission()
    Gate(admission).progressed("t")  # type: ignore[arg-type]
    place = msgspec.structs.replace(admission.state.tasks["t"], epoch=2)
    admission.state = QueueState(tasks={"t": place})
    assert admission.found is not None
    began = records("RecoveryBegan")
    admission.found([msgspec.structs.replace(began[0], epoch=recovered)])
    assert admission.journal.epochs == written


def test_a_recovery_that_began_here_gets_further_without_a_read_and_once() -> None:
    admission = Admission()
    gate = Gate(admission)  # type: ignore[arg-type]
    gate.strike("t", 1, 3, RecoveryBegan(task="t", epoch=1, cause="it crashed"))
    gate.progressed("t")
    assert (admission.journal.appended, admission.found) == (1, None)
    gate.progressed("t")
    assert admission.found is not None
    admission.found(records("RecoveryBegan", "ProgressMade"))
    assert admission.journal.appended == 1


@pytest.mark.parametrize("since", ["nothing", "a strike", "a look"])
def test_what_was_read_with_a_task_stands_until_something_is_added(since: str) -> None:
    admission = Admission()
    gate = Gate(admission)  # type: ignore[arg-type]
    heard: list[Sequence[Record]] = []
    gate.seen("t", records("RecoveryBegan"))
    if since == "a strike":
        gate.strike("t", 1, 2, ProgressMade(task="t"))
    elif since == "a look":
        gate.with_strikes("t", lambda _: None)
    gate.with_strikes("t", heard.append)
    at_once = since == "nothing"
    assert (len(heard), admission.found is None) == (int(at_once), at_once)
