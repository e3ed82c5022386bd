"""How an attempt is written down before it may begin."""

from __future__ import annotations

from typing import Any

from ..agent import Agent
from ..events import EffectRegistered
from ..protocol import Perform
from .entry import request_id

__all__ = ["registration"]


def registration(
    agent: Agent,
    wanted: Perform,
    effect: Any,
    key: str,
    not_after: float,
    *,
    arguments: str = "",
    reused: int | None = None,
    named: str = "",
) -> EffectRegistered:
    """The event of an attempt; it may begin until second `not_after`.

    `arguments` are those that it is called with, `named` the key of the caller's;
    `reused` is the operation whose record answers it.
    """
    tool = agent.tool_of(wanted.name, undo=wanted.undoes is not None)
    return EffectRegistered(
        op=wanted.op,
        attempt=wanted.attempt,
        step=wanted.step,
        kind=wanted.kind,
        name=wanted.name,
        effect=effect,
        key=key,
        request_id=request_id(key),
        arguments=arguments,
        not_after=not_after,
        call_id=wanted.call_id,
        parent=wanted.parent,
        reused=reused,
        approval=wanted.approval,
        edited=wanted.edited,
        named=named,
        model=agent.model.name if wanted.kind == "model" else "",
        undoes=wanted.undoes,
        holds=wanted.holds,
        counts_as="" if tool is None or effect == "read" else tool.counts_as or "",
    )
