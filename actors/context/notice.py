"""The sentence that tells a model how much of its history it does not see."""

from __future__ import annotations

import re
from typing import Any

from ..model import Message
from .measure import Measure

__all__ = ["measured", "notice", "noticed"]

# One fixed text with one number in it: a second number, or a plural form, would
# change the prompt's bytes for nothing.
_BEFORE = "Earlier messages omitted: "
_AFTER = ". Re-read evidence before relying on it; omission is no proof of completion."
_PATTERN = re.compile(re.escape(_BEFORE) + "([0-9]+)" + re.escape(_AFTER))


def notice(omitted: int) -> Message:
    """Return the system message that says how many messages were left out."""
    return {"role": "system", "content": f"{_BEFORE}{omitted}{_AFTER}"}


def noticed(message: Any) -> int:
    """Return the number that a notice of ours names; 0 for any other message."""
    if not isinstance(message, dict) or message.get("role") != "system":
        return 0
    content = message.get("content")
    found = _PATTERN.fullmatch(content) if isinstance(content, str) else None
    return int(found[1]) if found else 0


def measured(
    measure: Measure, messages: int, content: int, schemas: int, omitted: int
) -> int:
    """Return `total` of a request that also says how many messages it lacks."""
    if not omitted:
        return measure.total(messages, content, schemas)
    said = measure.part(notice(omitted))
    return measure.total(messages + 1, content + said, schemas)
