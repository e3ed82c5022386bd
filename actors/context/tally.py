"""The tokens that a request is expected to take, each message estimated once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import Message, ToolSchema
from .estimate import estimated_tokens
from .measure import canonical

__all__ = ["Tally"]


class Tally:
    """Estimates of the messages of a task's newest request.

    A message is known again by being the same object: nobody changes one.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}

    def tokens(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> int:
        """Estimate a whole request; what is not in it is forgotten."""
        before, self._known = self._known, {}
        total = 0
        for value in (*messages, *tools):
            known = before.get(id(value))
            if known is None or known[0] is not value:
                known = value, estimated_tokens(canonical(value))
            self._known[id(value)] = known
            total += known[1]
        return total
