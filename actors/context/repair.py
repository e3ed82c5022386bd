"""Mending a history that a provider would refuse, explicitly and with a report.

Nothing calls it by itself: to mend is to decide what was meant, and a host decides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import ContextBudgetError
from ..model import Message
from .held import Held
from .measure import CHARACTERS
from .parts import ANY, SIGNED, Provider, says_nothing

__all__ = ["MISSING", "Repair", "Repaired", "repair"]

MISSING = "no result recorded; it may have run"

Kind: TypeAlias = Literal[
    "lone surrogates",
    "empty message",
    "repeated call id",
    "late result",
    "missing result",
    "doubled result",
    "orphan result",
]


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was mended.

    Args:
        index: of the message in the history as it was given.
        kind: what was wrong with it.
        done: what was done about it, in words.
    """

    index: int
    kind: Kind
    done: str


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """A history that passes `fit_context` in the profile `strict`, and its repairs."""

    messages: list[Message]
    repairs: tuple[Repair, ...]


def repair(messages: Sequence[Any], *, provider: Provider = ANY) -> Repaired:
    """Return a mended copy of a history, and every repair that it took.

    Lone surrogates become U+FFFD. An assistant message that says and calls nothing
    goes. A result belongs to the newest call of its id that stands before it, and is
    moved up to it past what was put between; a second result of that call goes, and so
    does one without such a call. A call without a result gets one that says `MISSING`,
    for nobody knows whether it ran. An id that was used before is replaced, in its
    call and in its result.

    What was mended once needs no repair.

    Args:
        messages: the history; it stays as it is.
        provider: whose typed parts and number of calls are allowed.

    Raises `ContextBudgetError`, which says why, for what has no repair that would not
    be invention: no current user task, an unknown role, a content or a call that is
    malformed, what is not finite JSON, a surrogate in what a vendor signed, more calls
    than the provider takes.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise ContextBudgetError("messages must be a list")
    if not isinstance(provider, Provider):
        raise ContextBudgetError(
            f"provider={provider!r} is no Provider; give one of those that "
            "perdure.context has, such as OPENAI, or Provider(name=..., parts=...)"
        )
    mending = _Mending(messages)
    found = mending.messages()
    held = Held(
        [],
        profile="strict",
        measure=CHARACTERS,
        provider=provider,
        required_task=None,
    )
    for message in found:
        held.add(message)
    held.check()
    repairs = sorted(mending.repairs, key=lambda one: one.index)
    return Repaired(messages=found, repairs=tuple(repairs))


class _Call:
    """One call: the id it was given, the one it has now, and its result."""

    def __init__(self, given: str) -> None:
        self.given = given
        self.name = given
        self.result: Message | None = None


class _Exchange:
    """A message with calls, and its results in the order in which they came."""

    def __init__(self, message: Message, index: int) -> None:
        self.message = message
        self.calls = [_Call(call["id"]) for call in message["tool_calls"]]
        self.index = index
        self.answered: list[_Call] = []


class _Mending:
    """One pass over a history: what stands in it, and what was wrong."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self.repairs: list[Repair] = []
        self._given = messages
        self._standing: list[Message | _Exchange] = []
        self._newest: dict[str, _Exchange] = {}  # by the id of a call

    def messages(self) -> list[Message]:
        for index, given in enumerate(self._given):
            message = self._without_surrogates(_told_apart(given, index), index)
            if message.get("role") == "tool":
                self._place(message, index)
            elif message.get("tool_calls"):
                exchange = _Exchange(message, index)
                self._standing.append(exchange)
                self._newest |= {call.given: exchange for call in exchange.calls}
            elif _is_empty(message):
                self._note(index, "empty message", "left out")
            else:
                self._standing.append(message)
        names = _Names(self._newest)
        found: list[Message] = []
        for one in self._standing:
            if isinstance(one, _Exchange):
                found += self._exchange(one, names)
            else:
                found.append(one)
        return found

    def _note(self, index: int, kind: Kind, done: str) -> None:
        self.repairs.append(Repair(index=index, kind=kind, done=done))

    def _without_surrogates(self, message: Message, index: int) -> Message:
        try:
            mended: Message = _mended(message)
        except RecursionError as error:
            raise ContextBudgetError(f"nested too deeply (message {index})") from error
        if mended != message:
            if _signed(mended) != _signed(message):
                raise ContextBudgetError(
                    "a lone surrogate in a part that its vendor signed, which cannot "
                    f"be changed: leave the part out (message {index})"
                )
            self._note(index, "lone surrogates", "replaced by U+FFFD")
        return mended

    def _place(self, message: Message, index: int) -> None:
        call_id = message.get("tool_call_id")
        exchange = self._newest.get(call_id) if isinstance(call_id, str) else None
        if exchange is None:
            self._note(index, "orphan result", f"left out: no call {call_id!r} before")
            return
        mine = [call for call in exchange.calls if call.given == call_id]
        waiting = [call for call in mine if call.result is None]
        if not waiting:
            self._note(index, "doubled result", f"left out: the first of {call_id!r}")
            return
        waiting[0].result = message
        exchange.answered.append(waiting[0])
        if self._standing[-1] is not exchange:
            self._note(
                index, "late result", f"moved up to its call, message {exchange.index}"
            )

    def _exchange(self, exchange: _Exchange, names: _Names) -> Iterator[Message]:
        for call in exchange.calls:
            call.name = names.take(call.given)
            if call.name != call.given:
                self._note(
                    exchange.index,
                    "repeated call id",
                    f"{call.given!r} is now {call.name!r}, in its result too",
                )
        named = zip(exchange.message["tool_calls"], exchange.calls, strict=True)
        asked = [{**given, "id": call.name} for given, call in named]
        yield {**exchange.message, "tool_calls": asked}
        for call in exchange.answered:
            yield {**(call.result or {}), "tool_call_id": call.name}
        for call in exchange.calls:
            if call.result is None:
                self._note(
                    exchange.index, "missing result", f"{call.given!r}: {MISSING}"
                )
                yield {"role": "tool", "tool_call_id": call.name, "content": MISSING}


