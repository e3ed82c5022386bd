"""The actor of one task: carries out what `decide` says, and records the outcome."""

from __future__ import annotations

from typing import Any

import msgspec

from ...supervision.faults import hit
from ...supervision.lifecycle import Down, Up
from ..agent import Agent
from ..context.render import OperationView
from ..durable import Durable, Folded
from ..events import (
    ActionObserved,
    CallModel,
    CallTool,
    CancelRequested,
    ContextRebuilt,
    DecisionMade,
    EffectsVerified,
    Event,
    RecoveryDeclared,
    RecoveryLoaded,
    StepEnded,
    StepStarted,
    TaskClosed,
    TaskClosing,
    TaskPaused,
    TaskResumed,
)
from ..house import House
from ..names import ADMISSION, account, context, ledger
from ..protocol import (
    Built,
    CloseAccount,
    Closed,
    Order,
    Performed,
    Progressed,
    Recall,
    Recalled,
    ReserveReply,
    Reset,
    Statement,
    StatementReply,
    Stopped,
    Verified,
    Verify,
)
from ..requests import Overdue, Requests
from . import decide as next_
from .judge import Judged, Judging
from .operations import Operations, TryAgain
from .recovery import check_declaration, declaration_of, operations
from .rows import Wake, ended_row, paused_row
from .state import Op, TaskState, apply

__all__ = ["Task"]


