"""Calls that memory answers: registered and recorded like any other, run nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..events import EffectRegistered
from ..executor.executor import Outcome
from ..names import MEMORY
from ..protocol import Inquire, Inquired
from .work import Returned

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["Inside"]


class Inside:
    """The ledger's part for them.

    Nothing leaves the runtime, so nothing is flushed first; what a crash cuts off is a
    read, and made again.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._asked: dict[tuple[int, int], float] = {}

    def ask(self, registered: EffectRegistered, values: dict[str, Any]) -> None:
        """Register a call and have memory answer it."""
        ledger = self._ledger
        ledger.append(registered)
        op, attempt = registered.op, registered.attempt
        self._asked[op, attempt] = ledger.house.monotonic()
        message = Inquire(
            task=ledger.task,
            op=op,
            attempt=attempt,
            tool=registered.name,
            values=values,
            reply_to=ledger.address,
        )
        to = ledger.house.address(MEMORY)
        ledger.requests.send(("inquire", op, attempt), to, message)

    def answered(self, message: Inquired) -> None:
        """Record what memory said."""
        ledger, attempt = self._ledger, (message.op, message.attempt)
        began = self._asked.pop(attempt, None)
        if not ledger.requests.answered(("inquire", *attempt)) or began is None:
            return
        ledger.ended(
            *attempt,
            Outcome(
                key=ledger.work_key(*attempt),
                status="failed" if message.error else "completed",
                value=Returned(text=message.text, anchors={}),
                error=message.error,
                seconds=max(0.0, ledger.house.monotonic() - began),
            ),
        )
