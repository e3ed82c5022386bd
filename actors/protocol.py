"""The messages between the actors, and from outside to them.

Every request is idempotent by its operation id and carries `reply_to`; whoever asks
sends it again on `Up` of the other side. A `Promise` is for callers outside.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..supervision.address import Address
from ..supervision.promise import Promise
from .budget.account import Books, Refusal
from .budget.estimates import Samples
from .context.blocks import Block, Fate, Window
from .context.facts import Finding
from .context.judging import Question
from .context.render import TaskView
from .context.summary import Subject
from .events import (
    Amounts,
    Anchor,
    Checkpoint,
    Known,
    Purpose,
    TaskSubmitted,
    Undoes,
)
from .ledger.entry import Entry
from .memory.facts import Said
from .model import ModelRequest
from .price import Price
from .rules import Rule

__all__ = [
    "Allocate",
    "Allocated",
    "Answer",
    "AskCore",
    "Asked",
    "Assemble",
    "Built",
    "Cancel",
    "ChangeFact",
    "CloseAccount",
    "CloseWindow",
    "Closed",
    "Consult",
    "CoreFacts",
    "Drain",
    "Enlarge",
    "Enlarged",
    "Erase",
    "EraseFacts",
    "FactChanged",
    "FetchGrants",
    "Fork",
    "Given",
    "GrantBack",
    "Grants",
    "Hold",
    "InboxChanged",
    "Inquire",
    "Inquired",
    "Learned",
    "NotesTaken",
    "Order",
    "Pause",
    "Perform",
    "Performed",
    "Progressed",
    "Queued",
    "Recall",
    "Recalled",
    "Remind",
    "Replied",
    "Reply",
    "Reserve",
    "ReserveReply",
    "Resolve",
    "Resume",
    "Retry",
    "ReturnGrant",
    "Settle",
    "SettleReply",
    "SlotReply",
    "Statement",
    "StatementReply",
    "Steer",
    "Stopped",
    "Submit",
    "TakeNotes",
    "TakeSlot",
    "Verified",
    "Verify",
    "WakeAgain",
    "Warn",
    "WindowIsClosed",
]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all messages."""


# ── from outside to admission ────────────────────────────────────────────────────


class Submit(Message, frozen=True, kw_only=True):
    """Queue a task. Answered once it is durable: a promise with the task's id."""

    task: TaskSubmitted
    promise: Promise | None = None
    reply_to: Address | None = None


class Queued(Message, frozen=True, kw_only=True):
    """A sub-task is durable; a parent may wait for it without being there."""

    task: str


class Asked(Message, frozen=True, kw_only=True):
    """Somebody asks something of a task.

    `command` is the inbox's id of a request that no promise waits for.
    """

    task: str
    by: str
    promise: Promise | None = None
    command: str = ""


class Resume(Asked, frozen=True, kw_only=True):
    """Let a paused or parked task go on. Answered with True where one waited."""


class Retry(Asked, frozen=True, kw_only=True):
    """Have a step of a task that rests done again; without one, that where it stopped.

    Answered with True; fails with Misuse where that cannot be.
    """

    step: str


class Adopt(Asked, frozen=True, kw_only=True):
    """Have a task go on that is parked since its agent has changed, to `digest`."""

    digest: str


class Fork(Asked, frozen=True, kw_only=True):
    """Make a task that begins where another stood, as of seq `at` or now.

    `new` is its id; without a `budget` it has the source's limits, without a `goal` the
    source's. Answered with its id, or that of the task which the same `key` gave
    before; fails with Misuse where that cannot be.
    """

    new: str
    at: int | None = None
    budget: Amounts | None = None
    goal: str = ""
    key: str | None = None


class WakeAgain(Asked, frozen=True, kw_only=True):
    """What a task may wait for has come: let it look. Answered once that is durable."""


class Answer(Asked, frozen=True, kw_only=True):
    """Approve or reject a call, or say with JSON `arguments` what to call instead.

    Answered with True where that was still to be said, with False where it had been
    answered before; fails with Misuse where the task has no such approval.
    """

    approval: str
    approved: bool
    why: str = ""
    tool: str = ""
    arguments: str = ""


class Reply(Asked, frozen=True, kw_only=True):
    """Answer a question.

    Answered with whether it was open; fails with Misuse where the task has no such
    question, or this is none of its choices.
    """

    question: str
    text: str


class Steer(Asked, frozen=True, kw_only=True):
    """Keep a note in a task's view until it ends; or `replace` the one of that number.

    Answered with the note's number; fails with Misuse where the task has ended, or has
    no room for it.
    """

    text: str
    replace: int = 0


class TakeNotes(Message, frozen=True, kw_only=True):
    """A running task is to take its notes, up to serial `noted`."""

    noted: int


