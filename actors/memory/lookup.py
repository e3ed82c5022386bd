"""Facts looked up in the store: by key, by id, by scope, and by words. Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from ...storage.reader import Reader
from ..names import FACTS, FACTS_PAST, TASK_ROWS
from ..task.rows import ERASED, TaskRow
from .facts import (
    GLOBAL,
    Fact,
    Held,
    Said,
    core_prefix,
    fact_digest,
    is_current,
    place,
    scopes_of,
)

__all__ = ["current", "fact_of", "facts_for", "group_of", "held", "held_of", "history"]

WORD = re.compile(r"[a-z0-9_]+|[^\W\d_a-z]+", re.IGNORECASE)
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def fact_of(value: bytes | None) -> Fact | None:
    """The fact that a row holds, where there is one."""
    return None if value is None else msgspec.json.decode(value, type=Fact)


def current(reader: Reader, prefix: str = "") -> list[Fact]:
    """The facts and hypotheses of rows whose keys begin so, in the order of time."""
    rows = reader.rows(FACTS, prefix)
    found = [msgspec.json.decode(row.value or b"", type=Fact) for row in rows]
    return sorted(found, key=_number)


def held(reader: Reader, said: Said) -> Held | None:
    """What stands where something is said; None where its scope's task is unknown."""
    scopes = _beside(reader, said.scope)
    if scopes is None:
        return None
    facts = [
        fact_of(
            reader.row(FACTS, place(said.scope, said.subject, said.key, layer=layer))
        )
        for layer in ("core", "more", "guess")
    ]
    core: list[Fact] = []
    for scope in scopes:
        found = current(reader, core_prefix(scope))
        core += (one for one in found if one.scope == scope)
    return Held(fact=facts[0] or facts[1], hypothesis=facts[2], core=tuple(core))


def held_of(reader: Reader, fact_id: str) -> tuple[Fact, Held] | None:
    """A current fact or hypothesis by its id, with what stands beside it.

    Goes through all that is current.
    """
    found = next((one for one in current(reader) if one.id == fact_id), None)
    if found is None:
        return None
    said = Said(
        key=found.key, value=found.value, scope=found.scope, subject=found.subject
    )
    beside = held(reader, said)
    return None if beside is None else (found, beside)


def history(reader: Reader, key: str, scope: str = "", subject: str = "") -> list[Fact]:
    """All that was ever said of a key, oldest first; of any scope where none is given.

    Without a scope it goes through all there is.
    """
    found: list[Fact] = []
    for space in (FACTS, FACTS_PAST):
        prefixes = [scope]
        if scope and space == FACTS_PAST:
            prefixes = [f"{scope}/{fact_digest(subject, key)}/"]
        for prefix in prefixes:
            rows = reader.rows(space, prefix)
            found += [msgspec.json.decode(row.value or b"", type=Fact) for row in rows]
    return sorted(
        (
            one
            for one in found
            if (one.key, one.subject) == (key, subject)
            and one.scope == (scope or one.scope)
        ),
        key=_number,
    )


def group_of(reader: Reader, task: str) -> str | None:
    """The group of a task; None where there is no such task, or none any more."""
    value = reader.row(TASK_ROWS, task)
    row = None if value is None else msgspec.json.decode(value, type=TaskRow)
    return None if row is None or row.status == ERASED else row.group


def facts_for(reader: Reader, task: str, query: str, now: float) -> list[Fact]:
    """The current facts and hypotheses that fit a query, best first (A29).

    Only of the scopes that the task knows of: all tasks, its group, itself. They fit by
    the words of the query, or by pairs of characters where a script has no spaces.
    """
    wanted = set(_words(query))
    group = group_of(reader, task)
    if not wanted or group is None:
        return []
    scored: list[tuple[int, int, Fact]] = []
    for scope in scopes_of(task, group):
        for fact in current(reader, f"{scope}/"):
            if fact.scope != scope or not is_current(fact, now):
                continue
            text = f"{fact.key} {fact.subject} {fact.value}".casefold()
            if score := sum(word in text for word in wanted):
                scored.append((-score, -_number(fact), fact))
    return [fact for _, _, fact in sorted(scored, key=lambda one: one[:2])]


def _beside(reader: Reader, scope: str) -> Iterable[str] | None:
    """The scopes whose core facts a request shows beside those of this one."""
    if not scope.startswith("task:"):
        return dict.fromkeys((GLOBAL, scope))
    task = scope.removeprefix("task:")
    group = group_of(reader, task)
    return None if group is None else scopes_of(task, group)


def _number(fact: Fact) -> int:
    return int(fact.id.removeprefix("f"))


def _words(text: str) -> Iterator[str]:
    for word in WORD.findall(text.casefold()):
        if UNSPACED.search(word) and len(word) > 1:
            yield from (word[n : n + 2] for n in range(len(word) - 1))
        else:
            yield word
