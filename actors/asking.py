"""A tool that agents may list: ask a person; the answer is the call's result."""

from __future__ import annotations

import copy
import math
from typing import Annotated, TypeAlias

import msgspec

from .errors import Misuse
from .tool import Tool, tool

__all__ = ["CHOICES", "QUESTION", "ask", "ask_within"]

QUESTION = 2_000  # characters
CHOICES = 10  # of one question
CHOICE = 200  # characters

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=QUESTION)]
Choice: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=CHOICE)]
Choices: TypeAlias = Annotated[list[Choice], msgspec.Meta(max_length=CHOICES)]


@tool(effect="read")
def ask(question: Text, choices: Choices | None = None) -> str:
    """Ask the people in charge, and wait for the answer: a decision that is theirs.

    With choices the answer is one of them.
    """
    del question, choices
    raise Misuse("ask is carried out by the runtime: list it in Agent(tools=…)")


ask.asks = True


def ask_within(seconds: float) -> Tool:
    """The tool `ask` for questions that may be answered for so many seconds only.

    A warning goes out when a fifth of that is left. Then the call fails, the model is
    told that nobody answered, and goes on. Raises Misuse for what is no time.
    """
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 < seconds < math.inf
    ):
        raise Misuse(f"ask_within({seconds!r}): give a number of seconds above 0")
    found = copy.copy(ask)
    found.expires = float(seconds)
    return found
