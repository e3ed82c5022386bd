"""Recovery as a pipeline of named steps, each an event; see them in order here.

    load     the state, from a snapshot and the events after it       RecoveryLoaded
    rebuild  goal, confirmed facts, next action: no old history       ContextRebuilt
    verify   every open operation is decided by the ledger            EffectsVerified
    declare  what is done, comes next, is uncertain; rules check it   RecoveryDeclared

A crash inside it is just another crash: the pipeline begins again (B32-B36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...supervision.faults import hit
from ..context.facts import merged, room_for
from ..context.render import OperationView
from ..durable import Folded
from ..events import (
    CallModel,
    CallTool,
    ContextRebuilt,
    DecisionMade,
    EffectsVerified,
    RecoveryDeclared,
    RecoveryLoaded,
)
from ..ledger.entry import Entry
from ..names import ledger
from ..protocol import Performed, Recall, Verified, Verify
from .attempt import attempt_of
from .commands import Declare, StopFor
from .recoveries import CONFIRM
from .recovery import (
    SAID_LIMIT,
    check_declaration,
    declaration_of,
    for_person,
    left_out,
    operations,
)
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Pipeline"]


class Pipeline:
    """The task's part for recovery; a clean wake takes only the rebuild of it.

    `recalled` says that the record of the running step is back, `operations` what of
    it requests show as facts.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._verdicts: dict[int, str] | None = None
        self.recalled = False
        self.operations: tuple[OperationView, ...] = ()

    def load(self, folded: Folded) -> None:
        """Step 1: write down from what the state was rebuilt."""
        hit("recovery.load")
        self._task.append(
            RecoveryLoaded(
                number=self._task.state.recoveries + 1,
                snapshot=folded.snapshot,
                replayed=folded.replayed,
            )
        )
        hit("recovery.loaded")

    def recall(self) -> None:
        """Step 2 begins: ask the ledger for the record of the running step."""
        task = self._task
        step = task.state.step
        message = Recall(step=step.id if step else "", reply_to=task.address)
        task.requests.send("recall", task.house.address(ledger(task.id)), message)

    def rebuilt(self, entries: Sequence[Entry]) -> None:
        """Step 2: closed exchanges become facts; one that is open stays an exchange."""
        task = self._task
        if not task.requests.answered("recall"):
            return
        state = task.state
        opened = [_exchange_of(op) for op in state.open_ops()]
        # An answer that is still to be judged is open, too: refused, it is shown.
        opened += [state.answer] if state.answer else []
        until = min(opened, default=state.next_op) - 1
        task.forget_exchanges()
        task.operations.recall(entries, until)
        task.drifting.recall(entries)
        limit = task.agent.request_limit or task.house.baseline.request_limit
        self.operations = operations(entries, until, limit)
        following = declaration_of(state).next
        short = left_out(entries, until, self.operations)
        findings = merged(state.findings, tuple(short), room_for(limit))
        done = [step.id for step in state.steps if step.status == "completed"]
        hit("recovery.rebuild")
        task.append(
            ContextRebuilt(
                facts=(*done, *(one.evidence for one in self.operations)),
                next=following or "",
                facts_until=until,
                findings=tuple(one for one in findings if one not in state.findings),
                limit=limit,
            )
        )
        hit("recovery.rebuilt")
        self.recalled = True

    def verify(self) -> None:
        """Step 3 begins: have every open operation decided."""
        task = self._task
        wanted = [attempt_of(task, op, None) for op in task.state.open_ops()]
        self._verdicts = {one.op: "" for one in wanted}
        if not wanted:
            self._verify_done()
            return
        message = Verify(attempts=tuple(wanted), reply_to=task.address)
        task.requests.send("verify", task.house.address(ledger(task.id)), message)

    def verified(self, message: Verified | Performed) -> None:
        """Step 3: one more operation is decided."""
        if self._verdicts is None:
            return
        if isinstance(message, Verified):
            op, decided = message.op, str(message.decided)
        else:
            op, decided = message.outcome.op, _decision(message)
        if op not in self._verdicts:
            return
        self._verdicts[op] = decided
        if decided == "running":
            self._task.operations.sent.add(op)
        if all(self._verdicts.values()):
            self._task.requests.answered("verify")
            self._verify_done()

    def _verify_done(self) -> None:
        verdicts, self._verdicts = self._verdicts or {}, None
        decided = {f"op{op}": how for op, how in verdicts.items()}
        hit("recovery.verify")
        self._task.append(EffectsVerified(decided=decided))
        hit("recovery.verified")

    def declare(self) -> None:
        """Step 4: judge the declaration, or ask for it."""
        task = self._task
        recovery = task.state.recovery
        assert recovery is not None
        if task.agent.recovery == "rules" or not task.state.plan:
            text = msgspec.json.encode(declaration_of(task.state)).decode()
            self._declared(text, "rules")
            return
        if task.agent.recovery == "person":
            self._ask_a_person()
            return
        asked = task.state.ops.get(recovery.declares)
        if asked is not None and asked.op in task.operations.exchanges.replies:
            reply = task.operations.exchanges.replies.pop(asked.op)
            self._declared(reply.content or "", "model")
            return
        step = task.state.step
        task.append(
            DecisionMade(
                op=task.state.next_op,
                step=step.id if step else "",
                action=CallModel(purpose="declare"),
                why="after a recovery the agent states where the task stands",
                learned=recovery.why,
            )
        )

    def _ask_a_person(self) -> None:
        """Pause with the record's declaration, until somebody has passed that very one.

        What was passed while the record went on (an effect was resolved) is not this
        one: it is shown anew.
        """
        task = self._task
        recovery = task.state.recovery
        assert recovery is not None
        shown = for_person(task.state)
        if recovery.confirmed and recovery.asked == shown:
            text = msgspec.json.encode(declaration_of(task.state)).decode()
            self._declared(text, "person", recovery.confirmed)
            return
        task.under_way.discard(Declare(recovery.refused))
        task.parting.stop_for(StopFor(CONFIRM, shown, "resume, or cancel"))

    def _declared(self, text: str, by: Any, who: str = "") -> None:
        wrong = check_declaration(self._task.state, text)
        hit("recovery.declare")
        self._task.append(
            RecoveryDeclared(
                accepted=not wrong,
                by=by,
                declaration=text[:SAID_LIMIT],
                why=wrong,
                who=who,
            )
        )
        hit("recovery.declared")


def _exchange_of(op: Op) -> int:
    """The model call whose exchange an operation belongs to; an undo is of none."""
    parent = op.action.parent if isinstance(op.action, CallTool) else 0
    return parent or op.op


def _decision(message: Performed) -> str:
    if message.ask:
        return "ask_a_person"
    if message.again:
        return "repeat"
    return message.outcome.status
