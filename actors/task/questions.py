"""The task's part for questions to people: asked, waited for as rows, answered.

Of a call, the answer is what the door records as its result; of the task itself,
whoever asked finds it in the state (`asked.about`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...storage.records import Row
from ...supervision.faults import hit
from ..budget.account import Books
from ..events import (
    CallTool,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    QuestionTaken,
)
from ..names import QUESTION_ANSWERS
from ..protocol import Given
from ..rules import refusal
from ..tool import Tool
from .asked import Question, about, of_the_task, opened, question_id
from .attempt import rules_of
from .commands import Drive
from .expiring import expiry_rows, no_expiry, remind
from .looking import Looks, Rows
from .rows import WAITS, QuestionRow, question_row
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Questions"]

OPEN = 8  # questions of one task at a time


class Questions:
    """Gives a call that asks to the door once its answer is here."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._asks = any(one.asks for one in task.agent.tools.values())
        self.looks = Looks(task, QUESTION_ANSWERS)

    # ── asking ───────────────────────────────────────────────────────────────────

    def passes(self, op: Op) -> bool:
        """Whether an operation may go on; a call that asks once it is answered."""
        if not self._asks:
            return True
        tool = self._tool(op)
        if tool is None or op.gate == "answered":
            return True
        task = self._task
        if op.gate == "unanswered":
            asked = task.state.questions[op.question]
            seconds = (asked.expires or asked.at) - asked.at
            task.operations.answer(op, f"nobody answered within {seconds:g} s")
            return False
        assert isinstance(op.action, CallTool)
        try:
            values = tool.parse(op.action.arguments)
            if refusal(rules_of(task), tool, values):
                return True  # the door says why
        except ValueError:
            return True  # the door says what is wrong
        waiting = opened(task.state)
        if len(waiting) >= OPEN:
            ids = ", ".join(one.question for one in waiting)
            why = f"{OPEN} questions wait for an answer already ({ids}): ask later"
            task.operations.answer(op, why)
            return False
        choices = tuple(values["choices"] or ())
        self._append(values["question"], choices, op=op.op, seconds=tool.expires)
        return False

    def ask(self, text: str, choices: Sequence[str] = (), *, what: str) -> str:
        """Ask for the task itself; it pauses until somebody answers. Returns the id.

        `what` says what the question is about; one that is open about the same is
        asked once. `text` has at most 2,000 characters, each choice 200.
        """
        found = about(self._task.state, what)
        if found is not None and found.status == "open":
            return found.question
        return self._append(text, tuple(choices), what=what)

    def _append(
        self,
        text: str,
        choices: tuple[str, ...],
        *,
        op: int = 0,
        what: str = "",
        seconds: float | None = None,
    ) -> str:
        task = self._task
        now, number = task.house.now(), task.state.asked + 1
        asked = QuestionAsked(
            question=question_id(task.id, number),
            number=number,
            text=text,
            choices=choices,
            op=op,
            about=what,
            at=now,
            expires=None if seconds is None else now + seconds,
        )
        row = QuestionRow(
            question=asked.question,
            task=task.id,
            op=op,
            text=text,
            choices=choices,
            about=what,
            at=now,
            expires=asked.expires,
        )
        rows = [question_row(row)]
        if asked.expires is not None:
            rows += expiry_rows(task.id, op, asked.question, now, asked.expires)
        seq = task.append(asked, rows=rows)
        hit("question.asked", what or "ask")
        if asked.expires is not None:
            remind(task, seq, asked.question, now, asked.expires)
        return asked.question

    # ── the answer ───────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Take the waits up again, after a start: nobody may have heard of them."""
        task = self._task
        for question in opened(task.state):
            if question.expires is not None:
                name, at = question.question, question.at
                remind(task, task.last_seq, name, at, question.expires)
        self.look()

    def time_has_come(self) -> None:
        """Do not pause for an answer whose time is over."""
        now = self._task.house.now()
        if any(_over(one, now) for one in opened(self._task.state)):
            self._task.parting.gone_on(*WAITS)

    def look(self) -> None:
        """Read the answers to what is open, behind all appends so far."""
        wanted = (one.question for one in opened(self._task.state))
        self.looks.read(wanted, self._found)

    def _found(self, found: Rows, at: float) -> None:
        """Take the answers that had come by second `at`; each lets its call go on."""
        task = self._task
        for question in opened(task.state):
            body = found.get(question.question)
            if body is not None:
                answer = msgspec.json.decode(body, type=QuestionAnswered)
                self._take(question, answer)
            elif _over(question, at):
                expired = QuestionExpired(question=question.question)
                task.append(expired, rows=self._closed(question, "expired"))
                hit("question.expired")
                self._go_on(question)

    def _take(self, question: Question, answer: QuestionAnswered) -> None:
        task = self._task
        taken = QuestionTaken(
            question=question.question,
            answer=answer.answer,
            by=answer.by,
            at=answer.at,
        )
        rows = self._closed(
            question,
            "answered",
            answer=answer.answer,
            by=answer.by,
            answered=answer.at,
        )
        task.append(taken, rows=rows)
        self._go_on(question)

    def _go_on(self, question: Question) -> None:
        task = self._task
        task.parting.gone_on(*WAITS, "loop")
        op = task.state.ops.get(question.op)
        if op is not None:
            task.under_way.discard(Drive(op.op, op.attempt))

    def given(self, number: int) -> Given | None:
        """What the door is to record as the result of a call, once it is answered."""
        op = self._task.state.ops.get(number)
        if op is None or op.gate != "answered":
            return None
        answered = self._task.state.questions[op.question]
        return Given(
            status="completed",
            text=answered.answer,
            books=Books(spent=self._task.operations.own(op)),
            who=answered.by,
            said_at=answered.answered,
        )

    # ── no answer is wanted any more ─────────────────────────────────────────────

    def dropped(self, op: Op) -> list[Row]:
        """The rows of a question that nobody need answer any more, if there is one."""
        if op.gate != "question":
            return []
        return self._closed(self._task.state.questions[op.question], "dropped")

    def all_dropped(self) -> list[Row]:
        """Those of the task itself, which ends."""
        found = of_the_task(self._task.state)
        return [row for one in found for row in self._closed(one, "dropped")]

    def _closed(self, question: Question, status: Any, **said: Any) -> list[Row]:
        row = QuestionRow(
            question=question.question,
            task=self._task.id,
            op=question.op,
            text=question.text,
            choices=question.choices,
            about=question.about,
            at=question.at,
            expires=question.expires,
            status=status,
            **said,
        )
        rows = [question_row(row)]
        if question.expires is not None:
            at, expires = question.at, question.expires
            rows += no_expiry(self._task.id, question.op, at, expires)
        return rows

    def _tool(self, op: Op) -> Tool | None:
        action = op.action
        if not isinstance(action, CallTool):
            return None
        tool = self._task.agent.tools.get(action.tool)
        return tool if tool is not None and tool.asks else None


def _over(question: Question, now: float) -> bool:
    return question.expires is not None and question.expires <= now
