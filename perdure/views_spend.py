"""What a store's tasks used and cost, by the books of their accounts; reads only.

Every settlement of an account is one attempt; what its attempt was (tool, model, step)
and who says what it used stands in the ledger. So the lines of a task add up to its
books, whatever they are grouped by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from .actors import events, names
from .actors.budget.account import add, shown
from .actors.budget.estimates import Samples, ratio, usual
from .actors.budget.pool import PoolState, apply_pool
from .actors.events import Amounts
from .actors.task.rows import ERASED, TaskRow
from .folds import fold, records_of, whole
from .storage.reader import Reader

__all__ = ["By", "Charge", "Estimate", "Spend", "SpendLine", "charges", "spend"]

By: TypeAlias = Literal["task", "tool", "model", "step", "day"]
Book: TypeAlias = Literal[
    "reported", "estimated", "erased", "unknown", "recovery", "held"
]
BOOKS: tuple[str, ...] = get_args(Book)


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as its account has it; `at` in seconds since the epoch.

    `book` is ``reported`` or ``estimated`` for what a recorded outcome used, by who
    says so; ``erased`` is that of an erased task, of which the sums alone are left:
    its operation 0. ``held`` is set aside for an attempt whose outcome is not known.
    """

    task: str
    op: int
    attempt: int
    at: float
    book: Book
    amounts: Amounts
    step: str
    tool: str
    model: str


class SpendLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one book of one name holds; the total's lines are named ``total``.

    `attempts` includes `retries`. `unpriced` are model calls whose price nobody gave:
    what they cost is not known, and not in `used`.
    """

    name: str
    book: Book
    attempts: int
    retries: int
    unpriced: int
    used: dict[str, Any]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What calls of a tool or a model usually take; None where too little is known.

    `seconds` is not exceeded by nine of ten of the newest `samples`, and `input` is by
    how much the estimate of a model's input tokens is multiplied.
    """

    name: str
    samples: int
    seconds: float | None
    input: float | None


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """Lines by name and book, the sum of each book, and what was learned from calls.

    In a list of tasks a sub-task has lines of its own, and stands in the total with its
    parent, which is charged for it when it ends.
    """

    by: By
    lines: tuple[SpendLine, ...]
    total: tuple[SpendLine, ...]
    estimates: tuple[Estimate, ...] = ()


def spend(reader: Reader, task: str | None, by: By) -> Spend:
    """What one task, or all of them, used; the task is named by its whole id."""
    name: Callable[[Charge], str] = _NAMED[by]
    lines: dict[tuple[str, str], SpendLine] = {}
    total: dict[tuple[str, str], SpendLine] = {}
    children = set() if task is not None else _children(reader)
    called: set[str] = set()
    for one in _tasks(reader) if task is None else (task,):
        for charge in charges(reader, one):
            _count(lines, name(charge), charge)
            what = f"model:{charge.model}" if charge.model else f"tool:{charge.tool}"
            called.add(what)
            if one not in children:
                _count(total, "total", charge)
    return Spend(
        by=by,
        lines=_finished(lines),
        total=_finished(total),
        estimates=tuple(_estimates(reader, called)),
    )


def _estimates(reader: Reader, called: set[str]) -> Iterator[Estimate]:
    """Of the tools and models that were called, by name."""
    samples: Samples = fold(reader, names.POOL, PoolState(), apply_pool).samples
    for name in sorted(called & samples.keys()):
        time, scale = usual(samples, name), ratio(samples, name)
        yield Estimate(
            name=name,
            samples=len(samples[name]),
            seconds=None if time is None else time / 1000,
            input=None if scale is None else scale / 1000,
        )


