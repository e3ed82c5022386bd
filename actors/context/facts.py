"""What must not be lost of an exchange that a request no longer shows whole. Pure.

Conclusions, numbers with their labels, ids, error codes and messages survive in short,
each with the evidence it rests on; format and words around them go (A102, A106, B13).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from .blocks import Block

__all__ = [
    "Finding",
    "finding_of_result",
    "finding_of_words",
    "findings_of",
    "found_after",
    "line",
    "merged",
    "room_for",
]

VALUES = 10  # of one result
VALUE = 60  # characters of one value
SAID = 200  # characters of a conclusion, or of a result that is short itself
SHORT = 100  # characters of a result that is its own conclusion
SUBJECT = 60  # characters of a call
LOOKED_AT = 8_000  # characters of one result
ITEMS = 2  # of a list, looked into
SHARE = 10  # findings take a tenth of the limit
BULLET = 3  # characters around a line
MOST = 4_000  # characters of all findings, whatever the limit
AGAIN = ("read_evidence", "recall")  # show what is on record already

# CJK marks of sentences, of labels, and between parts.
_STOP, _COLON, _BREAK = r"\u3002\uff01\uff1f", r"\uff1a", r"\uff0c\uff1b\u3002"
_SENTENCE = re.compile(rf"(?s)(.*?(?:[.!?](?=\s|$)|[{_STOP}]|\n|$))")
_PAIR = re.compile(
    rf"(?<!\w)([^\W\d][\w./-]{{0,39}})\"?\s*[=:{_COLON}]\s*"
    rf"(\"[^\"\n]{{1,60}}\"|[^\s,;\"/{_BREAK}][^\s,;{_BREAK}]{{0,59}})"
)
_ERROR = re.compile(
    r"\b(?:[A-Z][A-Za-z]{0,60}(?:Error|Exception)|HTTP[ /]?\d{3}|E[A-Z]*[-_]?\d{1,6})\b"
    r"(?:: [^\n.;]{1,80})?"
)
_ID = re.compile(
    r"\b(?:[0-9a-f]{8}-[0-9a-f-]{27}|[A-Za-z]{1,12}[-_]\d[\w-]{0,30}|[0-9a-f]{12,40})\b"
)
_NUMBER = re.compile(
    r"(?:(?<!\w)[^\W\d_]{2,20} (?:is |of |was )?)?"
    r"(?<![\d:])[-+]?\d(?:[\d,.]*\d)?(?![\d:])\s?(?:%|[^\W\d_]{1,20})?"
)
_KEYED = re.compile(r"(?i)id$|_id|code|error|status|count|total|name|key|sum|amount")


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record in short.

    Args:
        evidence: the id under which the whole of it can be opened.
        subject: the call that it is of; empty for what the model said.
        said: a conclusion, or the error, or a result that was short.
        values: labels with values, in the order of the text; a label may be empty.
    """

    evidence: str
    subject: str = ""
    said: str = ""
    values: tuple[tuple[str, str], ...] = ()


def findings_of(block: Block) -> Iterator[Finding]:
    """What a block says in short."""
    place = 0
    calls: dict[str, Any] = {}
    for message in block.messages:
        if message["role"] == "assistant":
            calls = {one["id"]: one for one in message.get("tool_calls") or ()}
            yield from finding_of_words(block.evidence or "", message.get("content"))
        elif message["role"] == "tool" and place < len(block.sources):
            call = calls[message["tool_call_id"]]["function"]
            yield from finding_of_result(
                block.sources[place],
                call["name"],
                call["arguments"],
                message["content"],
            )
            place += 1


def finding_of_words(evidence: str, content: str | None) -> Iterator[Finding]:
    """What the model said beside its calls, in short; nothing where it said nothing."""
    said = _sentences(content or "")
    if said and evidence:
        yield Finding(evidence, said=said)


def finding_of_result(
    evidence: str, tool: str, arguments: str, text: str
) -> Iterator[Finding]:
    """A tool's result, or error, in short; nothing where nothing in it would be kept.

    `arguments` is JSON text, `text` what the model was told.
    """
    if tool in AGAIN:
        return
    text = text[:LOOKED_AT]
    subject = _subject(tool, arguments)
    if text.startswith("error: ") or len(text) <= SHORT:
        if said := _flat(text)[:SAID]:
            yield Finding(evidence, subject, said)
    elif values := tuple(_values(text)):
        yield Finding(evidence, subject, "", values)