class NotesTaken(Message, frozen=True, kw_only=True):
    """It has."""

    task: str
    noted: int


class Resolve(Asked, frozen=True, kw_only=True):
    """Say whether an unknown attempt happened; `result` is the text it gave.

    Answered with True where that was open, and with False where it had been said
    before; fails with Misuse where that attempt is not unknown.
    """

    op: int
    attempt: int
    happened: bool
    result: str = ""


class Erase(Asked, frozen=True, kw_only=True):
    """Take a task that has ended out of the store for good, with its sub-tasks.

    Answered with True once it is gone, with False where it was before; fails with
    Misuse where it has not ended, or is a sub-task.
    """


class Remind(Message, frozen=True, kw_only=True):
    """A task waits until second `at` since the epoch; its row says so, too.

    With `warns` somebody is to be warned then that this approval or question expires.
    """

    task: str
    at: float
    warns: str = ""


class Warn(Message, frozen=True, kw_only=True):
    """It is time to warn of an approval or a question that nobody has answered."""

    subject: str


class InboxChanged(Message, frozen=True, kw_only=True):
    """A command may have come from outside."""


class Pause(Asked, frozen=True, kw_only=True):
    """Stop a task and its sub-tasks after the operations in flight.

    Answered once that is durable: with False where it has ended, or is to end.
    """


class Cancel(Asked, frozen=True, kw_only=True):
    """End a task after the operations in flight. Answered once it is asked.

    With `compensate` its completed effects are taken back first. Answered with False
    where it had ended, or was to end without that.
    """

    compensate: bool = False


class Drain(Message, frozen=True, kw_only=True):
    """Start nothing more, record what runs. Answered when nothing runs."""

    promise: Promise


# ── admission, pool and the task's family ────────────────────────────────────────


class Order(Message, frozen=True, kw_only=True):
    """What admission wants of a running task."""

    what: Literal["pause", "unpause", "cancel", "compensate", "drain", "answer"]
    by: str


class Progressed(Message, frozen=True, kw_only=True):
    """The task got further since its last recovery."""

    task: str


class Stopped(Message, frozen=True, kw_only=True):
    """The task's actors of an epoch are about to end: it ended, waits, or drained."""

    task: str
    epoch: int
    how: Literal["ended", "waiting", "drained"]
    status: str


class Allocate(Message, frozen=True, kw_only=True):
    """A first grant for a task, from the pool; idempotent by task.

    Whoever read the pool's rows found `nothing` for it behind that seq; 0: did not.
    """

    task: str
    amounts: Amounts
    reply_to: Address
    parent: str = ""  # whose account it comes out of
    nothing: int = 0


class Allocated(Message, frozen=True, kw_only=True):
    """The grant is durable, or the pool refused it."""

    task: str
    refusal: str | None


class Enlarge(Message, frozen=True, kw_only=True):
    """One more grant for a task that already has one; `grant` names it, once.

    With `lower` the amounts are what its limits are lowered to.
    """

    task: str
    grant: str
    amounts: Amounts
    lower: bool = False
    promise: Promise | None = None
    reply_to: Address | None = None


class Enlarged(Message, frozen=True, kw_only=True):
    """The grant is in the pool's stream, or was refused."""

    task: str
    grant: str
    refusal: str | None


class FetchGrants(Message, frozen=True, kw_only=True):
    """Ask which grants the pool holds for the task.

    Whoever read the pool's rows found this `row` of it behind seq `as_of`, if not 0.
    """

    task: str
    reply_to: Address
    as_of: int = 0
    row: bytes | None = None


class Grants(Message, frozen=True, kw_only=True):
    """Grants of a task by id, oldest first; and what calls of all tasks have taken."""

    task: str
    grants: dict[str, Amounts]
    samples: Samples


class Learned(Message, frozen=True, kw_only=True):
    """An account ends: what the calls of its task took. Nobody answers."""

    task: str
    samples: Samples


class ReturnGrant(Message, frozen=True, kw_only=True):
    """A closed account gives back what it has left; idempotent by task."""

    task: str
    amounts: Amounts
    taken: tuple[str, ...]  # the grants that it is what is left of
    reply_to: Address


class GrantBack(Message, frozen=True, kw_only=True):
    """The pool has it back."""

    task: str


# ── task ↔ context ───────────────────────────────────────────────────────────────


class Assemble(Message, frozen=True, kw_only=True):
    """Build the request of a model call from layers, fitted and validated.

    All that goes in is here: asked twice, late or after a crash, the answer is one.
    `subject` is what a summary is asked of: as many of its blocks as fit; `question`
    what a model is to judge. `version` is
    the task's, that the view is of; the answer has it again.
    """

    op: int
    attempt: int
    version: int
    view: TaskView
    scratch: tuple[Block, ...]
    purpose: Purpose
    window: Window
    reply_to: Address
    scale: int = 1_000  # thousandths of the estimate of tokens
    subject: Subject | None = None
    question: Question | None = None


