"""The ledger's state, pure: entries of the current step, and how they came to stand.

A closed entry leaves the state when its step ends or when 96 newer ones stand in it;
the record itself stays in the stream for good, and of a completed effect of a step that
runs a row is left. A step that stopped half-way, while others go on, has not ended: its
effects stay, so that none is repeated once it goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import msgspec

from ..context.measure import canonical
from ..events import (
    Amounts,
    Anchor,
    EffectProbed,
    EffectRecorded,
    EffectRegistered,
    Event,
    RestAsked,
    Undoes,
)

__all__ = [
    "KEPT",
    "LEAVES",
    "Earlier",
    "Entry",
    "LedgerState",
    "apply",
    "approval_id",
    "call_name",
    "caller_key",
    "earlier_of",
    "effect_key",
    "failed",
    "failures",
    "find_same",
    "in_order",
    "leaving",
]

CALLS_KEPT = 64  # failed calls of the task whose failures are counted over its steps
TIMES_KEPT = 16  # failures that are counted of one call
KEPT = 96  # operations of the running step; more than a policy is shown
LEAVES = 22  # effects in one row: SQLite keeps it within a page of its own tree
KEY_VERSION = 1  # of the canonical encoding below, for ever


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation's newest attempt."""

    op: int
    attempt: int
    step: str
    kind: Literal["model", "tool"]
    name: str
    effect: Literal["read", "idempotent", "once"]
    key: str
    arguments: str
    not_after: float
    call_id: str = ""
    parent: int = 0
    reused: int | None = None
    approval: str = ""
    edited: str = ""
    named: str = ""
    model: str = ""
    undoes: Undoes | None = None
    status: Literal["pending", "completed", "failed", "unknown"] = "pending"
    by: str = ""
    result: str = ""
    blob: str = ""
    error: str = ""
    usage: Amounts = msgspec.field(default_factory=dict)
    beside: dict[str, Amounts] = msgspec.field(default_factory=dict)
    source: Literal["reported", "estimated", "unknown"] = "reported"
    anchors: dict[str, Anchor] = msgspec.field(default_factory=dict)
    probes: int = 0
    cut_off: bool = False  # by a crash, not by its own deadline
    who: str = ""  # gave its result, where a person did
    retry_at: float = 0.0  # second before which its service asked to be left alone

    @property
    def request_id(self) -> str:
        """The idempotency key that was passed through to the outside (B38)."""
        return f"perdure-{self.key}"

    @property
    def open(self) -> bool:
        """Neither completed nor failed."""
        return self.status in ("pending", "unknown")


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """What became of another call of the same effect."""

    op: int
    arguments: str
    status: Literal["pending", "completed", "failed", "unknown"]
    result: str = ""
    blob: str = ""
    anchors: dict[str, Anchor] = msgspec.field(default_factory=dict)


def earlier_of(entry: Entry) -> Earlier:
    """An entry, as another call of the same effect looks at it."""
    return Earlier(
        op=entry.op,
        arguments=entry.arguments,
        status=entry.status,
        result=entry.result,
        blob=entry.blob,
        anchors=entry.anchors,
    )


class LedgerState(msgspec.Struct, frozen=True, kw_only=True):
    """Entries by operation, oldest first; failed operations of the task by call.

    `newest` is the newest operation that was begun. `left` are the steps whose effects
    are in the record alone; some of the running one are where it is `over`. `leaves`
    are those of them that went last, by key, each with its operation and tool.
    """

    version: int = 0
    newest: int = 0
    step: str = ""
    entries: dict[int, Entry] = msgspec.field(default_factory=dict)
    failed: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    left: tuple[str, ...] = ()
    over: bool = False
    leaves: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)


