"""A request as three layers: fixed, task, scratch; only scratch is ever trimmed.

Order of a request: fixed, the task's stable part, the notice, scratch, and the
task's moving part as the last user message. Between two cuts everything but that
last message keeps its bytes, so that a provider's prompt cache hits.
The texts of the task layer are rendered in `render.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from ..errors import ContextBudgetError
from ..model import Message, ToolSchema
from .blocks import Block, Fate, Layer, Window
from .known import Known, Sized
from .measure import Measure, request_text
from .notice import measured, notice
from .report import LOW_WATER, BudgetReport
from .units import refuse_unportable

__all__ = ["Assembled", "Block", "Fate", "Window", "assemble"]


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A request that fits, and what is needed to render it again.

    Args:
        messages, tools: the request. The messages are those of the blocks, not
            copies: whoever hands them to foreign code copies them.
        layers: the layer of each message, in their order (B10).
        window: to be given to the next `assemble`.
        kept: first and last id of each run of scratch blocks that is in.
        fates: what became of every block that was given, in their order.
        report: measures; `dropped_*` count this cut only.
        digest: SHA-256 of the request's canonical JSON, in hex.
        characters: the length of that, whatever the measure.
    """

    messages: list[Message]
    layers: tuple[Layer, ...]
    tools: list[ToolSchema]
    window: Window
    kept: tuple[tuple[int, int], ...]
    fates: tuple[Fate, ...]
    report: BudgetReport
    digest: str
    characters: int


class _Room:
    """The running sum of a request's parts, in its measure."""

    def __init__(self, measure: Measure, schemas: int) -> None:
        self.measure = measure
        self.schemas = schemas
        self.count = 0
        self.content = 0

    def add(self, messages: int, size: int) -> None:
        self.count += messages
        self.content += size

    def taken(self, omitted: int = 0) -> int:
        """What the request takes, with a notice where something is left out."""
        return measured(self.measure, self.count, self.content, self.schemas, omitted)


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
    known: Known | None = None,
) -> Assembled:
    """Put the layers together, cutting the oldest of scratch where they overflow.

    Once the request is over `limit` it is cut to `limit * low_water`, so that cuts are
    rare: first bulky results become references, oldest first; where that is not
    enough, whole blocks go, oldest first. The newest scratch block always stays as it
    is. Blocks older than `window.start` are passed over. The notice counts, but is left
    out where only the notice would make the request too long.

    `known` holds what was measured before, and in which measure.
    Raises `ContextBudgetError`, which names the part that does not fit, or the
    block that is malformed.
    """
    known = known or Known()
    pinned, given, (last,) = known.sized([*fixed, *stable], scratch, [moving])
    shown = [one for one in given if one.block.id >= window.start]
    _refuse_twins([*pinned, *shown, last])
    refuse_unportable(list(tools), "tools")
    _refuse_blank(moving)

    room = _Room(known.measure, known.measure.part(list(tools)))
    for one in (*pinned, last):
        room.add(len(one.block.messages), one.size)
    for one in shown:
        room.add(len(one.block.messages), _as_sent(one, window.shrunk)[1])
    before = room.taken(window.omitted)
    new, cut = window, 0
    if before > limit:
        new, cut = _cut(room, shown, window, int(limit * low_water))
    rest = shown[cut:]
    sent = [_as_sent(one, new.shrunk) for one in rest]
    if room.taken() > limit:
        raise ContextBudgetError(
            _overflow(
                room,
                {
                    "instructions": pinned[: len(fixed)],
                    "goal and constraints": pinned[len(fixed) :],
                    "progress of the task": [last],
                    "newest exchange": rest,
                },
                limit,
            )
        )
    placed = new.omitted > 0 and room.taken(new.omitted) <= limit

    tagged = [*_tagged(one.block for one in pinned)]
    if placed:
        tagged.append(("scratch", notice(new.omitted)))
    tagged += [*_tagged(block for block, _ in sent), *_tagged([moving])]
    messages = [message for _, message in tagged]
    text = request_text(messages, tools)
    return Assembled(
        messages=messages,
        layers=tuple(layer for layer, _ in tagged),
        tools=list(tools),
        window=new,
        kept=((rest[0].block.id, rest[-1].block.id),) if rest else (),
        fates=_fates(pinned, given, last, new, f"{limit} {room.measure.name}"),
        report=_report(
            before,
            room.taken(new.omitted if placed else 0),
            limit,
            new.omitted,
            shown[:cut],
            placed=placed,
        ),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        characters=len(text),
    )


