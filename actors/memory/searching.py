"""A question to the record, and how an answer to it looks. Pure."""

from __future__ import annotations

import msgspec

from ..errors import Misuse
from ..storable import is_storable
from .words import Wanted, spans

__all__ = ["Hit", "Question", "merged", "question", "snippet"]

SNIPPET = 240  # characters
BEFORE = 60  # of these, at most so many before the first match
LOOKED_AT = 200  # matches in one text
HITS = 100  # of one question, at most
QUERY = 1_000  # characters
FUSION = 60  # how far the first places stand out where two rankings are merged


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and where.

    `task` stands for itself and its sub-tasks; `sources` are the tasks that it was
    forked from, each with its first operation that is not meant. `since` and `until`
    are seconds since the epoch, both included. What is empty or None limits nothing.
    """

    query: str
    task: str = ""
    step: str = ""
    tool: str = ""
    outcome: str = ""
    since: float | None = None
    until: float | None = None
    limit: int = 10
    sources: tuple[tuple[str, int], ...] = ()


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, as it was found.

    Args:
        evidence: the operation that it is about (``op7``), or empty.
        task, step, tool: where; `tool` is empty where none was called.
        kind: ``call``, ``said``, ``step``, ``person`` or ``refused``.
        outcome: how it ended.
        at: when, in seconds since the epoch.
        seq: the record that it rests on.
        snippet: of its text at most 240 characters, around what was looked for.
    """

    evidence: str
    task: str
    step: str
    tool: str
    kind: str
    outcome: str
    at: float
    seq: int
    snippet: str


def question(
    query: str,
    *,
    task: str = "",
    step: str = "",
    tool: str = "",
    outcome: str = "",
    since: float | None = None,
    until: float | None = None,
    limit: int = 10,
) -> Question:
    """Make a question. Raises Misuse, naming the argument, the value and the fix."""
    texts = {"query": query, "task": task, "step": step, "tool": tool}
    for name, value in (texts | {"outcome": outcome}).items():
        if not isinstance(value, str) or len(value) > QUERY or not is_storable(value):
            raise Misuse(
                f"recall: {name}={value!r:.60} must be text of at most {QUERY} "
                "characters"
            )
    for name, moment in (("since", since), ("until", until)):
        number = isinstance(moment, int | float) and not isinstance(moment, bool)
        if moment is not None and not (number and moment == moment):  # noqa: PLR0124 - NaN
            raise Misuse(f"recall: {name}={moment!r} must be seconds since the epoch")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= HITS:
        raise Misuse(f"recall: limit={limit!r} must be between 1 and {HITS}")
    return Question(
        query=query,
        task=task,
        step=step,
        tool=tool,
        outcome=outcome,
        since=since,
        until=until,
        limit=limit,
    )


def snippet(text: str, wanted: tuple[Wanted, ...], size: int = SNIPPET) -> str:
    """Return the piece of a text where most of what is wanted stands, on one line."""
    if len(text) > size:
        found = spans(text, wanted)[:LOOKED_AT]
        inside = [
            (
                sum(
                    first >= start and last <= start + size - BEFORE
                    for first, last in found
                ),
                start,
            )
            for start, _ in found
        ]
        best = max(inside, key=lambda one: (one[0], -one[1]), default=(0, 0))[1]
        start = min(max(0, best - BEFORE), len(text) - size)
        end = start + size
        before, after = "…" if start else "", "…" if end < len(text) else ""
        text = f"{before}{text[start:end]}{after}"
    return " ".join(text.split())


def merged(*rankings: list[int]) -> list[int]:
    """Merge rankings, best first, by reciprocal rank: 1 / (60 + place), summed.

    Of equal ones the higher number, the newer, comes first. (Cormack, Clarke and
    Büttcher, "Reciprocal Rank Fusion", SIGIR 2009.)
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, one in enumerate(ranking, 1):
            scores[one] = scores.get(one, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda one: (-scores[one], -one))
