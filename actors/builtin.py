"""Tools of the runtime's own: what left a request is opened again, and kept in view."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from .anchors import ANCHOR_NAME, ANCHOR_VALUE
from .errors import Misuse
from .tool import Tool, ToolContext, tool

__all__ = ["INSIDE", "anchor", "read_evidence", "recall", "remember"]


@tool(effect="read")
def read_evidence(id: str, start: int = 0, end: int | None = None) -> str:  # noqa: A002 - the model's word
    """Open a recorded result by its evidence id (op12), 4000 characters at a time."""
    raise _inside("read_evidence", id, start, end)


@tool(effect="read")
def recall(query: str, tool: str = "", step: str = "", outcome: str = "") -> str:
    """Search all that was done and found so far, by words; the filters are optional.

    outcome: completed, failed or unknown. Each hit names its evidence id.
    """
    raise _inside("recall", query, tool, step, outcome)


Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=ANCHOR_NAME)]
Value: TypeAlias = Annotated[str, msgspec.Meta(max_length=ANCHOR_VALUE)]


@tool(effect="read")
def anchor(name: Name, value: Value, ctx: ToolContext) -> str:
    """Keep a short value (an id, a name, a number) in view until the task ends."""
    ctx.anchor(name, value)
    return f"{name} was put in view; a note says so where there was no room"


anchor.claims = True


@tool(effect="read")
def remember(key: str, value: str, evidence: str = "") -> str:
    """Keep a finding of this task, to be recalled later.

    It is a fact where evidence names a completed call (by its evidence id, or its call
    id) whose result holds the value word for word, and a hypothesis otherwise.
    """
    raise _inside("remember", key, value, evidence)


def _inside(name: str, *_: object) -> Misuse:
    return Misuse(f"{name} is carried out by the runtime: list it in Agent(tools=…)")


INSIDE: tuple[Tool, ...] = (read_evidence, recall)
for _one in (*INSIDE, remember):
    _one.inside = True
