"""The task's part for services that are limited: a slot first, then the other legs.

    drive -> TakeSlot -> granted: go on | come again at T: a row, woken by the timer

A slot is a matter of seconds: an attempt that is not begun by then takes another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.records import Row
from ...supervision.faults import hit
from ..events import CallTool, Event, RestAsked, SlotCame, SlotDeferred
from ..names import WINDOWS
from ..protocol import (
    CloseWindow,
    Replied,
    SlotReply,
    TakeSlot,
    WindowIsClosed,
)
from . import asides
from .rows import WAITS, no_timer, timer_row
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Slots"]

SHORT = 5.0  # seconds; a longer rest that a service asked for is waited for as a row


class Slots:
    """Lets no operation of a limited service begin without a slot."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._until: dict[int, tuple[int, float]] = {}  # attempt, and its last second

    def pause(self, op: Op, backoff: float) -> float:
        """The seconds to wait here before the next attempt; 0 where it waits as a row.

        `backoff` is what is waited for after a failure anyway.
        """
        rest = op.rest
        if rest.until or rest.waited:
            return 0.0
        if not rest.retry_at:
            return backoff
        left = rest.retry_at - self._task.house.now()
        return 0.0 if left > max(backoff, SHORT) else max(backoff, left, 0.0)

    def passes(self, op: Op) -> bool:
        """Whether an operation may go on; if not, ask for its slot, and come back."""
        task = self._task
        if op.rest.until:
            task.append(SlotCame(op=op.op), rows=self.dropped(op))
            hit("slot.came", task.subject(op))
        rest, service = task.state.ops[op.op].rest, self._service(op)
        if op.rejected:
            return True
        if not service and rest.retry_at and rest.retry_at > task.house.now():
            if not asides.deferred(task, op, task.agent.model.name, rest.retry_at):
                self._defer(op, "", rest.retry_at)
            return False
        if not service:
            return True
        message = TakeSlot(
            service=service,
            task=task.id,
            op=op.op,
            attempt=op.attempt,
            reply_to=task.address,
            waited=rest.waited,
            closed=rest.retry_at,
        )
        to = task.house.address(WINDOWS)
        task.requests.send(("slot", op.op, op.attempt), to, message)
        return False

    def replied(self, message: SlotReply) -> None:
        """The window answered: go on, or come again; an aside is left out."""
        task = self._task
        key = ("slot", message.op, message.attempt)
        op = task.state.ops.get(message.op)
        if not task.requests.answered(key) or op is None:
            return
        if (
            not op.open
            or op.attempt != message.attempt
            or op.op in task.operations.sent
        ):
            return
        if message.granted:
            self._until[op.op] = message.attempt, message.until
            task.operations.start(op)
            return
        service = self._service(op)
        if not asides.deferred(task, op, service, message.at):
            self._defer(op, service, message.at)

    def start_by(self, op: Op) -> float | None:
        """The second by which an attempt must begin, if it has a slot."""
        if not self._until:
            return None
        attempt, until = self._until.get(op.op, (0, 0.0))
        return until or None if attempt == op.attempt else None

    def heard(self, op: Op, outcome: Replied) -> None:
        """What its service asked for concerns all who use it."""
        if outcome.retry_at:
            self._close(op, outcome.retry_at)

    def _close(self, op: Op, until: float) -> None:
        task, service = self._task, self._service(op)
        if not service or until <= task.house.now():
            return
        message = CloseWindow(service=service, until=until, reply_to=task.address)
        to = task.house.address(WINDOWS)
        task.requests.send(("close", service, until), to, message)

    def asked(self, op: Op, outcome: Replied) -> list[Event]:
        """What is written down beside an attempt after which another one follows."""
        until = outcome.retry_at
        return [RestAsked(op=op.op, until=until)] if until else []

    def closed(self, message: WindowIsClosed) -> None:
        """All who use the service wait."""
        self._task.requests.answered(("close", message.service, message.until))

    def _defer(self, op: Op, service: str, at: float) -> None:
        task = self._task
        row = timer_row(task.id, op.op, at)
        deferred = SlotDeferred(op=op.op, service=service, at=at)
        seq = task.append(deferred, rows=[row])
        hit("slot.deferred", task.subject(op))
        task.remind(seq, at)

    def begin(self) -> None:
        """Take the waits up again, after a start: nobody may have heard of them."""
        now = self._task.house.now()
        for op in self._task.state.open_ops():
            if op.rest.retry_at:
                self._close(op, op.rest.retry_at)
            if op.rest.until > now:
                self._task.remind(self._task.last_seq, op.rest.until)

    def time_has_come(self) -> None:
        """Do not pause for a time that is over."""
        task = self._task
        now = task.house.now()
        if any(0 < op.rest.until <= now for op in task.state.open_ops()):
            task.parting.gone_on(*WAITS)

    def dropped(self, op: Op) -> list[Row]:
        """The row of a wait that nobody need end any more, if there is one."""
        until = op.rest.until
        return [no_timer(self._task.id, op.op, until)] if until else []

    def _service(self, op: Op) -> str:
        agent = self._task.agent
        if not isinstance(op.action, CallTool):
            return agent.service
        tool = agent.tool_of(op.action.tool, undo=op.action.undoes is not None)
        return (tool.service or "") if tool is not None else ""
