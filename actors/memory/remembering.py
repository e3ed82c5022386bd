"""What a model wants kept: a fact where the record bears it out, else a hypothesis.

Saying a thing makes it no fact. The result that is named must hold the value, and must
come from outside: not from a model, and not from the call's own arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ...storage.records import Record
from ..events import EffectRecorded, EffectRegistered, Event
from ..evidence import named_op
from ..names import ledger
from ..protocol import FactChanged, Inquire
from .facts import Change, Said, task_scope, value_text
from .keeper import Wanted

if TYPE_CHECKING:
    from .actor import Memory

__all__ = ["Remembering", "why_not_proven"]

Decode: TypeAlias = Callable[[Record], Event]
PAGE = 1_000  # records
PLACE = re.compile(r"([0-9]{1,9})\.([0-9]{1,4})")  # a call's id as requests have it
OWN = ("anchor", "read_evidence", "recall", "remember")  # say again what was said


class Remembering:
    """Answers the tool `remember`; a model speaks of its own task only."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def asked(self, message: Inquire) -> None:
        """Have what it says kept, once by operation."""
        memory, values = self._memory, message.values
        value, evidence = str(values["value"]), str(values.get("evidence", ""))
        try:
            text = value_text(value)
        except (ValueError, TypeError) as error:
            memory.answer(message, "", error=f"the value cannot be kept: {error}")
            return
        task = message.task
        said = Said(key=str(values["key"]), value=text, scope=task_scope(task))
        look, _ = memory.keeper.stating(said, task)
        doubt = ""

        def read(reader: Reader) -> tuple[Any, str]:
            event_of = memory.house.event_of
            return look(reader), why_not_proven(reader, event_of, task, value, evidence)

        def decide(found: tuple[Any, str]) -> Change:
            nonlocal doubt
            beside, doubt = found
            from_ = f"said by the model: {doubt}" if doubt else f"operation {evidence}"
            kept = msgspec.structs.replace(said, evidence=from_)
            status: Any = "hypothesis" if doubt else "fact"
            return _told(memory.keeper.stating(kept, task, status)[1](beside), doubt)

        def answer(changed: FactChanged, _: int) -> None:
            text = changed.said if changed.done else ""
            memory.answer(message, text, error="" if changed.done else changed.said)

        memory.keeper.change(
            Wanted(
                request=f"{task}:{message.op}",
                by=f"task {task}",
                look=read,
                decide=decide,
                answer=answer,
            )
        )


def _told(change: Change, doubt: str) -> Change:
    if change.stated is None:
        return change
    how = f"a hypothesis, not a fact: {doubt}" if doubt else "a fact of this task"
    return msgspec.structs.replace(change, said=f"{change.said}, {how}")


def why_not_proven(
    reader: Reader, event_of: Decode, task: str, value: str, evidence: str
) -> str:
    """Why the record of an operation does not bear a value out, or nothing.

    `evidence` is an evidence id (`op12`), or the id of a call as requests show it.
    """
    if not evidence.strip():
        return "no evidence is given"
    try:
        found = _recorded(reader, event_of, task, evidence.strip())
        text = "" if found is None else _whole(reader, found[1])
    except (Undecodable, msgspec.MsgspecError) as error:
        return f"the record cannot be read: {' '.join(str(error).split())[:200]}"
    if found is None:
        return f"{evidence[:40]!r} is no operation of this task that has ended"
    call, recorded = found
    if recorded.status != "completed":
        return f"operation {call.op} did not complete"
    if call.kind == "model" or call.name in OWN or recorded.by == "subtask":
        return f"operation {call.op} only holds what a model said"
    if _contains(call.arguments, value):
        return f"the value stands in the arguments of operation {call.op} already"
    if not _contains(text, value):
        return f"the result of operation {call.op} does not hold the value"
    return ""


def _recorded(
    reader: Reader, event_of: Decode, task: str, evidence: str
) -> tuple[EffectRegistered, EffectRecorded] | None:
    """The newest attempt of an operation, and how it ended."""
    wanted = named_op(evidence, task) or 0
    if found := PLACE.fullmatch(evidence):
        parent, index = int(found[1]), int(found[2])
        calls = sorted(
            {one.op for one in _events(reader, event_of, task, parent=parent)}
        )
        wanted = calls[index] if index < len(calls) else 0
    call: EffectRegistered | None = None
    recorded: EffectRecorded | None = None
    for event in _events(reader, event_of, task, op=wanted) if wanted else ():
        if isinstance(event, EffectRegistered):
            call, recorded = event, None
        else:
            recorded = event
    return None if call is None or recorded is None else (call, recorded)


def _events(
    reader: Reader, event_of: Decode, task: str, *, op: int = 0, parent: int = 0
) -> Iterator[EffectRegistered | EffectRecorded]:
    """The records of one operation, or of the calls of one reply."""
    seen = 0
    while page := reader.records(seen, PAGE, ledger(task)):
        seen = page[-1].seq
        for record in page:
            if record.type not in ("EffectRegistered", "EffectRecorded"):
                continue
            event = event_of(record)
            assert isinstance(event, EffectRegistered | EffectRecorded)
            mine = isinstance(event, EffectRegistered) and event.parent == parent
            if (op and event.op == op) or (parent and mine):
                yield event


def _whole(reader: Reader, recorded: EffectRecorded) -> str:
    """The text of a result, with the strings in it as they are without JSON."""
    body = reader.blob(recorded.blob) if recorded.blob else None
    text = recorded.result if body is None else body.decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return "\n".join([text, *_strings(value)])


def _strings(value: Any) -> list[str]:
    level, found = [value], []
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += [*one.keys(), *one.values()]
            elif isinstance(one, list):
                below += one
            elif isinstance(one, str):
                found.append(one)
        level = below
    return found


def _contains(text: str, value: str) -> bool:
    """Whether a value stands in a text, whole, however its blanks are set.

    5 does not stand in 15, nor Post in PostgreSQL; scripts without spaces have no such
    edges.
    """
    wanted = " ".join(value.split())
    if not wanted:
        return False
    before = r"(?<![A-Za-z0-9_])" if re.match(r"[A-Za-z0-9_]", wanted) else ""
    after = r"(?![A-Za-z0-9_])" if re.search(r"[A-Za-z0-9_]$", wanted) else ""
    pattern = before + re.escape(wanted) + after
    return re.search(pattern, " ".join(text.split())) is not None
