"""Fitting a history into one request: whole units go, oldest first, or it refuses.

It controls requests, not archives: what is dropped here is stored elsewhere, or lost.
"""

from __future__ import annotations

from typing import get_args

from ..errors import ContextBudgetError
from ..model import Message, ToolSchema
from .measure import CHARACTERS, Measure, copied
from .notice import measured, notice, noticed
from .report import LOW_WATER, BudgetReport, PreparedContext, Profile
from .units import Unit, refuse_strictly, refuse_unportable, units

__all__ = ["MAX_CHARACTERS", "check_limit", "fit_context"]

MAX_CHARACTERS = 16000  # code points of canonical JSON
PINNED_ROLES = frozenset({"system", "developer"})


def fit_context(
    messages: list[Message],
    tools: list[ToolSchema],
    *,
    max_characters: int = MAX_CHARACTERS,
    required_task: str | None = None,
    profile: Profile = "source",
    measure: Measure = CHARACTERS,
) -> PreparedContext:
    """Return copies of the messages that fit, and a report; the input stays as it is.

    Always kept: system and developer messages, the current task (the last user
    message), and the newest unit after it. Dropped whole, until the rest fits: what
    stands before the first user message, then older user turns, then earlier units
    of the current turn. A system notice then says how many messages are missing.

    Args:
        messages, tools: a chat history and tool schemas, plain JSON.
        max_characters: limit for the canonical JSON of both together.
        required_task: if given, the text that the current task must be.
        profile: ``source`` stops dropping as soon as the rest fits; ``strict``
            also refuses what breaks providers (`refuse_strictly`); ``runtime``
            does so too, drops down to `LOW_WATER`, and keeps one notice with the
            cumulative count, or none where only the notice would not fit.
        measure: what `max_characters` counts.

    Raises `ContextBudgetError` where something is malformed or what must be kept
    does not fit. Source of the rules: A42-A79.
    """
    check_limit(max_characters)
    if profile not in get_args(Profile):
        raise ContextBudgetError(
            f"profile must be source, strict or runtime, not {profile!r}"
        )
    if not isinstance(messages, list) or not messages:
        raise ContextBudgetError("messages must be a list, and not empty")
    if not isinstance(tools, list):
        raise ContextBudgetError("tools must be a list")
    schemas = measure.part(tools)
    sizes = [measure.part(message) for message in messages]
    if profile != "source":
        refuse_unportable(tools, "tools")
    found = _checked(messages, profile)
    current = _current_task(messages, found, required_task)

    before = measure.total(len(messages), sum(sizes), schemas)
    kept = dict.fromkeys(range(len(messages)))
    omitted = 0
    if profile == "runtime":
        for index, message in enumerate(messages):
            if earlier := noticed(message):
                omitted += earlier
                del kept[index]
    count = len(kept)
    content = sum(sizes[index] for index in kept)

    goal = max_characters
    dropped: list[Unit] = []
    for group in _candidates(found, current):
        if measured(measure, count, content, schemas, omitted) <= goal:
            break
        if profile == "runtime":
            goal = int(max_characters * LOW_WATER)
        for unit in group:
            for index in range(unit.first, unit.end):
                del kept[index]
                content -= sizes[index]
            count -= unit.end - unit.first
            omitted += unit.end - unit.first
        dropped += group

    after = measured(measure, count, content, schemas, omitted)
    noted = omitted > 0
    if after > max_characters and profile == "runtime":
        after, noted = measure.total(count, content, schemas), False
    if after > max_characters:
        raise ContextBudgetError(
            "required task, instructions, schemas or newest exchange exceed character "
            f"budget: {after} of {max_characters} with everything else left out "
            f"(schemas alone {schemas}); raise the limit or shorten them"
        )
    fitted = copied([messages[index] for index in kept])
    if noted:
        fitted.insert(0, notice(omitted))
    _checked(fitted, profile)
    return PreparedContext(
        messages=fitted,
        report=BudgetReport(
            before=before,
            after=after,
            limit=max_characters,
            dropped_messages=sum(unit.end - unit.first for unit in dropped),
            dropped_turns=sum(unit.role == "user" for unit in dropped),
            dropped_exchanges=sum(unit.exchange for unit in dropped),
            profile=profile,
            omitted=omitted,
            notice="placed" if noted else "left out" if omitted else "none",
        ),
    )


def check_limit(max_characters: int) -> None:
    """Raise `ContextBudgetError` for a limit that is not a positive int."""
    if type(max_characters) is not int or max_characters < 1:
        raise ContextBudgetError(
            f"max_characters must be an int of at least 1, not {max_characters!r}"
        )


def _checked(messages: list[Message], profile: Profile) -> list[Unit]:
    found = units(messages)
    if profile != "source":
        refuse_strictly(messages)
    return found


def _current_task(
    messages: list[Message], found: list[Unit], required_task: str | None
) -> int:
    """Return the position, among units, of the last user message."""
    users = [position for position, unit in enumerate(found) if unit.role == "user"]
    if not users:
        raise ContextBudgetError("a current user task is required")
    task = messages[found[users[-1]].first]["content"]
    if not task.strip():
        raise ContextBudgetError("a current user task is required, not a blank one")
    if required_task is not None and task != required_task:
        raise ContextBudgetError(
            "the last user message is not the required task; it must equal it exactly"
        )
    return users[-1]


def _candidates(found: list[Unit], current: int) -> list[list[Unit]]:
    """Return what may be dropped, in order; each group goes whole."""
    groups: list[list[Unit]] = [[]]
    for unit in found[:current]:
        if unit.role == "user":
            groups.append([])
        if unit.role not in PINNED_ROLES:
            groups[-1].append(unit)
    active = [unit for unit in found[current + 1 :] if unit.role not in PINNED_ROLES]
    groups += [[unit] for unit in active[:-1]]
    return [group for group in groups if group]
