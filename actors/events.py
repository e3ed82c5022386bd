"""Every event that the actors write, stream by stream. Names and fields are API.

An event is what happened, never what is wanted. Times are seconds since the epoch,
amounts are whole numbers by dimension (see `budget.account`), JSON values stand as
JSON text so that a plain SQL tool shows them as they were.

Amounts of one call of a tool are in short where they are stored: ``{"call:NAME": 7}``
is one call that took 7 milliseconds, ``{"calls:NAME": 1}`` one that is to come.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from .admission.place import Place
from .amounts import Amounts, in_full, in_short
from .context.facts import Finding
from .guard.detect import Finding as Circle
from .guard.seen import Seen
from .rules import Rule

__all__ = [
    "EVENTS",
    "AccountClosed",
    "ActionObserved",
    "AgentChanged",
    "Alerted",
    "Amounts",
    "Anchor",
    "AnchorsRefused",
    "AnswerJudged",
    "AnswerRefused",
    "ApprovalAnswered",
    "ApprovalAsked",
    "ApprovalExpired",
    "ApprovalTaken",
    "CallModel",
    "CallTool",
    "CancelRequested",
    "Checkpoint",
    "CommandApplied",
    "ConsentAsked",
    "ContextRebuilt",
    "DecisionMade",
    "DriftFound",
    "DriftOver",
    "DroppedStep",
    "EffectProbed",
    "EffectRecorded",
    "EffectRegistered",
    "EffectResolved",
    "EffectsVerified",
    "EstimatesLearned",
    "Event",
    "ExpiryNear",
    "FactEnded",
    "FactStated",
    "FactsErased",
    "FinishStep",
    "Fired",
    "Forked",
    "GrantReturned",
    "GrantTaken",
    "Granted",
    "Held",
    "Kind",
    "KnowledgeTaken",
    "Known",
    "LoopFound",
    "NoteGiven",
    "NoteTaken",
    "PauseAsked",
    "PauseLifted",
    "PauseTask",
    "PlanChecked",
    "PlanKept",
    "PlanMade",
    "PlanRefused",
    "PlanRevised",
    "PlanStep",
    "PolicyFailed",
    "PoolOpened",
    "ProgressMade",
    "ProgressSeen",
    "Purpose",
    "QuarantineLifted",
    "Quarantined",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionExpired",
    "QuestionTaken",
    "QueueReopened",
    "RecoveriesForgiven",
    "RecoveryBegan",
    "RecoveryDeclared",
    "RecoveryLoaded",
    "RejectionRepeated",
    "RequestBuilt",
    "Reserved",
    "RestAsked",
    "RetryAsked",
    "Ruling",
    "ScratchDropped",
    "Settled",
    "SlotCame",
    "SlotDeferred",
    "SlotPromised",
    "SlotTaken",
    "StepEnded",
    "StepInherited",
    "StepRetried",
    "StepStarted",
    "SubtaskEnded",
    "SubtaskStarted",
    "SummaryRefused",
    "SummaryTaken",
    "TaskActivated",
    "TaskClosed",
    "TaskClosing",
    "TaskForked",
    "TaskImported",
    "TaskLeft",
    "TaskParked",
    "TaskPassivated",
    "TaskPaused",
    "TaskQueued",
    "TaskRecalled",
    "TaskResumed",
    "TaskSubmitted",
    "TaskTrimmed",
    "TaskWoken",
    "TimerFired",
    "TimerSet",
    "Trigger",
    "Undoes",
    "WindowClosed",
    "WindowsSet",
    "task_of",
]

_set = msgspec.structs.force_setattr

Kind: TypeAlias = Literal["query", "generate", "downstream"]
Checkpoint: TypeAlias = Literal["every", "nodes", "log"]
Purpose: TypeAlias = Literal["work", "declare", "closing", "summarise", "plan", "judge"]
Trigger: TypeAlias = Literal["start", "phase", "result", "unsure", "half"]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all events; its class name is the record's type.

    What has its default is left out of the record.
    """


E = TypeVar("E", bound=Event)


