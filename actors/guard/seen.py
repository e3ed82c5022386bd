"""What is remembered of an action: enough to tell whether it was done before. Pure.

Times, durations, addresses and ids that differ from call to call are taken out of what
a tool says, and fields named like them out of what it is asked: a result that differs
in those alone is the same result.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from ..context.measure import canonical

__all__ = [
    "FREE",
    "INFRA",
    "OWN",
    "REFUSED",
    "TRIVIAL",
    "WROTE",
    "Outcome",
    "Seen",
    "action_of",
    "masked",
    "seen_of",
    "similarity",
    "stable",
]

Outcome = Literal["completed", "failed", "unknown"]

VOLATILE = frozenset(  # names of arguments, case-folded, without - and _
    {
        "callid",
        "correlationid",
        "idempotencykey",
        "nonce",
        "now",
        "requestid",
        "thought",
        "thoughts",
        "timestamp",
        "traceid",
    }
)
ARGUMENTS = 8  # of one call that are compared
SHAPE = 24  # characters of a shape
LITTLE = 24  # characters; an answer up to this long says little: [], "ok", "none"
DIGEST = 6  # characters of a digest, of 6 bits each
NAMED = 3  # characters of an argument's name, and of its shape
TRIVIAL = 1  # it said next to nothing
WROTE = 2  # it may have changed something outside
INFRA = 4  # its service failed, not the action
FREE = 8  # it failed, and may be made again within the retries of its kind (B82)
REFUSED = 16  # the door did not let it out
OWN = 32  # it ran and failed by itself: made again, it would fail again (A107)
WRITTEN = {  # an event more than doubles with the long names
    "action": "a",
    "result": "r",
    "shape": "s",
    "flags": "f",
    "kind": "k",
    "words": "w",
    "patience": "p",
    "at": "t",
    "op": "o",
    "tool": "n",
    "status": "e",
}
# Each with signs of which such a text has one, and perhaps a mark that it has, too:
# both are found far faster than the pattern. ASCII: a word of Chinese may stand right
# before a figure.
_FLEETING = tuple(
    (signs, re.compile(mark, re.ASCII) if mark else None, re.compile(pattern, re.ASCII))
    for signs, mark, pattern in (
        (
            (":",),
            r":\d\d",
            r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?",
        ),
        ((":",), r":\d\d:", r"\b\d\d:\d\d:\d\d([.,]\d+)?\b"),
        (
            ("-",),
            r"-[0-9a-fA-F]{4}-",
            r"\b[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
        ),
        (("x",), r"0x", r"\b0x[0-9a-fA-F]+\b"),
        (
            tuple("abcdef"),
            "",
            r"\b(?=[0-9a-f]{16})(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{16,64}\b",
        ),
        # (Milli)seconds since 1970.
        (("1",), "", r"1(?<!\w1)[5-9]\d{8}(\d{3})?(\.\d+)?\b"),
        (
            ("s", "秒"),
            "",
            r"[0-9](?<![\w.]\d)[0-9]*+(\.\d++)?+\s?+(?=[nµums毫秒])"
            r"(ns|µs|us|ms|secs?|seconds|s|毫秒|秒)(?!\w)",
        ),
    )
)
_BITS = (  # what the last 6 bits of a byte are written as
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" * 4
)
_SORTED = msgspec.json.Encoder(order="sorted")
_RUNS = (
    (re.compile(r"\d+"), "9"),
    (re.compile(r"[^\W\d_]+"), "a"),
    (re.compile(r"[^\w\s]+|_+"), "-"),
)


class Seen(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=WRITTEN
):
    """One action and what came of it, as short as it can be told apart.

    An event holds one for each call, its fields named by one letter: what that event
    says anyway (operation, tool and status) is filled in when it is folded.

    Args:
        action: digest of the tool and its arguments, see `action_of`.
        result: digest of what it said, without what changes each time.
        shape: six characters for each argument, see `similarity`; empty where it may
            have changed something: that is never nearly the same as anything.
        flags: `TRIVIAL` … `OWN`, added up.
        kind: what sort of error, as a digest; empty where it went well.
        words: digest of the arguments' words, in whatever order and form, of an action
            that went well, changed nothing and said next to nothing.
        patience: seconds that its result may stay the same, where it polls.
        at: second since the epoch at which a poll was observed, else 0.
        op: the operation, as evidence.
        tool: its name.
        status: how it ended.
    """

    action: str
    result: str
    shape: str = ""
    flags: int = 0
    kind: str = ""
    words: str = ""
    patience: float = 0
    at: float = 0
    op: int = 0
    tool: str = ""
    status: Outcome = "completed"

    def same(self, other: Seen) -> bool:
        """Whether both did the same, and the same came of it."""
        return (
            self.action == other.action
            and self.result == other.result
            and self.status == other.status
        )

    def has(self, flag: int) -> bool:
        """Whether it is so: one of `TRIVIAL` … `OWN`."""
        return bool(self.flags & flag)


def seen_of(
    *,
    tool: str,
    arguments: str,
    status: Outcome,
    text: str,
    flags: int = 0,
    volatile: Sequence[str] = (),
    loop_key: Sequence[str] = (),
    patience: float = 0,
    at: float = 0,
) -> Seen:
    """Remember an action; `arguments` is JSON text, `text` the result or the error.

    `volatile` names arguments that say nothing of what is done; of a tool with a
    `loop_key` only those that it names do.
    """
    values = _values(arguments, volatile, loop_key)
    told = stable(text)
    failed = status != "completed"
    trivial = not failed and len(told.strip()) <= LITTLE
    compared = failed or not flags & WROTE
    return Seen(
        action=_digest([tool, values]),
        result=_digest(told),
        shape=_shape(values) if compared else "",
        flags=flags | (TRIVIAL if trivial else 0),
        kind=_kind(told) if failed else "",
        words=_words(values) if trivial and compared else "",
        patience=patience or 0,  # what is no default is written
        at=at if patience else 0,
    )


def similarity(one: Seen, other: Seen) -> float:
    """How near two actions are by tool, names and shapes of arguments, and outcome.

    0 for different tools or outcomes, else the share of arguments, by name, of which
    both have one of the same shape (B56).
    """
    if (one.tool, one.status, one.kind) != (other.tool, other.status, other.kind):
        return 0.0
    if one.shape == other.shape:
        return 1.0
    mine, its = _shapes(one.shape), _shapes(other.shape)
    names = {*mine, *its}
    return sum(mine.get(name) == its.get(name) for name in names) / len(names)


def action_of(
    tool: str,
    arguments: str,
    *,
    volatile: Sequence[str] = (),
    loop_key: Sequence[str] = (),
) -> str:
    """Name an action: digest of its tool and of the arguments that say what is done.

    The order of the arguments says nothing; numbers compare as JSON writes them.
    """
    return _digest([tool, _values(arguments, volatile, loop_key)])


def stable(text: str) -> str:
    """A tool's words without times, durations, addresses and ids."""
    for digit in "0123456789":  # ten of these take a tenth of one search for a class
        if digit in text:
            break
    else:
        return text  # an id has a digit, too
    for signs, mark, pattern in _FLEETING:
        for sign in signs:
            if sign in text:
                if mark is None or mark.search(text):
                    text = pattern.sub("~", text)
                break
    return text


