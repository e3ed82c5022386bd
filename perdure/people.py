"""What people say to tasks: the part of a `Runtime` that hears them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .actors.protocol import Reply, Steer
from .actors.storable import is_storable
from .actors.task.steered import NOTE_LENGTH, NOTES_MOST
from .errors import Misuse
from .reading import Reading, row_of
from .recalling import Recalling

if TYPE_CHECKING:
    from .views_questions import Question

__all__ = ["LONGEST", "PeopleCalls", "check_answer", "check_note", "check_words"]

LONGEST = 2_000  # characters of who says something, and why
ANSWER = 4_000  # characters of an answer to a question


class PeopleCalls(Recalling):
    """Questions that tasks ask, their answers, and notes for tasks."""

    _reading: Reading

    def questions(self) -> list[Question]:
        """The questions that wait for somebody's answer, oldest first."""
        from . import views_questions

        self._refuse_if_forked()
        return self._reading.read(views_questions.questions)

    def reply(self, task: str, question: str, text: str, by: str) -> bool:
        """See `Handle.answer`."""
        self.refuse_in_loop("answer", "`await handle.aanswer(...)`")
        check_words("answer", by=by)
        check_answer(text)
        self._refuse_if_forked()
        done: bool = self._ask(
            lambda p: Reply(task=task, question=question, text=text, by=by, promise=p)
        )
        return done

    def steer(self, task: str, text: str, by: str, replace: int) -> int:
        """See `Handle.steer`."""
        self.refuse_in_loop("steer", "`await handle.asteer(...)`")
        check_words("steer", by=by)
        check_note(text, replace)
        self._refuse_if_forked()
        self._reading.read(lambda reader: row_of(reader, task))
        number: int = self._ask(
            lambda p: Steer(task=task, text=text, by=by, replace=replace, promise=p)
        )
        return number


def check_words(call: str, **words: object) -> None:
    """Raise Misuse for what is no text that can be stored, is too long, or is nobody.

    Who says something is on record, and an empty name reads as nobody's word.
    """
    for name, value in words.items():
        if name == "by" and isinstance(value, str) and not value.strip():
            raise Misuse(f"{call}: by={value!r} must say who it is")
        if not isinstance(value, str) or len(value) > LONGEST or not is_storable(value):
            raise Misuse(f"{call}: {name} must be text of at most {LONGEST} characters")


def check_note(text: object, replace: object) -> None:
    """Raise Misuse for what cannot be a note, or the number of one."""
    if not _says_something(text, NOTE_LENGTH):
        raise Misuse(f"steer: the text must have 1 to {NOTE_LENGTH} characters")
    if type(replace) is not int or not 0 <= replace <= NOTES_MOST:
        raise Misuse(f"steer: replace={replace!r} must be the number of a note, from 1")


def check_answer(text: object) -> None:
    """Raise Misuse for what cannot be an answer."""
    if not _says_something(text, ANSWER):
        raise Misuse(f"answer: the text must have 1 to {ANSWER} characters")


def _says_something(text: object, most: int) -> bool:
    return (
        isinstance(text, str)
        and bool(text.strip())
        and len(text) <= most
        and is_storable(text)
    )