# ── task/<id>: what the task decided and how far it is ──────────────────────────


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step as the task carries it: text and limits; acceptance goes by name (A34).

    It begins once all that it `needs` passed acceptance. One that is not `required` may
    fail without the task. `kind` says how often it is tried again, `max_calls` how many
    tool calls all its tries may make, `checkpoint` when its state is kept (B84).
    `by` is who wrote it; one of the model's is judged by the check `accept` names.
    """

    id: str
    goal: str
    done: str = ""
    max_iterations: int = 0
    timeout: float | None = None
    needs: tuple[str, ...] = ()
    required: bool = True
    phase: str = ""
    kind: Kind | None = None
    max_calls: int | None = None
    checkpoint: Checkpoint = "nodes"
    by: Literal["host", "model"] = "host"
    accept: str = ""


class CallModel(
    msgspec.Struct, frozen=True, kw_only=True, tag="model", omit_defaults=True
):
    """Ask the model: for the step's work, or for a word besides it.

    That is a declaration after a recovery, where the task stands before it pauses for
    money (``closing``), a ``plan`` or a look at it, a summary of the exchanges `since`
    to `until`, for a request that they do not fit into any more, or whether the answer
    of operation `judges` (0: the output of the task) meets a `criterion`.
    """

    purpose: Purpose
    since: int = 0
    until: int = 0
    judges: int = 0
    criterion: str = ""


class Undoes(msgspec.Struct, frozen=True, kw_only=True):
    """Whose effect a call takes back: an operation's, that completed at `place`.

    That is the version of the ledger's stream which says so.
    """

    op: int
    place: int


class CallTool(
    msgspec.Struct, frozen=True, kw_only=True, tag="tool", omit_defaults=True
):
    """Call a tool as model call `parent` asked for, at place `index` of its calls.

    Where a policy asked for it, `parent` is the first call of that decision. With
    `undoes` the task itself asks for it, to take an effect back.
    """

    tool: str
    arguments: str
    call_id: str = ""
    parent: int = 0
    index: int = 0
    undoes: Undoes | None = None


class FinishStep(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """Have acceptance judge `result`, JSON text of a policy, as the step's answer."""

    result: str


class PauseTask(msgspec.Struct, frozen=True, kw_only=True, tag="pause"):
    """Pause until somebody resumes the task: its policy says so, and why."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that stays in view: its text, and the operation it rests on.

    `by` says who put it there: ``tool NAME``, ``schema of NAME``, or ``model``, whose
    word is a claim and no record.
    """

    value: str
    evidence: int
    by: str


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A core fact as a task takes it; `value` is JSON text.

    `evidence` is where it comes from, `until` the second since the epoch from which it
    does not hold any more.
    """

    id: str
    scope: str
    subject: str
    key: str
    value: str
    evidence: str
    until: float | None = None


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fork left its source: as of record `seq`, `version` of its stream.

    Operations below `ops` are the source's; the fork's own count on from there.
    """

    task: str
    seq: int
    version: int
    ops: int


class Ruling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one judge said of a result.

    That is a function of the host, a ready-made check, or a model: then `ok` is its
    opinion, and no more.

    `evidence` is plain JSON of what it rests on, bounded. A judge that raised or hung
    has not accepted, and `why` says so.
    """

    who: str
    ok: bool
    by: Literal["function", "check", "model"] = "function"
    why: str = ""
    evidence: dict[str, Any] = {}


class TaskSubmitted(Event, frozen=True, kw_only=True):
    """The task exists, with all that it will ever be told about itself.

    A sub-task names its parent, and the parent's operation that it is; a fork what it
    was `forked` from. `rules` are what
    the door keeps: the agent's, the caller's and the parent's.
    """

    task: str
    agent: str
    agent_digest: str
    baseline: str
    goal: str
    inputs: dict[str, Any] = {}
    constraints: tuple[str, ...] = ()
    budget: Amounts = {}
    group: str = ""
    priority: int = 0
    key: str | None = None
    deadline: float | None = None
    steps: tuple[PlanStep, ...] = ()
    not_before: float | None = None
    parent: str = ""
    parent_op: int = 0
    depth: int = 0
    rules: tuple[Rule, ...] = ()
    forked: Forked | None = None


class TaskForked(Event, frozen=True, kw_only=True):
    """What a fork begins with: where its source stood, so that it needs it no more.

    `state` are parts of a task's state by name; `step` is the step that ran there and
    begins anew here, `done` what had happened in it, in words for the model.
    """

    by: str
    state: dict[str, Any]
    step: str = ""
    done: tuple[str, ...] = ()


class StepInherited(Event, frozen=True, kw_only=True):
    """A step that the source of a fork completed, with its result as JSON text."""

    step: str
    result: str


class StepStarted(Event, frozen=True, kw_only=True):
    """A step runs, for the `attempt`-th time, until `deadline` at the latest."""

    step: str
    attempt: int = 1
    deadline: float | None = None


class DecisionMade(Event, frozen=True, kw_only=True):
    """Operation `op` is to be done; `why`, and what the last result taught (B58).

    `memo` is the JSON text that a policy is shown from here; None is the one before.
    Of a model's call `why` is what it said as it asked for it, empty where it said
    nothing.
    """

    op: int
    step: str
    action: CallModel | CallTool | FinishStep | PauseTask
    why: str = ""
    learned: str = ""
    memo: str | None = None


class PolicyFailed(Event, frozen=True, kw_only=True):
    """The agent's policy raised, hung, or returned what is no action of this agent."""

    step: str
    why: str


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger that a look at the plan is due for, and what set it off."""

    trigger: Trigger
    why: str


class DroppedStep(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished step that a plan does without, and why."""

    id: str
    why: str
    required: bool = True


class PlanChecked(Event, frozen=True, kw_only=True):
    """The plan is to be written, or looked at again: what fired (A95).

    All calls for it end by `deadline`, a second since the epoch (A82). The plan has at
    most `max_steps`, and `checks` are the names that its steps may be judged by.
    """

    fired: tuple[Fired, ...]
    deadline: float
    max_steps: int
    checks: tuple[str, ...] = ()


