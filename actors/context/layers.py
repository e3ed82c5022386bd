"""A request as three layers: fixed, task, scratch; only scratch is ever trimmed.

Order of a request: fixed, the task's stable part, the notice, scratch, and the
task's moving part as the last user message. Between two cuts everything but that
last message keeps its bytes, so that a provider's prompt cache hits.
The texts of the task layer are rendered in `render.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from ..errors import ContextBudgetError
from ..model import Message, ToolSchema
from .measure import CHARACTERS, Measure, request_text
from .notice import measured, notice
from .report import LOW_WATER, BudgetReport
from .units import refuse_strictly, refuse_unportable, units

__all__ = ["Assembled", "Block", "Window", "assemble"]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that enter and leave a request together.

    Args:
        id: unique in its task, rising with time.
        layer: ``fixed`` (role, rules), ``task`` (goal, progress), ``scratch``
            (exchanges, notes).
        origin: who wrote it: ``agent``, ``task``, ``model``, ``runtime`` ...
        evidence: the record it rests on, an effect's id for instance.
        messages: whole units; an exchange is never split over two blocks.
    """

    id: int
    layer: Literal["fixed", "task", "scratch"]
    origin: str
    evidence: str | None = None
    messages: tuple[Message, ...]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """How far scratch was cut; the caller keeps it from one request to the next.

    Args:
        start: id of the oldest scratch block still in.
        omitted: messages left out since the task (or its last recovery) began.
    """

    start: int = 0
    omitted: int = 0


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A request that fits, and what is needed to render it again.

    Args:
        messages, tools: the request. The messages are those of the blocks, not
            copies: whoever hands them to foreign code copies them.
        window: to be given to the next `assemble`.
        kept: first and last id of each run of scratch blocks that is in.
        report: measures; `dropped_*` count this cut only.
        digest: SHA-256 of the request's canonical JSON, in hex.
    """

    messages: list[Message]
    tools: list[ToolSchema]
    window: Window
    kept: tuple[tuple[int, int], ...]
    report: BudgetReport
    digest: str


def assemble(
    fixed: Sequence[Block],
    stable: Sequence[Block],
    scratch: Sequence[Block],
    moving: Block,
    tools: Sequence[ToolSchema],
    *,
    limit: int,
    window: Window,
    low_water: float = LOW_WATER,
    measure: Measure = CHARACTERS,
) -> Assembled:
    """Put the layers together, cutting the oldest scratch blocks where they overflow.

    Once the request is over `limit` characters it is cut to `limit * low_water`, so
    that cuts are rare. The newest scratch block always stays. Scratch blocks older
    than `window.start` are passed over. The notice counts, but is left out where
    only the notice would make the request too long.

    Raises `ContextBudgetError`, which names the part that does not fit, or the
    message that is malformed.
    """
    live = [block for block in scratch if block.id >= window.start]
    for block in (*fixed, *stable, *live, moving):
        units(block.messages)  # an exchange split over blocks could not be cut
    refuse_strictly(_messages([*fixed, *stable, *live, moving]))
    refuse_unportable(list(tools), "tools")
    last = moving.messages[-1] if moving.messages else {}
    if last.get("role") != "user" or not last["content"].strip():
        raise ContextBudgetError("a request must end with the current user task")

    schemas = measure.part(list(tools))
    pinned = [*fixed, *stable, moving]
    count = sum(len(block.messages) for block in (*pinned, *live))
    content = sum(_size(measure, block) for block in pinned)
    sizes = [_size(measure, block) for block in live]
    content += sum(sizes)

    omitted = window.omitted
    cut = 0
    before = measured(measure, count, content, schemas, omitted)
    if before > limit:
        mark = int(limit * low_water)
        while (
            cut < len(live) - 1
            and measured(measure, count, content, schemas, omitted) > mark
        ):
            count -= len(live[cut].messages)
            content -= sizes[cut]
            omitted += len(live[cut].messages)
            cut += 1
    if measure.total(count, content, schemas) > limit:
        raise ContextBudgetError(
            _overflow(
                measure,
                schemas,
                {
                    "instructions": fixed,
                    "goal and constraints": stable,
                    "progress of the task": [moving],
                    "newest exchange": live[cut:],
                },
                limit,
            )
        )
    placed = (
        omitted > 0 and measured(measure, count, content, schemas, omitted) <= limit
    )

    messages = [
        *_messages([*fixed, *stable]),
        *([notice(omitted)] if placed else []),
        *_messages([*live[cut:], moving]),
    ]
    text = request_text(messages, tools)
    dropped = units(_messages(live[:cut]))
    return Assembled(
        messages=messages,
        tools=list(tools),
        window=Window(start=live[cut].id if cut else window.start, omitted=omitted),
        kept=((live[cut].id, live[-1].id),) if live else (),
        report=BudgetReport(
            before=before,
            after=len(text),
            limit=limit,
            dropped_messages=omitted - window.omitted,
            dropped_turns=sum(unit.role == "user" for unit in dropped),
            dropped_exchanges=sum(unit.exchange for unit in dropped),
            profile="runtime",
            omitted=omitted,
            notice="placed" if placed else "left out" if omitted else "none",
        ),
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def _messages(blocks: Sequence[Block]) -> list[Message]:
    return [message for block in blocks for message in block.messages]


def _size(measure: Measure, block: Block) -> int:
    return sum(map(measure.part, block.messages))


def _overflow(
    measure: Measure, schemas: int, pinned: dict[str, Sequence[Block]], limit: int
) -> str:
    """Name the first part, in the order of `pinned`, that is too much."""
    parts = {"schemas of the tools": schemas + measure.total(0, 0, 0)}
    for name, blocks in pinned.items():
        commas = sum(len(block.messages) for block in blocks)
        parts[name] = sum(_size(measure, block) for block in blocks) + commas
    needed = sum(parts.values()) - 1
    over = accumulate(parts.values())
    culprit = next(name for name, size in zip(parts, over, strict=True) if size > limit)
    sizes = ", ".join(f"{name} {size}" for name, size in parts.items())
    return (
        f"the {culprit} do not fit: a request may have {limit} {measure.name} and "
        f"needs {needed} ({sizes}); raise the limit or shorten them"
    )
