"""What people say to questions: one answer each, which is then taken by the task.

Whatever is said twice is said once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...supervision.faults import hit
from ..events import QuestionAnswered
from ..names import QUESTION_ANSWERS, QUESTIONS
from ..protocol import Reply
from ..task.expiring import no_warning
from ..task.rows import QuestionRow, TaskRow
from .answering import look_up

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Questions", "no_choice"]

OVER = {
    "answered": "it was answered before",
    "expired": "nobody answered in time; the task went on",
    "dropped": "the answer is no longer wanted",
}


def no_choice(question: QuestionRow, text: str) -> str:
    """Why this is no answer to the question, or nothing."""
    if not question.choices or text in question.choices:
        return ""
    known = ", ".join(map(repr, question.choices))
    return f"{text!r} is none of the choices of {question.question}: {known}"


class Questions:
    """Admission's part for questions; their tasks are told, or woken to look."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._given: set[str] = set()  # not sure to be read yet

    def reply(self, message: Reply) -> None:
        """Take an answer, or say why it changes nothing."""
        look_up(
            self._admission,
            message,
            message.question,
            spaces=(QUESTIONS, QUESTION_ANSWERS),
            kind=QuestionRow,
            unknown=f"there is no question {message.question!r}; the open ones are "
            "listed by `perdure show` and runtime.questions()",
            then=self._found,
        )

    def _found(
        self,
        message: Reply,
        question: QuestionRow,
        task: TaskRow,
        answered: bytes | None,
    ) -> None:
        callers = self._admission.callers
        if over := self._over(question, answered):
            callers.conclude(message, False, over)
        elif wrong := no_choice(question, message.text):
            callers.refuse(message, wrong)
        else:
            self._take(question, task, message)

    def _over(self, question: QuestionRow, answered: bytes | None) -> str:
        """Why an answer comes too late, or nothing."""
        if question.status in OVER:
            return OVER[question.status]
        if answered is not None or question.question in self._given:
            return OVER["answered"]
        now = self._admission.house.now()
        if question.expires is not None and now >= question.expires:
            return OVER["expired"]
        return ""

    def _take(self, question: QuestionRow, task: TaskRow, message: Reply) -> None:
        admission = self._admission
        event = QuestionAnswered(
            question=question.question,
            task=question.task,
            answer=message.text,
            by=message.by,
            at=admission.house.now(),
        )
        self._given.add(question.question)
        warning = no_warning(question.task, question.op, question.at, question.expires)
        admission.callers.wake_replied(message, task, event, warning)

        def readable(_: object) -> None:
            self._given.discard(question.question)

        # Whoever looks from now on finds the row, and reads end in their order.
        admission.read(lambda _: None, readable)
        hit("question.answered")