class PlanMade(Event, frozen=True, kw_only=True):
    """The model's plan, written by operation `op`, is in force (A87).

    `digest` is of its steps, `goal` of the goal that it is for.
    """

    op: int
    number: int
    steps: tuple[PlanStep, ...]
    digest: str
    goal: str
    why: str = ""


class PlanRevised(Event, frozen=True, kw_only=True):
    """Another plan is in force: what was completed or runs stays as it was (A83).

    `steps` are all of it, and `digest` is of them; `before` is the digest of the plan
    that it replaces, `goal` that of the goal. `consent` is who let required steps be
    dropped.
    """

    op: int
    number: int
    fired: tuple[Fired, ...]
    steps: tuple[PlanStep, ...]
    digest: str
    before: str
    goal: str
    why: str = ""
    dropped: tuple[DroppedStep, ...] = ()
    consent: str = ""


class PlanKept(Event, frozen=True, kw_only=True):
    """The model looked at the plan, and leaves it as it is."""

    op: int
    why: str = ""


class PlanRefused(Event, frozen=True, kw_only=True):
    """What was to be a plan is none, or none came: the old one stays (K49).

    With `final` it is not asked for again, and counts as a revision that failed.
    """

    op: int
    why: str
    final: bool


class ConsentAsked(Event, frozen=True, kw_only=True):
    """A revision waits for a person: it drops steps that the task requires.

    `steps` are the whole plan that would be in force.
    """

    op: int
    steps: tuple[PlanStep, ...]
    dropped: tuple[DroppedStep, ...]
    why: str = ""


class KnowledgeTaken(Event, frozen=True, kw_only=True):
    """The core facts of the task's scopes as requests show them from here (A100).

    `erased` is how many more they were, before somebody had those erased.
    """

    facts: tuple[Known, ...]
    erased: int = 0


class RequestBuilt(Event, frozen=True, kw_only=True):
    """The request of a model call: digest and parts, enough to render it again.

    `view` is the version of this stream that the task's layer was rendered from;
    operations of the step up to `facts_until` stand there as facts. `blocks` are first
    and last ids of the scratch blocks: a block is an exchange, named by its model call.
    Bulky results of blocks before `shrunk` are shown by reference. `findings` are what
    is kept of the blocks that this request shrank or dropped, `bare` says that no
    finding is in it, and no summary, since there was no room for any.
    `fixed` is the SHA-256 of the blob that holds instructions and tools.

    The request takes `size` of `limit`, both in `measure`, whose estimate of tokens is
    multiplied by `scale` thousandths; `room` tokens of the window beside `limit` are
    the reply's. `characters` is the length of its canonical JSON in any case (A46).
    """

    op: int
    attempt: int
    digest: str
    view: int
    facts_until: int
    blocks: tuple[tuple[int, int], ...]
    window: int
    omitted: int
    characters: int
    limit: int
    fixed: str = ""
    shrunk: int = 0
    findings: tuple[Finding, ...] = ()
    bare: bool = False
    measure: str = "characters"
    size: int = 0
    room: int = 0
    scale: int = 1_000


class ActionObserved(Event, frozen=True, kw_only=True):
    """The task knows how an attempt ended; with `again` the operation goes on.

    `retry` counts the attempt against the limit of its kind: one that a crash cut off
    does not count. `calls` is how many tools a model's reply asks for, `said` the words
    of a closing turn; `refused` says that the door did not let the call out;
    `input_tokens` is what the provider counted, or 0; `seen` is what is remembered of
    a tool call, to find circles; `unsure` the phrase of uncertainty in a reply.
    """

    op: int
    attempt: int = 1
    status: Literal["completed", "failed", "unknown"] = "completed"
    again: bool = False
    retry: bool = False
    calls: int = 0
    reason: str = ""
    anchors: dict[str, Anchor] = msgspec.field(default_factory=dict)
    said: str = ""
    refused: bool = False
    input_tokens: int = 0
    seen: Seen | None = None
    unsure: str = ""


class AnchorsRefused(Event, frozen=True, kw_only=True):
    """What operation `op` put in view that the task has no room for: names, and why."""

    op: int
    refused: dict[str, str]


class DriftFound(Event, frozen=True, kw_only=True):
    """The newest actions have little to do with the goal: it is shown again (B15).

    `score` is above the threshold, up to 1; `why` says what the actions were about.
    """

    score: float
    why: str


class DriftOver(Event, frozen=True, kw_only=True):
    """The newest actions have to do with the goal again."""

    score: float


class SummaryTaken(Event, frozen=True, kw_only=True):
    """Requests show a summary in place of the exchanges `since` to `until` (A94).

    `text` is its JSON, of operation `op`. It replaces the exchanges `replaced`, by
    evidence id, which stay in the record, and the summary before it; `kept` are the
    names and values that were found in it.
    """

    op: int
    text: str
    since: int
    until: int
    replaced: tuple[str, ...]
    kept: tuple[str, ...] = ()


