"""Facts: what is known in a scope, what replaced it, and what is only supposed. Pure.

At most one fact and one hypothesis are current for a key of a subject in a scope. A
fact with another value ends the one before; nothing that was said is lost (K53).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ..context.measure import canonical
from ..context.render import known_line
from ..events import Known

__all__ = [
    "GLOBAL",
    "Change",
    "Fact",
    "Held",
    "Said",
    "confirm",
    "core_prefix",
    "drop",
    "erase",
    "fact_digest",
    "group_scope",
    "is_current",
    "known",
    "over_cap",
    "place",
    "scopes_of",
    "state",
    "task_scope",
    "value_text",
    "why_not_said",
]

GLOBAL = "global"
KINDS = ("group:", "task:")  # how the other scopes begin
SCOPE_LIMIT = 200  # characters
KEY_LIMIT = 100  # characters
SUBJECT_LIMIT = 200  # characters
VALUE_LIMIT = 1_000  # characters of JSON text
EVIDENCE_LIMIT = 500  # characters
LATEST = 253_402_300_800  # seconds since the epoch: the year 10000


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody wants kept; `value` is JSON text.

    `core` None leaves it as it is, where there is a fact. `evidence` is where it comes
    from, `until` the second since the epoch from which it does not hold any more.
    """

    key: str
    value: str
    scope: str = GLOBAL
    subject: str = ""
    core: bool | None = None
    evidence: str = ""
    until: float | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact or a hypothesis, from second `at` on, as its row has it.

    Once it is over, `ended` is when, `how` why, and `ended_by` who said so.
    """

    id: str
    scope: str
    subject: str
    key: str
    value: str
    core: bool
    status: Literal["fact", "hypothesis"]
    evidence: str
    at: float
    until: float | None = None
    ended: float | None = None
    how: Literal["", "superseded", "confirmed", "expired", "dropped", "erased"] = ""
    ended_by: str = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the store has where something is said: the fact, the hypothesis.

    `core` are the core facts that stand in a request beside a fact of its scope.
    """

    fact: Fact | None = None
    hypothesis: Fact | None = None
    core: tuple[Fact, ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What changes, and the answer; nothing where it is refused or known already."""

    said: str
    done: bool = True
    ended: tuple[Fact, ...] = ()
    stated: Fact | None = None


# ── scopes and places ────────────────────────────────────────────────────────────


def group_scope(group: str) -> str:
    """The scope of a group of tasks."""
    return f"group:{group}"


def task_scope(task: str) -> str:
    """The scope of one task."""
    return f"task:{task}"


def scopes_of(task: str, group: str) -> tuple[str, ...]:
    """The scopes that a task knows of: no other group's, no other task's."""
    mine = (group_scope(group),) if group else ()
    return (GLOBAL, *mine, task_scope(task))


def fact_digest(subject: str, key: str) -> str:
    """Name a key of a subject, so that no row's key shows either."""
    return hashlib.sha256(canonical([subject, key]).encode()).hexdigest()[:24]


def place(scope: str, subject: str, key: str, *, layer: str) -> str:
    """The key of the row of what is current; `layer` is core, more, or guess."""
    return f"{scope}/{layer}/{fact_digest(subject, key)}"


def core_prefix(scope: str) -> str:
    """How the keys of the rows of a scope's core facts begin."""
    return f"{scope}/core/"


# ── what may be said ─────────────────────────────────────────────────────────────


def value_text(value: Any) -> str:
    """The JSON text of a value. Raises ValueError or TypeError where it is none."""
    text = canonical(value)
    text.encode()
    return text


def why_not_said(said: Said) -> str:
    """Why a statement cannot be kept, naming the field; nothing where it can."""
    for name, most in (
        ("key", KEY_LIMIT),
        ("scope", SCOPE_LIMIT),
        ("subject", SUBJECT_LIMIT),
        ("evidence", EVIDENCE_LIMIT),
    ):
        text = getattr(said, name)
        if len(text) > most:
            return f"{name} has {len(text)} characters; give at most {most}"
        if not text.isprintable():
            return f"{name}={text!r} must be one line of printable text"
    if not said.key.strip():
        return f"key={said.key!r} is empty; say what the value is of"
    if len(said.value) > VALUE_LIMIT:
        return (
            f"value has {len(said.value)} characters of JSON; give at most "
            f"{VALUE_LIMIT}, and keep the raw data where it is"
        )
    try:
        value_text(msgspec.json.decode(said.value))
    except (ValueError, TypeError, RecursionError) as error:
        return f"value is no JSON that can be shown again: {error}"
    named = said.scope.startswith(KINDS) and said.scope not in KINDS
    if said.scope != GLOBAL and not named:
        return f"scope={said.scope!r}: give 'global', 'group:NAME' or 'task:ID'"
    if said.until is not None and not 0 <= said.until < LATEST:
        return f"until={said.until!r} must be a second since the epoch, or None"
    return ""


# ── what is known ────────────────────────────────────────────────────────────────


def is_current(fact: Fact | Known, now: float) -> bool:
    """Whether it still holds at second `now`."""
    ended = isinstance(fact, Fact) and fact.ended is not None
    return not ended and (fact.until is None or now < fact.until)


def known(fact: Fact) -> Known:
    """A fact as a task takes it."""
    return Known(
        id=fact.id,
        scope=fact.scope,
        subject=fact.subject,
        key=fact.key,
        value=fact.value,
        evidence=fact.evidence,
        until=fact.until,
    )


def over_cap(facts: Iterable[Fact], cap: int) -> str:
    """Say which core facts are too much together, biggest first, or nothing (A101).

    Measured are the characters of their lines in a request.
    """
    sizes = sorted(
        ((len(known_line(known(fact))) + 1, fact) for fact in facts),
        key=lambda one: (-one[0], one[1].id),
    )
    total = sum(size for size, _ in sizes)
    if total <= cap:
        return ""
    named = ", ".join(f"{fact.key} ({fact.scope}) {size}" for size, fact in sizes)
    return (
        f"core facts may have {cap} characters together, and these have {total}: "
        f"{named}; shorten or drop some, or keep them without core"
    )


def state(
    said: Said,
    held: Held,
    *,
    status: Literal["fact", "hypothesis"],
    fact_id: str,
    now: float,
    by: str,
    cap: int,
) -> Change:
    """Keep what was said; the same again changes nothing.

    A fact ends the current fact of another value, and the hypothesis it decides; a
    hypothesis ends the hypothesis before it, and never a fact. What has expired is
    ended as such.
    """
    fact, guess = held.fact, held.hypothesis
    was_core = fact is not None and fact.core and is_current(fact, now)
    core = was_core if said.core is None else said.core
    new = Fact(
        id=fact_id,
        scope=said.scope,
        subject=said.subject,
        key=said.key,
        value=said.value,
        core=core and status == "fact",
        status=status,
        evidence=said.evidence,
        at=now,
        until=said.until,
    )
    if status == "hypothesis":
        if _holds(fact, now) and fact is not None and fact.value == new.value:
            return Change(said=f"known already as fact {fact.id}")
        before = guess
    else:
        before = fact
    if before is not None and _same(before, new, now):
        settled = () if status == "hypothesis" else _decided(guess, new, now, by)
        return Change(said=f"known already as {before.id}", ended=settled)
    if new.core:
        others = [one for one in held.core if one.id != (fact.id if fact else "")]
        beside = [one for one in others if is_current(one, now)]
        if wrong := over_cap([*beside, new], cap):
            return Change(said=wrong, done=False)
    ended: tuple[Fact, ...] = ()
    if before is not None:
        ended = (_ended(before, "superseded", now, by),)
    if status == "fact":
        ended += _decided(guess, new, now, by)
    return Change(said=f"kept as {new.id}", ended=ended, stated=new)


def confirm(held: Held, *, fact_id: str, now: float, by: str, cap: int) -> Change:
    """Make a fact of the hypothesis: somebody vouches for it."""
    guess = held.hypothesis
    assert guess is not None
    if not is_current(guess, now):
        ended = (_ended(guess, "expired", now, by),)
        return Change(
            said=f"{guess.id} does not hold any more", done=False, ended=ended
        )
    evidence = f"confirmed by {by}"
    if guess.evidence:
        evidence = f"{evidence}; {guess.evidence}"[:EVIDENCE_LIMIT]
    said = Said(
        key=guess.key,
        value=guess.value,
        scope=guess.scope,
        subject=guess.subject,
        evidence=evidence,
        until=guess.until,
    )
    made = state(said, held, status="fact", fact_id=fact_id, now=now, by=by, cap=cap)
    if made.stated is None:
        return made
    return msgspec.structs.replace(
        made, said=f"{guess.id} is a fact now ({made.stated.id})"
    )


def drop(fact: Fact, *, now: float, by: str) -> Change:
    """End a fact or a hypothesis that does not hold; its history stays."""
    return Change(
        said=f"{fact.id} is dropped", ended=(_ended(fact, "dropped", now, by),)
    )


def erase(found: Iterable[Fact], *, now: float, by: str) -> Change:
    """End all of these, whose words go with their history."""
    ended = tuple(_ended(fact, "erased", now, by) for fact in found)
    return Change(said="it is erased", ended=ended)


def _holds(fact: Fact | None, now: float) -> bool:
    return fact is not None and is_current(fact, now)


def _same(before: Fact, new: Fact, now: float) -> bool:
    """Whether a statement says what is known; who says it this time is no news."""
    return is_current(before, now) and (before.value, before.core, before.until) == (
        new.value,
        new.core,
        new.until,
    )


def _decided(guess: Fact | None, new: Fact, now: float, by: str) -> tuple[Fact, ...]:
    """The hypothesis that a fact of the same key decides, one way or the other."""
    if guess is None:
        return ()
    same = guess.value == new.value
    return (_ended(guess, "confirmed" if same else "superseded", now, by),)


def _ended(
    fact: Fact,
    how: Literal["superseded", "confirmed", "expired", "dropped", "erased"],
    now: float,
    by: str,
) -> Fact:
    """A fact that is over; one that had expired was over before."""
    if fact.until is not None and fact.until <= now:
        return msgspec.structs.replace(fact, ended=fact.until, how="expired")
    return msgspec.structs.replace(fact, ended=now, how=how, ended_by=by)
