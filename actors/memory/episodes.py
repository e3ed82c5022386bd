"""What of the log is remembered as an episode, and how it reads. Pure.

An episode is one thing that happened to a task: a call of a tool with what it gave, an
answer of the model, a step that ended, a person's word, an answer that was refused. It
rests on one record of the log, and `opN` names the operation that it is about (A26).
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ..events import (
    AnswerRefused,
    ApprovalAsked,
    ApprovalTaken,
    CallModel,
    CallTool,
    DecisionMade,
    EffectRecorded,
    EffectRegistered,
    Event,
    StepEnded,
    TaskClosed,
)
from ..model import ModelReply

__all__ = ["MENTIONED", "TEXT", "Call", "Episode", "call_after", "episode_of", "plain"]

TEXT = 8_000  # characters of one episode that are kept and can be found
ARGUMENTS = 2_000  # of these, at most so many of the arguments
NESTED = 32  # levels of a JSON value that are read
SEARCHES = frozenset({"recall", "read_evidence"})  # they only repeat what is there

MENTIONED: tuple[type[Event], ...] = (
    DecisionMade,
    ApprovalAsked,
    ApprovalTaken,
    EffectRegistered,
    EffectRecorded,
    AnswerRefused,
    StepEnded,
    TaskClosed,
)
Kind = Literal["call", "said", "step", "person", "refused"]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an operation before it has an outcome.

    `aside` is a model call that was no work: a declaration after a crash, a plan.
    """

    step: str = ""
    kind: str = ""
    tool: str = ""
    arguments: str = ""
    why: str = ""
    aside: bool = False


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened; `op` is 0 where no operation stands behind it.

    `outcome` is an operation's (completed, failed, unknown), a step's status, what a
    person said (approved, rejected), or ``refused`` by acceptance.
    """

    op: int
    kind: Kind
    step: str
    tool: str
    outcome: str
    text: str


def call_after(call: Call, event: Event) -> tuple[int, Call] | None:
    """What an event adds to what is known of an operation: which one, and what then."""
    change = msgspec.structs.replace
    match event:
        case DecisionMade(action=CallTool(), why=why, step=step):
            return event.op, change(call, step=step, why=why)
        case DecisionMade(action=CallModel(purpose=purpose), step=step):
            aside = purpose in ("declare", "plan", "judge")
            return event.op, change(call, step=step, aside=aside)
        case ApprovalAsked(tool=tool, arguments=arguments):
            return event.op, change(call, tool=tool, arguments=arguments)
        case EffectRegistered():
            return event.op, change(
                call,
                step=event.step,
                kind=event.kind,
                tool="" if event.kind == "model" else event.name,
                arguments=event.arguments,
            )
    return None


def episode_of(event: Event, call: Call, whole: str | None) -> Episode | None:
    """The episode that an event makes, if it makes one.

    Args:
        event: the event.
        call: what is known of its operation.
        whole: the beginning of a big result, which the event only names.
    """
    match event:
        case EffectRecorded():
            if call.aside or call.tool in SEARCHES or event.by == "record":
                return None
            result = event.result if whole is None else whole
            if call.kind == "model":
                return _said(event, call, result)
            return _called(event, call, result)
        case StepEnded(step=step, status=status):
            text = plain(event.result) or event.reason
            return _episode(event.op, "step", step, "", status, text)
        case ApprovalTaken(approved=approved, by=by, why=why):
            outcome = "approved" if approved else "rejected"
            tool = event.tool or call.tool
            arguments = plain(event.arguments or call.arguments)[:ARGUMENTS]
            text = f"{by} {outcome} it\n{why}\n{arguments}"
            return _episode(event.op, "person", call.step, tool, outcome, text)
        case AnswerRefused(why=why, step=step):
            return _episode(event.op, "refused", step, "", "refused", why)
    return None


def _said(event: EffectRecorded, call: Call, result: str) -> Episode | None:
    text = event.error
    if event.status == "completed":
        try:
            text = msgspec.json.decode(result, type=ModelReply).content or ""
        except msgspec.MsgspecError:
            text = result
    if not text.strip():
        return None
    return _episode(event.op, "said", call.step, "", event.status, plain(text))


def _called(event: EffectRecorded, call: Call, result: str) -> Episode:
    parts = [plain(call.arguments)[:ARGUMENTS], call.why]
    parts += [event.error, plain(result)]
    if event.who:
        parts.append(f"said by {event.who}")
    text = "\n".join(part for part in parts if part.strip())
    return _episode(event.op, "call", call.step, call.tool, event.status, text)


def _episode(
    op: int, kind: Kind, step: str, tool: str, outcome: str, text: str
) -> Episode:
    return Episode(
        op=op, kind=kind, step=step, tool=tool, outcome=outcome, text=text[:TEXT]
    )


def plain(text: str) -> str:
    """Return JSON text as words: names, values and strings without their escapes.

    Any other text is returned as it is; of JSON that was cut only the common escapes
    are taken out.
    """
    begins = text.lstrip()[:1]
    if begins not in ("{", "[", '"'):
        return text
    try:
        return _flat(msgspec.json.decode(text), NESTED)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _ESCAPES.sub(_unescaped, text)


_ESCAPES = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def _unescaped(found: re.Match[str]) -> str:
    sign = chr(int(found[1], 16)) if found[1] else " "
    return " " if "\ud800" <= sign <= "\udfff" else sign


def _flat(value: Any, levels: int) -> str:
    match value:
        case str():
            return value
        case dict() if levels:
            pairs = (f"{name}: {_flat(v, levels - 1)}" for name, v in value.items())
            return ", ".join(pairs)
        case list() if levels:
            return ", ".join(_flat(one, levels - 1) for one in value)
    return msgspec.json.encode(value).decode()