def merged(
    known: Sequence[Finding], new: Collection[Finding], room: int
) -> tuple[Finding, ...]:
    """All findings by age of their evidence, within `room` characters.

    A newer finding of the same evidence replaces the older one. The newest are kept
    whole; the oldest go: their evidence stays in the record.
    """
    found = {one.evidence: one for one in (*known, *new)}
    kept: list[Finding] = []
    for one in sorted(found.values(), key=_age, reverse=True):
        room -= len(line(one)) + BULLET
        if room < 0:
            break
        kept.append(one)
    return tuple(reversed(kept))


class Finds(Protocol):
    """What an event found, in requests of a limit; 0 where it does not say."""

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def limit(self) -> int: ...


def found_after(known: tuple[Finding, ...], event: Finds) -> tuple[Finding, ...]:
    """The findings of a task once an event has brought more."""
    if not event.limit:
        return known
    return merged(known, event.findings, room_for(event.limit))


def room_for(limit: int) -> int:
    """How many characters findings may take in requests of this limit."""
    return min(limit // SHARE, MOST)


def line(finding: Finding, shown: Collection[str] = ()) -> str:
    """A finding as a line of text, without values that are `shown` already.

    `shown` holds names and values: those of the anchors, for instance. Empty where
    nothing else is left.
    """
    pairs = [
        f"{label}={value}" if label else value
        for label, value in finding.values
        if value not in shown and label not in shown
    ]
    parts = [*([finding.said] if finding.said else []), *pairs]
    if not parts:
        return ""
    head = f"{finding.evidence} {finding.subject}".rstrip()
    return f"{head}: {'; '.join(parts)}"


def _age(finding: Finding) -> int:
    return int(finding.evidence.removeprefix("op"))


def _subject(name: str, arguments: str) -> str:
    """The call in short: its name, and the scalars that it was given."""
    given = _json(arguments)
    if not isinstance(given, dict):
        return name
    parts = [
        f"{key}={_scalar(value)}" for key, value in given.items() if _is_scalar(value)
    ]
    whole = f"{name}({', '.join(parts)})"
    return whole if parts and len(whole) <= SUBJECT else name


def _sentences(text: str) -> str:
    """The first sentences of a text, as many as are short together."""
    said = ""
    for found in _SENTENCE.finditer(text.strip()[: 4 * SAID]):
        more = f"{said} {found[1].strip()}".strip()
        if said and len(more) > SAID:
            break
        said = more
    return _flat(said)[:SAID]


def _values(text: str) -> Iterator[tuple[str, str]]:
    data = _json(text)
    if isinstance(data, dict | list):
        found = list(_scalars(data, ""))
        # What names or counts something says more than a text does.
        best = sorted(range(len(found)), key=lambda place: not _weighty(*found[place]))
        for place in sorted(best[:VALUES]):
            label, value = found[place]
            yield label, _scalar(value)
        return
    yield from _in_words(text)


def _scalars(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _scalars(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        if len(value) > ITEMS:
            yield f"{path}.length" if path else "length", len(value)
        for place, item in enumerate(value[:ITEMS]):
            yield from _scalars(item, f"{path}[{place}]")
    elif _is_scalar(value):
        yield path, value


def _weighty(label: str, value: Any) -> bool:
    return not isinstance(value, str) or _KEYED.search(label) is not None


def _in_words(text: str) -> Iterator[tuple[str, str]]:
    """Pairs, codes, ids and counts of a text, each stretch of it used once."""
    found: list[tuple[int, int, str, str]] = []
    for pattern in (_ERROR, _PAIR, _ID, _NUMBER):
        for one in pattern.finditer(text):
            first, end = one.span()
            if any(first < other and start < end for start, other, _, _ in found):
                continue
            if pattern is _PAIR:
                found.append((first, end, one[1], one[2].strip('".')[:VALUE]))
            elif _tells(one[0]):
                found.append((first, end, "", _flat(one[0])[: 2 * VALUE]))
            if len(found) >= 2 * VALUES:
                break
    seen: set[tuple[str, str]] = set()
    for _, _, label, value in sorted(found):
        if (label, value) not in seen and len(seen) < VALUES:
            seen.add((label, value))
            yield label, value


def _tells(text: str) -> bool:
    """Whether a code, an id or a number says something: a bare 12 does not."""
    return len(text.strip()) > 2 or not text.strip().isdigit()


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= VALUE
    return isinstance(value, bool | int | float)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _flat(value)
    return msgspec.json.encode(value).decode()


def _flat(text: str) -> str:
    return " ".join(text.split())


def _json(text: str) -> Any:
    if text[:1] not in "{[":
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