class SummaryRefused(Event, frozen=True, kw_only=True):
    """No summary came of operation `op`: requests are cut by rule (A41).

    With `failed` it counts towards the number after which none is asked for.
    """

    op: int
    why: str
    failed: bool = True


class LoopFound(Event, frozen=True, kw_only=True):
    """The task goes round in circles: the operations that show it, and what is done.

    It is told so (``nudge``), the calls of the circle, by their digests, are refused
    from here (``block``), or it pauses (``stop``).
    """

    stage: Literal["nudge", "block", "stop"]
    found: Circle


class AnswerRefused(Event, frozen=True, kw_only=True):
    """Acceptance said no to the step's answer; the step goes on with the reason.

    `judged` is who was asked, in order, and what they said.
    """

    op: int
    step: str
    why: str
    judged: tuple[Ruling, ...] = ()


class AnswerJudged(Event, frozen=True, kw_only=True):
    """A model said by operation `op` whether an answer meets a criterion.

    `judges` is the operation of the answer, 0 the output of the task. Without a
    `verdict` its words could not be read; `why` says why.
    """

    op: int
    judges: int
    criterion: str
    verdict: Literal["pass", "fail", ""]
    why: str


class StepEnded(Event, frozen=True, kw_only=True):
    """A step stopped. Only `completed` passed acceptance; `result` is JSON text.

    With `again` the step is tried once more, with iterations and time anew.
    `condition` names the condition of its loop that stopped it, where one did; `judged`
    is who was asked for acceptance, in order, and what they said.
    """

    step: str
    status: Literal[
        "completed", "failed", "timed_out", "limited", "acceptance_error", "cancelled"
    ]
    reason: str
    result: str
    evidence: tuple[str, ...]
    op: int
    again: bool = False
    deadline: float | None = None
    condition: str = ""
    judged: tuple[Ruling, ...] = ()


class TaskPaused(Event, frozen=True, kw_only=True):
    """The task waits for a person or an event: why, and what would end it.

    `condition` names the condition of its loop that stopped it, where one did; `left`
    is how many seconds its running step has, where these are limited.
    """

    reason: str
    detail: str
    ends_with: str
    epoch: int
    condition: str = ""
    left: float | None = None


class TaskResumed(Event, frozen=True, kw_only=True):
    """A paused task goes on; its running step, if one runs, until `deadline`.

    With `anew` its counts of retries begin anew: somebody had it go on. Without, it
    is only that what it waited for has come.
    """

    by: str
    deadline: float | None = None
    anew: bool = True


class RetryAsked(Event, frozen=True, kw_only=True):
    """Somebody has a step done again; what is open of it is let go of first.

    All counts of retries begin anew. `since` is the epoch that it was said for: it is
    heard once.
    """

    step: str
    by: str
    since: int


class StepRetried(Event, frozen=True, kw_only=True):
    """Step `step` is pending anew, and so are those that need it: all the `steps`.

    Their results are no facts any more; what they were, and whatever they did, stays in
    the record. Their attempts count on.
    """

    step: str
    steps: tuple[str, ...]
    by: str


class ApprovalAsked(Event, frozen=True, kw_only=True):
    """Operation `op` waits until somebody approves this call with these arguments.

    `at` is the second since the epoch, as is `expires`: from then on it is of no use.
    """

    approval: str
    op: int
    tool: str
    arguments: str
    at: float = 0.0
    expires: float | None = None


class ApprovalTaken(Event, frozen=True, kw_only=True):
    """The task knows the answer; an approved call runs, a rejected one has failed.

    With `tool` and `arguments` it becomes that call, which is judged by its own rules.
    `call` names a rejected call: the same one is not asked for again in this step.
    """

    approval: str
    op: int
    approved: bool
    by: str
    why: str = ""
    at: float = 0.0
    tool: str = ""
    arguments: str = ""
    call: str = ""


class ApprovalExpired(Event, frozen=True, kw_only=True):
    """The time of an approval is over, and its call has not been made: no refusal."""

    approval: str
    op: int


class RejectionRepeated(Event, frozen=True, kw_only=True):
    """Operation `op` is a call that was rejected in this step: nobody is asked again.

    `rejected` is by whom, and why.
    """

    op: int
    rejected: str


class QuestionAsked(Event, frozen=True, kw_only=True):
    """Somebody is to answer: operation `op`, or with `about` the task itself, waits.

    `number` counts the task's questions. With `choices` only one of them is an answer.
    `at` is the second since the epoch, as is `expires`: nobody may answer from then on.
    """

    question: str
    number: int
    text: str
    choices: tuple[str, ...] = ()
    op: int = 0
    about: str = ""
    at: float = 0.0
    expires: float | None = None


class QuestionTaken(Event, frozen=True, kw_only=True):
    """The task knows the answer, who gave it, and at which second since the epoch."""

    question: str
    answer: str
    by: str
    at: float


class QuestionExpired(Event, frozen=True, kw_only=True):
    """The time of a question is over, and nobody answered: its call has failed."""

    question: str


class NoteTaken(Event, frozen=True, kw_only=True):
    """A person's note stands in every request from now on, as number `number`.

    It replaces what had that number. `serial` counts the task's notes, `at` is the
    second since the epoch at which it was given.
    """

    serial: int
    number: int
    text: str
    by: str
    at: float


