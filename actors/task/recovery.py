"""Recovery's pure parts: what is confirmed, what comes next, and the declaration."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from typing import Any

import msgspec

from ..anchors import MODEL
from ..context.blocks import Block
from ..context.facts import Finding, finding_of_result, finding_of_words
from ..context.measure import canonical
from ..context.render import FactView, OperationView, StepView, TaskView
from ..context.summary import render_summary
from ..events import CallModel, CallTool, Purpose
from ..evidence import evidence_id, source_of
from ..ledger.entry import Entry
from ..model import ModelReply
from ..plan.asking import asked_for, plan_data
from ..plan.standing import needs_shown, stuck_step
from ..protocol import Replied
from ..rules import said
from . import forked
from .failures import failed_before
from .state import TaskState
from .values import is_portable, json_part

__all__ = [
    "SAID_LIMIT",
    "Declaration",
    "check_declaration",
    "declaration_of",
    "exchange",
    "exchanges",
    "for_person",
    "is_aside",
    "left_out",
    "operations",
    "told",
    "view_of",
]

SAID_LIMIT = 2_000  # characters of a declaration that are kept
FACT_LIMIT = 4_000  # characters of one result in a request
FACTS_LIMIT = 8_000  # characters of all operations together; the oldest go first
FACT_FRAME = 120  # characters around one operation
ARGUMENTS_LIMIT = 1_000  # characters of one call's arguments in a request
DECLARATION_FORM = (
    "The runtime restarted. Before anything else, state where the task stands, as one "
    'JSON object and nothing more: {"done": [ids of completed steps], "next": "id of '
    'the step to go on with, or null", "uncertain": ["operations whose outcome is not '
    'known"]}. Name only what the record confirms.'
)

CLOSING_FORM = (
    "The budget has no room for one more step: after this answer the task pauses. No "
    "tool can be called now. Say in a few sentences where the task stands, what was to "
    "come next, and what whoever goes on has to know. It is given back to you then."
)


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says after a crash: done, next, uncertain (B35, B43)."""

    done: tuple[str, ...]
    next: str | None
    uncertain: tuple[str, ...] = ()


def declaration_of(state: TaskState) -> Declaration:
    """The declaration that the record itself would make."""
    return Declaration(
        done=tuple(step.id for step in state.steps if step.status == "completed"),
        next=_next_step(state),
        uncertain=tuple(f"op{op.op}#{op.attempt}" for op in _unsure(state)),
    )


def for_person(state: TaskState) -> str:
    """The record's declaration as a person reads it, who is to pass it (B80)."""
    record = declaration_of(state)
    unsure = [f"op{op.op}#{op.attempt} ({_called(op.action)})" for op in _unsure(state)]
    text = (
        f"done: {', '.join(record.done) or 'nothing'}; next: {record.next or 'the end'}"
        f"; uncertain: {', '.join(unsure) or 'nothing'}"
    )
    return text[:SAID_LIMIT]


def _called(action: CallModel | CallTool) -> str:
    return action.tool if isinstance(action, CallTool) else "model"


def check_declaration(state: TaskState, text: str) -> str:
    """Say what is wrong with a declaration, or nothing where the rules pass it (B80).

    It may not claim a step that the record does not hold as complete, leave out one
    that it does, go on elsewhere than the record, or be sure of what is not.
    """
    try:
        said = msgspec.json.decode(json_part(text), type=Declaration)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return f"it is not of the form asked for: {error}"
    record = declaration_of(state)
    claimed = set(said.done) - set(record.done)
    forgotten = set(record.done) - set(said.done)
    if claimed:
        return f"not complete by the record: {', '.join(sorted(claimed))}"
    if forgotten:
        return f"complete by the record, but left out: {', '.join(sorted(forgotten))}"
    if said.next != record.next:
        return f"the next step is {record.next!r}, not {said.next!r}"
    # By operation: an attempt may have ended, and the next begun, while it was said.
    named = {one.partition("#")[0] for one in said.uncertain}
    missing = [one for one in record.uncertain if one.partition("#")[0] not in named]
    if missing:
        return f"not certain by the record: {', '.join(sorted(missing))}"
    return ""