class Task(Durable[TaskState]):
    """Decides, one command at a time; the ledger acts.

    Args:
        wake: what admission woke it for, and whether its last end was clean.
    """

    label = "task"

    def __init__(
        self, house: House, task: str, epoch: int, agent: Agent, wake: Wake
    ) -> None:
        super().__init__(house, f"task/{task}", epoch, TaskState())
        self.id = task
        self.agent = agent
        self.wake = wake
        self.requests = Requests(self)
        self.operations = Operations(self)
        self.judging = Judging(self)
        self.done_operations: tuple[OperationView, ...] = ()
        self.under_way: set[next_.Command] = set()
        self.judged = False
        self.stopping: next_.StopFor | None = None
        self.draining = False
        self._verdicts: dict[int, str] | None = None
        self._leaving = False
        self._recalled = False

    def fold(self, state: TaskState, event: Event) -> TaskState:
        """Fold by the rules of a task."""
        return apply(state, event)

    def loaded(self, folded: Folded) -> None:
        """Begin, resume, or recover; in that order of what the stream shows."""
        clean = self.wake.take_clean()
        state = self.state
        if state.status in ("completed", "failed", "cancelled"):
            self._leave("ended", self.last_seq)
            return
        ordered = state.pause is None or self.wake.since > state.pause.epoch
        if self.wake.order == "cancel" and not state.cancelled_by:
            self.append(CancelRequested(by=self.wake.by))
        elif state.pause is not None:
            if self.wake.order != "resume" or not ordered:
                self._leave("waiting", self.last_seq)
                return
            self.append(TaskResumed(by=self.wake.by, deadline=self.step_deadline()))
        begun = any(step.status != "pending" for step in state.steps)
        if not clean and begun and state.status != "closing":
            hit("recovery.load")
            self.append(
                RecoveryLoaded(
                    number=state.recoveries + 1,
                    snapshot=folded.snapshot,
                    replayed=folded.replayed,
                )
            )
            hit("recovery.loaded")
        if self.state.recovery is not None or self.state.step is not None:
            self._recall()
        else:
            self._recalled = True
            self.advance()

    def handle(self, message: Any) -> None:
        """Hear the others, then go on from the state."""
        match message:
            case Built():
                self.operations.built(message)
            case ReserveReply():
                self.operations.reserved(message)
            case Performed() if not self._recalled:
                return  # the exchange is not back yet; verifying asks for it again
            case Performed():
                self.operations.performed(message)
                self._verified(message.outcome.op, _decision(message))
            case Verified(op=op, decided=decided):
                self._verified(op, decided)
            case Recalled(entries=entries):
                self._rebuilt(entries)
            case Judged():
                self.judging.judged(message)
            case TryAgain():
                waited = self.state.ops.get(message.op)
                if waited and waited.open and waited.attempt == message.attempt:
                    self.operations.begin(waited)
            case StatementReply() | Closed():
                self._books(message)
            case Order():
                self._ordered(message)
            case Up(name=name):
                self.requests.up(name)
            case Overdue(key=key):
                self.requests.overdue(key)
            case Down():
                return
        self.advance()

    # ── the loop ─────────────────────────────────────────────────────────────────

    def advance(self) -> None:
        """Carry out what is due until nothing new is."""
        if not self._recalled or self._leaving:
            return
        rules = self.house.baseline
        while not self._leaving:
            version = self.state.version
            due = next_.decide(
                self.state,
                now=self.house.now(),
                retries=rules.task_retries,
                declarations=rules.declaration_retries,
                judged=self.judged,
            )
            self.under_way.intersection_update(due)
            for command in due:
                if command not in self.under_way and self._may_begin(command):
                    self.under_way.add(command)
                    self._carry_out(command)
                if self.state.version != version:
                    break
            if self.state.version == version:
                break
        self._tell_progress()
        if (self.stopping or self.draining) and not self.under_way:
            self._stop_now()

    def _may_begin(self, command: next_.Command) -> bool:
        if self.stopping is None and not self.draining:
            return True
        return isinstance(command, next_.Close | next_.Conclude | next_.Abandon)

    def _carry_out(self, command: next_.Command) -> None:
        match command:
            case next_.StartStep(step=step, attempt=attempt):
                self._start_step(step, attempt)
            case next_.AskModel(iteration=iteration):
                self._ask_model(iteration)
            case next_.Drive(op=op):
                self.operations.drive(self.state.ops[op])
            case next_.Judge(op=op):
                self.judging.judge_step(op)
            case next_.JudgeTask():
                self.judging.judge_task()
            case next_.EndStep():
                self.end_step(command.status, command.reason, again=command.again)
            case next_.Abandon(op=op):
                self._abandon(self.state.ops[op])
            case next_.StopFor():
                self.under_way.discard(command)
                self.stopping = command
            case next_.Close(status=status, reason=reason):
                self._close(status, reason)
            case next_.Conclude():
                self._conclude()
            case next_.Rebuild():
                self._recall()
            case next_.VerifyEffects():
                self._verify()
            case next_.Declare():
                self._declare()

    def _start_step(self, step: str, attempt: int) -> None:
        self._forget_exchanges()
        deadline = self.step_deadline(step)
        self.append(StepStarted(step=step, attempt=attempt, deadline=deadline))

    def step_deadline(self, step: str = "") -> float | None:
        """When a step that starts now is over; the running one by default."""
        if not step and self.state.step is not None:
            step = self.state.step.id
        for plan in self.state.task.steps:
            if plan.id == step and plan.timeout is not None:
                return self.house.now() + plan.timeout
        return None

    def _ask_model(self, iteration: int) -> None:
        step = self.state.step
        assert step is not None
        notes = self.state.notes
        self.append(
            DecisionMade(
                op=self.state.next_op,
                step=step.id,
                action=CallModel(purpose="work"),
                why=f"iteration {iteration} of step {step.id}",
                learned=notes[-1] if notes else "",
            )
        )
        hit("task.decided", "model")

    def end_step(self, status: Any, reason: str, *, again: bool) -> None:
        """Interrupt the running step; the next try goes through recovery (B55)."""
        step = self.state.step
        assert step is not None
        ended = StepEnded(
            step=step.id,
            status=status,
            reason=reason,
            result="",
            evidence=(),
            op=self.state.next_op - 1,
            again=again,
            deadline=self.step_deadline() if again else None,
        )
        self._forget_exchanges()
        if again:
            number = self.state.recoveries + 1
            version = self.state.version + 1
            loaded = RecoveryLoaded(number=number, snapshot=version, replayed=0)
            self.append(ended, loaded)
        else:
            self.append(ended)
        self.snapshot("step_interrupted")

    def _abandon(self, op: Op) -> None:
        if op.op in self.operations.sent:
            return  # under way: its outcome is waited for
        self.append(
            ActionObserved(
                op=op.op,
                attempt=op.attempt,
                status="failed",
                reason="cancelled before it was started (not_started)",
            )
        )

    def _forget_exchanges(self) -> None:
        self.operations.forget()
        self.done_operations = ()
        self.house.address(context(self.id)).tell(Reset())

    # ── recovery ─────────────────────────────────────────────────────────────────

    def _recall(self) -> None:
        step = self.state.step
        message = Recall(step=step.id if step else "", reply_to=self.address)
        self.requests.send("recall", self.house.address(ledger(self.id)), message)

    def _rebuilt(self, entries: Any) -> None:
        if not self.requests.answered("recall"):
            return
        until = (
            min(map(_exchange_of, self.state.open_ops()), default=self.state.next_op)
            - 1
        )
        self._forget_exchanges()
        self.operations.recall(entries, until)
        self.done_operations = operations(entries, until)
        following = declaration_of(self.state).next
        done = [step.id for step in self.state.steps if step.status == "completed"]
        hit("recovery.rebuild")
        self.append(
            ContextRebuilt(
                facts=(*done, *(one.evidence for one in self.done_operations)),
                next=following or "",
                facts_until=until,
            )
        )
        hit("recovery.rebuilt")
        self._recalled = True

    def _verify(self) -> None:
        wanted = [self.operations.perform(op, None) for op in self.state.open_ops()]
        self._verdicts = {one.op: "" for one in wanted}
        if not wanted:
            self._verify_done()
            return
        message = Verify(attempts=tuple(wanted), reply_to=self.address)
        self.requests.send("verify", self.house.address(ledger(self.id)), message)

    def _verified(self, op: int, decided: str) -> None:
        if self._verdicts is None or op not in self._verdicts:
            return
        self._verdicts[op] = decided
        if decided == "running":
            self.operations.sent.add(op)
        if all(self._verdicts.values()):
            self.requests.answered("verify")
            self._verify_done()

    def _verify_done(self) -> None:
        verdicts, self._verdicts = self._verdicts or {}, None
        decided = {f"op{op}": how for op, how in verdicts.items()}
        hit("recovery.verify")
        self.append(EffectsVerified(decided=decided))
        hit("recovery.verified")

    def _declare(self) -> None:
        recovery = self.state.recovery
        assert recovery is not None
        if self.agent.recovery == "rules":
            text = msgspec.json.encode(declaration_of(self.state)).decode()
            self._declared(text, "rules")
            return
        asked = self.state.ops.get(recovery.declares)
        if asked is not None and asked.op in self.operations.replies:
            reply = self.operations.replies.pop(asked.op)
            self._declared(reply.content or "", "model")
            return
        step = self.state.step
        self.append(
            DecisionMade(
                op=self.state.next_op,
                step=step.id if step else "",
                action=CallModel(purpose="declare"),
                why="after a recovery the agent states where the task stands",
                learned=recovery.why,
            )
        )

    def _declared(self, text: str, by: Any) -> None:
        wrong = check_declaration(self.state, text)
        hit("recovery.declare")
        self.append(
            RecoveryDeclared(
                accepted=not wrong, by=by, declaration=text[:2_000], why=wrong
            )
        )
        hit("recovery.declared")

    def _tell_progress(self) -> None:
        if self.state.progressed and self.state.recoveries > self.wake.told:
            self.wake.told = self.state.recoveries
            self.house.address(ADMISSION).tell(Progressed(task=self.id))

    # ── stopping ─────────────────────────────────────────────────────────────────

    def stop_for(self, stop: next_.StopFor, op: Op | None = None) -> None:
        """Pause once nothing is under way; `op` is what could not go on."""
        self.stopping = self.stopping or stop
        if op is not None:
            self.under_way.discard(next_.Drive(op.op, op.attempt))

    def _ordered(self, order: Order) -> None:
        if self._leaving:
            return
        match order.what:
            case "cancel":
                if not self.state.cancelled_by and self.state.outcome is None:
                    self.append(CancelRequested(by=order.by))
                self.stopping = None
            case "pause":
                if self.state.outcome is None:
                    self.stop_for(next_.StopFor("operator", order.by, "resume"))
            case "drain":
                self.draining = True

    def _stop_now(self) -> None:
        if self._leaving:
            return
        if self.stopping is None or self.draining:
            self.snapshot("close")
            self._leave("drained", self.last_seq)
            return
        message = Statement(reply_to=self.address)
        self.requests.send("books", self.house.address(account(self.id)), message)

    def _books(self, message: StatementReply | Closed) -> None:
        if not self.requests.answered("books") or self._leaving:
            return
        if isinstance(message, StatementReply):
            stop = self.stopping
            if stop is None or self.state.cancelled_by:
                return
            paused = TaskPaused(
                reason=stop.reason,
                detail=stop.detail,
                ends_with=stop.ends_with,
                epoch=self.epoch,
            )
            row = paused_row(self.state, paused, message.books)
            seq = self.append(paused, rows=[row])
            self.snapshot(f"paused: {stop.reason}")
            self._leave("waiting", seq)
            return
        assert self.state.outcome is not None
        closed = TaskClosed(status=self.state.outcome.status)
        seq = self.append(closed, rows=[ended_row(self.state, message.books)])
        self._leave("ended", seq)

    def _close(self, status: Any, reason: str) -> None:
        last = self.state.steps[-1].result if self.state.steps else ""
        output = last if status == "completed" else ""
        self.append(TaskClosing(status=status, output=output, reason=reason))
        hit("task.closing")

    def _conclude(self) -> None:
        message = CloseAccount(reply_to=self.address)
        self.requests.send("books", self.house.address(account(self.id)), message)

    def _leave(self, how: Any, seq: int) -> None:
        """Tell admission once `seq` is flushed, and end with the family."""
        self._leaving = True
        message = Stopped(task=self.id, how=how, status=self.state.status)
        admission = self.house.address(ADMISSION)

        def flushed() -> None:
            admission.tell(message)
            self.stop()

        self.when_durable(seq, flushed)

    def subject(self, op: Op) -> str:
        """What an operation is called in fault points and messages."""
        return op.action.tool if isinstance(op.action, CallTool) else "model"


def _exchange_of(op: Op) -> int:
    """The model call whose exchange an operation belongs to."""
    return op.action.parent if isinstance(op.action, CallTool) else op.op


def _decision(message: Performed) -> str:
    if message.ask:
        return "ask_a_person"
    if message.again:
        return "repeat"
    return message.outcome.status