class Built(Message, frozen=True, kw_only=True):
    """The request, or why none can be built; `fates` say what became of each block.

    What this request dropped are the fates `dropped`: no earlier block is given.
    `findings` are what is kept of what it dropped or shrank; `bare`: it shows none.

    It takes `size` of `limit`, both in the agent's measure, beside `room` tokens for
    the reply; `tokens` are what its input is expected to be charged.
    """

    op: int
    attempt: int
    version: int
    request: ModelRequest | None
    digest: str
    window: Window
    blocks: tuple[tuple[int, int], ...]
    characters: int
    error: str
    fates: tuple[Fate, ...] = ()
    findings: tuple[Finding, ...] = ()
    bare: bool = False
    size: int = 0
    limit: int = 0
    room: int = 0
    scale: int = 1_000
    tokens: int = 0


# ── task ↔ windows ───────────────────────────────────────────────────────────────


class TakeSlot(Message, frozen=True, kw_only=True):
    """Ask for a slot of a service; idempotent by task, operation and attempt.

    `waited` says that it was told to come again, and does; `closed` the second before
    which the service asked it not to.
    """

    service: str
    task: str
    op: int
    attempt: int
    reply_to: Address
    waited: bool = False
    closed: float = 0.0


class SlotReply(Message, frozen=True, kw_only=True):
    """It may begin until second `until`, or is to come again at second `at`."""

    op: int
    attempt: int
    granted: bool
    at: float
    until: float


class CloseWindow(Message, frozen=True, kw_only=True):
    """A service asked to be left alone until second `until`."""

    service: str
    until: float
    reply_to: Address


class WindowIsClosed(Message, frozen=True, kw_only=True):
    """It is, until then at least."""

    service: str
    until: float


# ── task, ledger ↔ account ───────────────────────────────────────────────────────


class Reserve(Message, frozen=True, kw_only=True):
    """Set the estimate of an attempt aside; that of a closing turn from the floor.

    `share` is what a sub-task is to get besides; the account says what it gets. With a
    `name` (``tool:NAME``, ``model:NAME``) the account makes the estimate nearer to what
    such calls used, with the `price` of a model.
    """

    op: int
    attempt: int
    book: Literal["spent", "recovery"]
    amounts: Amounts
    reply_to: Address
    share: Amounts | None = None
    closing: bool = False
    name: str = ""
    price: Price | None = None


class ReserveReply(Message, frozen=True, kw_only=True):
    """Set aside, or refused; `given` is what of it is for the sub-task."""

    op: int
    attempt: int
    refusal: Refusal | None
    given: Amounts = msgspec.field(default_factory=dict)


class Settle(Message, frozen=True, kw_only=True):
    """Replace the reservation by what was used.

    `amounts` None takes the reservation itself; `book` None the one it was made for.
    With `fill` a dimension that `amounts` says nothing of is charged as reserved.
    `beside` is what a sub-task used by other books. `completed` says that the call ran
    and came back, `reported` that nobody had to estimate what it used. `then` is what
    `reply_to` is told once that is done: `SettleReply` where there is nothing else.
    """

    op: int
    attempt: int
    book: Literal["unknown", "none"] | None
    amounts: Amounts | None
    fill: bool = False
    beside: dict[str, Amounts] = msgspec.field(default_factory=dict)
    completed: bool
    reported: bool
    name: str = ""  # of the tool, for fault points
    reply_to: Address
    then: Performed | None = None


class SettleReply(Message, frozen=True, kw_only=True):
    """The attempt is settled."""

    op: int
    attempt: int


class Hold(Message, frozen=True, kw_only=True):
    """The outcome is unknown: keep the reservation charged until it is decided."""

    op: int
    attempt: int


class Statement(Message, frozen=True, kw_only=True):
    """Ask what the books say."""

    reply_to: Address


class StatementReply(Message, frozen=True, kw_only=True):
    """The books, and what is left by dimension."""

    books: Books
    left: Amounts


class CloseAccount(Message, frozen=True, kw_only=True):
    """Close the books and give back what is left."""

    reply_to: Address


class Closed(Message, frozen=True, kw_only=True):
    """The account is closed and the pool has its money back."""

    books: Books


# ── task ↔ ledger ────────────────────────────────────────────────────────────────


class Given(Message, frozen=True, kw_only=True):
    """The result of a sub-task, and what of it its parent pays; or a person's answer.

    That is of somebody, `who`, at a second since the epoch.
    """

    status: Literal["completed", "failed"]
    text: str
    books: Books
    who: str = ""
    said_at: float = 0.0


