"""What waits for a person's answer, and what people said, as plain data."""

from __future__ import annotations

import msgspec

from .actors import names
from .actors.events import QuestionAnswered
from .actors.task.rows import QuestionRow
from .errors import Misuse
from .storage.reader import Reader

__all__ = ["Question", "choice_of", "find_question", "questions", "questions_of"]

ANSWERED_SHOWN = 20  # the newest that are not open any more


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits, or waited, for a person; times are since the epoch.

    With `choices` only one of them is an answer. `op` is the call that asks, 0 where
    the task itself does: `about` says about what. `at` is when it was asked, and
    `expires` from when on nobody may answer, where that is limited. `status` is
    ``open``, ``answered`` `by` somebody at second `answered`, ``expired`` or
    ``dropped``.
    """

    question: str
    task: str
    text: str
    choices: tuple[str, ...]
    op: int
    about: str
    at: float
    status: str = "open"
    expires: float | None = None
    answer: str = ""
    by: str = ""
    answered: float | None = None


def questions(reader: Reader) -> list[Question]:
    """The questions that nobody has answered, of all tasks, oldest first."""
    return [one for one in _all(reader) if one.status == "open"]


def questions_of(reader: Reader, task: str) -> list[Question]:
    """The questions of a task, oldest first; of those not open the newest twenty."""
    mine = [one for one in _all(reader) if one.task == task]
    closed = [one for one in mine if one.status != "open"][-ANSWERED_SHOWN:]
    return [one for one in mine if one.status == "open" or one in closed]


def _all(reader: Reader) -> list[Question]:
    answers = {row.key: row.value for row in reader.rows(names.QUESTION_ANSWERS)}
    found = [
        _shown(msgspec.json.decode(row.value or b"", type=QuestionRow), answers)
        for row in reader.rows(names.QUESTIONS)
    ]
    return sorted(found, key=lambda one: (one.at, one.op, one.question))


def _shown(row: QuestionRow, answers: dict[str, bytes | None]) -> Question:
    fields = msgspec.structs.asdict(row)
    fields["answered"] = row.answered or None
    body = answers.get(row.question)
    if body is not None and row.status == "open":  # not yet taken
        said = msgspec.json.decode(body, type=QuestionAnswered)
        fields.update(
            status="answered", answer=said.answer, by=said.by, answered=said.at
        )
    return Question(**fields)


def find_question(reader: Reader, question: str) -> QuestionRow:
    """The question of an id, answered or not. Raises Misuse where there is none."""
    row = reader.row(names.QUESTIONS, question)
    if row is None:
        raise Misuse(
            f"there is no question {question!r} in the store; `perdure show ID` lists "
            "those of a task"
        )
    return msgspec.json.decode(row, type=QuestionRow)


def choice_of(question: QuestionRow, word: str) -> str:
    """The answer that a word of the command line is: a choice, or its number."""
    if word in question.choices or not word.isdecimal():
        return word
    place = int(word) if len(word) < len("1000") else 0
    return question.choices[place - 1] if 0 < place <= len(question.choices) else word
