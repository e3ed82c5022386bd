"""What calls usually take, learned from those that came back. Pure, whole numbers.

Samples stand by name: milliseconds of ``tool:NAME`` and ``model:NAME``, and for a model
``input:model:NAME``, what its provider counted as input for each thousand tokens that
were estimated. They are statistics: what a crash loses of them is not made up for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ..events import Amounts
from ..model import Usage
from ..price import Price, cost_of

__all__ = ["Samples", "fitted", "lessons", "merged", "ratio", "usual"]

KEPT = 64  # samples of a name, the newest
NAMES = 256  # those that were learned of last
LEAST = 3  # samples; fewer say nothing
UPPER = 90  # percent of the samples are not above the estimate
THOUSAND = 1_000
RATIOS = (500, 2_000)  # of a thousand: no estimate is moved further

Samples: TypeAlias = dict[str, tuple[int, ...]]


def merged(samples: Samples, more: Mapping[str, tuple[int, ...]]) -> Samples:
    """Samples with newer ones; of each name and of names the newest are kept."""
    found = dict(samples)
    for name, values in more.items():
        found[name] = (*found.pop(name, ()), *values)[-KEPT:]
    return {name: found[name] for name in list(found)[-NAMES:]}


def about(name: str, samples: Samples, more: Samples) -> Samples:
    """What both hold of one name, as `merged` would have it."""
    return {
        one: (*samples.get(one, ()), *more.get(one, ()))[-KEPT:]
        for one in (name, f"input:{name}")
    }


def usual(samples: Samples, name: str) -> int | None:
    """The 90th percentile by nearest rank, or None where too little is known."""
    values = sorted(samples.get(name, ()))
    if len(values) < LEAST:
        return None
    return values[-(-len(values) * UPPER // 100) - 1]


def ratio(samples: Samples, name: str) -> int | None:
    """Input tokens of a model for each thousand estimated, within bounds."""
    found = usual(samples, f"input:{name}")
    low, high = RATIOS
    return None if found is None else max(low, min(high, found))


def fitted(
    samples: Samples,
    name: str,
    amounts: Amounts,
    price: Price | None,
    *,
    timed: bool,
) -> Amounts:
    """The estimate of a call, made nearer to what such calls used.

    Input tokens are scaled, and with them all tokens and the cost; what a model may
    answer is not. With `timed` the usual milliseconds are added.
    """
    found = dict(amounts)
    scale = ratio(samples, name)
    if scale is not None and "input_tokens" in amounts:
        written = -(-amounts["input_tokens"] * scale // THOUSAND)
        answer = amounts["output_tokens"]
        found |= {"input_tokens": written, "tokens": written + answer}
        if price is not None:
            most = Usage(input_tokens=written, output_tokens=answer)
            found["cost"] = cost_of(price, most)
    time = usual(samples, name)
    if timed and time is not None:
        found["milliseconds"] = time
    return found


def lessons(name: str, asked: Amounts, used: Amounts, *, reported: bool) -> Samples:
    """What a call that came back teaches; `asked` is its estimate as it was made."""
    found: Samples = {}
    if "milliseconds" in used:
        found[name] = (used["milliseconds"],)
    estimate = asked.get("input_tokens", 0)
    if reported and estimate and used.get("input_tokens"):
        scale = -(-used["input_tokens"] * THOUSAND // estimate)
        found[f"input:{name}"] = (scale,)
    return found
