"""Views of a store as plain lines: aligned columns, no colours, nothing that acts.

Control characters in what a goal, a tool or a model says are shown as escapes: text
from a store must not drive a terminal.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from .actors.memory.searching import Hit
from .result import Result
from .views import RecoveryLine, TaskLine, TaskSheet
from .views_effects import EffectLine
from .views_facts import FactLine
from .views_judged import judged_text
from .views_spend import Estimate, Spend, SpendLine

__all__ = [
    "effects_text",
    "facts_text",
    "hit_lines",
    "log_line",
    "pairs",
    "result_text",
    "sheet_text",
    "spend_text",
    "table",
    "tame",
    "tasks_text",
]

GOAL = 60  # characters of a goal in a list
REASON = 40
ARGUMENTS = 60
RESULT = 100
FIELD = 200  # of one field in a line of `perdure log`


def tasks_text(tasks: Sequence[TaskLine]) -> Iterator[str]:
    """The list of tasks."""
    if not tasks:
        yield "no tasks"
        return
    yield from table(
        ("TASK", "AGENT", "STATUS", "STEPS", "REASON", "ENDS WITH", "GOAL"),
        (
            (
                one.task,
                one.agent,
                one.status,
                f"{one.steps_done}/{one.steps_total}",
                short(one.reason, REASON),
                short(one.ends_with, REASON),
                short(one.goal, GOAL),
            )
            for one in tasks
        ),
    )


def facts_text(facts: Sequence[FactLine]) -> Iterator[str]:
    """Facts and hypotheses, and how those that are over ended."""
    if not facts:
        yield "no facts"
        return
    yield from table(
        ("FACT", "SCOPE", "SUBJECT", "KEY", "VALUE", "STATUS", "EVIDENCE"),
        (
            (
                one.id,
                short(one.scope, REASON),
                short(one.subject, REASON),
                short(one.key, REASON),
                short(value_text(one.value), GOAL),
                one.how or ("core fact" if one.core else one.status),
                short(one.evidence, GOAL),
            )
            for one in facts
        ),
    )


def sheet_text(sheet: TaskSheet) -> Iterator[str]:
    """All about one task."""
    from .views_plans import plans_text
    from .views_rules import rules_text
    from .views_waiting import waiting_text

    yield from pairs(
        ("task", sheet.task),
        ("agent", sheet.agent),
        ("as", rules_text(sheet.rules)),
        ("sub-task of", sheet.parent),
        ("forked from", sheet.forked),
        ("sub-tasks", "\n".join(sheet.subtasks)),
        ("submitted", time_text(sheet.at)),
        ("status", sheet.status),
        ("reason", sheet.reason),
        ("detail", "" if sheet.detail == sheet.reason else sheet.detail),
        ("stopped by", sheet.condition),
        ("ends with", sheet.ends_with),
        ("it said", sheet.said),
        ("taken back", _undos(sheet)),
        ("key", sheet.key or ""),
        ("group", sheet.group),
        ("priority", str(sheet.priority or "")),
        ("deadline", "" if sheet.deadline is None else time_text(sheet.deadline)),
        ("scratch", _scratch(sheet)),
        ("goal", sheet.goal),
        ("constraints", "\n".join(sheet.constraints)),
        ("inputs", value_text(sheet.inputs) if sheet.inputs else ""),
        ("output", "" if sheet.output is None else value_text(sheet.output)),
    )
    yield ""
    yield from table(
        ("STEP", "STATUS", "ATTEMPT", "ITERATIONS", "RESULT"),
        (
            (
                one.step,
                one.status,
                str(one.attempt),
                f"{one.iterations}/{one.max_iterations or '-'}",
                short(
                    one.reason if one.result is None else value_text(one.result), RESULT
                ),
            )
            for one in sheet.steps
        ),
    )
    yield from plans_text(sheet.plans)
    yield from judged_text(sheet.judged)
    yield ""
    yield from _books(sheet)
    yield from waiting_text(sheet)
    yield ""
    yield f"recoveries: {len(sheet.recoveries)}"
    yield from map(_recovery, sheet.recoveries)


def _scratch(sheet: TaskSheet) -> str:
    at = sheet.trimmed
    return "" if at is None else f"let go at {time_text(at)}, after its retention"


def effects_text(effects: Sequence[EffectLine]) -> Iterator[str]:
    """The ledger: each attempt with the statuses it went through."""
    if not effects:
        yield "no effects"
        return
    yield from table(
        (
            "EFFECT",
            "ATTEMPT",
            "STEP",
            "TOOL",
            "CLASS",
            "SINCE",
            "HISTORY",
            "REQUEST ID",
            "ARGUMENTS",
        ),
        (
            (
                one.id,
                str(one.attempt),
                one.step,
                short(one.tool, REASON),
                one.effect,
                time_text(one.since),
                _history(one),
                one.request_id,
                "(let go)" if one.trimmed else short(one.arguments, ARGUMENTS),
            )
            for one in effects
        ),
    )


def log_line(event: Mapping[str, Any]) -> str:
    """One event of a task's log: seq, time, name, and the other fields."""
    fields = " ".join(
        f"{name}={short(value_text(value), FIELD)}"
        for name, value in event.items()
        if name not in ("event", "seq", "at", "task")
    )
    return (
        f"{event['seq']:>6}  {time_text(event['at'])}  {event['event']:<24}  {fields}"
    )


