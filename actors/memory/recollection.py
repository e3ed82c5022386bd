"""The tool `recall`: a task searches its own record and that of its sub-tasks.

What other tasks did it never sees, nor what its parent did: a sub-task is told by its
goal and its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..errors import Misuse
from ..protocol import Inquire
from .searching import Hit, Question, question

if TYPE_CHECKING:
    from .actor import Memory

__all__ = ["Recollection", "told"]

HITS = 6
TEXT = 2_000  # characters of an answer


class Recollection:
    """The memory's part for it: its turn ends before the library looks."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._open: set[tuple[str, int, int]] = set()

    def answer(self, asked: Inquire) -> None:
        """Have a call answered; while it is looked up it may be asked again."""
        memory, key = self._memory, (asked.task, asked.op, asked.attempt)
        if key in self._open:
            return
        try:
            wanted = question(**asked.values, task=asked.task, limit=HITS)
        except Misuse as error:
            memory.answer(asked, "", error=str(error))
            return
        self._open.add(key)

        def found(said: list[Hit] | str) -> None:
            self._open.discard(key)
            if isinstance(said, str):
                memory.answer(asked, "", error=said)
            else:
                memory.answer(asked, told(said, wanted))

        def flushed(_: object) -> None:
            memory.house.library.ask(wanted, found)

        # Behind all appends so far: what the task has just done is found.
        memory.house.journal.read(lambda reader: reader.durable_seq, flushed)


def told(hits: Sequence[Hit], asked: Question) -> str:
    """What a model is told of its hits: at most 2,000 characters, whole hits only."""
    if not hits:
        return "Nothing in the record of this task answers that; try other words."
    lines = ["Found, best first; read_evidence shows one whole:"]
    for hit in hits:
        evidence = hit.evidence
        if evidence and hit.task != asked.task:
            evidence = f"{evidence} of {hit.task}"
        at = datetime.fromtimestamp(hit.at, UTC).strftime("%Y-%m-%d %H:%M")
        step = f"step {hit.step}" if hit.step else ""
        head = (evidence, hit.tool or hit.kind, hit.outcome, step, at)
        lines.append(f"- {', '.join(filter(None, head))}: {hit.snippet}")
    while len("\n".join(lines)) > TEXT:
        lines.pop()
    return "\n".join(lines)
