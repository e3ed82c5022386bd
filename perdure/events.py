"""How records become log events: one name each, and the fields of the record."""

from __future__ import annotations

from typing import Any

import msgspec

from .actors import events
from .folds import event_of
from .storage.errors import Undecodable
from .storage.records import Record

__all__ = ["DOMAIN", "NAMES", "fields_of", "line_of"]

NAMES: dict[str, str] = {
    "TaskSubmitted": "task.submitted",
    "TaskForked": "task.forked",
    "StepInherited": "step.inherited",
    "StepStarted": "step.started",
    "DecisionMade": "task.decided",
    "PolicyFailed": "policy.failed",
    "PlanChecked": "plan.checked",
    "PlanMade": "plan.made",
    "PlanRevised": "plan.revised",
    "PlanKept": "plan.kept",
    "PlanRefused": "plan.refused",
    "ConsentAsked": "plan.consent_asked",
    "KnowledgeTaken": "knowledge.taken",
    "RequestBuilt": "request.built",
    "ActionObserved": "action.observed",
    "AnchorsRefused": "anchors.refused",
    "DriftFound": "drift.found",
    "DriftOver": "drift.over",
    "SummaryTaken": "summary.taken",
    "SummaryRefused": "summary.refused",
    "LoopFound": "guard.found",
    "AnswerJudged": "answer.judged",
    "AnswerRefused": "answer.refused",
    "StepEnded": "step.ended",
    "TaskPaused": "task.paused",
    "TaskResumed": "task.resumed",
    "RetryAsked": "task.retry_asked",
    "StepRetried": "step.retried",
    "ApprovalAsked": "approval.asked",
    "ApprovalExpired": "approval.expired",
    "ApprovalTaken": "approval.taken",
    "RejectionRepeated": "approval.rejected_again",
    "TimerSet": "timer.set",
    "TimerFired": "timer.fired",
    "SlotDeferred": "slot.deferred",
    "SlotCame": "slot.came",
    "RestAsked": "rest.asked",
    "QuestionAsked": "question.asked",
    "QuestionTaken": "question.taken",
    "QuestionExpired": "question.expired",
    "NoteTaken": "note.taken",
    "SubtaskStarted": "subtask.started",
    "SubtaskEnded": "subtask.ended",
    "CancelRequested": "task.cancel_requested",
    "RecoveryBegan": "recovery.began",
    "RecoveryLoaded": "recovery.loaded",
    "ContextRebuilt": "context.rebuilt",
    "EffectsVerified": "recovery.verified",
    "RecoveryDeclared": "recovery.declared",
    "ProgressMade": "recovery.progressed",
    "RecoveriesForgiven": "recovery.forgiven",
    "TaskClosing": "task.closing",
    "TaskClosed": "task.closed",
    "TaskTrimmed": "task.trimmed",
    "EffectRegistered": "effect.registered",
    "EffectRecorded": "effect.recorded",
    "EffectProbed": "effect.probed",
    "GrantTaken": "account.grant_taken",
    "Reserved": "account.reserved",
    "Held": "account.held",
    "Settled": "account.settled",
    "Alerted": "account.alerted",
    "AccountClosed": "account.closed",
    "FactStated": "fact.stated",
    "FactsErased": "facts.erased",
    "FactEnded": "fact.ended",
    "WindowsSet": "window.set",
    "SlotTaken": "window.taken",
    "SlotPromised": "window.promised",
    "WindowClosed": "window.closed",
    "PoolOpened": "pool.opened",
    "Granted": "pool.granted",
    "GrantReturned": "pool.returned",
    "EstimatesLearned": "pool.learned",
    "TaskQueued": "queue.entered",
    "TaskWoken": "queue.woken",
    "TaskActivated": "queue.activated",
    "TaskPassivated": "queue.passivated",
    "TaskParked": "queue.parked",
    "AgentChanged": "agent.changed",
    "TaskRecalled": "queue.recalled",
    "ApprovalAnswered": "approval.answered",
    "QuestionAnswered": "question.answered",
    "ExpiryNear": "expiry.near",
    "NoteGiven": "note.given",
    "PauseAsked": "queue.pause_asked",
    "PauseLifted": "queue.pause_lifted",
    "EffectResolved": "effect.resolved",
    "CommandApplied": "inbox.applied",
    "TaskLeft": "queue.left",
    "QueueReopened": "queue.reopened",
    "ProgressSeen": "queue.progressed",
    "ScratchDropped": "retention.dropped",
    "TaskImported": "task.imported",
    "Quarantined": "quarantine.entered",
    "QuarantineLifted": "quarantine.lifted",
    "TaskErased": "task.erased",
}

# Every record's event also says its task ("" for shared streams) and epoch.
DOMAIN: dict[str, tuple[str, ...]] = {
    NAMES[kind.__name__]: tuple(
        dict.fromkeys(("task", "epoch", *kind.__struct_fields__))
    )
    for kind in events.EVENTS
}


def line_of(record: Record) -> tuple[str, dict[str, Any]]:
    """The event name and fields of a flushed record.

    A field that is left out of a record's JSON has its default: it is logged with it. A
    record that this code cannot read is logged by its type alone.
    """
    fields: dict[str, Any] = {"at": record.at, "seq": record.seq}
    fields["task"] = events.task_of(record.stream)
    fields["epoch"] = record.epoch
    try:
        event = event_of(record)
    except Undecodable:
        return "record.unknown", {**fields, "type": record.type}
    fields.update(_plain(event))
    return NAMES[record.type], fields


def fields_of(kind: str, body: bytes | str) -> dict[str, Any]:
    """The fields of a record by its type and JSON, with those that have a default."""
    found: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(_plain(_KINDS[kind].decode(body)))
    )
    return found


def _plain(event: events.Event) -> dict[str, Any]:
    fields = msgspec.structs.asdict(event)
    for field, value in fields.items():
        if type(value) not in _PLAIN:
            fields[field] = msgspec.to_builtins(value)
    return fields


_PLAIN = frozenset({str, int, float, bool, type(None)})
_KINDS = {kind.__name__: msgspec.json.Decoder(kind) for kind in events.EVENTS}
