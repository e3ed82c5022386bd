"""What a request is made of, and what makes one malformed.

A unit is what may only be kept or dropped whole: one message, or an assistant
message with *all* results of the tools it called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import ContextBudgetError
from ..model import Message
from ..storable import is_storable
from .parts import ANY, Provider, says_nothing

__all__ = ["Splitter", "Unit", "refuse_strictly", "refuse_unportable", "units"]

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Messages `first` up to, not including, `end`, kept or dropped together."""

    first: int
    end: int
    role: str
    exchange: bool = False


class Splitter:
    """Splits a history that grows into units, looking at each message once.

    Args:
        provider: whose typed parts contents may hold; None for text alone (A58).
        strict: also refuse ids that are repeated, too many calls, and messages that
            say nothing, as `refuse_strictly` does.
    """

    def __init__(
        self, *, provider: Provider | None = ANY, strict: bool = False
    ) -> None:
        self._provider = provider
        self._ids: set[str] | None = set() if strict else None
        self._read = 0
        self._first = 0
        self._pending: set[str] = set()

    def add(self, message: Any) -> Unit | None:
        """Return the unit that this message ends, if it ends one.

        Raises `ContextBudgetError`, which names the message's index, for one that
        is malformed: it is then as though it had never been given.
        """
        index = self._read
        role = _role(message, index, self._provider)
        if role == "tool":
            unit = self._result(message, index)
        elif self._pending:
            raise _refusal(index, "tool results must match each call exactly once")
        else:
            unit = self._other(message, role, index)
        self._read = index + 1
        return unit

    def finish(self) -> None:
        """Raise `ContextBudgetError` where the last exchange lacks results."""
        if self._pending:
            raise _refusal(self._read - 1, "tool exchange has missing results")

    def _result(self, message: Message, index: int) -> Unit | None:
        call_id = message.get("tool_call_id")
        if not self._pending:
            raise _refusal(index, "orphan tool result")
        if not isinstance(call_id, str) or call_id not in self._pending:
            raise _refusal(index, "tool results must match each call exactly once")
        self._pending.discard(call_id)
        if self._pending:
            return None
        return Unit(first=self._first, end=index + 1, role="assistant", exchange=True)

    def _other(self, message: Message, role: str, index: int) -> Unit | None:
        pending = _call_ids(message, role, index)
        if self._ids is not None and role == "assistant":
            _refuse_strictly(message, index, self._ids, self._provider or ANY)
            self._ids |= pending
        if not pending:
            return Unit(first=index, end=index + 1, role=role)
        self._first, self._pending = index, pending
        return None


def units(messages: Sequence[Any], provider: Provider | None = ANY) -> list[Unit]:
    """Split messages into units, or raise `ContextBudgetError` for a bad one.

    The error names the index of the message. Used on what comes in and again on
    what goes out, so that nothing is sent that would have been refused.
    """
    splitter = Splitter(provider=provider)
    found = [unit for message in messages if (unit := splitter.add(message))]
    splitter.finish()
    return found


def refuse_strictly(messages: Sequence[Any], provider: Provider = ANY) -> None:
    """Raise `ContextBudgetError` for what is legal JSON but breaks a provider.

    The set: call ids repeated over the request, more calls in a message than the
    provider takes, assistant messages with neither content nor calls, and what
    `refuse_unportable` refuses.
    """
    seen: set[str] = set()
    for index, message in enumerate(messages):
        refuse_unportable(message, f"message {index}")
        if message["role"] == "assistant":
            _refuse_strictly(message, index, seen, provider)
            seen |= {call["id"] for call in message.get("tool_calls") or ()}


def refuse_unportable(value: Any, path: str) -> None:
    """Raise `ContextBudgetError` for what is not JSON that every reader reads alike.

    That is text without lone surrogates, finite numbers, true, false, null, lists,
    and objects whose keys are text. `path` says in the error where `value` stands;
    the place inside it is added.
    """
    try:
        if not _portable(value):
            _name_unportable(value, path)
    except RecursionError as error:
        raise ContextBudgetError(f"{path} is nested too deeply") from error


def _refusal(index: int, what: str) -> ContextBudgetError:
    return ContextBudgetError(f"{what} (message {index})")


def _role(message: Any, index: int, provider: Provider | None) -> str:
    if not isinstance(message, dict):
        raise _refusal(index, "each message must be an object")
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise _refusal(index, f"unknown message role {role!r}")
    content = message.get("content")
    if not isinstance(content, str) and not (content is None and role == "assistant"):
        if provider is None or not isinstance(content, list):
            raise _refusal(index, f"content of a {role} message must be text")
        if not content and role != "assistant":
            raise _refusal(index, f"content of a {role} message has no part")
        provider.refuse(content, f"message {index}")
    calls = message.get("tool_calls")
    if calls is not None and calls != [] and role != "assistant":
        raise _refusal(index, f"tool calls in a {role} message")
    return role


def _call_ids(message: Message, role: str, index: int) -> set[str]:
    calls = message.get("tool_calls")
    if role != "assistant" or calls is None:
        return set()
    if not isinstance(calls, list):
        raise _refusal(index, "tool_calls must be a list")
    ids: set[str] = set()
    for call in calls:
        if not _well_formed(call) or call["id"] in ids:
            raise _refusal(index, "malformed or duplicate tool call")
        ids.add(call["id"])
    return ids


def _well_formed(call: Any) -> bool:
    if not isinstance(call, dict) or call.get("type") != "function":
        return False
    function = call.get("function")
    return (
        isinstance(call.get("id"), str)
        and call["id"] != ""
        and isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
    )


def _refuse_strictly(
    message: Message, index: int, seen: set[str], provider: Provider
) -> None:
    calls = message.get("tool_calls") or ()
    if not calls and says_nothing(message.get("content")):
        raise _refusal(index, "assistant message with neither content nor calls")
    if provider.most_calls is not None and len(calls) > provider.most_calls:
        raise _refusal(
            index,
            f"{len(calls)} tool calls, where {provider.name} takes at most "
            f"{provider.most_calls} in one message",
        )
    for call in calls:
        if call["id"] in seen:
            raise _refusal(index, f"call id {call['id']!r} is used before")


def _portable(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() or is_storable(value)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not (_portable(key) and _portable(item)):
                return False
        return True
    if isinstance(value, list | tuple):
        return all(map(_portable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, int)


def _name_unportable(value: Any, path: str) -> None:
    """Raise for the first value inside `value` that is not portable."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ContextBudgetError(f"key {key!r} of {path} is not text")
            if not _portable(key):
                raise ContextBudgetError(f"lone surrogate in a key of {path}")
            _name_unportable(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _name_unportable(item, f"{path}[{index}]")
    elif isinstance(value, str):
        if not _portable(value):
            raise ContextBudgetError(f"lone surrogate in {path}")
    elif not _portable(value):
        what = repr(value) if isinstance(value, float) else type(value).__name__
        raise ContextBudgetError(f"{path} must be finite JSON data, not {what}")