def masked(value: Any) -> str:
    """The shape of an argument: runs of digits as 9, of letters as a, of signs as -."""
    if not isinstance(value, str):
        return type(value).__name__
    text = " ".join(value.split())
    for pattern, sign in _RUNS:
        text = pattern.sub(sign, text[: SHAPE * 8])
    return text[:SHAPE]


def _values(
    arguments: str, volatile: Sequence[str], loop_key: Sequence[str]
) -> dict[str, Any]:
    passing = {_plain(name) for name in volatile} | VOLATILE if volatile else VOLATILE
    try:
        found = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {"": arguments}
    if not isinstance(found, dict):
        return {"": arguments}
    if loop_key:
        return {name: found.get(name) for name in loop_key}
    return {name: value for name, value in found.items() if _plain(name) not in passing}


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _shape(values: dict[str, Any]) -> str:
    names = sorted(values)[:ARGUMENTS]
    return "".join([_short(name) + _short(masked(values[name])) for name in names])


def _words(values: dict[str, Any]) -> str:
    return _digest(sorted(re.findall(r"\w+", canonical(values).casefold())))


def _shapes(shape: str) -> dict[str, str]:
    whole = 2 * NAMED
    parts = [shape[n : n + whole] for n in range(0, len(shape), whole)]
    return {part[:NAMED]: part[NAMED:] for part in parts}


def _kind(told: str) -> str:
    """The sort of an error: the class that it names, else its words without numbers."""
    head, colon, _ = told.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z_][\w.]*", head):
        head = re.sub(r"\d+", "9", told)[:200]
    return _digest(head)[:NAMED]


@lru_cache(maxsize=1024)
def _short(name: str) -> str:
    return _digest(name)[:NAMED]


def _digest(value: Any) -> str:
    if isinstance(value, str):
        body = value.encode("utf-8", "surrogatepass")
    else:
        body = _body(value)
    return hashlib.blake2b(body, digest_size=DIGEST).digest().translate(_BITS).decode()


def _body(value: Any) -> bytes:
    try:
        return _SORTED.encode(value)
    except (ValueError, RecursionError):  # a surrogate stands alone, it is too deep
        return canonical(value).encode("utf-8", "surrogatepass")
