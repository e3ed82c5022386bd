"""What sets a look at the plan off: four triggers, each once per crossing (A95). Pure.

    phase   the last step of a named phase passed acceptance (A96)
    result  a call failed for good, an answer was refused, a step ended otherwise (A97)
    unsure  the model's words hold a phrase of uncertainty (A98)
    half    completed steps reached half of the planned ones (A99)

Which of them count is the planner's choice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..events import PlanStep

__all__ = ["PHRASES", "TRIGGERS", "is_half", "phases_done", "unsure"]

TRIGGERS = ("phase", "result", "unsure", "half")
READ = 16_000  # characters of one reply that are looked through
PHRASES = (
    "not sure whether",
    "not sure if",
    "not sure how",
    "not sure which",
    "not sure what",
    "i am not sure",
    "i'm not sure",
    "i am unsure",
    "i'm unsure",
    "not certain whether",
    "not certain if",
    "i am not certain",
    "i'm not certain",
    "i am uncertain",
    "i'm uncertain",
    "i don't know whether",
    "i don't know if",
    "i don't know how",
    "i do not know whether",
    "i do not know if",
    "i do not know how",
    "it is unclear whether",
    "it's unclear whether",
    "it is unclear if",
    "should i rather",
    "不确定",
    "不能确定",
    "无法确定",
    "难以确定",
    "不太确定",
    "不敢肯定",
    "不能肯定",
    "不知道是否",
    "不知道该",
    "不清楚是否",
    "不清楚该",
    "拿不准",
    "说不准",
    "没有把握",
    "没把握",
)
# Nouns, denials and orders that hold a phrase and say nothing of the speaker's doubt.
_NO_DOUBT = re.compile(r"不确定(?:性|度)|(?:没有|毫无|不再|并非)不确定|if not certain")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})


def unsure(text: str, more: Sequence[str] = ()) -> str:
    """Return the first phrase of uncertainty in a model's words, or nothing.

    Case, line breaks and kinds of apostrophes do not matter. A phrase of letters is
    found as whole words, one of Chinese characters anywhere.

    Args:
        text: what the model said.
        more: phrases of the host's, beside the built-in ones.
    """
    plain = " ".join(text[:READ].translate(_APOSTROPHES).casefold().split())
    found = _pattern(tuple(more)).search(_NO_DOUBT.sub(" ", plain))
    return found[0] if found else ""


@lru_cache(maxsize=64)
def _pattern(more: tuple[str, ...]) -> re.Pattern[str]:
    phrases = [
        " ".join(one.translate(_APOSTROPHES).casefold().split())
        for one in (*PHRASES, *more)
    ]
    return re.compile("|".join(map(_bounded, phrases)))


def _bounded(phrase: str) -> str:
    """A phrase as a pattern: between letters of a script with spaces it ends a word."""
    before = r"(?<![a-z0-9])" if phrase[0].isascii() and phrase[0].isalnum() else ""
    after = r"(?![a-z0-9])" if phrase[-1].isascii() and phrase[-1].isalnum() else ""
    return f"{before}{re.escape(phrase)}{after}"


def is_half(completed: int, planned: int) -> bool:
    """Tell whether completed steps are at least half of the planned ones (A99, K50)."""
    return 0 < planned <= 2 * completed


def phases_done(plan: Sequence[PlanStep], status: Mapping[str, str]) -> tuple[str, ...]:
    """Return the named phases whose every step passed acceptance, in their order."""
    phases = dict.fromkeys(step.phase for step in plan if step.phase)
    left = {step.phase for step in plan if status.get(step.id) != "completed"}
    return tuple(one for one in phases if one not in left)
