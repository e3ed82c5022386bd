"""The tool `recall`: a task searches its own record and that of its sub-tasks (A31).

What other tasks did it never sees, nor what its parent did: a sub-task is told by its
goal and its inputs. A fork sees what its source did before. Facts that fit come
with it, of the scopes that the task knows of.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ..errors import Misuse
from ..protocol import Inquire
from .episodes import plain
from .facts import Fact
from .lineage import lineage
from .lookup import facts_for
from .searching import Hit, Question, question

if TYPE_CHECKING:
    from .actor import Memory

__all__ = ["Recollection", "told"]

HITS = 6
FACTS = 4
VALUE = 100  # characters of a fact's value that are shown
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

        now = memory.house.now()

        def known(reader: Reader) -> tuple[list[Fact], Question]:
            before = tuple(
                (source, below)
                for source, below, erased in lineage(reader, asked.task)
                if not erased
            )
            meant = msgspec.structs.replace(wanted, sources=before)
            try:
                return facts_for(reader, asked.task, wanted.query, now), meant
            except (Undecodable, msgspec.MsgspecError):
                return [], meant  # what is damaged there is no reason not to search

        def search(found_before: tuple[list[Fact], Question]) -> None:
            facts, meant = found_before

            def found(said: list[Hit] | str) -> None:
                self._open.discard(key)
                if isinstance(said, str):
                    memory.answer(asked, "", error=said)
                else:
                    memory.answer(asked, told(said, meant, facts))

            memory.house.library.ask(meant, found)

        # Behind all appends so far: what the task has just done is found, too.
        memory.read(known, search)


def told(hits: Sequence[Hit], asked: Question, facts: Sequence[Fact] = ()) -> str:
    """What a model is told: facts, then hits; whole ones, 2,000 characters in all."""
    if not hits and not facts:
        return "Nothing in the record of this task answers that; try other words."
    lines = [_known(fact) for fact in facts[:FACTS]]
    if lines:
        lines.insert(0, "Known, beyond this request:")
    if hits:
        lines.append("Found, best first; read_evidence shows one whole:")
    for hit in hits:
        evidence = hit.evidence
        mine = (asked.task, *(source for source, _ in asked.sources))
        if evidence and hit.task not in mine:  # their operations have one numbering
            evidence = f"{evidence} of {hit.task}"
        at = datetime.fromtimestamp(hit.at, UTC).strftime("%Y-%m-%d %H:%M")
        step = f"step {hit.step}" if hit.step else ""
        head = (evidence, hit.tool or hit.kind, hit.outcome, step, at)
        lines.append(f"- {', '.join(filter(None, head))}: {hit.snippet}")
    while len("\n".join(lines)) > TEXT:
        lines.pop()
    return "\n".join(lines)


def _known(fact: Fact) -> str:
    """A fact on a line, as far as there is room beside the hits."""
    guess = " (only supposed)" if fact.status == "hypothesis" else ""
    about = f" of {fact.subject}" if fact.subject else ""
    origin = fact.evidence[:VALUE] or "a person"
    value = plain(fact.value)
    value = value if len(value) <= VALUE else f"{value[:VALUE]}…"
    return f"- {fact.key}{about}: {value}{guess}, from {origin}"
