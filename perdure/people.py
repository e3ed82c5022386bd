"""What people say to tasks: the part of a `Runtime` that hears them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .actors.protocol import Reply
from .actors.storable import is_storable
from .errors import Misuse
from .reading import Reading
from .recalling import Recalling

if TYPE_CHECKING:
    from .views_questions import Question

__all__ = ["ANSWER", "LONGEST", "PeopleCalls", "check_words"]

LONGEST = 2_000  # characters of who says something, and why
ANSWER = 4_000  # characters of an answer to a question


class PeopleCalls(Recalling):
    """Questions that tasks ask, and their answers."""

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


def check_words(call: str, **words: object) -> None:
    """Raise Misuse for what is no text that can be stored, or is too long."""
    for name, value in words.items():
        if not isinstance(value, str) or len(value) > LONGEST or not is_storable(value):
            raise Misuse(f"{call}: {name} must be text of at most {LONGEST} characters")


def check_answer(text: object) -> None:
    """Raise Misuse for what cannot be an answer."""
    if (
        not isinstance(text, str)
        or not text.strip()
        or len(text) > ANSWER
        or not is_storable(text)
    ):
        raise Misuse(f"answer: the text must have 1 to {ANSWER} characters")
