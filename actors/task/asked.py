"""What questions do to a task: asked, answered or expired; and what they hold up. Pure.

A question is of a call (`ask`), or of the task itself: then it says what it is about,
and whoever asked finds its answer in the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ..context.measure import canonical
from ..events import QuestionAsked, QuestionExpired, QuestionTaken
from ..guard.ladder import GuardState
from .commands import StopFor

if TYPE_CHECKING:
    from .parts import Op
    from .state import TaskState

__all__ = [
    "Question",
    "about",
    "after",
    "of_the_task",
    "opened",
    "question_id",
    "waits_for",
]

KEPT = 16  # questions that are over
SHOWN = 200  # characters of a question in the reason of a pause
KEY_VERSION = 1


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question; of the task itself where `op` is 0. Times are since the epoch."""

    question: str
    text: str
    choices: tuple[str, ...]
    op: int
    about: str
    at: float
    expires: float | None
    status: Literal["open", "answered", "expired"] = "open"
    answer: str = ""
    by: str = ""
    answered: float = 0.0


def question_id(task: str, number: int) -> str:
    """Name a task's question."""
    text = canonical([KEY_VERSION, "question", task, number])
    return f"q-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def after(
    state: TaskState, event: QuestionAsked | QuestionTaken | QuestionExpired
) -> TaskState:
    """The state once a question is asked, or over."""
    change = msgspec.structs.replace
    if isinstance(event, QuestionAsked):
        made = Question(
            question=event.question,
            text=event.text,
            choices=event.choices,
            op=event.op,
            about=event.about,
            at=event.at,
            expires=event.expires,
        )
        kept = {**_kept(state), event.question: made}
        state = change(state, questions=kept, asked=event.number)
        return _gated(state, made, "question")
    question = state.questions[event.question]
    if isinstance(event, QuestionExpired):
        question = change(question, status="expired")
        gate: Literal["answered", "unanswered"] = "unanswered"
    else:
        question = change(
            question,
            status="answered",
            answer=event.answer,
            by=event.by,
            answered=event.at,
        )
        gate = "answered"
        # A person's word: what looked like a circle may be none any more.
        state = change(state, guard=GuardState())
    questions = {**state.questions, event.question: question}
    return _gated(change(state, questions=questions), question, gate)


def _gated(
    state: TaskState,
    question: Question,
    gate: Literal["question", "answered", "unanswered"],
) -> TaskState:
    op = state.ops.get(question.op)
    if op is None:
        return state
    op = msgspec.structs.replace(op, gate=gate, question=question.question)
    return msgspec.structs.replace(state, ops={**state.ops, op.op: op})


def _kept(state: TaskState) -> dict[str, Question]:
    """The questions that are still looked at, and the newest of the others."""
    over = [one for one in state.questions.values() if not _is_needed(state, one)]
    gone = {one.question for one in over[: max(0, len(over) - KEPT)]}
    return {name: one for name, one in state.questions.items() if name not in gone}


def _is_needed(state: TaskState, question: Question) -> bool:
    if question.op:
        op = state.ops.get(question.op)
        return op is not None and op.open and op.question == question.question
    return question.status == "open"


def opened(state: TaskState) -> list[Question]:
    """The questions that wait for an answer, oldest first."""
    if not state.questions:
        return []
    return [
        one
        for one in state.questions.values()
        if one.status == "open" and _is_needed(state, one)
    ]


def of_the_task(state: TaskState) -> list[Question]:
    """Those that no call waits for, but the task itself."""
    if not state.questions:
        return []
    return [one for one in opened(state) if not one.op]


def about(state: TaskState, what: str) -> Question | None:
    """The newest question of the task itself that is about `what`, if it is known."""
    found = [one for one in state.questions.values() if one.about == what]
    return found[-1] if found else None


def waits_for(questions: Sequence[Question], approvals: Sequence[Op] = ()) -> StopFor:
    """The pause for people: they are to answer, or to approve, or both."""
    ids = ", ".join(one.question for one in questions)
    text = "; ".join(_short(one.text) for one in questions)
    ends = f"answer {ids}"
    if not approvals:
        return StopFor("question", text, ends)
    first = ", ".join(one.approval for one in approvals)
    return StopFor("approval", text, f"approve {first}; {ends}")


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
