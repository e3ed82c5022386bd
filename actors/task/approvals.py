"""The task's part for calls that wait: for a person's approval, or for the time.

An approval is bound to one operation and its exact arguments: its id is made from
them, and the door makes it again before it lets the call out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ...supervision.faults import hit
from ..events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalTaken,
    CallTool,
    TimerFired,
    TimerSet,
)
from ..executor.executor import Outcome, Work
from ..ledger.entry import approval_id
from ..names import APPROVAL_ANSWERS, TIMERS
from ..protocol import Remind
from .decide import Drive
from .rows import ApprovalRow, approval_row, timer_row
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["AnswersFound", "Approvals", "Gated"]


class Gated(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's function said whether a call must be approved."""

    op: int
    outcome: Outcome


class AnswersFound(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of the answers to this task's open approvals."""

    incarnation: int
    found: dict[str, bytes] | BaseException


class Approvals:
    """Gives no call to the door that needs an approval and has none."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._free: set[int] = set()  # a function said that these need none
        self._reads = 0

    @property
    def looking(self) -> bool:
        """Whether answers are being read: whoever would wait for one waits for that."""
        return self._reads > 0

    def passes(self, op: Op) -> bool:
        """Whether an operation may go on; if not, find out or ask, and come back."""
        action = op.action
        if op.gate == "waiting":
            self._fire(op)
        if not isinstance(action, CallTool) or op.gate or op.op in self._free:
            return True
        tool = self._task.agent.tools.get(action.tool)
        if tool is None or not (tool.approval or tool.rests):
            return True
        try:
            values = tool.parse(action.arguments)
        except ValueError:
            return True  # the door says what is wrong; nobody need look at it
        if tool.rests is not None:
            self._rest(op, tool.rests(values))
        elif callable(tool.approval):
            self._find_out(op, tool.approval, values)
        else:
            self._ask(op, action)
        return False

    def _find_out(
        self,
        op: Op,
        needed: Callable[[dict[str, object]], bool],
        values: dict[str, object],
    ) -> None:
        task = self._task
        address, number = task.address, op.op
        timeout = task.house.baseline.acceptance_timeout

        def deliver(outcome: Outcome) -> None:
            address.tell(Gated(op=number, outcome=outcome))

        work = Work(
            key=(task.id, f"approval {number}"),
            name="approval",
            effect="read",
            call=lambda: needed(values),
            timeout=timeout,
            not_after=task.house.now() + timeout,
            deliver=deliver,
        )
        executor = task.house.executor
        task.when_durable(task.last_seq, lambda: executor.run(work))

    def gated(self, message: Gated) -> None:
        """Go on where the function said False; in every other case ask a person."""
        task = self._task
        op = task.state.ops.get(message.op)
        if op is None or not op.open or op.gate or op.op in task.operations.sent:
            return
        outcome = message.outcome
        if outcome.refused:  # the runtime is closing: asked again after the next start
            task.under_way.discard(Drive(op.op, op.attempt))
        elif outcome.status == "completed" and outcome.value is False:
            self._free.add(op.op)
            task.operations.begin(op)
        elif isinstance(op.action, CallTool):
            self._ask(op, op.action)

    def _ask(self, op: Op, action: CallTool) -> None:
        task = self._task
        asked = ApprovalAsked(
            approval=approval_id(task.id, op.op, action.tool, action.arguments),
            op=op.op,
            tool=action.tool,
            arguments=action.arguments,
        )
        row = self._row(asked.approval, op, action)
        task.append(asked, rows=[approval_row(row)])
        hit("approval.asked", action.tool)

    def _row(self, approval: str, op: Op, action: CallTool) -> ApprovalRow:
        return ApprovalRow(
            approval=approval,
            task=self._task.id,
            op=op.op,
            tool=action.tool,
            arguments=action.arguments,
            at=self._task.house.now(),
        )

    def _rest(self, op: Op, seconds: float) -> None:
        task = self._task
        at = task.house.now() + seconds
        row = timer_row(task.id, op.op, at)
        seq = task.append(TimerSet(op=op.op, at=at), rows=[row])
        hit("timer.set", task.subject(op))
        self._remind(seq, at)

    def _remind(self, seq: int, at: float) -> None:
        task = self._task
        timers = task.house.address(TIMERS)
        remind = Remind(task=task.id, at=at)
        task.when_durable(seq, lambda: timers.tell(remind))

    def begin(self) -> None:
        """Take the waits up again, after a start: nobody may have heard of them."""
        now = self._task.house.now()
        for op in self._task.state.open_ops():
            if op.gate == "waiting" and op.due > now:
                self._remind(self._task.last_seq, op.due)
        self.look()

    def _fire(self, op: Op) -> None:
        task = self._task
        row = timer_row(task.id, op.op, None)
        task.append(TimerFired(op=op.op), rows=[row])
        hit("timer.fired", task.subject(op))

    def time_has_come(self) -> None:
        """Do not pause for a time that is over."""
        task = self._task
        now = task.house.now()
        waiting = [op for op in task.state.open_ops() if op.gate == "waiting"]
        if any(op.due <= now for op in waiting):
            task.parting.gone_on("approval", "timer", "subtask")

    def look(self) -> None:
        """Read the answers to what is open, behind all appends so far."""
        task = self._task
        wanted = [op.approval for op in task.state.open_ops() if op.gate == "asked"]
        if not wanted:
            return
        self._reads += 1
        address, incarnation = task.address, task.incarnation

        def read(reader: Reader) -> dict[str, bytes]:
            found = {one: reader.row(APPROVAL_ANSWERS, one) for one in wanted}
            return {name: row for name, row in found.items() if row is not None}

        def done(found: dict[str, bytes] | BaseException) -> None:
            address.tell(AnswersFound(incarnation=incarnation, found=found))

        task.house.journal.read(read, done)

    def found(self, message: AnswersFound) -> None:
        """Take the answers that have come; each lets its own call go on."""
        task = self._task
        if message.incarnation != task.incarnation:
            return
        self._reads -= 1
        if isinstance(message.found, BaseException):
            raise message.found
        if task.parting.leaving:
            return
        for op in task.state.open_ops():
            body = message.found.get(op.approval)
            if op.gate != "asked" or body is None:
                continue
            answer = msgspec.json.decode(body, type=ApprovalAnswered)
            taken = ApprovalTaken(
                approval=op.approval,
                op=op.op,
                approved=answer.approved,
                by=answer.by,
                why=answer.why,
            )
            status = "approved" if answer.approved else "rejected"
            task.append(taken, rows=self._closed(op, status))
            task.parting.gone_on("approval", "timer", "subtask")

    def dropped(self, op: Op) -> list[Row]:
        """The row of a wait that nobody need end any more, if there is one."""
        if op.gate == "waiting":
            return [timer_row(self._task.id, op.op, None)]
        return self._closed(op, "dropped") if op.gate == "asked" else []

    def _closed(self, op: Op, status: str) -> list[Row]:
        assert isinstance(op.action, CallTool)
        row = self._row(op.approval, op, op.action)
        return [approval_row(msgspec.structs.replace(row, status=status))]
