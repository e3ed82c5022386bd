"""The state of a task, and how each event changes it. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..context.blocks import Window
from ..context.drift import Act
from ..context.facts import Finding, found_after
from ..context.render import NoteView
from ..events import (
    ActionObserved,
    Anchor,
    AnchorsRefused,
    AnswerJudged,
    AnswerRefused,
    ApprovalAsked,
    ApprovalExpired,
    ApprovalTaken,
    CancelRequested,
    ConsentAsked,
    ContextRebuilt,
    DecisionMade,
    DriftFound,
    DriftOver,
    EffectsVerified,
    Event,
    KnowledgeTaken,
    Known,
    LoopFound,
    NoteTaken,
    PlanChecked,
    PlanKept,
    PlanMade,
    PlanRefused,
    PlanRevised,
    PlanStep,
    PolicyFailed,
    QuestionAsked,
    QuestionExpired,
    QuestionTaken,
    RecoveryDeclared,
    RecoveryLoaded,
    RejectionRepeated,
    RequestBuilt,
    RestAsked,
    RetryAsked,
    SlotCame,
    SlotDeferred,
    StepEnded,
    StepInherited,
    StepRetried,
    StepStarted,
    SubtaskEnded,
    SubtaskStarted,
    SummaryRefused,
    SummaryTaken,
    TaskClosed,
    TaskClosing,
    TaskErased,
    TaskForked,
    TaskPaused,
    TaskResumed,
    TaskSubmitted,
    TaskTrimmed,
    TimerFired,
    TimerSet,
)
from ..guard.ladder import GuardState
from ..guard.tried import Tried
from ..plan.standing import Standing, standings
from . import (
    asked,
    forked,
    gates,
    observing,
    recoveries,
    retried,
    steered,
    stepping,
    summarised,
    trimmed,
)
from .asked import Question
from .calibration import Seen
from .choosing import Choice, failed
from .failing import Failing
from .failures import Failure, paused
from .observing import no_room, noted
from .parts import Op, PauseState, Recovery, Retry, Shortage, StepRecord
from .planned import Planning, followed, planned
from .rest import rest_after
from .summarised import Summarised

__all__ = [
    "Op",
    "PauseState",
    "Recovery",
    "Shortage",
    "StepRecord",
    "TaskState",
    "apply",
]


class TaskState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a task must know to go on; bounded, however long it has run."""

    version: int = 0
    submitted: TaskSubmitted | None = None
    status: Literal[
        "queued", "running", "paused", "closing", "completed", "failed", "cancelled"
    ] = "queued"
    plan: tuple[PlanStep, ...] = ()  # the steps now in force; `steps` says how far
    steps: tuple[StepRecord, ...] = ()
    newest: str = ""  # the step that was started last
    planning: Planning = Planning()
    next_op: int = 1
    ops: dict[int, Op] = msgspec.field(default_factory=dict)
    opinions: tuple[AnswerJudged, ...] = ()  # of models, on that answer
    answer: int = 0  # the model call whose final answer is to be judged
    choice: Choice = Choice()  # of its policy, where it has one
    window: Window = Window()
    summary: Summarised = Summarised()
    facts_until: int = 0  # exchanges up to this operation are shown as facts
    findings: tuple[Finding, ...] = ()  # of what requests no longer show whole
    rejections: dict[str, str] = msgspec.field(default_factory=dict)  # of the step
    notes: tuple[str, ...] = ()
    guard: GuardState = GuardState()
    anchors: dict[str, Anchor] = msgspec.field(default_factory=dict)
    acts: tuple[Act, ...] = ()  # the newest calls of tools
    adrift: bool = False  # they have little to do with the goal
    knowledge: tuple[Known, ...] = ()  # core facts of its scopes
    failures: dict[str, Failure] = msgspec.field(default_factory=dict)  # of all steps
    tried: Tried = msgspec.field(default_factory=dict)  # in vain, with nothing changed
    questions: dict[str, Question] = msgspec.field(default_factory=dict)
    asked: int = 0  # questions, ever
    steering: dict[int, NoteView] = msgspec.field(default_factory=dict)
    noted: int = 0  # notes of people that were taken
    failing: Failing = Failing()  # calls of the step, not made good
    pause: PauseState | None = None
    cancelled_by: str = ""
    compensate: bool = False  # its completed effects are taken back before its end
    undone: int = 0
    undo_failed: str = ""  # why the newest undo did not go well
    recovery: Recovery | None = None
    shortage: Shortage | None = None
    news: bool = False  # something was observed since the last closing turn
    recoveries: int = 0
    progressed: bool = True  # since the last recovery began
    retries: int = 0
    anew: int = 0  # failures of earlier operations are forgiven
    retry: Retry | None = None
    retried: int = 0  # the epoch of the newest retry that was heard
    handed: int = 0  # sub-tasks that it has begun
    done: tuple[str, ...] = ()  # of a fork: the step that ran, what happened in it
    outcome: TaskClosing | None = None
    fixed: str = ""  # the layer that the newest request began with
    seen: Seen = Seen()  # what its provider counts for the estimate of tokens
    trimmed: float = 0.0  # since when the stream is without what led to its end

    @property
    def step(self) -> StepRecord | None:
        """The running step, if one runs."""
        for step in self.steps:
            if step.status == "running":
                return step
        return None

    def plan_of(self, step: str) -> PlanStep | None:
        """What a step is to do, if it is of the plan."""
        for plan in self.plan:
            if plan.id == step:
                return plan
        return None

    @property
    def task(self) -> TaskSubmitted:
        """The submission; every task begins with it."""
        assert self.submitted is not None
        return self.submitted

    def statuses(self) -> dict[str, str]:
        """The stored status of each step, in the order of the plan."""
        return {step.id: step.status for step in self.steps}

    def standings(self) -> dict[str, Standing]:
        """Where each step stands, by what it needs and how far those are."""
        return standings(self.plan, self.statuses())

    def shown_statuses(self) -> dict[str, str]:
        """Statuses by step as people and models are told of them."""
        return {name: one.status for name, one in self.standings().items()}

    def open_ops(self) -> list[Op]:
        """Operations without a final outcome, oldest first."""
        return [op for op in self.ops.values() if op.status == "open"]


