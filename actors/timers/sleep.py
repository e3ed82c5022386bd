"""A tool that agents may list: to wait without holding anything."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..tool import tool

__all__ = ["sleep"]

YEAR = 366 * 86_400  # seconds; the longest wait


@tool(effect="read")
def sleep(seconds: Annotated[float, msgspec.Meta(ge=0, le=YEAR)]) -> str:
    """Wait so many seconds before going on; nothing runs and nothing is spent."""
    return f"waited {seconds:g} s"


sleep.rests = lambda values: float(values["seconds"])