def view_of(
    state: TaskState, done: Sequence[OperationView], *, purpose: Purpose = "work"
) -> TaskView:
    """What a model is told of the task: rendered from state, always whole (A37).

    `done` are the operations of the running step that scratch does not show; `purpose`
    is what the model is asked for.
    """
    task = state.task
    standing = state.standings()
    step = state.step
    facts = tuple(
        FactView(
            name=one.id,
            value=_bounded_json(one.result),
            evidence=f"op{one.evidence}",
            step=one.id,
        )
        for one in state.steps
        if one.status == "completed"
    )
    anchors = [
        FactView(
            name=name,
            value=canonical(one.value),
            evidence=f"op{one.evidence}",
            by=one.by,
        )
        for name, one in state.anchors.items()
    ]
    recovery, summary = state.recovery, state.summary
    planned = purpose == "plan"
    return TaskView(
        goal=task.goal,
        constraints=said(task.constraints, task.rules),
        inputs=task.inputs,
        knowledge=state.knowledge,
        steps=tuple(
            StepView(
                id=p.id,
                goal="" if p.goal == task.goal else p.goal,
                done=p.done,
                status=standing[p.id].status,
                needs=needs,
            )
            for p, needs in zip(state.plan, needs_shown(state.plan), strict=True)
        ),
        current=step.id if step else None,
        facts=(*facts, *(one for one in anchors if one.by != MODEL)),
        claims=tuple(one for one in anchors if one.by == MODEL),
        operations=tuple(done),
        findings=state.findings,
        steering=tuple(one for _, one in sorted(state.steering.items())),
        failures=failed_before(state.failures, state.notes),
        notes=(*forked.told(state), *state.notes),
        adrift=state.adrift,
        uncertain=tuple(f"op{op.op}#{op.attempt}" for op in _unsure(state))
        if recovery
        else (),
        next=_next_asked(state, purpose),
        plan=plan_data(state.plan, state.shown_statuses()) if planned else None,
        summary=render_summary(summary.text, summary.since, summary.until)
        if summary.text
        else "",
    )


def _next_asked(state: TaskState, purpose: Purpose) -> str:
    """What the model is to do next, where that is not the step's work."""
    if purpose == "closing":
        return CLOSING_FORM
    if purpose == "plan":
        planning = state.planning
        return asked_for(
            planning.asked,
            max_steps=planning.max_steps,
            checks=planning.checks,
            why=planning.why,
        )
    return _declared_next(state)


def _declared_next(state: TaskState) -> str:
    """What a task that recovers is to do next: declare where it stands."""
    recovery = state.recovery
    if recovery is None:
        return ""
    before = f" Refused before: {recovery.why}" if recovery.why else ""
    return DECLARATION_FORM + before


