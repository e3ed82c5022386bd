"""What a request is made of, and what makes one malformed.

A unit is what may only be kept or dropped whole: one message, or an assistant
message with *all* results of the tools it called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import ContextBudgetError
from ..model import Message

__all__ = ["Unit", "refuse_strictly", "refuse_unportable", "units"]

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Messages `first` up to, not including, `end`, kept or dropped together."""

    first: int
    end: int
    role: str
    exchange: bool = False


def units(messages: Sequence[Any]) -> list[Unit]:
    """Split messages into units, or raise `ContextBudgetError` for a bad one.

    The error names the index of the message. Used on what comes in and again on
    what goes out, so that nothing is sent that would have been refused.
    """
    found: list[Unit] = []
    index = 0
    while index < len(messages):
        role = _role(messages[index], index)
        if role == "tool":
            raise _refusal(index, "orphan tool result")
        pending = _call_ids(messages[index], role, index)
        exchange = bool(pending)
        end = _end_of_results(messages, index + 1, pending)
        found.append(Unit(first=index, end=end, role=role, exchange=exchange))
        index = end
    return found


def refuse_strictly(messages: Sequence[Any]) -> None:
    """Raise `ContextBudgetError` for what is legal JSON but breaks a provider.

    The set: call ids repeated over the request, lone surrogates, keys that are not
    text, assistant messages with neither content nor calls.
    """
    seen: set[str] = set()
    for index, message in enumerate(messages):
        refuse_unportable(message, f"message {index}")
        if message["role"] != "assistant":
            continue
        calls = message.get("tool_calls") or ()
        if not calls and not message.get("content"):
            raise _refusal(index, "assistant message with neither content nor calls")
        for call in calls:
            if call["id"] in seen:
                raise _refusal(index, f"call id {call['id']!r} is used before")
            seen.add(call["id"])


def refuse_unportable(value: Any, path: str) -> None:
    """Raise `ContextBudgetError` for a lone surrogate or a key that is not text.

    `path` says in the error where `value` stands; the place inside it is added.
    """
    try:
        _walk(value, path)
    except RecursionError as error:
        raise ContextBudgetError(f"{path} is nested too deeply") from error


def _refusal(index: int, what: str) -> ContextBudgetError:
    return ContextBudgetError(f"{what} (message {index})")


def _role(message: Any, index: int) -> str:
    if not isinstance(message, dict):
        raise _refusal(index, "each message must be an object")
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise _refusal(index, f"unknown message role {role!r}")
    content = message.get("content")
    if not isinstance(content, str) and not (content is None and role == "assistant"):
        raise _refusal(index, f"content of a {role} message must be text")
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


def _end_of_results(messages: Sequence[Any], index: int, pending: set[str]) -> int:
    while pending:
        if index == len(messages):
            raise _refusal(index - 1, "tool exchange has missing results")
        if _role(messages[index], index) != "tool":
            raise _refusal(index, "tool results must match each call exactly once")
        call_id = messages[index].get("tool_call_id")
        if not isinstance(call_id, str) or call_id not in pending:
            raise _refusal(index, "tool results must match each call exactly once")
        pending.discard(call_id)
        index += 1
    return index


def _walk(value: Any, path: str) -> None:
    if isinstance(value, str):
        if not value.isascii() and _has_surrogate(value):
            raise ContextBudgetError(f"lone surrogate in {path}")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ContextBudgetError(f"key {key!r} of {path} is not text")
            if _has_surrogate(key):
                raise ContextBudgetError(f"lone surrogate in a key of {path}")
            _walk(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]")


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
