"""What people say to calls that wait for them: yes, no, another call, or no after all.

A yes may be taken back until the call is made; a no stands. Whatever is said twice the
same way is said once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...supervision.faults import hit
from ..events import ApprovalAnswered
from ..names import APPROVAL_ANSWERS, APPROVALS
from ..protocol import Answer
from ..task.expiring import no_warning
from ..task.rows import ApprovalRow, TaskRow
from ..tool import UNDO
from .answering import look_up

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Answers"]

OVER = {
    "used": "the call has been made",
    "dropped": "the call is no longer wanted",
    "rejected": "it was answered before",
    "changed": "it was answered before",
    "expired": "it has expired; `resume` has it asked for anew",
}


class Answers:
    """Admission's part for approvals; their tasks are told, or woken to look."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._given: dict[str, ApprovalAnswered] = {}  # not sure to be read yet

    def answer(self, message: Answer) -> None:
        """Take an answer, or say why it changes nothing."""
        look_up(
            self._admission,
            message,
            message.approval,
            spaces=(APPROVALS, APPROVAL_ANSWERS),
            kind=ApprovalRow,
            unknown=f"there is no approval {message.approval!r}; the open ones are "
            "listed by `perdure show` and runtime.approvals()",
            then=self._found,
        )

    def _found(
        self,
        message: Answer,
        approval: ApprovalRow,
        task: TaskRow,
        answered: bytes | None,
    ) -> None:
        callers = self._admission.callers
        before = self._before(approval, answered)
        if over := self._over(approval, before, message):
            callers.conclude(message, False, over)
        elif wrong := self._wrong(approval, task, message):
            callers.refuse(message, wrong)
        else:
            self._take(approval, task, message, before)

    def _before(self, approval: ApprovalRow, answered: bytes | None) -> bool | None:
        """What was said before; None where nobody has answered."""
        if approval.approval in self._given:
            return self._given[approval.approval].approved
        if answered is None:
            return None
        return msgspec.json.decode(answered, type=ApprovalAnswered).approved

    def _over(self, approval: ApprovalRow, before: bool | None, message: Answer) -> str:
        """Why an answer comes too late, or nothing."""
        if approval.status in OVER:
            return OVER[approval.status]
        if before is False or (before and (message.approved or message.arguments)):
            return "it was answered before"
        now = self._admission.house.now()
        if before is None and approval.expires is not None and now >= approval.expires:
            return OVER["expired"]
        return ""

    def _wrong(self, approval: ApprovalRow, task: TaskRow, message: Answer) -> str:
        """Why the call that is to be made instead cannot be one, or nothing."""
        agent = self._admission.house.agents.get(task.agent)
        if not message.arguments or agent is None:
            return ""
        if approval.tool.endswith(UNDO):
            return f"{approval.tool} is approved or rejected as it is"
        name = message.tool or approval.tool
        tool = agent.tools.get(name)
        if tool is None:
            known = ", ".join(sorted(agent.tools))
            return f"there is no tool {name!r}; tools: {known}"
        try:
            tool.parse(message.arguments)
        except ValueError as error:
            return str(error)
        return ""

    def _take(
        self, approval: ApprovalRow, task: TaskRow, message: Answer, before: bool | None
    ) -> None:
        admission = self._admission
        instead = (message.tool or approval.tool) if message.arguments else ""
        event = ApprovalAnswered(
            approval=approval.approval,
            task=approval.task,
            approved=message.approved,
            by=message.by,
            why=message.why,
            at=admission.house.now(),
            tool=instead,
            arguments=message.arguments,
        )
        self._given[approval.approval] = event
        said = "approved" if message.approved else "rejected"
        if before:
            said = "taken back: an attempt that has begun is not touched"
        elif instead:
            said = f"changed: {instead} is judged as a call of its own"
        warning = no_warning(approval.task, approval.op, approval.at, approval.expires)
        admission.callers.wake_answered(message, task, event, said, warning)
        # Whoever looks from now on finds the row, and reads end in their order.
        admission.read(lambda _: None, lambda _: self._readable(event))
        hit("approval.answered", approval.tool)

    def _readable(self, event: ApprovalAnswered) -> None:
        if self._given.get(event.approval) is event:
            del self._given[event.approval]
