"""A tool that agents may list: hand work to another agent, as a task of its own."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from .errors import Misuse
from .tool import tool

__all__ = ["Limits", "delegate"]

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Limits(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What a sub-task may use at most, of what its parent has."""

    tokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    model_calls: Count | None = None
    tool_calls: Count | None = None
    tools: dict[str, Count] = {}


@tool(effect="once", repeat=True)
def delegate(
    agent: str,
    goal: str,
    inputs: dict[str, Any] | None = None,
    budget: Limits | None = None,
) -> str:
    """Have another agent reach a goal; its result comes back as this call's result.

    Without a budget it may use up to half of what is left here.
    """
    del agent, goal, inputs, budget
    raise Misuse("delegate is carried out by the runtime: list it in Agent(tools=…)")


delegate.delegates = True
