"""What a model says while it still writes: handed on to whoever watches, never kept.

Nothing here is state or goes on disk: the reply that is recorded is the one that the
model returns.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

__all__ = ["PIECE_LIMIT", "SPEECH_LIMIT", "Piece", "Speech"]

PIECE_LIMIT = 4_096  # characters; a longer text is handed on in several pieces
SPEECH_LIMIT = 262_144  # characters of one attempt; a longer reply is refused anyway


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an unfinished reply; `index` counts the pieces of its attempt."""

    task: str
    op: int
    attempt: int
    at: float  # seconds since the epoch
    index: int
    text: str


class Speech:
    """One attempt of a model call, as it speaks. Any thread may call it.

    Args:
        task, op, attempt: whose words these are.
        now: tells seconds since the epoch.
        hand_on: told of each piece; must be short.
    """

    def __init__(
        self,
        task: str,
        op: int,
        attempt: int,
        now: Callable[[], float],
        hand_on: Callable[[Piece], None],
    ) -> None:
        self._task = task
        self._op = op
        self._attempt = attempt
        self._now = now
        self._hand_on = hand_on
        self._index = 0
        self._left = SPEECH_LIMIT
        self._over = False

    def say(self, text: str) -> None:
        """Hand a text on; what is no text, and what comes too late, is ignored."""
        if self._over or not isinstance(text, str):
            return
        text = text[: self._left]
        self._left -= len(text)
        text = text.encode("utf-8", "replace").decode()  # no lone surrogates
        for start in range(0, len(text), PIECE_LIMIT):
            piece = Piece(
                task=self._task,
                op=self._op,
                attempt=self._attempt,
                at=self._now(),
                index=self._index,
                text=text[start : start + PIECE_LIMIT],
            )
            self._index += 1
            self._hand_on(piece)

    def end(self) -> None:
        """The attempt has its outcome: what it still says is of no use."""
        self._over = True
