"""The arithmetic of one account, pure and in whole numbers.

Dimensions: ``tokens``, ``input_tokens``, ``output_tokens``, ``cost`` (in millionths of
a millionth of the currency's unit, so that prices of a token are whole),
``model_calls``, ``tool_calls``, ``tool:NAME``, ``milliseconds``. A dimension without a
grant is not limited; what it uses is booked all the same.

    granted = available + reserved + held + spent      (at every event, per dimension)
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec

from ..errors import Misuse
from ..events import (
    AccountClosed,
    Alerted,
    Amounts,
    Event,
    GrantTaken,
    Held,
    Reserved,
    Settled,
)
from ..price import COST_UNIT, cost_text

__all__ = [
    "AccountState",
    "Books",
    "Budget",
    "Refusal",
    "add",
    "alerts",
    "apply",
    "conserved",
    "left_over",
    "limits_of",
    "lowered",
    "refusal",
    "shown",
    "subtract",
    "unpriced",
    "why_not_extended",
]

FLOORED = ("tokens", "input_tokens", "output_tokens", "cost", "model_calls")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a task or a pool; 0 is zero, None is no limit (B59, B60).

    Args:
        tokens, input_tokens, output_tokens: tokens of model calls.
        cost: in the currency of the prices, exact (`Decimal`, int or text).
        model_calls, tool_calls: how many attempts.
        tools: how many calls of each tool by name.
        seconds: active time, queue and pauses not counted.

    Raises:
        Misuse: naming the field and the value.
    """

    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | int | str | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tools: dict[str, int] = {}
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "input_tokens", "output_tokens"):
            _whole(name, getattr(self, name))
        _whole("model_calls", self.model_calls)
        _whole("tool_calls", self.tool_calls)
        for name, value in self.tools.items():
            _whole(f"tools[{name!r}]", value)
        if self.seconds is not None and not (
            isinstance(self.seconds, int | float)
            and not isinstance(self.seconds, bool)
            and 0 <= self.seconds < float("inf")
        ):
            raise Misuse(
                f"Budget: seconds={self.seconds!r} must be a number of at least 0, or "
                "None for no limit"
            )
        _cost(self.cost)


def _whole(name: str, value: object) -> None:
    if value is not None and (type(value) is not int or value < 0):
        raise Misuse(
            f"Budget: {name}={value!r} must be a whole number of at least 0, or None "
            "for no limit"
        )


def _cost(value: Decimal | int | str | None) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, bool | float):
            raise ValueError
        amount = Decimal(value)
        if not amount.is_finite() or amount < 0:
            raise ValueError
    except (ValueError, ArithmeticError):
        raise Misuse(
            f"Budget: cost={value!r} must be an exact amount of at least 0 "
            "(Decimal('1.50'), 2 or '1.50'), or None for no limit"
        ) from None
    return int(amount * COST_UNIT)


def limits_of(budget: Budget) -> Amounts:
    """The limited dimensions of a budget as amounts."""
    found: dict[str, int | None] = {
        "tokens": budget.tokens,
        "input_tokens": budget.input_tokens,
        "output_tokens": budget.output_tokens,
        "cost": _cost(budget.cost),
        "model_calls": budget.model_calls,
        "tool_calls": budget.tool_calls,
        **{f"tool:{name}": count for name, count in sorted(budget.tools.items())},
        "milliseconds": None
        if budget.seconds is None
        else round(budget.seconds * 1000),
    }
    return {name: value for name, value in found.items() if value is not None}