def spend_text(spend: Spend) -> Iterator[str]:
    """Who used how much, by book; the sums last."""
    if not spend.total:
        yield "nothing was spent"
        return
    yield from table(
        (
            spend.by.upper(),
            "BOOK",
            "ATTEMPTS",
            "RETRIES",
            "MODEL CALLS",
            "TOOL CALLS",
            "INPUT TOKENS",
            "OUTPUT TOKENS",
            "COST",
            "SECONDS",
        ),
        map(_spend_row, (*spend.lines, *spend.total)),
        right=True,
    )
    if spend.estimates:
        yield ""
        yield from table(
            ("USUALLY", "SAMPLES", "SECONDS", "INPUT"),
            map(_estimate_row, spend.estimates),
            right=True,
        )


def _estimate_row(one: Estimate) -> tuple[str, ...]:
    return (
        short(one.name, REASON),
        str(one.samples),
        "?" if one.seconds is None else f"{one.seconds:g}",
        "" if one.input is None else f"x {one.input:g}",
    )


def _spend_row(line: SpendLine) -> tuple[str, ...]:
    flat = _flat(line.used)
    cost = flat.get("cost", "")
    if line.unpriced:
        cost = f"{cost} + ?" if cost else "?"
    amounts = ("model_calls", "tool_calls", "input_tokens", "output_tokens")
    return (
        short(line.name, REASON),
        line.book,
        str(line.attempts),
        str(line.retries),
        *(flat.get(name, "0") for name in amounts),
        cost,
        flat.get("seconds", "0"),
    )


def result_text(result: Result) -> Iterator[str]:
    """What a task came to, as `perdure run` prints it."""
    done = sum(status == "completed" for status in result.steps.values())
    yield from pairs(
        ("task", result.task),
        ("status", result.status),
        ("reason", result.reason),
        ("detail", "" if result.detail == result.reason else result.detail),
        ("ends with", result.ends_with),
        ("steps", f"{done}/{len(result.steps)}"),
        ("spent", _amounts(result.spent)),
        ("output", "" if result.output is None else value_text(result.output)),
    )


def _undos(sheet: TaskSheet) -> str:
    if not (sheet.undone or sheet.undoable):
        return ""
    return f"{sheet.undone} of its effects; {sheet.undoable} can be"


def _history(effect: EffectLine) -> str:
    changes = [
        change.status
        if change.status == "pending"
        else f"{change.status} ({change.by})"
        for change in effect.history
    ]
    if effect.probes and effect.status == "unknown":
        changes.append(f"probed: {short(effect.probes[-1].answer, REASON)}")
    if effect.undoes:
        changes[0] = f"{changes[0]}, to undo {effect.undoes}"
    return " -> ".join(changes)


def _recovery(one: RecoveryLine) -> str:
    parts = [f"  {time_text(one.at)}", short(one.cause, RESULT)]
    if one.actor:
        parts.append(f"of {one.actor}")
    if one.number is not None:
        parts.append(f"snapshot {one.snapshot} + {one.replayed} events")
    if one.decided:
        decided = ", ".join(f"{op} {how}" for op, how in one.decided.items())
        parts.append(f"decided: {decided}")
    if one.refused:
        parts.append(f"{one.refused} declarations refused")
    if one.declared_by:
        parts.append(f"declared by {one.declared_by}")
    return "; ".join(parts)


def hit_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """What a search of the record found, two lines each."""
    if not hits:
        yield "nothing found"
    for hit in hits:
        about = hit.evidence and f"{hit.task}:{hit.evidence[2:]}"
        step = f"step {hit.step}" if hit.step else ""
        head = (about or hit.task, hit.tool or hit.kind, hit.outcome, step)
        yield "  ".join((*map(tame, filter(None, head)), time_text(hit.at)))
        yield f"    {tame(hit.snippet)}"


def _books(sheet: TaskSheet) -> Iterator[str]:
    books = [
        _flat(book) for book in (sheet.spent, sheet.spent_unknown, sheet.spent_recovery)
    ]
    limits = {
        name: (str(b["limit"]), str(b["left"])) for name, b in sheet.budget.items()
    }
    rows = dict.fromkeys([*(name for book in books for name in book), *limits])
    yield from table(
        ("AMOUNT", "SPENT", "UNKNOWN", "RECOVERY", "LIMIT", "LEFT"),
        (
            (
                name,
                *(book.get(name, "0") for book in books),
                *limits.get(name, ("", "")),
            )
            for name in rows
        ),
        right=True,
    )


def _flat(book: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in book.items():
        if name == "tool_calls":
            flat["tool_calls"] = str(sum(value.values()))
            flat |= {f"tool:{tool}": str(calls) for tool, calls in value.items()}
        else:
            flat[name] = str(value)
    return flat


def _amounts(book: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in _flat(book).items())


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool = False
) -> Iterator[str]:
    """Columns as wide as their widest cell; with `right` all but the first end even."""
    lines = [tuple(head), *map(tuple, rows)]
    wide = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            " " * (size - _width(cell)) + cell
            if right and place
            else cell + " " * (size - _width(cell))
            for place, (cell, size) in enumerate(zip(line, wide, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def pairs(*given: tuple[str, str]) -> Iterator[str]:
    """Names and values in two columns; empty values are left out, lines are kept."""
    wide = max(len(name) for name, value in given if value)
    for name, value in given:
        if value:
            first, *more = tame(value).split("\n")
            yield f"{name:<{wide}}  {first}"
            yield from (f"{'':<{wide}}  {line}" for line in more)


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(
        2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
        if not unicodedata.combining(one)
    )


def short(text: str, limit: int) -> str:
    """A text on one line, cut to `limit` characters."""
    line = tame(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def tame(text: str) -> str:
    """The text with control characters as escapes; newlines stay."""
    return "".join(
        ascii(one)[1:-1]
        if one != "\n" and unicodedata.category(one) in ("Cc", "Cs")
        else one
        for one in text
    )


def value_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def time_text(at: float) -> str:
    """A second since the epoch, in UTC."""
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
