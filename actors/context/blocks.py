"""What a request is put together from, and what became of each part."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..model import Message

__all__ = ["Block", "Fate", "Layer", "Window"]

Layer = Literal["fixed", "task", "scratch"]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that enter and leave a request together.

    Args:
        id: unique in its task, rising with time.
        layer: ``fixed`` (role, rules), ``task`` (goal, progress), ``scratch``
            (exchanges, notes).
        origin: who wrote it: ``agent``, ``task``, ``model``, ``runtime`` ...
        evidence: the record it rests on, an effect's id for instance.
        messages: whole units; an exchange is never split over two blocks.
        sources: evidence ids of its tool results, in their order; empty where
            nobody can open them again.
    """

    id: int
    layer: Layer
    origin: str
    evidence: str | None = None
    messages: tuple[Message, ...]
    sources: tuple[str, ...] = ()


class Window(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far scratch was cut; the caller keeps it from one request to the next.

    Args:
        start: id of the oldest scratch block still in.
        omitted: messages left out since the task (or its last recovery) began.
        shrunk: bulky results of blocks before this id are shown by reference.
    """

    start: int = 0
    omitted: int = 0
    shrunk: int = 0


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one block in a request, and why (A2).

    `shrunk` is a block whose bulky results stand as references because it is old,
    `referenced` the newest one where it alone was too much. `before` and `after` are
    its size in the request's measure, whole and as sent.
    """

    block: int
    layer: Layer
    evidence: str | None
    fate: Literal["kept", "shrunk", "dropped", "referenced"]
    why: str
    before: int
    after: int
