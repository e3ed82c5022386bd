"""How a task stops: paused, drained, or at its end; what it tells before it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...supervision.faults import hit
from ..events import CancelRequested, TaskClosed, TaskClosing, TaskPaused
from ..names import ADMISSION, account, ledger
from ..protocol import (
    CloseAccount,
    Closed,
    Consult,
    Order,
    Statement,
    StatementReply,
    Stopped,
)
from . import closing
from .commands import Abandon, Clear, Drive, LetGo, StopFor
from .conditions import condition_of
from .rows import deadline_rows, ended_row, paused_row
from .state import Op
from .values import output_of

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Parting"]


class Parting:
    """The task's part for stops; nothing is stopped while an operation is under way.

    `stopping` is why the task is to pause, `draining` that the runtime closes,
    `leaving` that the last word is written and only its flush is waited for.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.stopping: StopFor | None = None
        self.draining = False
        self.leaving = False

    def stop_for(self, stop: StopFor, op: Op | None = None) -> None:
        """Pause once nothing is under way; `op` is what could not go on.

        A cancelled task winds up all the same, but for one that takes effects back.
        """
        state = self._task.state
        if not state.cancelled_by or state.compensate:
            self.stopping = self.stopping or stop
        if op is not None:
            kinds = Drive, Abandon, Clear, LetGo
            commands = {kind(op.op, op.attempt) for kind in kinds}
            self._task.under_way.difference_update(commands)

    def gone_on(self, *reasons: str) -> None:
        """Something that the task was about to pause for has come."""
        if self.stopping is not None and self.stopping.reason in reasons:
            self.stopping = None

    def ordered(self, order: Order) -> None:
        """Do as admission says."""
        if self.leaving:
            return
        task = self._task
        match order.what:
            case "cancel":
                self.cancel(order.by)
                self.stopping = None
            case "compensate" if not task.state.cancelled_by:
                self.cancel(order.by, compensate=True)
                self.stopping = None
            case "pause":
                if task.state.outcome is None:
                    self.stop_for(StopFor("operator", order.by, "resume"))
            case "unpause":
                self.gone_on("operator")
            case "answer":
                task.approvals.look()
                task.questions.look()
                task.subtasks.look()
                task.approvals.time_has_come()
                task.questions.time_has_come()
                task.slots.time_has_come()
                task.house.address(ledger(task.id)).tell(Consult())
            case "drain":
                self.draining = True

    def cancel(self, by: str, *, compensate: bool = False) -> None:
        """Write down that the task is to end; without `compensate` at once."""
        task = self._task
        state = task.state
        if state.outcome is None and (not state.cancelled_by or state.compensate):
            task.append(CancelRequested(by=by, compensate=compensate))
            task.subtasks.cancel_again()

    def stop_if_due(self) -> None:
        """Stop now, if that is wanted and nothing is under way."""
        task = self._task
        if self.leaving or task.under_way or not (self.stopping or self.draining):
            return
        if self.stopping is None or self.draining:
            task.snapshot("close")
            self.leave("drained", task.last_seq)
            return
        if closing.begin(task, self.stopping):
            self.stopping = None
            return
        message = Statement(reply_to=task.address)
        task.requests.send("statement", task.house.address(account(task.id)), message)

    def decide_outcome(self, status: Any, reason: str) -> None:
        """Write down how the task ends; it is closing from here."""
        task = self._task
        done = status == "completed"
        output = output_of(task.state) if done else ""
        judged = task.judging.accepted if done else ()
        task.append(
            TaskClosing(status=status, output=output, reason=reason, judged=judged),
            rows=task.questions.all_dropped(),
        )
        hit("task.closing")

    def conclude(self) -> None:
        """Have the account closed."""
        task = self._task
        message = CloseAccount(reply_to=task.address)
        task.requests.send("close", task.house.address(account(task.id)), message)

    def books(self, message: StatementReply | Closed) -> None:
        """The books are known: write the stop or the end down, with the task's row."""
        task = self._task
        # Two keys: a statement may still come once the account is being closed.
        key = "statement" if isinstance(message, StatementReply) else "close"
        if not task.requests.answered(key) or self.leaving:
            return
        if isinstance(message, StatementReply):
            stop = self.stopping
            winds_up = task.state.cancelled_by and not task.state.compensate
            if stop is None or winds_up:
                return
            paused = TaskPaused(
                reason=stop.reason,
                detail=stop.detail,
                ends_with=stop.ends_with,
                epoch=task.epoch,
                condition=stop.condition or condition_of(stop.reason),
                left=task.steps.left(),
            )
            row = paused_row(task.state, paused, message.books)
            over = deadline_rows(task.state, stop.reason)
            seq = task.append(paused, rows=[row, *over])
            if any(one.value is not None for one in over):
                task.remind(seq, task.house.now() + task.time_left())
            money = stop.reason == "budget"
            task.snapshot("budget_exhausted" if money else f"paused: {stop.reason}")
            self.leave("waiting", seq)
            return
        assert task.state.outcome is not None
        closed = TaskClosed(status=task.state.outcome.status)
        over = deadline_rows(task.state, "")
        row = ended_row(task.state, message.books)
        seq = task.append(closed, rows=[row, *over])
        self.leave("ended", seq)

    def leave(self, how: Any, seq: int) -> None:
        """Tell admission once `seq` is flushed, and end with the family."""
        task = self._task
        self.leaving = True
        message = Stopped(
            task=task.id, epoch=task.epoch, how=how, status=task.state.status
        )
        admission = task.house.address(ADMISSION)

        def flushed() -> None:
            admission.tell(message)
            task.stop()

        task.when_durable(seq, flushed)