def _tagged(blocks: Iterable[Block]) -> Iterator[tuple[Layer, Message]]:
    for block in blocks:
        for message in block.messages:
            yield block.layer, message


def _cut(
    room: _Room, shown: Sequence[Sized], window: Window, mark: int
) -> tuple[Window, int]:
    """Shrink, then drop, until `mark` is reached; how many blocks were dropped."""
    start, omitted, shrunk = window.start, window.omitted, window.shrunk
    for one in shown[:-1]:
        if one.block.id < shrunk:
            continue
        if room.taken(omitted) <= mark:
            break
        shorter, size = one.reference
        if shorter is not one.block:
            room.add(0, size - one.size)
            shrunk = one.block.id + 1
    cut = 0
    while cut < len(shown) - 1 and room.taken(omitted) > mark:
        one = shown[cut]
        room.add(-len(one.block.messages), -_as_sent(one, shrunk)[1])
        omitted += len(one.block.messages)
        cut += 1
        start = shown[cut].block.id
    return Window(start=start, omitted=omitted, shrunk=shrunk), cut


def _as_sent(one: Sized, shrunk: int) -> tuple[Block, int]:
    return one.reference if one.block.id < shrunk else (one.block, one.size)


def _fates(
    pinned: Sequence[Sized],
    scratch: Sequence[Sized],
    last: Sized,
    window: Window,
    limit: str,
) -> tuple[Fate, ...]:
    """What became of every block; the same again, whichever request cut it."""
    found = [_fate(one, "kept", "the layer always stands whole") for one in pinned]
    for one in scratch:
        sent, size = _as_sent(one, window.shrunk)
        if one.block.id < window.start:
            why = f"{limit} are not enough, and the oldest go first"
            found.append(_fate(one, "dropped", why, 0))
        elif sent is not one.block:
            why = f"{limit} are not enough for old, bulky results"
            found.append(_fate(one, "shrunk", why, size))
        else:
            found.append(_fate(one, "kept", "it fits"))
    return (*found, _fate(last, "kept", "the layer always stands whole"))


def _fate(
    one: Sized,
    fate: Literal["kept", "shrunk", "dropped"],
    why: str,
    after: int | None = None,
) -> Fate:
    return Fate(
        block=one.block.id,
        layer=one.block.layer,
        evidence=one.block.evidence,
        fate=fate,
        why=why,
        before=one.size,
        after=one.size if after is None else after,
    )


def _report(
    before: int,
    after: int,
    limit: int,
    omitted: int,
    gone: Sequence[Sized],
    *,
    placed: bool,
) -> BudgetReport:
    units = [unit for one in gone for unit in one.units]
    return BudgetReport(
        before=before,
        after=after,
        limit=limit,
        dropped_messages=sum(len(one.block.messages) for one in gone),
        dropped_turns=sum(unit.role == "user" for unit in units),
        dropped_exchanges=sum(unit.exchange for unit in units),
        profile="runtime",
        omitted=omitted,
        notice="placed" if placed else "left out" if omitted else "none",
    )


def _refuse_twins(blocks: Sequence[Sized]) -> None:
    seen: set[str] = set()
    for one in blocks:
        for call in one.calls:
            if call in seen:
                raise ContextBudgetError(
                    f"call id {call!r} is used before (block {one.block.id})"
                )
            seen.add(call)


def _refuse_blank(moving: Block) -> None:
    last = moving.messages[-1] if moving.messages else {}
    if last.get("role") != "user" or not last["content"].strip():
        raise ContextBudgetError("a request must end with the current user task")


def _overflow(room: _Room, pinned: dict[str, Sequence[Sized]], limit: int) -> str:
    """Name the first part, in the order of `pinned`, that is too much."""
    measure = room.measure
    needed = measure.total(0, 0, room.schemas)
    parts = {"schemas of the tools": needed}
    count = content = 0
    for name, blocks in pinned.items():
        count += sum(len(one.block.messages) for one in blocks)
        content += sum(one.size for one in blocks)
        before, needed = needed, measure.total(count, content, room.schemas)
        parts[name] = needed - before
    over = accumulate(parts.values())
    culprit = next(name for name, size in zip(parts, over, strict=True) if size > limit)
    sizes = ", ".join(f"{name} {size}" for name, size in parts.items())
    return (
        f"the {culprit} do not fit: a request may have {limit} {measure.name} and "
        f"needs {needed} ({sizes}); raise the limit or shorten them"
    )
