"""The names of actors, and of the spaces that rows stand in."""

from __future__ import annotations

import hashlib

__all__ = [
    "ADMISSION",
    "AGENTS",
    "APPROVALS",
    "APPROVAL_ANSWERS",
    "CALLER_KEYS",
    "DOUBTS",
    "EFFECT_KEYS",
    "ENDED_ROWS",
    "EVIDENCE",
    "FACTS",
    "FACTS_PAST",
    "FACT_REQUESTS",
    "GRANTS",
    "JOURNAL",
    "KEYS",
    "LACKING",
    "MEMORY",
    "NOTES",
    "PLACES",
    "POOL",
    "QUARANTINE",
    "QUARANTINED",
    "QUESTIONS",
    "QUESTION_ANSWERS",
    "ROOT",
    "SERVICES",
    "TASKS",
    "TASK_ROWS",
    "TIMERS",
    "TIMER_ROWS",
    "UNDOS",
    "VERDICTS",
    "WINDOWS",
    "account",
    "context",
    "effect",
    "family",
    "fork_id",
    "ledger",
    "task",
]

ROOT = "root"
JOURNAL = "journal"
SERVICES = "services"
POOL = "services/pool"
MEMORY = "services/memory"
ADMISSION = "services/admission"
TIMERS = "services/timers"
WINDOWS = "services/windows"
QUARANTINE = "services/quarantine"  # a stream of no actor: a repair writes it
TASKS = "tasks"

AGENTS = "agent"  # definitions of agents, by digest
TASK_ROWS = "task"  # one row a task: what `perdure ps` shows
PLACES = "place"  # where each resting task stands in the queue, by the task's id
LACKING = "lacking"  # parked tasks that lack an agent, or other code, by agent
TIMER_ROWS = "timer"  # who waits until when
APPROVALS = "approval"  # what tasks have asked, by the approval's id
APPROVAL_ANSWERS = "approval_answer"  # what was answered
CALLER_KEYS = "caller_key"  # effects that their caller named, by the effect's key
DOUBTS = "doubt"  # effects whose outcome is unknown, by their id
EFFECT_KEYS = "effect_key"  # effects that left their ledger's state, by step
ENDED_ROWS = "ended"  # who has scratch yet, by the second of its end
EVIDENCE = "evidence"  # where the result of each closed operation is recorded
FACTS = "fact"  # what is known now, by scope, layer, and a digest of subject and key
FACTS_PAST = "fact_past"  # what is over, likewise, and by its id
FACT_REQUESTS = "fact_request"  # the answers to those who had a fact kept, by request
NOTES = "note"  # what people told a task on its way, until it takes them
QUARANTINED = "quarantined"  # what a repair set aside, by task (or -) and item
QUESTIONS = "question"  # what tasks ask people, by the question's id
QUESTION_ANSWERS = "question_answer"  # what people said
UNDOS = "undo"  # completed effects that can be taken back, by task and place
VERDICTS = "verdict"  # what a person said of such an effect
GRANTS = "grant"  # what the pool gave each task that has not ended, by its id
KEYS = "key"  # the caller's key of a submission -> the task's id


def family(task_id: str) -> str:
    """The supervisor of a task's four actors."""
    return f"task/{task_id}"


def fork_id(command: str) -> str:
    """The id of the fork that a command of the inbox makes, however often applied."""
    return f"t-{hashlib.sha256(command.encode()).hexdigest()[:16]}"


def ledger(task_id: str) -> str:
    """The task's ledger."""
    return f"task/{task_id}/ledger"


def account(task_id: str) -> str:
    """The task's account."""
    return f"task/{task_id}/account"


def context(task_id: str) -> str:
    """The task's context builder."""
    return f"task/{task_id}/context"


def task(task_id: str) -> str:
    """The task itself."""
    return f"task/{task_id}/task"


def effect(task_id: str, op: int) -> str:
    """The id of an effect, as people and commands name it."""
    return f"{task_id}:{op}"