def apply(state: TaskState, event: Event) -> TaskState:
    """Fold one event of the task's stream."""
    if state.trimmed:
        return trimmed.after(state, event)
    return followed(state, _applied(state, event), event)


def _applied(state: TaskState, event: Event) -> TaskState:
    match event:
        case DecisionMade():  # the commonest two count the version on as they go
            return stepping.decided(state, event)
        case ActionObserved():
            return observing.observed(state, event)
    change = msgspec.structs.replace
    state = change(state, version=state.version + 1)
    match event:
        case TaskSubmitted():
            steps = tuple(StepRecord(id=step.id) for step in event.steps)
            return change(state, submitted=event, plan=event.steps, steps=steps)
        case TaskForked():
            return forked.begun(state, event)
        case StepInherited():
            return forked.inherited(state, event)
        case PlanChecked() | PlanMade() | PlanRevised():
            return planned(state, event)
        case PlanKept() | PlanRefused() | ConsentAsked():
            return planned(state, event)
        case StepStarted():
            return stepping.started(state, event)
        case PolicyFailed():
            return change(state, choice=failed(state.choice))
        case RequestBuilt():
            window = Window(
                start=event.window, omitted=event.omitted, shrunk=event.shrunk
            )
            state = change(
                state,
                window=window,
                fixed=event.fixed,
                ops=summarised.asked(state.ops, event),
                findings=found_after(state.findings, event),
            )
            return observing.estimated(state, event)
        case SummaryTaken() | SummaryRefused():
            return summarised.after(state, event)
        case AnchorsRefused(refused=refused):
            return change(state, notes=noted(state, no_room(refused)))
        case DriftFound() | DriftOver():
            return change(state, adrift=isinstance(event, DriftFound))
        case LoopFound():
            return observing.found(state, event)
        case AnswerJudged():
            return change(state, opinions=(*state.opinions, event))
        case AnswerRefused(why=why):
            choice = change(state.choice, result="")
            state = change(state, choice=choice, opinions=())
            return change(state, answer=0, notes=noted(state, why))
        case StepEnded():
            return stepping.ended(state, event)
        case KnowledgeTaken(facts=facts):
            return change(state, knowledge=facts)
        case TaskPaused():
            step = state.step.id if state.step else ""
            pause = PauseState(
                reason=event.reason,
                detail=event.detail,
                ends_with=event.ends_with,
                epoch=event.epoch,
                left=event.left,
            )
            failures = paused(state.failures, step, event)
            recovery = recoveries.asked(state.recovery, event)
            state = change(state, failures=failures, recovery=recovery)
            return change(state, status="paused", pause=pause)
        case TaskResumed():
            return stepping.resumed(state, event)
        case RetryAsked() | StepRetried():
            return retried.after(state, event)
        case ApprovalAsked() | ApprovalExpired() | RejectionRepeated():
            return change(state, ops=gates.asking(state.ops, event))
        case TimerSet(op=op, at=at):
            waiting = change(state.ops[op], gate="waiting", due=at)
            return change(state, ops={**state.ops, op: waiting})
        case TimerFired(op=op):
            rested = change(state.ops[op], gate="rested")
            return change(state, ops={**state.ops, op: rested})
        case SlotDeferred(op=op) | SlotCame(op=op) | RestAsked(op=op):
            rest = change(state.ops[op], rest=rest_after(state.ops[op].rest, event))
            return change(state, ops={**state.ops, op: rest})
        case SubtaskStarted(op=op, child=child, amounts=amounts):
            begun = change(
                state.ops[op], gate="delegated", child=child, amounts=amounts
            )
            handed = state.handed + 1
            return change(state, ops={**state.ops, op: begun}, handed=handed)
        case SubtaskEnded(op=op):
            returned = change(state.ops[op], gate="returned")
            return change(state, ops={**state.ops, op: returned})
        case ApprovalTaken():
            return gates.answered(state, event)
        case QuestionAsked() | QuestionTaken() | QuestionExpired():
            return asked.after(state, event)
        case NoteTaken():
            return steered.taken(state, event)
        case CancelRequested(by=by, compensate=compensate):
            return change(
                state,
                cancelled_by=by,
                compensate=compensate,
                status="running",
                pause=None,
            )
        case RecoveryLoaded() | ContextRebuilt() | EffectsVerified():
            return recoveries.recovering(state, event)
        case RecoveryDeclared():
            return recoveries.declared(state, event)
        case TaskClosing(status=status):
            steps = tuple(
                change(step, status=status) if step.status == "running" else step
                for step in state.steps
            )
            return change(state, status="closing", outcome=event, steps=steps)
        case TaskClosed(status=status):
            return change(state, status=status)
        case TaskTrimmed():
            return trimmed.ended(state, event)
        case TaskErased():
            return state
    raise TypeError(f"{type(event).__name__} does not belong to a task")