def effect_key(task: str, step: str, tool: str, arguments: str, occurrence: int) -> str:
    """Name an effect: task, step, tool, canonical arguments, occurrence (B37).

    `arguments` is canonical JSON text. Numbers compare as JSON writes them: 1 and 1.0
    are different arguments.
    """
    text = canonical([KEY_VERSION, task, step, tool, arguments, occurrence])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def caller_key(task: str, tool: str, name: str) -> str:
    """Name an effect as its caller does: task, tool, and the caller's own key."""
    text = canonical([KEY_VERSION, "key", task, tool, name])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def failures(state: LedgerState, step: str, tool: str, arguments: str, op: int) -> int:
    """How often this call failed in the step, in operations from `op` on (B82).

    Counted are those that ran, not what the door refused. An effect of which a person
    said that it did not happen may be made again.
    """
    return sum(
        _counts(entry)
        and entry.op >= op
        and (entry.step, entry.name, entry.arguments) == (step, tool, arguments)
        for entry in state.entries.values()
        if entry.status == "failed"
    )


def failed(state: LedgerState, tool: str, arguments: str, op: int) -> int:
    """How often this call failed in the task since it last went well (A107).

    Counted are operations from `op` on, in whatever step, as `failures` counts them.
    """
    if not state.failed:
        return 0
    return sum(one >= op for one in state.failed.get(call_name(tool, arguments), ()))


def _counts(entry: Entry) -> bool:
    return entry.status == "failed" and entry.by in ("run", "probe")


def call_name(tool: str, arguments: str) -> str:
    """Name a call by its tool and all its arguments, canonical JSON text.

    The loop detector's name of an action leaves out arguments that say nothing.
    """
    text = canonical([tool, arguments])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def approval_id(task: str, op: int, tool: str, arguments: str, earlier: int = 0) -> str:
    """Name the approval of one call: other arguments are another one (K45).

    So is one that is asked for anew, after `earlier` ones of the same operation.
    """
    again = [earlier] if earlier else []
    text = canonical([KEY_VERSION, "approval", task, op, tool, arguments, *again])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"a-{digest[:12]}"


def in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries as they were decided: a call that waited is registered behind others."""
    return tuple(sorted(entries, key=lambda one: one.op))


def find_same(state: LedgerState, key: str, op: int) -> Entry | None:
    """The newest other entry of the same effect, if the step holds one."""
    for entry in reversed(state.entries.values()):
        if entry.key == key and entry.op != op:
            return entry
    return None


def apply(state: LedgerState, event: Event) -> LedgerState:
    """Fold one event of the ledger's stream."""
    version = state.version + 1
    match event:
        case EffectRegistered():
            gone = _gone(state, event)
            entries = dict(state.entries)
            for one in gone:
                del entries[one.op]
            entries[event.op] = _begun(event)
            return LedgerState(
                version=version,
                newest=max(state.newest, event.op),
                step=event.step,
                entries=entries,
                failed=state.failed,
                left=_left(state, event, gone),
                over=_over(state, event, gone),
                leaves=_leaves(state, event, gone),
            )
        case EffectRecorded():
            begun = state.entries[event.op]
            ended = msgspec.structs.replace(
                begun,
                status=event.status,
                by=event.by,
                result=event.result,
                blob=event.blob,
                error=event.error,
                usage=event.usage,
                beside=event.beside,
                source=event.source,
                anchors=event.anchors,
                who=event.who,
                cut_off=begun.cut_off or event.by == "recovery",
            )
            return LedgerState(
                version=version,
                newest=state.newest,
                step=state.step,
                entries={**state.entries, event.op: ended},
                failed=_remembered(state.failed, ended),
                left=state.left,
                over=state.over,
                leaves=state.leaves,
            )
        case RestAsked(op=op, until=until):
            return _changed(state, version, op, retry_at=until)
        case EffectProbed():
            probes = state.entries[event.op].probes + 1
            return _changed(state, version, event.op, probes=probes)
    raise TypeError(f"{type(event).__name__} does not belong to a ledger")


