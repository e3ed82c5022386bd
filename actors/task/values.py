"""JSON that a model wrote, taken only as far as it can be shown again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..context.measure import canonical
from ..plan.standing import output_step

if TYPE_CHECKING:
    from .state import TaskState

__all__ = ["is_portable", "is_storable", "json_part", "output_of", "parsed"]

DEEPEST = 64  # levels of nesting; the interpreter's own limit is no limit of ours


def output_of(state: TaskState) -> str:
    """The JSON text of a task's output: the result of its `output_step`."""
    last = output_step(state.plan, state.statuses())
    return next((step.result for step in state.steps if step.id == last), "")


def parsed(text: str) -> Any:
    """JSON where the text is portable JSON, else the text itself."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if _is_flat(text, value) else text


def is_portable(text: str) -> bool:
    """Tell whether the text is JSON that canonical JSON can hold."""
    try:
        value = msgspec.json.decode(text)
        canonical(value).encode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    return _is_flat(text, value)


def is_storable(text: str) -> bool:
    """Tell whether text that canonical JSON made can be read back."""
    try:
        return _is_flat(text, msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False


def json_part(text: str) -> str:
    """The outermost JSON object in a reply; models like to wrap it.

    Raises ValueError where there is none.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise ValueError("no JSON object in it")
    return text[start : end + 1]


def _is_flat(text: str, value: Any) -> bool:
    if text.count("[") + text.count("{") < DEEPEST:
        return True  # it cannot be nested deeper than it opens
    level = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
        if not below:
            return True
        level = below
    return False
