"""The task's part for operations: from a decision through the door and back.

    assemble (model calls) -> reserve -> perform -> observe

Each leg is a request that is safe to send twice; the legs of one operation are told
apart by its number and attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ...storage.records import blob_digest
from ...supervision.faults import hit
from ..events import (
    ActionObserved,
    Amounts,
    CallModel,
    CallTool,
    Event,
    RequestBuilt,
)
from ..guard.seen import Seen
from ..ledger.entry import Entry
from ..ledger.work import charged
from ..model import ModelRequest, Usage
from ..names import account, context, effect, ledger
from ..protocol import (
    Built,
    Performed,
    Replied,
    Reserve,
    ReserveReply,
)
from . import asides, closing, planning, summaries
from . import commands as next_
from .anchoring import admitted
from .attempt import attempt_of, request_of
from .commands import StopFor
from .exchanges import Exchanges
from .limits import Limits, sample_name
from .recovery import told
from .replies import read_reply
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Operations", "TryAgain"]

RETRY_FIRST = 1.0  # seconds before a failed model call is made again, doubled


class TryAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The pause before the next attempt of a failed model call is over."""

    op: int
    attempt: int


class Operations:
    """What is under way, and what the running exchange has brought so far."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._requests: dict[int, ModelRequest] = {}
        self.exchanges = Exchanges(task)
        self._limits = Limits(task, self)
        self.sent: set[int] = set()
        self.in_doubt: set[int] = set()  # may have run, by the record
        self._ended: dict[int, int] = {}  # attempts of open operations, by the record
        house = task.house
        self._account = house.address(account(task.id))
        self._ledger = house.address(ledger(task.id))

    # ── out ──────────────────────────────────────────────────────────────────────

    def drive(self, op: Op) -> None:
        """Begin an attempt, after a pause where the last one failed.

        One that the ledger has in hand is not begun again, nor is one in doubt: its
        reservation is held, or may be settled by now, and a second one would be
        charged too.
        """
        if op.op in self.sent or (self._ended and self.fetches(op)):
            return
        if op.op in self.in_doubt:
            self._send(op)
            return
        if refused := self._task.guarding.refusal(op) or self._task.steps.beyond(op):
            self.answer(op, refused)
            return
        task = self._task
        if not task.approvals.passes(op) or not task.subtasks.passes(op):
            return
        if not task.questions.passes(op):
            return
        backoff = RETRY_FIRST * 2 ** (op.tries - 1) if op.tries else 0.0
        if wait := self._task.slots.pause(op, backoff):
            wait = min(wait, self._task.time_left())
            self._task.after(wait, TryAgain(op=op.op, attempt=op.attempt))
        else:
            self.begin(op)

    def fetches(self, op: Op) -> bool:
        """Whether an attempt has ended that nobody has heard of: then ask for it.

        Somebody said how it ended while the task was on its way to sleep.
        """
        ended = self._ended.pop(op.op, 0) == op.attempt
        if ended:
            self._send(op)
        return ended

    def begin(self, op: Op) -> None:
        """Take a slot, where its service has a window, then send the first leg."""
        if self._task.slots.passes(op):
            self.start(op)

    def start(self, op: Op) -> None:
        """Send the first leg, unless the task's time is over."""
        task = self._task
        if not task.time_left() and self._may_be_left(op):
            if not asides.refused(task, op, next_.OVERDUE.detail):
                task.parting.stop_for(next_.OVERDUE, op)
        elif isinstance(op.action, CallTool):
            self._reserve(op, self.own(op), task.subtasks.share(op))
        elif not asides.overdue(task, op):
            self._assemble(op, op.action)

    def _may_be_left(self, op: Op) -> bool:
        """Whether an attempt need not be begun: nothing hangs on its outcome."""
        return not (op.undoes or op.op in self.in_doubt or op.gate == "returned")

    @staticmethod
    def own(op: Op) -> Amounts:
        """What a tool call uses by being made."""
        assert isinstance(op.action, CallTool)
        return {"tool_calls": 1, f"tool:{op.action.tool}": 1}

    def _assemble(self, op: Op, action: CallModel) -> None:
        task = self._task
        message = request_of(task, op, action.purpose, tuple(self.exchanges.scratch))
        to = task.house.address(context(task.id))
        task.requests.send(("assemble", op.op, op.attempt), to, message)

    def built(self, message: Built) -> None:
        """The context answered: record the request's digest, then reserve for it."""
        task = self._task
        key = ("assemble", message.op, message.attempt)
        op = task.state.ops.get(message.op)
        if not task.requests.answered(key) or op is None or not op.open:
            return
        if message.request is None:
            if not asides.refused(task, op, message.error):
                task.parting.stop_for(StopFor("context", message.error, "resume"), op)
            return
        if summaries.begin(task, op, message, self.exchanges.scratch):
            return
        body = task.agent.fixed.body()
        fixed = blob_digest(body)
        work = isinstance(op.action, CallModel) and op.action.purpose == "work"
        # What is asked besides the work leaves the window where it is.
        window = message.window if work else task.state.window
        task.append(
            RequestBuilt(
                op=op.op,
                attempt=op.attempt,
                digest=message.digest,
                view=message.version,
                facts_until=task.state.facts_until,
                blocks=message.blocks,
                window=window.start,
                omitted=window.omitted,
                shrunk=window.shrunk,
                findings=message.findings,
                bare=message.bare,
                characters=message.characters,
                limit=message.limit,
                fixed=fixed,
                measure=task.agent.measure,
                size=message.size,
                room=message.room,
                scale=message.scale,
            ),
            blobs=() if fixed == task.state.fixed else (body,),
        )
        self.exchanges.scratch = [
            block for block in self.exchanges.scratch if block.id >= window.start
        ]
        request = planning.bounded(task, op, message.request)
        self._requests[op.op] = request
        most = Usage(
            input_tokens=message.tokens, output_tokens=request.max_output_tokens
        )
        self._reserve(op, charged(most, task.agent.price))

    def _reserve(self, op: Op, amounts: Amounts, share: Amounts | None = None) -> None:
        task = self._task
        declare = isinstance(op.action, CallModel) and op.action.purpose == "declare"
        message = Reserve(
            op=op.op,
            attempt=op.attempt,
            book="recovery" if declare else "spent",
            amounts=amounts,
            reply_to=task.address,
            share=share,
            closing=closing.is_closing(op),
            name=sample_name(task, op) if share is None else "",
            price=task.agent.price,
        )
        task.requests.send(("reserve", op.op, op.attempt), self._account, message)

    def reserved(self, message: ReserveReply) -> bool:
        """The account answered: through the door, or pause for money.

        Tells whether the operation is on its way, and all else is as it was.
        """
        task = self._task
        key = ("reserve", message.op, message.attempt)
        op = task.state.ops.get(message.op)
        if not task.requests.answered(key) or op is None or not op.open:
            return False
        sent = False
        if message.refusal is not None and op.undoes:
            task.compensation.refused(op, message.refusal)
        elif message.refusal is not None:
            self._limits.refuse(op, message.refusal)
        else:
            hit("task.reserved", task.subject(op))
            sent = task.subtasks.share(op) is None
            if sent:
                self._send(op)
            else:
                task.subtasks.start(op, message.given)
        if not op.undoes and self._limits.waiting:
            self._limits.look(op)
            return False
        return sent

    def answer(self, op: Op, limited: str) -> None:
        """Have the door refuse a call, and say why; nothing is reserved for it."""
        self.sent.add(op.op)
        task = self._task
        message = attempt_of(task, op, None)
        message = msgspec.structs.replace(message, limited=limited)
        task.requests.send(("perform", op.op, op.attempt), self._ledger, message)

    def _send(self, op: Op) -> None:
        task = self._task
        self.sent.add(op.op)
        wanted = attempt_of(task, op, self._requests.pop(op.op, None))
        task.requests.send(("perform", op.op, op.attempt), self._ledger, wanted)

    # ── back ─────────────────────────────────────────────────────────────────────

    def performed(self, message: Performed) -> None:
        """Observe an outcome: once, and only of the attempt that is open."""
        task = self._task
        outcome = message.outcome
        op = task.state.ops.get(outcome.op)
        task.requests.answered(("perform", outcome.op, outcome.attempt))
        if op is None or not op.open or op.attempt != outcome.attempt:
            return
        self.sent.discard(op.op)
        task.slots.heard(op, outcome)
        if message.ask:
            self._ask(op)
            return
        if op.op in self.in_doubt:
            self.in_doubt.discard(op.op)
            task.parting.gone_on("unknown_effect")
        if asides.observed(task, op, outcome, again=message.again):
            return
        if message.again:
            self._append_again(op, outcome, retry=False)
        elif isinstance(op.action, CallTool):
            self._observe_tool(op, op.action, outcome)
        elif outcome.status == "completed":
            self._observe_reply(op, op.action, outcome)
        else:
            self._observe_trouble(op, outcome)

    def _ask(self, op: Op) -> None:
        """Wait for a person: an outcome is unknown, and nobody else can tell."""
        task = self._task
        self.in_doubt.add(op.op)
        detail = f"{task.subject(op)} (operation {op.op}) may have happened"
        ends = f"resolve {effect(task.id, op.op)}"
        task.parting.stop_for(StopFor("unknown_effect", detail, ends), op)

    def _append_again(self, op: Op, outcome: Replied, *, retry: bool) -> None:
        self._task.append(
            ActionObserved(
                op=op.op,
                attempt=op.attempt,
                status=outcome.status,
                again=True,
                retry=retry,
                reason=outcome.error,
            ),
            *self._task.slots.asked(op, outcome),
        )

    def _observe_trouble(self, op: Op, outcome: Replied) -> None:
        """A model call failed: try again within the limit, then pause (K26)."""
        task = self._task
        enough = op.tries >= task.house.baseline.model_retries
        self._append_again(op, outcome, retry=not enough)
        if enough:
            task.parting.stop_for(StopFor("service", outcome.error, "resume"), op)

    def _observe_tool(self, op: Op, action: CallTool, outcome: Replied) -> None:
        task = self._task
        undoes = action.undoes is not None
        own = task.agent.policy is not None
        if own and not undoes:
            task.policies.observed(op, action, outcome)
        elif not undoes:
            self.exchanges.results[op.op] = told(outcome)
        task.subtasks.observed(op.op)
        failed = outcome.status != "completed"
        task.drifting.observed(action, outcome)
        anchors, refused = admitted(task, outcome)
        seen: Seen | None = None
        found: list[Event] = []
        if not undoes and not op.beyond:
            seen, found = task.guarding.observed(op, action, outcome)
        observed = ActionObserved(
            op=op.op,
            attempt=op.attempt,
            status=outcome.status,
            reason=f"{action.tool}: {outcome.error}" if failed else "",
            anchors=anchors,
            refused=outcome.by == "door",
            seen=seen,
        )
        task.append(observed, *found, *refused, rows=task.approvals.used(op))
        hit("task.observed", action.tool)
        task.steps.observed(op.step)
        if not undoes and not own:
            self.exchanges.remember(action.parent)

    def _observe_reply(self, op: Op, action: CallModel, outcome: Replied) -> None:
        task = self._task
        reply = self.exchanges.hold(op.op, outcome.result)
        if action.purpose == "declare":
            reply = msgspec.structs.replace(reply, tool_calls=())
        planner = task.agent.planner if action.purpose == "work" else None
        phrases = planner.phrases if planner is not None else None
        observed, decided = read_reply(op, reply, task.state.next_op, phrases)
        task.append(observed, *decided)
        hit("task.observed", "model")
        task.steps.observed(op.step)

    def recall(self, entries: Sequence[Entry], until: int) -> None:
        """Take back from the record how attempts stand, and the exchange after `until`.

        An open operation whose attempt ended, or is unknown, is asked for as it is.
        """
        open_ops = {op.op: op.attempt for op in self._task.state.open_ops()}
        for entry in entries:
            if entry.status == "unknown" and open_ops.get(entry.op) == entry.attempt:
                self.in_doubt.add(entry.op)
            elif entry.op in open_ops and entry.status != "pending":
                self._ended[entry.op] = entry.attempt
        if self._task.agent.policy is None:
            self.exchanges.recall(entries, until)
        else:
            self._task.policies.recall(entries)