def why_not_extended(task: str, own: Amounts, pool: Budget, more: Amounts) -> str:
    """Why a task's limits cannot be added to, or nothing where they can.

    What only the pool limits is limited by the task's share of it.
    """
    limits = {**limits_of(pool), **own}
    free = sorted(set(more) - set(limits))
    if not free:
        return ""
    return (
        f"task {task} does not limit {', '.join(free)}: extend what it limits "
        f"({', '.join(sorted(limits)) or 'nothing'})"
    )


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt has set aside; `held` once its outcome is unknown."""

    book: Literal["spent", "recovery"]
    amounts: Amounts
    held: bool = False


class Books(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was used: by recorded outcomes, by unknown ones, by recoveries."""

    spent: Amounts = msgspec.field(default_factory=dict)
    unknown: Amounts = msgspec.field(default_factory=dict)
    recovery: Amounts = msgspec.field(default_factory=dict)


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    """An account: grants taken, what is free, what is set aside, what was used."""

    version: int = 0
    grants: tuple[str, ...] = ()
    granted: Amounts = msgspec.field(default_factory=dict)
    available: Amounts = msgspec.field(default_factory=dict)
    reserved: dict[str, Reservation] = msgspec.field(default_factory=dict)
    books: Books = Books()
    lowered: Amounts = msgspec.field(default_factory=dict)  # by how much, since granted
    alerted: tuple[str, ...] = ()
    closed: bool = False
    returned: Amounts = msgspec.field(default_factory=dict)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why an estimate was not set aside; `requested` None: nobody knows the price."""

    dimension: str
    limit: int
    requested: int | None
    remaining: int

    def __str__(self) -> str:
        wanted, left, limit = (
            cost_text(n) if self.dimension == "cost" and n is not None else n
            for n in (self.requested, self.remaining, self.limit)
        )
        if wanted is None:
            return (
                f"{self.dimension}: the price of the call is not known, and {left} is "
                f"left of {limit}; give the agent a price"
            )
        return f"{self.dimension}: {wanted} wanted, {left} left of {limit}"


def add(left: Amounts, right: Amounts) -> Amounts:
    """Sum by dimension."""
    total = dict(left)
    for name, n in right.items():
        total[name] = total.get(name, 0) + n
    return total


def subtract(left: Amounts, right: Amounts) -> Amounts:
    """Difference by dimension, of the dimensions that stand on the left."""
    return {name: n - right.get(name, 0) for name, n in left.items()}


def unpriced(state: AccountState, estimate: Amounts) -> Refusal | None:
    """Refuse a model call of unknown price where cost is limited; unknown is not 0."""
    if "cost" not in state.granted or "model_calls" not in estimate:
        return None
    if "cost" in estimate:
        return None
    return Refusal(
        dimension="cost",
        limit=state.granted["cost"],
        requested=None,
        remaining=state.available["cost"],
    )


def refusal(
    state: AccountState, estimate: Amounts, *, floor: float, closing: bool = False
) -> Refusal | None:
    """Say why `estimate` cannot be set aside, or None where it can (B62, B77, B78).

    It can where ``available - estimate >= floor`` in every limited dimension; winding
    up (`closing`) may use the floor. The floor is rounded down. Nothing can where a
    limit was lowered below what is used.
    """
    for name, available in state.available.items():
        wanted = estimate.get(name, 0)
        keep = 0
        if name in FLOORED and not closing:
            keep = int(state.granted[name] * floor)
        if name == "milliseconds":
            wanted = max(wanted, 1)  # some must be left where nobody knows how much
        overdrawn = available < 0 and name in state.lowered
        if overdrawn or (wanted and available - wanted < keep):
            return Refusal(
                dimension=name,
                limit=state.granted[name],
                requested=wanted,
                remaining=available,
            )
    return None


def alerts(state: AccountState, *, threshold: float) -> list[Alerted]:
    """The dimensions that newly fell to `threshold` of their grant."""
    rung: list[Alerted] = []
    for name, available in state.available.items():
        granted = state.granted[name]
        low = available <= granted * threshold and granted > 0
        if low and name not in state.alerted:
            rung.append(Alerted(dimension=name, granted=granted, available=available))
    return rung


def apply(state: AccountState, event: Event) -> AccountState:
    """Fold one event of the account's stream."""
    change = msgspec.structs.replace
    version = state.version + 1
    match event:
        case GrantTaken(grant=grant, amounts=amounts):
            return change(
                state,
                version=version,
                grants=(*state.grants, grant),
                granted=add(state.granted, amounts),
                available=add(state.available, amounts),
                lowered=add(state.lowered, lowered(amounts)),
                alerted=state.alerted if lowered(amounts) else (),
            )
        case Reserved(op=op, attempt=attempt, book=book, amounts=amounts):
            entry = Reservation(book=book, amounts=amounts)
            return change(
                state,
                version=version,
                available=subtract(state.available, amounts),
                reserved={**state.reserved, f"{op}#{attempt}": entry},
            )
        case Held(op=op, attempt=attempt):
            key = f"{op}#{attempt}"
            entry = change(state.reserved[key], held=True)
            return change(
                state, version=version, reserved={**state.reserved, key: entry}
            )
        case Settled():
            return _settled(state, event, version)
        case Alerted(dimension=dimension):
            return change(state, version=version, alerted=(*state.alerted, dimension))
        case AccountClosed(returned=returned):
            return change(
                state,
                version=version,
                closed=True,
                returned=returned,
                available=subtract(state.available, returned),
            )
    raise TypeError(f"{type(event).__name__} does not belong to an account")


def lowered(grant: Amounts) -> Amounts:
    """By how much a grant lowers limits; nothing for one that adds to them."""
    return {name: -n for name, n in grant.items() if n < 0}


def left_over(state: AccountState) -> Amounts:
    """What an account that closes gives back: all that it took and did not use.

    Less than nothing is left of what was used beyond the grants, where estimates were
    too low: the pool must not give that away once more.
    """
    return add(state.available, state.lowered)


def _settled(state: AccountState, event: Settled, version: int) -> AccountState:
    reserved = dict(state.reserved)
    aside = reserved.pop(f"{event.op}#{event.attempt}").amounts
    used = event.amounts
    available = {
        name: n + aside.get(name, 0) - used.get(name, 0)
        for name, n in state.available.items()
    }
    books = state.books
    if event.book != "none":
        books = _booked(books, event.book, used)
    for book, amounts in event.beside.items():
        available = subtract(available, amounts)
        books = _booked(books, book, amounts)
    return msgspec.structs.replace(
        state, version=version, available=available, reserved=reserved, books=books
    )


def _booked(books: Books, book: str, used: Amounts) -> Books:
    return msgspec.structs.replace(books, **{book: add(getattr(books, book), used)})


def conserved(state: AccountState) -> dict[str, int]:
    """By how much each dimension is off; empty where the law of the account holds."""
    off: dict[str, int] = {}
    for name, granted in state.granted.items():
        aside = sum(entry.amounts.get(name, 0) for entry in state.reserved.values())
        used = sum(
            book.get(name, 0)
            for book in (state.books.spent, state.books.unknown, state.books.recovery)
        )
        total = state.available[name] + aside + used + state.returned.get(name, 0)
        if total != granted:
            off[name] = total - granted
    return off


def shown(amounts: Amounts) -> dict[str, Any]:
    """Amounts as a person reads them: cost as a decimal, tools by name."""
    plain: dict[str, Any] = {}
    tools: dict[str, int] = {}
    for name, value in amounts.items():
        if name == "cost":
            plain["cost"] = cost_text(value)
        elif name == "milliseconds":
            plain["seconds"] = value / 1000
        elif name.startswith("tool:"):
            tools[name.removeprefix("tool:")] = value
        elif name != "tool_calls":
            plain[name] = value
    return {**plain, "tool_calls": dict(sorted(tools.items()))}