class Perform(Message, frozen=True, kw_only=True):
    """Register an attempt, run it, record it, settle it; idempotent by op#attempt.

    `approval` is the approval of this very call, of use before second `expires`, with
    so many `earlier` ones; `edited` says who made this call of the model's; `rejected`
    who refused it, and why; `limited` names the limit that it is beyond; `given` is how
    the sub-task ended that this call was, or a person's answer; failures of operations
    before `since` are forgiven; `undoes` is the effect that it takes back. With
    `start_by` it has a slot of its service, and is not begun after that second. `rules`
    bind it. `holds` are the steps that stopped half-way, and will go on. `checkpoint`
    is its step's. It is over at second `until`, the deadline of its task.
    """

    op: int
    attempt: int
    step: str
    kind: Literal["model", "tool"]
    name: str
    arguments: str
    occurrence: int
    call_id: str
    parent: int
    request: ModelRequest | None
    reply_to: Address
    approval: str = ""
    expires: float | None = None
    earlier: int = 0
    edited: str = ""
    rejected: str = ""
    limited: str = ""
    given: Given | None = None
    since: int = 0
    start_by: float | None = None
    undoes: Undoes | None = None
    rules: tuple[Rule, ...] = ()
    holds: tuple[str, ...] = ()
    checkpoint: Checkpoint = "nodes"
    until: float | None = None


class Replied(Message, frozen=True, kw_only=True):
    """An outcome as the task hears of it."""

    op: int
    attempt: int
    status: Literal["completed", "failed", "unknown"]
    result: str
    error: str
    anchors: dict[str, Anchor]
    by: str
    edited: str = ""
    who: str = ""
    retry_at: float = 0.0
    arguments: str = ""  # as the tool was called with them


class Performed(Message, frozen=True, kw_only=True):
    """An attempt is recorded and settled.

    `again`: safe to make one more attempt (it surely did not run, or repeating is
    harmless). `ask`: unknown, and only a person can say.
    """

    outcome: Replied
    again: bool = False
    ask: bool = False


class Verify(Message, frozen=True, kw_only=True):
    """Decide these open attempts (recovery, step 3)."""

    attempts: tuple[Perform, ...]
    reply_to: Address


class Verified(Message, frozen=True, kw_only=True):
    """An open attempt that has no outcome yet: it never ran, or it still runs here.

    Every other open attempt is answered with `Performed`.
    """

    op: int
    attempt: int
    decided: Literal["not_run", "running"]


class Inquire(Message, frozen=True, kw_only=True):
    """A call of a tool that memory answers; `values` are its arguments by name.

    The question changes nothing but what it says, and that once by task and operation.
    """

    task: str
    op: int
    attempt: int
    tool: str
    values: dict[str, Any]
    reply_to: Address


class Inquired(Message, frozen=True, kw_only=True):
    """The text for the model, or the error."""

    op: int
    attempt: int
    text: str
    error: str = ""


class ChangeFact(Message, frozen=True, kw_only=True):
    """State a fact; or confirm a hypothesis, or drop either, by id. Once by `request`.

    A promise is answered with `FactChanged` once that is durable, and fails with Misuse
    where it is refused.
    """

    request: str
    kind: Literal["know", "confirm", "drop"]
    what: Said | str
    by: str
    promise: Promise | None = None
    reply_to: Address | None = None


class EraseFacts(Message, frozen=True, kw_only=True):
    """Erase all facts about a subject, and what was said of it before.

    A promise is answered with how many facts went once no record holds one; `reply_to`
    with `FactChanged`. `command` is the inbox's, which goes last.
    """

    request: str
    subject: str
    by: str
    command: str = ""
    promise: Promise | None = None
    reply_to: Address | None = None


class FactChanged(Message, frozen=True, kw_only=True):
    """Whether it is done, and what is said of it; `fact` is the id of a new one."""

    request: str
    done: bool
    said: str
    fact: str = ""


class AskCore(Message, frozen=True, kw_only=True):
    """A task begins: ask for the core facts of its scopes, now and when they change.

    They may have `cap` characters together, a share of what its requests may have.
    """

    task: str
    group: str
    cap: int
    reply_to: Address


class CoreFacts(Message, frozen=True, kw_only=True):
    """They, as of a version of the memory's stream; or why they are too much."""

    version: int
    facts: tuple[Known, ...]
    over: str = ""


class Consult(Message, frozen=True, kw_only=True):
    """A person may have said how an unknown attempt ended: look."""


class Recall(Message, frozen=True, kw_only=True):
    """Ask what the record holds of this step."""

    step: str
    reply_to: Address


class Recalled(Message, frozen=True, kw_only=True):
    """The recorded operations of the step, oldest first."""

    entries: tuple[Entry, ...]
