"""The fitter's rules once more, slow and obvious, to compare the real one with.

Written from the rules alone: it measures the whole request again before each drop
and shares no code with the package. Source profile only.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

ROLES = ("system", "developer", "user", "assistant", "tool")


class RefusedError(Exception):
    """The request is malformed, or its required part does not fit."""


def refuse_unless(condition: object, why: str) -> None:
    if not condition:
        raise RefusedError(why)


def measure(messages: Any, tools: Any) -> int:
    try:
        text = json.dumps(
            {"messages": messages, "tools": tools},
            ensure_ascii=False,
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )
    except (TypeError, ValueError) as error:
        raise RefusedError("json") from error
    return len(text)


def split(messages: Any) -> list[list[int]]:
    """Return lists of indices: one list for each unit."""
    found: list[list[int]] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        refuse_unless(type(message) is dict, "object")
        role = message.get("role")
        refuse_unless(role in ROLES, "role")
        content = message.get("content")
        refuse_unless(
            type(content) is str or (role == "assistant" and content is None), "content"
        )
        calls = message.get("tool_calls")
        refuse_unless(role == "assistant" or calls in (None, []), "calls")
        if role == "tool":
            refuse_unless(message.get("tool_call_id") in waiting, "orphan or twice")
            waiting.remove(message["tool_call_id"])
            found[-1].append(index)
            continue
        refuse_unless(not waiting, "missing results")
        refuse_unless(calls is None or type(calls) is list, "calls")
        for call in calls or []:
            refuse_unless(type(call) is dict, "call")
            function = call.get("function")
            refuse_unless(call.get("type") == "function", "type")
            refuse_unless(type(function) is dict, "function")
            refuse_unless(type(function.get("name")) is str, "name")
            refuse_unless(type(function.get("arguments")) is str, "arguments")
            refuse_unless(type(call.get("id")) is str and call["id"], "id")
            refuse_unless(call["id"] not in waiting, "duplicate")
            waiting.append(call["id"])
        found.append([index])
    refuse_unless(not waiting, "missing results")
    return found


def fit(
    messages: Any, tools: Any, limit: int, notice: Callable[[int], Any]
) -> tuple[Any, tuple[int, ...]]:
    """Return the fitted messages and the six figures, or raise RefusedError.

    `notice` makes the notice for a number of messages: its wording is no rule.
    """
    before = measure(messages, tools)
    found = split(messages)
    roles = [messages[unit[0]]["role"] for unit in found]
    refuse_unless("user" in roles, "no task")
    current = max(place for place, role in enumerate(roles) if role == "user")
    refuse_unless(messages[found[current][0]]["content"].strip(), "blank task")

    pinned = {
        place for place, role in enumerate(roles) if role in ("system", "developer")
    }
    pinned.add(current)
    active = [place for place in range(current, len(found)) if place not in pinned]
    pinned.update(active[-1:])

    starts = [place for place in range(current) if roles[place] == "user"]
    edges = [0, *starts, current]
    groups = [
        [place for place in range(first, last) if place not in pinned]
        for first, last in pairwise(edges)
    ]
    groups += [[place] for place in active[:-1]]

    gone: list[int] = []

    def request() -> list[Any]:
        lost = {index for place in gone for index in found[place]}
        rest = [m for index, m in enumerate(messages) if index not in lost]
        return [notice(len(lost)), *rest] if lost else rest

    for group in groups:
        if measure(request(), tools) <= limit:
            break
        gone += group
    after = measure(request(), tools)
    refuse_unless(after <= limit, "too long")
    figures = (
        before,
        after,
        limit,
        sum(len(found[place]) for place in gone),
        sum(roles[place] == "user" for place in gone),
        sum(len(found[place]) > 1 for place in gone),
    )
    return copy.deepcopy(request()), figures
