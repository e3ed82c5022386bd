"""The task's part for calls that wait: for a person's approval, or for the time.

An approval is bound to one operation and its exact arguments: its id is made from
them, and the door makes it again before it lets the call out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...storage.records import Row
from ...supervision.faults import hit
from ..context.measure import canonical
from ..events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalExpired,
    ApprovalTaken,
    CallTool,
    RejectionRepeated,
    TimerFired,
    TimerSet,
)
from ..executor.executor import Outcome, Work
from ..ledger.entry import approval_id, call_name
from ..names import APPROVAL_ANSWERS
from ..rules import refusal
from ..tool import Tool
from .attempt import rules_of
from .commands import Drive
from .expiring import expiry_rows, no_expiry, remind
from .looking import Looks, Rows
from .rows import WAITS, ApprovalRow, approval_row, no_timer, timer_row
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Approvals", "Gated"]


WRONG = (ValueError, TypeError, RecursionError)  # what arguments may be


class Gated(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's function said whether a call must be approved."""

    op: int
    outcome: Outcome


class Approvals:
    """Gives no call to the door that needs an approval and has none."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._free: set[int] = set()  # a function said that these need none
        self._valid: dict[int, int] = {}  # attempts by op, whose approval was read
        self._held: set[int] = set()  # operations that go on once a read is back
        self.looks = Looks(task, APPROVAL_ANSWERS)

    def passes(self, op: Op) -> bool:
        """Whether an operation may go on; if not, find out or ask, and come back."""
        action = op.action
        if op.gate:
            if op.gate == "waiting":
                self._fire(op)
            return op.gate != "approved" or self._still_valid(op)
        if not isinstance(action, CallTool) or op.op in self._free:
            return True
        task = self._task
        tool = task.agent.tool_of(action.tool, undo=action.undoes is not None)
        if tool is None or not (tool.approval or tool.rests):
            return True
        try:
            values = tool.parse(action.arguments)
            call = _call(tool, values)
            if not op.undoes and refusal(rules_of(task), tool, values):
                return True  # nobody can approve it
        except WRONG:
            return True  # the door says what is wrong; nobody need look at it
        if tool.rests is not None:
            self._rest(op, tool.rests(values))
        elif not op.undoes and (rejected := task.state.rejections.get(call)):
            task.append(RejectionRepeated(op=op.op, rejected=rejected))
            task.under_way.discard(Drive(op.op, op.attempt))
        elif callable(tool.approval):
            self._find_out(op, tool.approval, values)
        else:
            self._ask(op, action)
        return False

    def _still_valid(self, op: Op) -> bool:
        """Look before each attempt whether the answer still stands, and in time.

        An attempt that may have run is past that: it is only found out about.
        """
        task = self._task
        if op.op in task.operations.in_doubt:
            return True
        if op.expires is not None and op.expires <= task.house.now():
            self._expire(op)  # somebody is there who answers: asked anew at once
            assert isinstance(op.action, CallTool)
            self._ask(task.state.ops[op.op], op.action)
            return False
        if self._valid.get(op.op) == op.attempt:
            return True
        self._held.add(op.op)
        self.look()
        return False

    def _expire(self, op: Op) -> None:
        task = self._task
        expired = ApprovalExpired(approval=op.approval, op=op.op)
        task.append(expired, rows=self._closed(op, "expired"))
        hit("approval.expired", task.subject(op))

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
        tool = task.agent.tool_of(action.tool, undo=op.undoes)
        now = task.house.now()
        seconds = tool.expires if tool is not None else None
        asked = ApprovalAsked(
            approval=approval_id(
                task.id, op.op, action.tool, action.arguments, op.asks
            ),
            op=op.op,
            tool=action.tool,
            arguments=action.arguments,
            at=now,
            expires=None if seconds is None else now + seconds,
        )
        row = ApprovalRow(
            approval=asked.approval,
            task=task.id,
            op=op.op,
            tool=action.tool,
            arguments=action.arguments,
            at=now,
            expires=asked.expires,
        )
        rows = [approval_row(row)]
        if asked.expires is not None:
            rows += expiry_rows(task.id, op.op, asked.approval, now, asked.expires)
        seq = task.append(asked, rows=rows)
        hit("approval.asked", action.tool)
        if asked.expires is not None:
            remind(task, seq, asked.approval, now, asked.expires)

    def _rest(self, op: Op, seconds: float) -> None:
        task = self._task
        at = task.house.now() + seconds
        row = timer_row(task.id, op.op, at)
        seq = task.append(TimerSet(op=op.op, at=at), rows=[row])
        hit("timer.set", task.subject(op))
        task.remind(seq, at)

    def begin(self) -> None:
        """Take the waits up again, after a start: nobody may have heard of them."""
        now = self._task.house.now()
        for op in self._task.state.open_ops():
            if op.gate == "waiting" and op.due > now:
                self._task.remind(self._task.last_seq, op.due)
            elif op.gate == "asked" and op.expires is not None:
                seq, at = self._task.last_seq, op.asked_at
                remind(self._task, seq, op.approval, at, op.expires)
        self.look()

    def _fire(self, op: Op) -> None:
        task = self._task
        row = no_timer(task.id, op.op, op.due)
        task.append(TimerFired(op=op.op), rows=[row])
        hit("timer.fired", task.subject(op))

    def time_has_come(self) -> None:
        """Do not pause for a time that is over."""
        task = self._task
        now = task.house.now()
        if any(_over(op, now) for op in task.state.open_ops()):
            task.parting.gone_on(*WAITS)

    def look(self) -> None:
        """Read the answers to what is open, behind all appends so far."""
        gated = ("asked", "approved")
        ops = self._task.state.open_ops()
        self.looks.read((op.approval for op in ops if op.gate in gated), self._found)

    def _found(self, found: Rows, at: float) -> None:
        """Take the answers that had come by second `at`; each lets its call go on."""
        task = self._task
        for op in task.state.open_ops():
            if op.op in self._held:
                self._held.discard(op.op)
                task.under_way.discard(Drive(op.op, op.attempt))
            body = found.get(op.approval)
            if body is not None:
                self._hear(op, msgspec.json.decode(body, type=ApprovalAnswered))
            elif op.gate == "asked" and _over(op, at):
                self._expire(op)

    def _hear(self, op: Op, answer: ApprovalAnswered) -> None:
        operations = self._task.operations
        begun = op.op in operations.sent or op.op in operations.in_doubt
        if op.gate == "approved" and answer.approved:
            self._valid[op.op] = op.attempt
        elif op.gate == "asked" or (op.gate == "approved" and not begun):
            self._take(op, answer)

    def _take(self, op: Op, answer: ApprovalAnswered) -> None:
        task = self._task
        taken = ApprovalTaken(
            approval=op.approval,
            op=op.op,
            approved=answer.approved,
            by=answer.by,
            why=answer.why,
            at=answer.at,
            tool=answer.tool,
            arguments=answer.arguments,
            call="" if answer.approved else self._call_of(op),
        )
        status = "approved" if answer.approved else "rejected"
        if answer.tool:
            status = "changed"
        signed = msgspec.structs.replace(op, approver=answer.by, answered_at=answer.at)
        task.append(taken, rows=self._closed(signed, status))
        if answer.approved:
            self._valid[op.op] = op.attempt
        task.parting.gone_on(*WAITS)

    def _call_of(self, op: Op) -> str:
        assert isinstance(op.action, CallTool)
        tool = self._task.agent.tool_of(op.action.tool, undo=op.undoes)
        try:
            return _call(tool, tool.parse(op.action.arguments)) if tool else ""
        except WRONG:
            return ""

    def dropped(self, op: Op) -> list[Row]:
        """The row of a wait that nobody need end any more, if there is one."""
        if op.gate == "waiting":
            return [no_timer(self._task.id, op.op, op.due)]
        return self._closed(op, "dropped") if op.gate in ("asked", "approved") else []

    def used(self, op: Op) -> list[Row]:
        """The row of an approval whose call has its outcome, if there is one."""
        self._valid.pop(op.op, None)
        if not op.approval or op.gate in ("rejected", "expired"):
            return []
        return self._closed(op, "used")

    def _closed(self, op: Op, status: Any) -> list[Row]:
        assert isinstance(op.action, CallTool)
        row = ApprovalRow(
            approval=op.approval,
            task=self._task.id,
            op=op.op,
            tool=op.action.tool,
            arguments=op.action.arguments,
            at=op.asked_at,
            status=status,
            expires=op.expires,
            by=op.approver,
            answered=op.answered_at,
        )
        rows = [approval_row(row)]
        if op.gate == "asked" and op.expires is not None:
            rows += no_expiry(self._task.id, op.op, op.asked_at, op.expires)
        return rows


def _over(op: Op, now: float) -> bool:
    """Whether the time has come that an operation waits for, or until."""
    if op.gate == "asked":
        return op.expires is not None and op.expires <= now
    return op.gate == "waiting" and op.due <= now


def _call(tool: Tool, values: dict[str, Any]) -> str:
    """Name a call by its tool and exact arguments, in whatever order they stood."""
    return call_name(tool.name, canonical(msgspec.to_builtins(values)))
