"""Acceptance as data: the function that judges a result, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["Accept", "View"]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What an acceptance function may look at besides the result.

    `facts` maps the id of each completed step to its accepted result. For the
    acceptance of the whole task, `step` is empty.
    """

    task: str
    step: str
    goal: str
    inputs: dict[str, Any]
    facts: dict[str, Any]


Accept = Callable[[Any, View], bool | str]
