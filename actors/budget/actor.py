"""The actor of one task's account."""

from __future__ import annotations

from typing import Any

from ...supervision.address import Address
from ...supervision.faults import hit
from ...supervision.lifecycle import Down, Up
from ..durable import Durable, Folded
from ..events import (
    AccountClosed,
    Amounts,
    Event,
    GrantTaken,
    Held,
    Reserved,
    Settled,
)
from ..house import House
from ..loads import Loads
from ..names import POOL, account
from ..protocol import (
    CloseAccount,
    Closed,
    FetchGrants,
    GrantBack,
    Grants,
    Hold,
    Learned,
    Reserve,
    ReserveReply,
    ReturnGrant,
    Settle,
    SettleReply,
    Statement,
    StatementReply,
)
from ..requests import Overdue, Requests
from .account import (
    AccountState,
    alerts,
    apply,
    left_over,
    lowered,
    refusal,
    unpriced,
)
from .estimates import Samples, about, fitted, lessons, merged
from .share import portion

__all__ = ["Account"]


class Account(Durable[AccountState]):
    """Reserves, holds and settles; every answer is safe to ask for twice.

    On its start it takes the grants that the pool recorded and it did not. What calls
    took it learns in memory and hands to the pool when it ends: one write for all.
    """

    label = "account"

    def __init__(self, house: House, task: str, epoch: int, loads: Loads) -> None:
        super().__init__(house, account(task), epoch, AccountState(), loads)
        self.task = task
        self._begins = loads
        self.requests = Requests(self)
        self._granted = False
        self._waiting: list[Reserve] = []
        self._closing: Address | None = None
        self._asked: dict[str, tuple[str, Amounts]] = {}  # names, first estimates
        self._known: Samples = {}
        self._learned: Samples = {}  # since it started

    def fold(self, state: AccountState, event: Event) -> AccountState:
        """Fold by the account's arithmetic."""
        return apply(state, event)

    def loaded(self, folded: Folded) -> None:
        """Ask the pool which grants there are."""
        self._fetch()

    def stopped(self) -> None:
        """Hand over what was learned; a crash loses it, and nothing else."""
        if self._learned:
            message = Learned(task=self.task, samples=self._learned)
            self.house.address(POOL).tell(message)

    def handle(self, message: Any) -> None:
        """Answer the task and its ledger."""
        match message:
            case Reserve():
                self._reserve(message)
            case Settle():
                self._settle(message)
            case Hold(op=op, attempt=attempt):
                aside = self.state.reserved.get(f"{op}#{attempt}")
                if aside is not None and not aside.held:
                    self.append(Held(op=op, attempt=attempt))
            case Statement(reply_to=reply_to):
                reply_to.tell(
                    StatementReply(books=self.state.books, left=self.state.available)
                )
            case Grants(grants=grants, samples=samples):
                self._known = samples
                self._take(grants)
            case CloseAccount(reply_to=reply_to):
                self._close(reply_to)
            case GrantBack():
                self._closed()
            case Up(name=name):
                self.requests.up(name)
            case Overdue():
                self.requests.overdue()
            case Down():
                pass

    def _fetch(self) -> None:
        row, as_of = self._begins.take_granted(), self._begins.activated
        message = FetchGrants(
            task=self.task, reply_to=self.address, row=row, as_of=as_of if row else 0
        )
        self.requests.send("grants", self.house.address(POOL), message)

    def _take(self, grants: dict[str, dict[str, int]]) -> None:
        self.requests.answered("grants")
        first, self._granted = not self._granted, True
        for grant, amounts in grants.items():
            if grant not in self.state.grants and not self.state.closed:
                self.append(GrantTaken(grant=grant, amounts=amounts))
                if lowered(amounts):
                    self._alert()
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._reserve(message)
        if first and self._closing is not None:
            self._close(self._closing)

    def _reserve(self, message: Reserve) -> None:
        if not self._granted:
            self._waiting.append(message)
            return
        op, attempt = message.op, message.attempt
        refused, amounts = None, message.amounts
        floor = self.house.baseline.floor
        aside = self.state.reserved.get(f"{op}#{attempt}")
        if aside is not None:
            amounts = aside.amounts
        else:
            if message.share is not None:
                amounts = portion(self.state, amounts, message.share, floor=floor)
            if message.name:
                amounts = self._estimate(message)
            refused = refusal(self.state, amounts, floor=floor, closing=message.closing)
            if self.house.unknown_price == "refuse":
                refused = unpriced(self.state, amounts) or refused
            if refused is None:
                self.append(
                    Reserved(
                        op=op,
                        attempt=attempt,
                        book=message.book,
                        amounts=amounts,
                    )
                )
                self._asked[f"{op}#{attempt}"] = message.name, message.amounts
        given: Amounts = {}
        if message.share is not None:
            own, limited = message.amounts, {*self.state.granted, *message.share}
            given = {
                name: n - own.get(name, 0)
                for name, n in amounts.items()
                if name in limited
            }
        message.reply_to.tell(
            ReserveReply(op=op, attempt=attempt, refusal=refused, given=given)
        )

    def _estimate(self, message: Reserve) -> Amounts:
        timed = "milliseconds" in self.state.granted
        if not timed and "input_tokens" not in message.amounts:
            return message.amounts  # nothing that is learned says more of it
        return fitted(
            about(message.name, self._known, self._learned),
            message.name,
            message.amounts,
            message.price,
            timed=timed,
        )

    def _learn(self, message: Settle) -> None:
        name, asked = self._asked.pop(f"{message.op}#{message.attempt}", ("", {}))
        if name and message.completed and message.amounts is not None:
            used, reported = message.amounts, message.reported
            more = lessons(name, asked, used, reported=reported)
            self._learned = merged(self._learned, more)

    def _settle(self, message: Settle) -> None:
        self._learn(message)
        aside = self.state.reserved.get(f"{message.op}#{message.attempt}")
        if aside is not None:
            amounts = aside.amounts if message.amounts is None else message.amounts
            if message.fill and message.amounts is not None:
                amounts = {**aside.amounts, **amounts}
            settled = Settled(
                op=message.op,
                attempt=message.attempt,
                book=message.book or aside.book,
                amounts={} if message.book == "none" else amounts,
                beside=message.beside,
            )
            self.append(settled)
            self._alert()
        hit("effect.settled", message.name)
        done = SettleReply(op=message.op, attempt=message.attempt)
        message.reply_to.tell(message.then or done)

    def _alert(self) -> None:
        """Write down what has become scarce, once, and keep the state (B81)."""
        rung = alerts(self.state, threshold=self.house.baseline.alert)
        if rung:
            self.append(*rung)
            self.snapshot("alert")

    def _close(self, reply_to: Address) -> None:
        self._closing = reply_to
        if not self._granted:
            return  # what is in transit has to come, to go back with the rest
        if not self.state.closed:
            for key in list(self.state.reserved):
                op, attempt = map(int, key.split("#"))
                held = self.state.reserved[key].held
                self.append(
                    Settled(
                        op=op,
                        attempt=attempt,
                        book="unknown" if held else "none",
                        amounts=self.state.reserved[key].amounts if held else {},
                    )
                )
            self.append(AccountClosed(returned=left_over(self.state)))
        message = ReturnGrant(
            task=self.task,
            amounts=self.state.returned,
            taken=self.state.grants,
            reply_to=self.address,
        )
        self.requests.send("return", self.house.address(POOL), message)

    def _closed(self) -> None:
        if self.requests.answered("return") and self._closing is not None:
            self._closing.tell(Closed(books=self.state.books))