def _begun(event: EffectRegistered) -> Entry:
    return Entry(
        op=event.op,
        attempt=event.attempt,
        step=event.step,
        kind=event.kind,
        name=event.name,
        effect=event.effect,
        key=event.key,
        arguments=event.arguments,
        not_after=event.not_after,
        call_id=event.call_id,
        parent=event.parent,
        reused=event.reused,
        approval=event.approval,
        edited=event.edited,
        named=event.named,
        model=event.model,
        undoes=event.undoes,
    )


def _changed(
    state: LedgerState, version: int, op: int, **fields: object
) -> LedgerState:
    entry = msgspec.structs.replace(state.entries[op], **fields)
    return msgspec.structs.replace(
        state, version=version, entries={**state.entries, op: entry}
    )


def _remembered(
    failed: dict[str, tuple[int, ...]], entry: Entry
) -> dict[str, tuple[int, ...]]:
    """Count a failure of a call; one that went well starts its count anew."""
    if entry.kind != "tool" or entry.undoes is not None:
        return failed
    if not failed and entry.status == "completed":
        return failed
    key = call_name(entry.name, entry.arguments)
    before = failed.get(key, ())
    times = tuple(op for op in before if op != entry.op)
    if _counts(entry):
        times = (*times, entry.op)[-TIMES_KEPT:]
    elif entry.status == "completed" and entry.by != "record":
        times = ()
    if times == before:
        return failed
    others = {name: ops for name, ops in failed.items() if name != key}
    if times:
        others = dict(list(others.items())[-(CALLS_KEPT - 1) :]) | {key: times}
    return others


def _gone(state: LedgerState, event: EffectRegistered) -> list[Entry]:
    """What leaves the state as an operation of this step is begun."""
    if event.step == state.step:
        return leaving(state, event)
    half = {*event.holds, event.step}
    return [
        one
        for one in state.entries.values()
        if _passed(one) and not (one.step in half and one.effect != "read")
    ]


def leaving(state: LedgerState, event: EffectRegistered) -> list[Entry]:
    """What there is no room for beside an operation of the running step, oldest first.

    In the order of their registration: a model call goes before the calls of its reply.
    """
    surplus = len(state.entries) - KEPT + 1
    if surplus <= 0 or event.step != state.step or event.op in state.entries:
        return []
    gone: list[Entry] = []
    for entry in state.entries.values():
        if _passed(entry):
            gone.append(entry)
            if len(gone) == surplus:
                break
    return gone


def _over(state: LedgerState, event: EffectRegistered, gone: list[Entry]) -> bool:
    """Whether effects of the running step have left the state."""
    if event.step != state.step:
        return False
    return state.over or any(one.effect != "read" for one in gone)


def _leaves(
    state: LedgerState, event: EffectRegistered, gone: list[Entry]
) -> dict[str, tuple[int, str]]:
    """What of the running step left last: those before them are rows.

    One that failed may be made again, and one that its caller named has a row of its
    own already.
    """
    if event.step != state.step:
        return {}
    kept = {} if len(state.leaves) >= LEAVES else state.leaves
    went = {
        one.key: (one.op, one.name)
        for one in gone
        if one.step == state.step
        and one.effect != "read"
        and one.status == "completed"
        and not one.named
        and one.reused is None
    }
    return {**kept, **went} if went else kept


def _left(
    state: LedgerState, event: EffectRegistered, gone: list[Entry]
) -> tuple[str, ...]:
    """The steps whose effects are not all in the state, or rows of the running one."""
    if not gone and not state.over:
        return state.left
    steps = [one.step for one in gone if one.effect != "read" and one.undoes is None]
    if state.over:
        steps.append(state.step)
    new = [one for one in dict.fromkeys(steps) if one != event.step]
    return tuple(dict.fromkeys([*state.left, *new])) if new else state.left


def _passed(entry: Entry) -> bool:
    """Whether nobody decides it any more; that a read is in doubt concerns nobody."""
    if entry.effect == "read":
        return entry.status != "pending"
    return not entry.open