class TimerSet(Event, frozen=True, kw_only=True):
    """Operation `op` waits until second `at` since the epoch."""

    op: int
    at: float


class TimerFired(Event, frozen=True, kw_only=True):
    """The time of operation `op` has come; it goes on."""

    op: int


class SlotDeferred(Event, frozen=True, kw_only=True):
    """Operation `op` waits until second `at`: `service` takes no more before.

    `service` is empty where only this operation was asked to wait.
    """

    op: int
    service: str
    at: float


class RestAsked(Event, frozen=True, kw_only=True):
    """The service of operation `op` asked not to be called before second `until`.

    In the ledger's stream beside the outcome that says so, and in the task's where the
    operation goes on.
    """

    op: int
    until: float


class SlotCame(Event, frozen=True, kw_only=True):
    """The time that operation `op` waited for has come; it asks for its slot."""

    op: int


class SubtaskStarted(Event, frozen=True, kw_only=True):
    """Operation `op` waits for task `child`, which may use `amounts` of its money."""

    op: int
    child: str
    amounts: Amounts


class SubtaskEnded(Event, frozen=True, kw_only=True):
    """The task that operation `op` waits for has ended; what it says is its result."""

    op: int
    child: str
    status: str


class CancelRequested(Event, frozen=True, kw_only=True):
    """Somebody asked the task to end; no new operation starts from here.

    With `compensate` but those that take its completed effects back.
    """

    by: str
    compensate: bool = False


class RecoveryLoaded(Event, frozen=True, kw_only=True):
    """Recovery, step 1: state rebuilt from a snapshot and the events after it (B32)."""

    number: int
    snapshot: int
    replayed: int


class ContextRebuilt(Event, frozen=True, kw_only=True):
    """Recovery, step 2: goal, confirmed facts, next action; no old history (B33).

    `findings` are what is kept of the exchanges that the facts have no room for, in
    requests of `limit`.
    """

    facts: tuple[str, ...]
    next: str
    facts_until: int
    findings: tuple[Finding, ...] = ()
    limit: int = 0


class EffectsVerified(Event, frozen=True, kw_only=True):
    """Recovery, step 3: how each open operation was decided (B34)."""

    decided: dict[str, str]


class RecoveryDeclared(Event, frozen=True, kw_only=True):
    """Recovery, step 4: the declaration, and what the rules said of it (B35).

    `who` confirmed it, where it was ``by`` a person.
    """

    accepted: bool
    by: Literal["model", "rules", "person"]
    declaration: str
    why: str
    who: str = ""


class TaskClosing(Event, frozen=True, kw_only=True):
    """The outcome is decided; the account is still to be closed.

    `judged` is who accepted the whole task, in order.
    """

    status: Literal["completed", "failed", "cancelled"]
    output: str
    reason: str
    judged: tuple[Ruling, ...] = ()


class TaskClosed(Event, frozen=True, kw_only=True):
    """The end: books closed, slot to be given back."""

    status: Literal["completed", "failed", "cancelled"]


class TaskTrimmed(Event, frozen=True, kw_only=True):
    """Of an ended task: its scratch has been let go since second `trimmed_at`.

    It stands where the first of that stood, and says how the task ended: `state` are
    parts of a task's state by name. What comes after it in the stream is what stays.
    """

    trimmed_at: float
    state: dict[str, Any]


# ── task/<id>/recovery: written before anything else of the task is read ─────────


class ProgressMade(Event, frozen=True, kw_only=True):
    """The task got further after a recovery: the count of those in vain begins anew."""

    task: str


class RecoveriesForgiven(Event, frozen=True, kw_only=True):
    """Somebody had a parked task go on: its recoveries so far are not counted."""

    task: str
    by: str


class RecoveryBegan(Event, frozen=True, kw_only=True):
    """A recovery is about to start; `cause` says which process or actor ended.

    `strike` False: others were active when the process died, and nothing says that it
    was this task that ended it. Such a recovery counts towards no limit.
    """

    task: str
    epoch: int
    cause: str
    actor: str = ""
    strike: bool = True


# ── task/<id>/ledger: every contact with the outside ─────────────────────────────


class EffectRegistered(Event, frozen=True, kw_only=True):
    """Attempt `attempt` of operation `op` may run until `not_after` (B39: pending).

    `reused` names the operation whose record answers this one without a run, `named`
    is the caller's own key of the effect,
    `approval` the approval that let it through, `model` the model that is asked,
    `edited` who made another call of the one that the model made, `undoes` the effect
    that it takes back, `holds` the steps that stopped half-way: what they did is kept
    until they go on. `counts_as` is what the tool says that its effects are.
    Of one that is `trimmed`, arguments and results were let go after the task's end.
    """

    op: int
    attempt: int = 1
    step: str
    kind: Literal["model", "tool"] = "tool"
    name: str
    effect: Literal["read", "idempotent", "once"] = "once"
    key: str
    arguments: str = ""
    not_after: float
    call_id: str = ""
    parent: int = 0
    reused: int | None = None
    approval: str = ""
    edited: str = ""
    named: str = ""
    model: str = ""
    undoes: Undoes | None = None
    holds: tuple[str, ...] = ()
    counts_as: str = ""
    trimmed: bool = False

    @property
    def request_id(self) -> str:
        """The idempotency key that is passed through to the outside (B38)."""
        return f"perdure-{self.key}"