def operations(
    entries: Sequence[Entry], until: int, limit: int
) -> tuple[OperationView, ...]:
    """Finished tool calls of the step, of exchanges up to model call `until`.

    Each result is bounded, and so are all together, by half of a request's `limit` as
    well; the newest are kept whole.
    """
    found: list[OperationView] = []
    room = min(FACTS_LIMIT, limit // 2)  # a request of tokens has more characters
    for entry in reversed(entries):
        if entry.kind != "tool" or entry.status == "pending" or entry.parent > until:
            continue
        text = entry.result if entry.status == "completed" else entry.error
        if room <= 0:
            break
        kept = min(FACT_LIMIT, room)
        if len(text) > kept:
            text = f"{text[:kept]} (cut: {len(text)} characters)"
        room -= len(text) + len(entry.arguments) + FACT_FRAME
        found.append(
            OperationView(
                tool=entry.name,
                arguments=_bounded_arguments(entry.arguments),
                outcome=entry.status,
                result=text,
                evidence=f"op{entry.op}",
            )
        )
    return tuple(reversed(found))


def left_out(
    entries: Sequence[Entry], until: int, shown: Sequence[OperationView]
) -> Iterator[Finding]:
    """In short, what of these exchanges the facts that are `shown` do not say.

    What the model said beside its calls is among it: no result says that again.
    """
    named = {one.evidence for one in shown}
    for entry in entries:
        evidence = evidence_id(entry.op)
        if entry.status == "pending" or max(entry.op, entry.parent) > until:
            continue
        if entry.kind == "tool" and evidence not in named:
            yield from finding_of_result(
                evidence, entry.name, entry.arguments, told(entry)
            )
        elif entry.kind == "model" and entry.status == "completed":
            reply = msgspec.json.decode(entry.result, type=ModelReply)
            if reply.tool_calls:
                yield from finding_of_words(evidence, reply.content)


def exchange(
    op: int,
    reply: ModelReply,
    results: Sequence[tuple[str, str]],
    ops: Sequence[int] = (),
) -> Block:
    """The scratch block of a model call: its message and all its tool results.

    `results` are call ids with the texts the model is to see, in order, `ops` the
    operations that they are of.
    """
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call, (call_id, _) in zip(reply.tool_calls, results, strict=True)
        ]
    answers = tuple(
        {"role": "tool", "tool_call_id": call_id, "content": text}
        for call_id, text in results
    )
    return Block(
        id=op,
        layer="scratch",
        origin="model",
        evidence=f"op{op}",
        messages=(message, *answers),
        sources=tuple(
            source_of(call.name, call.arguments, number)
            for call, number in zip(reply.tool_calls, ops, strict=False)
        ),
    )


def is_aside(entry: Entry) -> bool:
    """Whether a model call was not the step's work: those are in no scratch."""
    return entry.kind == "model" and entry.name != "model"


def exchanges(entries: Sequence[Entry], ids: Container[int]) -> tuple[Block, ...]:
    """The scratch blocks of those model calls, from the record alone."""
    blocks: list[Block] = []
    for entry in entries:
        if entry.kind != "model" or entry.status != "completed":
            continue
        if entry.op not in ids or is_aside(entry):
            continue
        reply = msgspec.json.decode(entry.result, type=ModelReply)
        results = [one for one in entries if one.parent == entry.op]
        texts = [(f"{entry.op}.{n}", told(one)) for n, one in enumerate(results)]
        calls = reply.tool_calls[: len(texts)]
        reply = msgspec.structs.replace(reply, tool_calls=calls)
        if texts or (reply.content or "").strip():
            ops = [one.op for one in results]
            blocks.append(exchange(entry.op, reply, texts, ops))
    return tuple(blocks)


def told(outcome: Replied | Entry) -> str:
    """What a model is told of a tool's outcome."""
    text = _told(outcome)
    return f"({outcome.edited})\n{text}" if outcome.edited else text


def _told(outcome: Replied | Entry) -> str:
    match outcome.status:
        case "completed":
            if outcome.by == "record":
                return f"(from the record: this call was made before)\n{outcome.result}"
            if outcome.by == "person":
                return f"(a person says that this happened)\n{outcome.result}"
            if outcome.by == "answer":
                return f"(answered by {outcome.who})\n{outcome.result}"
            return outcome.result
        case "failed":
            return f"error: {outcome.error}"
    return f"error: {outcome.error} (the outcome is not known: it may have run)"


def _next_step(state: TaskState) -> str | None:
    if state.step is not None:
        return state.step.id
    standing = state.standings()
    ready = (name for name, one in standing.items() if one.ready)
    return next(ready, None) or stuck_step(state.plan, state.statuses()) or None


def _unsure(state: TaskState) -> list[Any]:
    recovery = state.recovery
    declares = recovery.declares if recovery is not None else 0
    return [op for op in state.open_ops() if op.op != declares]


def _bounded_json(text: str) -> str:
    if not text:
        return "null"
    if len(text) <= FACT_LIMIT:
        return text
    return json.dumps(f"{text[:FACT_LIMIT]} (cut: {len(text)} characters)")


def _bounded_arguments(text: str) -> str:
    if len(text) > ARGUMENTS_LIMIT:
        return json.dumps({"cut": text[:ARGUMENTS_LIMIT]})
    return text if is_portable(text) else "{}"
