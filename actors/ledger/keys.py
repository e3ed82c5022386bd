"""Effects that their caller names: one of a name in a task, whatever the step.

The name is made by a function of the tool's, off the dispatcher. What became of the
effect of that name is a row, since its entry leaves the ledger's state with its step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...storage.records import Row
from ..executor.executor import Outcome, Work
from ..names import CALLER_KEYS
from ..protocol import Perform
from ..storable import is_storable
from ..tool import Tool
from .entry import Earlier, Entry, LedgerState, caller_key, earlier_of

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["Keyed", "Keys", "keyed_row"]

LONGEST = 256  # characters of a name


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's function named the effect of a call, or raised, or did not answer."""

    op: int
    attempt: int
    outcome: Outcome


def keyed_row(entry: Entry) -> Row:
    """The row of an entry that its caller named."""
    value = msgspec.json.encode(earlier_of(entry))
    return Row(space=CALLER_KEYS, key=entry.key, value=value)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has passed everything but the look at its name."""

    wanted: Perform
    tool: Any
    values: dict[str, Any]
    arguments: str


class Keys:
    """The ledger's part for names: finds one, and what it stands for, then goes on."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._calls: dict[tuple[int, int], Call] = {}

    def find(
        self, wanted: Perform, tool: Tool, values: dict[str, Any], arguments: str
    ) -> None:
        """Have a call named; `Door.named` is called with what came of it."""
        self._calls[wanted.op, wanted.attempt] = Call(
            wanted=wanted, tool=tool, values=values, arguments=arguments
        )
        ledger, named = self._ledger, tool.key
        assert named is not None
        address = ledger.address
        timeout = ledger.house.baseline.acceptance_timeout

        def deliver(outcome: Outcome) -> None:
            address.tell(Keyed(op=wanted.op, attempt=wanted.attempt, outcome=outcome))

        work = Work(
            key=(ledger.task, f"key {wanted.op}#{wanted.attempt}"),
            name="key",
            effect="read",
            call=lambda: named(dict(values)),
            timeout=timeout,
            not_after=ledger.house.now() + timeout,
            deliver=deliver,
        )
        ledger.when_durable(ledger.last_seq, lambda: ledger.house.executor.run(work))

    def keyed(self, message: Keyed) -> None:
        """Look the name up; a call that has none is not made."""
        ledger, outcome = self._ledger, message.outcome
        call = self._calls.get((message.op, message.attempt))
        if call is None:
            return
        name, wrong = outcome.value, outcome.error
        if outcome.status == "completed":
            wrong = _wrong(name)
        if wrong:
            del self._calls[message.op, message.attempt]
            by: Literal["recovery", "door"] = "recovery" if outcome.refused else "door"
            ledger.door.refuse(
                call.wanted, f"key= of {call.tool.name} gave no key: {wrong}", by=by
            )
            return
        key = caller_key(ledger.task, call.tool.name, name)
        ledger.read(
            lambda reader: reader.row(CALLER_KEYS, key),
            lambda found: self._go_on((message.op, message.attempt), name, found),
        )

    def _go_on(self, at: tuple[int, int], name: str, found: bytes | None) -> None:
        """Go on with a call, once, with what is known of its name."""
        ledger, call = self._ledger, self._calls.pop(at, None)
        if call is None:
            return
        key = caller_key(ledger.task, call.tool.name, name)
        row = None
        if found is not None:
            row = msgspec.json.decode(found, type=Earlier)
        earlier = _earlier(ledger.state, key, call.wanted.op, row)
        if earlier is not None and earlier.arguments != call.arguments:
            ledger.door.refuse(
                call.wanted,
                f"key {name!r} is operation {earlier.op}'s, with other "
                f"arguments: {earlier.arguments[:200]}; another call takes another key",
            )
            return
        ledger.door.named(
            call.wanted, call.tool, call.values, call.arguments, name, earlier
        )


def _earlier(
    state: LedgerState, key: str, op: int, row: Earlier | None
) -> Earlier | None:
    """What another operation made of this name; the ledger's state is the newest."""
    for entry in reversed(state.entries.values()):
        if entry.key == key and entry.op != op and entry.named and not entry.reused:
            return earlier_of(entry)
    return row if row is not None and row.op != op else None


def _wrong(name: object) -> str:
    if not isinstance(name, str):
        return f"{type(name).__name__}, not text"
    if not name.strip() or len(name) > LONGEST:
        return f"{len(name)} characters; give 1 to {LONGEST}"
    return "" if is_storable(name) else "text with a lone surrogate"