class EffectRecorded(Event, frozen=True, kw_only=True):
    """How an attempt ended, who says so, and what it used.

    `result` is the text of a tool's result or error, or the JSON of a model's reply;
    over 16 KiB it is a blob, `blob` its digest and `result` its first 1,000 characters.
    `beside` is what a sub-task used by books other than `spent`, `who` the person that
    said so, where one did; of an answer to a question, `said_at` says at which second.
    """

    op: int
    attempt: int = 1
    status: Literal["completed", "failed", "unknown"] = "completed"
    by: Literal[
        "run", "record", "probe", "recovery", "door", "person", "subtask", "answer"
    ] = "run"
    result: str = ""
    blob: str = ""
    error: str = ""
    usage: Amounts = msgspec.field(default_factory=dict)
    source: Literal["reported", "estimated", "unknown"] = "reported"
    anchors: dict[str, Anchor] = msgspec.field(default_factory=dict)
    beside: dict[str, Amounts] = msgspec.field(default_factory=dict)
    who: str = ""
    said_at: float = 0.0

    def __post_init__(self) -> None:
        if len(self.usage) == 1:
            _set(self, "usage", in_full(self.usage))

    def stored(self) -> EffectRecorded:
        """The event that its JSON is made of."""
        return _with(self, "usage", in_short(self.usage))


class EffectProbed(Event, frozen=True, kw_only=True):
    """A probe was asked and the answer decides nothing yet."""

    op: int
    attempt: int = 1
    answer: str
    again_at: float


# ── task/<id>/account: the task's money ──────────────────────────────────────────


class GrantTaken(Event, frozen=True, kw_only=True):
    """A grant of the pool arrived in this account; below 0 it lowers a limit."""

    grant: str
    amounts: Amounts


class Reserved(Event, frozen=True, kw_only=True):
    """The estimate of an attempt is set aside before it runs (B62)."""

    op: int
    attempt: int = 1
    book: Literal["spent", "recovery"] = "spent"
    amounts: Amounts

    def __post_init__(self) -> None:
        if len(self.amounts) == 1:
            _set(self, "amounts", in_full(self.amounts))

    def stored(self) -> Reserved:
        """The event that its JSON is made of."""
        return _with(self, "amounts", in_short(self.amounts))


class Held(Event, frozen=True, kw_only=True):
    """The attempt's outcome is unknown; its reservation stays charged."""

    op: int
    attempt: int = 1


class Settled(Event, frozen=True, kw_only=True):
    """The reservation is replaced by what the attempt really used.

    `beside` is what a sub-task used by books other than `book`.
    """

    op: int
    attempt: int = 1
    book: Literal["spent", "unknown", "recovery", "none"] = "spent"
    amounts: Amounts = msgspec.field(default_factory=dict)
    beside: dict[str, Amounts] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.amounts) == 1:
            _set(self, "amounts", in_full(self.amounts))

    def stored(self) -> Settled:
        """The event that its JSON is made of."""
        return _with(self, "amounts", in_short(self.amounts))


class Alerted(Event, frozen=True, kw_only=True):
    """A dimension fell to the alert threshold; the task goes on (B81)."""

    dimension: str
    granted: int
    available: int


class AccountClosed(Event, frozen=True, kw_only=True):
    """Nothing more is spent; what is left goes back to the pool."""

    returned: Amounts


# ── services/memory: what is known beyond one task ───────────────────────────────


class FactStated(Event, frozen=True, kw_only=True):
    """A fact or a hypothesis is kept, of a key of a subject in a scope (K53).

    `value` is JSON text, `evidence` where it comes from, `by` who said it, `at` when,
    `until` the second from which it does not hold any more.
    """

    fact: str
    scope: str
    subject: str
    key: str
    value: str
    core: bool
    status: Literal["fact", "hypothesis"]
    evidence: str
    by: str
    at: float
    until: float | None = None


class FactEnded(Event, frozen=True, kw_only=True):
    """A fact or a hypothesis is over since second `at`: how, and who says so.

    A hypothesis that is confirmed goes on as a fact of its own.
    """

    fact: str
    scope: str
    core: bool
    how: Literal["superseded", "confirmed", "expired", "dropped", "erased"]
    by: str
    at: float


class FactsErased(Event, frozen=True, kw_only=True):
    """Somebody had `facts` facts about one subject erased, at second `erased_at`."""

    by: str
    erased_at: float
    facts: int


# ── services/windows: how often each service is called ───────────────────────────


class WindowsSet(Event, frozen=True, kw_only=True):
    """The limits of all services, written where they changed: count, and seconds."""

    limits: dict[str, tuple[int, float]]