class _Names:
    """Ids for calls: the one that was given, once; then others that nobody gave."""

    def __init__(self, given: Iterable[str]) -> None:
        self._given = set(given)
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, given: str) -> str:
        name = given
        while name in self._used or (name != given and name in self._given):
            self._counts[given] = self._counts.get(given, 1) + 1
            name = f"{given}-{self._counts[given]}"
        self._used.add(name)
        return name


def _told_apart(message: Any, index: int) -> Message:
    """The message, if it shows where it belongs; the rest is checked when mended."""
    if not isinstance(message, dict):
        raise ContextBudgetError(f"each message must be an object (message {index})")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and isinstance(call.get("id"), str) for call in calls
    ):
        raise ContextBudgetError(f"malformed tool calls (message {index})")
    if calls and message.get("role") != "assistant":
        raise ContextBudgetError(
            f"tool calls in a message that is not the assistant's (message {index})"
        )
    return message


def _signed(message: Message) -> list[Any]:
    content = message.get("content")
    return [
        part
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") in SIGNED
    ]


def _is_empty(message: Message) -> bool:
    return (
        message.get("role") == "assistant"
        and says_nothing(message.get("content"))
        and message.get("tool_calls") in (None, [])
    )


def _mended(value: Any) -> Any:
    """A copy in which surrogates that stand in pairs are joined and others replaced."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        found = {_mended(key): _mended(item) for key, item in value.items()}
        if len(found) < len(value):
            raise ContextBudgetError(
                "keys of one object differ in lone surrogates alone: rename them"
            )
        return found
    if isinstance(value, list | tuple):
        return [_mended(item) for item in value]
    return value
