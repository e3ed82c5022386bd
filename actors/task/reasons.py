"""What the decision log says of an iteration: why it, and what the last one brought.

What follows from the streams anyway is not written again: `perdure why` reads it off
them (B58).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..context.blocks import Block
from ..events import CallModel, CallTool
from .state import Op, TaskState

__all__ = ["brought", "refusal", "why_now"]

BROUGHT = 160  # characters in all
RESULT = 60  # characters of one result, or of one reason


def why_now(state: TaskState, iteration: int) -> str:
    """Why the model is asked: it is this iteration of so many of its step."""
    step = state.step
    limits = [one.max_iterations for one in state.plan if step and one.id == step.id]
    return f"iteration {iteration} of {limits[0]}"


def brought(state: TaskState, scratch: Sequence[Block]) -> str:
    """The last exchange in short: each call's outcome with conclusion or reason.

    Where there was none, why the answer was refused or the step is tried again;
    nothing where the step has just begun. `scratch` are the step's exchanges.
    """
    calls = [
        (op, op.action)
        for op in state.ops.values()
        if isinstance(op.action, CallTool) and not op.undoes
    ]
    if not calls:
        return _short(state.notes[-1], BROUGHT) if _went_wrong(state) else ""
    # Empty after a recovery: the exchange stands among the facts then.
    newest = [message for block in scratch[-1:] for message in block.messages[1:]]
    texts = [str(message["content"]) for message in newest]
    said = []
    for place, (op, call) in enumerate(calls):
        text = texts[place] if place < len(texts) else ""
        result = text.removeprefix("error: ")
        said.append(f"{call.tool} {op.status}: {_short(result, RESULT)}".rstrip(": "))
    return _short("; ".join(said), BROUGHT)


def refusal(state: TaskState) -> str:
    """Why the newest reply was refused, where it was an answer and no call of tools."""
    if not state.notes or any(
        isinstance(op.action, CallTool) for op in state.ops.values()
    ):
        return ""
    return _short(state.notes[-1], BROUGHT) if _answered(state) else ""


def _went_wrong(state: TaskState) -> bool:
    """Whether the newest note is of this step: of its answer, or of a try before."""
    step = state.step
    if step is None or not state.notes:
        return False
    return _answered(state) or (step.iterations == 0 and state.retries > 0)


def _answered(state: TaskState) -> bool:
    return any(_is_work(op) and op.status == "completed" for op in state.ops.values())


def _is_work(op: Op) -> bool:
    return isinstance(op.action, CallModel) and op.action.purpose == "work"


def _short(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