class SlotTaken(Event, frozen=True, kw_only=True):
    """An attempt may begin at second `at`, or very soon after; `key` names it."""

    service: str
    key: str
    at: float


class SlotPromised(Event, frozen=True, kw_only=True):
    """An attempt that asked at second `asked` comes again at second `at`."""

    service: str
    key: str
    at: float
    asked: float


class WindowClosed(Event, frozen=True, kw_only=True):
    """The service asked at second `said` to be left alone until second `until`."""

    service: str
    until: float
    said: float


# ── services/pool, services/admission ────────────────────────────────────────────


class PoolOpened(Event, frozen=True, kw_only=True):
    """The limits of the shared pool, written where they changed."""

    limits: Amounts


class Granted(Event, frozen=True, kw_only=True):
    """The pool gave a grant to a task; in transit until the account takes it.

    That of a sub-task comes out of its parent's account: the pool only passes it on.
    Amounts below 0 lower the task's limits; the pool has them back at its end, with
    what is left.
    """

    grant: str
    task: str
    amounts: Amounts
    parent: str = ""


class GrantReturned(Event, frozen=True, kw_only=True):
    """A closed account gave back what it had left."""

    task: str
    amounts: Amounts


class EstimatesLearned(Event, frozen=True, kw_only=True):
    """What the calls of a task took since its account started, by name of a sample."""

    task: str
    samples: dict[str, tuple[int, ...]]


class TaskQueued(Event, frozen=True, kw_only=True):
    """The task waits for a slot, at the place of this record.

    It gets none before second `not_before` since the epoch; a fork begins with so many
    `notes` of people.
    """

    task: str
    agent: str
    group: str = ""
    priority: int = 0
    key: str | None = None
    not_before: float | None = None
    parent: str = ""
    notes: int = 0


class TaskWoken(Event, frozen=True, kw_only=True):
    """A waiting or parked task is in the queue again, at its old place.

    `order` says what for: to resume whatever it paused for, to end (``compensate``:
    and to take its effects back before), or (``again``) to look whether what it waits
    for has come. An active task looks at it when it stops. With `retry` that step is
    done again.
    """

    task: str
    order: Literal["resume", "cancel", "compensate", "again"]
    by: str
    retry: str = ""


class TaskActivated(Event, frozen=True, kw_only=True):
    """The task got a slot; `epoch` fences every earlier owner.

    `order` is what woke it: to run on, to resume after a pause, to be cancelled (and
    compensated), to look again at what it waits for; it was given for epoch `since`.
    """

    task: str
    epoch: int
    since: int
    order: Literal["run", "resume", "cancel", "compensate", "again"]
    by: str


class TaskPassivated(Event, frozen=True, kw_only=True):
    """The task's actors ended cleanly; with `waiting` its slot is given back."""

    task: str
    waiting: bool


class TaskRecalled(Event, frozen=True, kw_only=True):
    """The task rests no longer: where it stood, which was its row until now."""

    task: str
    place: Place


class TaskParked(Event, frozen=True, kw_only=True):
    """The task is taken out of the queue; `status` is ``parked`` or ``paused``."""

    task: str
    status: str
    reason: str
    ends_with: str


class AgentChanged(Event, frozen=True, kw_only=True):
    """The task goes on with another definition of its agent, or another baseline (B5).

    `changes` are what differs from the definition `before`, a line each; `by` is who
    adopted them, empty where no one need.
    """

    task: str
    before: str
    digest: str
    baseline: str
    changes: tuple[str, ...] = ()
    by: str = ""


class PauseAsked(Event, frozen=True, kw_only=True):
    """Somebody wants a task to pause: after what it does now, or where it is."""

    task: str
    by: str


class PauseLifted(Event, frozen=True, kw_only=True):
    """Somebody wants it to go on, before it has paused."""

    task: str
    by: str


class QueueReopened(Event, frozen=True, kw_only=True):
    """A process took over from one that did not end as it should.

    `interrupted` are the tasks that were active in that one; none where the last end
    was a clean one after others that were not. With `alone` they are recovered one at
    a time, until one gets further.
    """

    interrupted: tuple[str, ...]
    alone: bool


class ProgressSeen(Event, frozen=True, kw_only=True):
    """A recovered task got further: it was not what ended the processes so far."""

    task: str


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    """Somebody answered an approval; its task takes the answer when it next runs.

    A second one for the same approval takes the first back. `tool` and `arguments` are
    the call that is to be made instead; `at` is the second since the epoch.
    """

    approval: str
    task: str
    approved: bool
    by: str
    why: str = ""
    at: float = 0.0
    tool: str = ""
    arguments: str = ""


class QuestionAnswered(Event, frozen=True, kw_only=True):
    """Somebody answered a question; its task takes the answer when it next runs.

    `at` is the second since the epoch.
    """

    question: str
    task: str
    answer: str
    by: str
    at: float


class ExpiryNear(Event, frozen=True, kw_only=True):
    """A fifth of its time is left to an approval or question, and nobody answered it.

    `subject` is its id; from second `expires` since the epoch on it is of no use.
    """

    task: str
    what: Literal["approval", "question"]
    subject: str
    expires: float