def charges(reader: Reader, task: str) -> Iterator[Charge]:
    """Each settled attempt of a task, oldest first, and each that is held."""
    settled = whole(reader, names.account(task))  # first: the ledger is then not older
    if not settled:
        yield from _erased(reader, task)
        return
    registered: dict[tuple[int, int], events.EffectRegistered] = {}
    source: dict[tuple[int, int], str] = {}
    for _, event in whole(reader, names.ledger(task)):
        match event:
            case events.EffectRegistered():
                registered[event.op, event.attempt] = event
            case events.EffectRecorded():
                source[event.op, event.attempt] = event.source
    reserved: dict[tuple[int, int], Amounts] = {}
    held: dict[tuple[int, int], float] = {}

    def charge(key: tuple[int, int], at: float, book: str, amounts: Amounts) -> Charge:
        effect = registered.get(key)
        if book == "spent":
            book = "reported" if source.get(key) == "reported" else "estimated"
        return Charge(
            task=task,
            op=key[0],
            attempt=key[1],
            at=at,
            book=book,  # type: ignore[arg-type]  # the books of Settled are all here
            amounts=amounts,
            step="" if effect is None else effect.step,
            tool="" if effect is None else effect.name,
            model="" if effect is None else effect.model,
        )

    for record, event in settled:
        match event:
            case events.Reserved():
                reserved[event.op, event.attempt] = event.amounts
            case events.Held():
                held[event.op, event.attempt] = record.at
            case events.Settled():
                key = event.op, event.attempt
                held.pop(key, None)
                del reserved[key]
                if event.book != "none":
                    yield charge(key, record.at, event.book, event.amounts)
                for book, amounts in event.beside.items():
                    yield charge(key, record.at, book, amounts)
    for key, at in held.items():
        yield charge(key, at, "held", reserved[key])


def _erased(reader: Reader, task: str) -> Iterator[Charge]:
    """What the row of an erased task says that it used, at the time of its submission.

    A task that has not begun has no account, either, and has used nothing.
    """
    value = reader.row(names.TASK_ROWS, task)
    row = None if value is None else msgspec.json.decode(value, type=TaskRow)
    if row is None or row.status != ERASED:
        return
    at = records_of(reader, names.family(task))[0].at
    books: dict[Book, Amounts] = {
        "erased": row.books.spent,
        "unknown": row.books.unknown,
        "recovery": row.books.recovery,
    }
    for book, amounts in books.items():
        if amounts:
            yield Charge(
                task=task,
                op=0,
                attempt=0,
                at=at,
                book=book,
                amounts=amounts,
                step="",
                tool="",
                model="",
            )


_NAMED: dict[By, Callable[[Charge], str]] = {
    "task": lambda one: one.task,
    "tool": lambda one: one.tool,
    "model": lambda one: one.model or "(tools)",
    "step": lambda one: one.step,
    "day": lambda one: datetime.fromtimestamp(one.at, UTC).date().isoformat(),
}


def _count(lines: dict[tuple[str, str], SpendLine], name: str, one: Charge) -> None:
    key = name, one.book
    line = lines.get(key) or SpendLine(
        name=name, book=one.book, attempts=0, retries=0, unpriced=0, used={}
    )
    unpriced = 0 if "cost" in one.amounts else one.amounts.get("model_calls", 0)
    lines[key] = msgspec.structs.replace(
        line,
        attempts=line.attempts + (one.attempt > 0),
        retries=line.retries + (one.attempt > 1),
        unpriced=line.unpriced + unpriced,
        used=add(line.used, one.amounts),
    )


def _finished(lines: dict[tuple[str, str], SpendLine]) -> tuple[SpendLine, ...]:
    order: dict[str, int] = {}
    for name, _ in lines:
        order.setdefault(name, len(order))
    return tuple(
        msgspec.structs.replace(line, used=shown(line.used))
        for line in sorted(
            lines.values(),
            key=lambda line: (order[line.name], BOOKS.index(line.book)),
        )
    )


def _tasks(reader: Reader) -> Iterable[str]:
    return [row.key for row in reader.rows(names.TASK_ROWS)]


def _children(reader: Reader) -> set[str]:
    """The sub-tasks: their grants come out of their parents' accounts."""
    return {
        event.task
        for _, event in whole(reader, names.POOL)
        if isinstance(event, events.Granted) and event.parent
    }
