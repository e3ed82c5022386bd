"""The actor of one task: carries out what `decide` says, and records the outcome."""

from __future__ import annotations

from math import inf
from typing import Any

from ...supervision.address import Address
from ...supervision.lifecycle import Down, Up
from ..agent import Agent
from ..durable import Durable, Folded, Found
from ..events import (
    ActionObserved,
    CallTool,
    Event,
    TaskResumed,
)
from ..house import House
from ..names import ADMISSION, MEMORY, TIMERS, family
from ..protocol import (
    Built,
    Closed,
    CoreFacts,
    Order,
    Performed,
    Progressed,
    Queued,
    Recalled,
    Remind,
    ReserveReply,
    SlotReply,
    StatementReply,
    TakeNotes,
    Verified,
    WindowIsClosed,
)
from ..requests import Overdue, Requests
from . import commands as next_
from . import planning, summaries
from .approvals import Approvals, Gated
from .compensation import Compensation
from .decide import decide
from .drifting import Drifting
from .guarding import Guarding
from .judge import Judged, Judging
from .knowledge import Knowledge
from .operations import Operations, TryAgain
from .parting import Parting
from .pipeline import Pipeline
from .policies import Policies, PolicyAnswered
from .questions import Questions
from .retrying import Retrying
from .rows import COMES, ENDED, Wake, task_row
from .slots import Slots
from .state import Op, TaskState, apply
from .steering import Steering
from .steps import Steps
from .subtasks import Subtasks

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
        super().__init__(house, family(task), epoch, TaskState(), wake.loads)
        self.id = task
        self.agent = agent
        self.wake = wake
        self.requests = Requests(self)
        self.operations = Operations(self)
        self.approvals = Approvals(self)
        self.questions = Questions(self)
        self.steering = Steering(self)
        self.slots = Slots(self)
        self.guarding = Guarding(self)
        self.subtasks = Subtasks(self)
        self.compensation = Compensation(self)
        self.judging = Judging(self)
        self.drifting = Drifting(self)
        self.knowledge = Knowledge(self)
        self.pipeline = Pipeline(self)
        self.parting = Parting(self)
        self.steps = Steps(self)
        self.retrying = Retrying(self)
        self.policies = Policies(self)
        self.under_way: set[next_.Command] = set()
        self.judged = False

    def fold(self, state: TaskState, event: Event) -> TaskState:
        """Fold by the rules of a task."""
        return apply(state, event)

    def loaded(self, folded: Folded) -> None:
        """Begin, resume, or recover; in that order of what the stream shows."""
        clean = self.wake.take_clean()
        state = self.state
        if state.status in ENDED:
            self.parting.leave("ended", self.last_seq)
            return
        self.approvals.begin()
        self.questions.begin()
        self.slots.begin()
        self.subtasks.look()
        ordered = state.pause is None or self.wake.since > state.pause.epoch
        order = self.wake.order
        if order == "compensate" and not state.cancelled_by:
            self.parting.cancel(self.wake.by, compensate=True)
        elif order == "cancel" and (ordered or not state.cancelled_by):
            self.parting.cancel(self.wake.by)
        elif state.pause is not None:
            anew = self.wake.resumed > state.pause.epoch
            again = order in ("again", "compensate") and state.pause.reason in COMES
            if not anew and not (ordered and again):
                self.parting.leave("waiting", self.last_seq)
                return
            by = self.wake.resumer if anew else self.wake.by
            deadline = self.steps.resumed(anew=anew)
            resumed = TaskResumed(by=by, deadline=deadline, anew=anew)
            row = task_row(state.task, "queued", compensates=state.compensate)
            self.append(resumed, rows=[row])
        elif state.shortage is not None and order in ("again", "resume"):
            # It is about to pause for money that may have come since.
            deadline = state.step.deadline if state.step is not None else None
            self.append(TaskResumed(by=self.wake.by, deadline=deadline, anew=False))
        self.retrying.begin()
        self.steering.begin(clean=clean)
        self.knowledge.ask()
        begun = any(step.status != "pending" for step in state.steps)
        begun = begun or bool(state.planning.asked)
        if not clean:
            # An admission that crashed may have missed how far this is.
            self.monitor(self.house.address(ADMISSION))
        if not clean and begun and state.status != "closing":
            self.pipeline.load(folded)
        elif not clean:
            self.wake.told = -1  # cut off before anything: to begin is to get further
        if (
            self.state.recovery is not None
            or self.state.step is not None
            or self.state.planning.asked
        ):
            self.pipeline.recall()
        else:
            self.pipeline.recalled = True
            self.advance()

    def handle(self, message: Any) -> None:
        """Hear the others, then go on from the state."""
        match message:
            case ReserveReply():
                if self.operations.reserved(message):
                    return  # nothing else is due than before
            case PolicyAnswered():
                self.policies.answered(message)
            case Built():
                self.operations.built(message)
            case Performed() if not self.pipeline.recalled:
                return  # the exchange is not back yet; verifying asks for it again
            case Performed():
                self.operations.performed(message)
                self.pipeline.verified(message)
            case Verified():
                self.pipeline.verified(message)
            case Recalled(entries=entries):
                self.pipeline.rebuilt(entries)
            case SlotReply():
                self.slots.replied(message)
            case WindowIsClosed():
                self.slots.closed(message)
            case Gated():
                self.approvals.gated(message)
            case TakeNotes():
                self.steering.come(message)
            case Queued(task=child):
                self.subtasks.queued(child)
            case Judged():
                self.judging.judged(message)
            case TryAgain():
                waited = self.state.ops.get(message.op)
                if waited and waited.open and waited.attempt == message.attempt:
                    self.operations.begin(waited)
            case CoreFacts():
                self.knowledge.heard(message)
            case StatementReply() | Closed():
                self.parting.books(message)
            case Order():
                self.parting.ordered(message)
            case Up(name=name):
                self.requests.up(name)
                if name == MEMORY:
                    self.knowledge.memory_is_up()
                if name == ADMISSION:
                    self.subtasks.admission_is_up()
                    self.wake.told = min(self.wake.told, self.state.recoveries - 1)
            case Overdue():
                self.requests.overdue()
            case Found():
                self.hear(message)
            case Down():
                return
        self.advance()

    # ── the loop ─────────────────────────────────────────────────────────────────

    def advance(self) -> None:
        """Carry out what is due until nothing new is."""
        if not self.pipeline.recalled or self.parting.leaving:
            return
        if not (self.knowledge.told and self.steering.told):
            return
        self.knowledge.take()
        rules = self.house.baseline
        while not self.parting.leaving:
            version, judged = self.state.version, self.judged
            due = decide(
                self.state,
                now=self.house.now(),
                rules=rules,
                judged=self.judged,
                policy=self.agent.policy is not None,
                planner=self.agent.planner,
                refused=self.parting.stopping,
            )
            self.under_way.intersection_update(due)
            for command in due:
                if command not in self.under_way and self._may_begin(command):
                    self.under_way.add(command)
                    self._carry_out(command)
                if self.state.version != version:
                    break
            if self.state.version == version and self.judged == judged:
                break
        if self.state.recoveries > self.wake.told:
            self._tell_progress()
        if self.parting.stopping or self.parting.draining:
            self.parting.stop_if_due()

    def _may_begin(self, command: next_.Command) -> bool:
        if self.parting.stopping is None and not self.parting.draining:
            return True
        return isinstance(command, next_.Close | next_.Conclude | next_.Abandon)

    def _carry_out(self, command: next_.Command) -> None:
        match command:
            case next_.Drive(op=op):
                self.operations.drive(self.state.ops[op])
            case next_.AskPolicy():
                self.policies.ask()
            case next_.AskModel(iteration=iteration):
                self.steps.ask_model(iteration)
            case next_.MakePlan():
                planning.begin(self)
            case next_.AskConsent():
                planning.ask_consent(self)
            case next_.Adopt():
                planning.adopt(self)
            case next_.StartStep(step=step, attempt=attempt):
                self.steps.start(step, attempt)
            case next_.Judge(op=op):
                self.judging.judge_step(op)
            case next_.JudgeTask():
                self.judging.judge_task()
            case next_.EndStep():
                self.steps.end(
                    command.status,
                    command.reason,
                    again=command.again,
                    condition=command.condition,
                )
            case next_.Abandon(op=op):
                self.abandon(self.state.ops[op])
            case next_.Clear(op=op):
                self.compensation.clear(self.state.ops[op])
            case next_.Compensate():
                self.compensation.look()
            case next_.LetGo(op=op):
                self.retrying.let_go(self.state.ops[op])
            case next_.Reopen(step=step):
                self.retrying.reopen(step)
            case next_.CancelSubtask(op=op):
                self.under_way.discard(command)
                self.subtasks.cancel(self.state.ops[op])
            case next_.StopFor():
                self.under_way.discard(command)
                rooms = self.approvals, self.questions
                looking = any(room.looks.under_way for room in rooms)
                if not (looking or self.subtasks.unsettled):
                    self.parting.stopping = command
            case next_.Close(status=status, reason=reason):
                self.parting.decide_outcome(status, reason)
            case next_.Conclude():
                self.parting.conclude()
            case next_.Rebuild():
                self.pipeline.recall()
            case next_.VerifyEffects():
                self.pipeline.verify()
            case next_.Declare():
                self.pipeline.declare()

    def abandon(self, op: Op, why: str = "cancelled") -> None:
        """Let go of an operation that is not under way; `why` begins the reason."""
        if op.op in self.operations.sent or self.operations.fetches(op):
            return  # its outcome is waited for
        doubt = op.doubt or op.op in self.operations.in_doubt
        reason = f"{why} before it was started (not_started)"
        if doubt:
            reason = f"{why}; it may have run, and nobody could tell"
        self.append(
            ActionObserved(
                op=op.op,
                attempt=op.attempt,
                status="unknown" if doubt else "failed",
                reason=reason,
            ),
            *summaries.dropped(op, reason),
            rows=[
                *self.approvals.dropped(op),
                *self.questions.dropped(op),
                *self.slots.dropped(op),
            ],
        )

    def forget_exchanges(self) -> None:
        """Begin with an empty scratch: a step starts, ends, or is rebuilt."""
        self.operations.exchanges.forget()
        self.pipeline.operations = ()

    def time_left(self) -> float:
        """Seconds until the task's deadline; 0.0 from then on."""
        deadline = self.state.task.deadline
        return inf if deadline is None else max(deadline - self.house.now(), 0.0)

    def remind(self, seq: int, at: float) -> None:
        """Be woken at second `at`, by the row that is durable with `seq`."""
        message = Remind(task=self.id, at=at)
        self.when_durable(seq, lambda: self.timers.tell(message))

    @property
    def timers(self) -> Address:
        """Who tells when it is time."""
        return self.house.address(TIMERS)

    def _tell_progress(self) -> None:
        if self.state.progressed:
            self.wake.told = self.state.recoveries
            self.house.address(ADMISSION).tell(Progressed(task=self.id))

    def subject(self, op: Op) -> str:
        """What an operation is called in fault points and messages."""
        return op.action.tool if isinstance(op.action, CallTool) else "model"