class NoteGiven(Event, frozen=True, kw_only=True):
    """Somebody gave a task a note; its words stand in a row until the task takes it."""

    task: str
    serial: int
    number: int
    by: str


class EffectResolved(Event, frozen=True, kw_only=True):
    """Somebody said whether an unknown effect happened; its ledger takes that up.

    `result` is the text that the call is to have given. The word is about one attempt.
    """

    effect: str
    task: str
    op: int
    attempt: int
    happened: bool
    by: str
    result: str = ""


class CommandApplied(Event, frozen=True, kw_only=True):
    """A command of the inbox was carried out, or refused; `said` is its answer."""

    command: str
    kind: str
    task: str
    done: bool
    said: str


class TaskLeft(Event, frozen=True, kw_only=True):
    """The task ended and its slot is back."""

    task: str
    status: str


class ScratchDropped(Event, frozen=True, kw_only=True):
    """Retention let scratch of an ended task go: some of it, or with `over` the last.

    So many `records` went, `emptied` stay without a text, and `values` are big values
    that nothing names any more. `why` says why the rest of it stays, where it does.
    """

    task: str
    records: int
    emptied: int
    values: int
    over: bool
    why: str = ""


class TaskImported(Event, frozen=True, kw_only=True):
    """An ended task was brought back from an archive, with its sub-tasks.

    `queued_at` is the second since the epoch at which it was submitted, `records` how
    many came.
    """

    task: str
    subtasks: tuple[str, ...]
    queued_at: float
    records: int


class Quarantined(Event, frozen=True, kw_only=True):
    """A store was repaired: something is amiss in it, and was set aside.

    Its row says what it is, and holds what was taken from where it stood.
    """

    item: str
    kind: str
    task: str = ""


class QuarantineLifted(Event, frozen=True, kw_only=True):
    """Somebody took it out of quarantine: what was set aside is back in its place."""

    item: str
    task: str = ""


class TaskErased(Event, frozen=True, kw_only=True):
    """Somebody had an ended task erased, and its sub-tasks, at second `erased_at`.

    Of each task this is also the one record that is left in its own stream.
    """

    task: str
    by: str
    erased_at: float
    subtasks: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()


EVENTS: tuple[type[Event], ...] = (
    TaskSubmitted,
    TaskForked,
    StepInherited,
    StepStarted,
    DecisionMade,
    PolicyFailed,
    PlanChecked,
    PlanMade,
    PlanRevised,
    PlanKept,
    PlanRefused,
    ConsentAsked,
    KnowledgeTaken,
    RequestBuilt,
    ActionObserved,
    AnchorsRefused,
    DriftFound,
    DriftOver,
    SummaryTaken,
    SummaryRefused,
    LoopFound,
    AnswerJudged,
    AnswerRefused,
    StepEnded,
    TaskPaused,
    TaskResumed,
    RetryAsked,
    StepRetried,
    ApprovalAsked,
    ApprovalExpired,
    ApprovalTaken,
    RejectionRepeated,
    QuestionAsked,
    QuestionTaken,
    QuestionExpired,
    NoteTaken,
    TimerSet,
    TimerFired,
    SlotDeferred,
    SlotCame,
    RestAsked,
    SubtaskStarted,
    SubtaskEnded,
    CancelRequested,
    RecoveryLoaded,
    ContextRebuilt,
    EffectsVerified,
    RecoveryDeclared,
    TaskClosing,
    TaskClosed,
    TaskTrimmed,
    RecoveryBegan,
    ProgressMade,
    RecoveriesForgiven,
    EffectRegistered,
    EffectRecorded,
    EffectProbed,
    GrantTaken,
    Reserved,
    Held,
    Settled,
    Alerted,
    AccountClosed,
    FactStated,
    FactEnded,
    FactsErased,
    WindowsSet,
    SlotTaken,
    SlotPromised,
    WindowClosed,
    PoolOpened,
    Granted,
    GrantReturned,
    EstimatesLearned,
    TaskQueued,
    TaskWoken,
    TaskActivated,
    TaskPassivated,
    TaskRecalled,
    TaskParked,
    AgentChanged,
    ApprovalAnswered,
    QuestionAnswered,
    ExpiryNear,
    NoteGiven,
    PauseAsked,
    PauseLifted,
    EffectResolved,
    CommandApplied,
    TaskLeft,
    QueueReopened,
    ProgressSeen,
    ScratchDropped,
    TaskImported,
    Quarantined,
    QuarantineLifted,
    TaskErased,
)


def _with(event: E, field: str, amounts: Amounts) -> E:
    """The event, or a copy: `replace` would have the amounts in full again."""
    if getattr(event, field) is amounts:
        return event
    made: E = event.__copy__()  # type: ignore[attr-defined]  # msgspec does not say so
    _set(made, field, amounts)
    return made


@functools.lru_cache(maxsize=4096)
def task_of(stream: str) -> str:
    """The id of the task that a stream belongs to, or an empty string."""
    parts = stream.split("/", 2)
    return parts[1] if parts[0] == "task" else ""
