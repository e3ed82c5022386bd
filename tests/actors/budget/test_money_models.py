"""Account and pool against models that keep a list of what happened, and add it up."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perdure.actors.budget.account import (
    FLOORED,
    AccountState,
    Refusal,
    apply,
    conserved,
    refusal,
)
from perdure.actors.budget.pool import PoolState, apply_pool, share
from perdure.actors.events import (
    Amounts,
    Granted,
    GrantReturned,
    GrantTaken,
    Held,
    PoolOpened,
    Reserved,
    Settled,
)

LIMITED = ("tokens", "cost", "tool_calls")
DIMENSIONS = (*LIMITED, "input_tokens")  # the last one is never limited
FLOOR = 0.1
ACTIVE = 3
some_amounts = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 60))
limits = st.fixed_dictionaries({name: st.integers(0, 200) for name in LIMITED})


class AccountAgainstModel(RuleBasedStateMachine):
    """What is left is what was granted, less every open and every settled attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.state = AccountState()
        self.granted: list[Amounts] = []
        self.aside: dict[int, Amounts] = {}
        self.used: list[tuple[str, Amounts]] = []
        self.next_op = 0

    def left(self, name: str) -> int:
        return (
            sum(amounts[name] for amounts in self.granted)
            - sum(amounts.get(name, 0) for amounts in self.aside.values())
            - sum(amounts.get(name, 0) for _, amounts in self.used)
        )

    @initialize(amounts=limits)
    def open(self, amounts: Amounts) -> None:
        self.extend(amounts)

    @rule(amounts=limits)
    def extend(self, amounts: Amounts) -> None:
        self.granted.append(amounts)
        grant = GrantTaken(grant=str(len(self.granted)), amounts=amounts)
        self.state = apply(self.state, grant)

    @rule(amounts=some_amounts, closing=st.booleans())
    def reserve(self, amounts: Amounts, closing: bool) -> None:
        refused = refusal(self.state, amounts, floor=FLOOR, closing=closing)
        short = []
        for name in LIMITED:
            granted = sum(one[name] for one in self.granted)
            keep = granted // 10 if name in FLOORED and not closing else 0
            wanted = amounts.get(name, 0)
            if wanted and self.left(name) < wanted + keep:
                short.append(self.short(name, granted, wanted))
        assert (refused in short) if short else (refused is None)
        if refused is None:
            self.next_op += 1
            self.aside[self.next_op] = amounts
            reserved = Reserved(
                op=self.next_op, attempt=1, book="spent", amounts=amounts
            )
            self.state = apply(self.state, reserved)

    def short(self, name: str, granted: int, wanted: int) -> Refusal:
        return Refusal(
            dimension=name, limit=granted, requested=wanted, remaining=self.left(name)
        )

    @rule(data=st.data())
    def hold(self, data: Any) -> None:
        if self.aside:
            op = data.draw(st.sampled_from(sorted(self.aside)))
            self.state = apply(self.state, Held(op=op, attempt=1))

    @rule(
        data=st.data(),
        amounts=some_amounts,
        book=st.sampled_from(("spent", "unknown", "recovery", "none")),
    )
    def settle(self, data: Any, amounts: Amounts, book: Any) -> None:
        if not self.aside:
            return
        op = data.draw(st.sampled_from(sorted(self.aside)))
        del self.aside[op]
        amounts = {} if book == "none" else amounts
        self.used.append((book, amounts))
        settled = Settled(op=op, attempt=1, book=book, amounts=amounts)
        self.state = apply(self.state, settled)

    @invariant()
    def every_amount_is_where_the_list_says(self) -> None:
        if not self.granted:
            return
        assert self.state.available == {name: self.left(name) for name in LIMITED}
        assert len(self.state.reserved) == len(self.aside)
        for book in ("spent", "unknown", "recovery"):
            for name in DIMENSIONS:
                listed = sum(n.get(name, 0) for one, n in self.used if one == book)
                assert getattr(self.state.books, book).get(name, 0) == listed
        assert conserved(self.state) == {}


class PoolAgainstModel(RuleBasedStateMachine):
    """What is out is every live grant, and what the ended tasks did not bring back."""

    def __init__(self) -> None:
        super().__init__()
        self.state = PoolState()
        self.limits: Amounts = {}
        self.live: dict[str, list[Amounts]] = {}
        self.kept: list[Amounts] = []
        self.next_task = 0

    def left(self, name: str) -> int:
        grants = [one for grants in self.live.values() for one in grants]
        return self.limits[name] - sum(one.get(name, 0) for one in grants + self.kept)

    @initialize(amounts=limits)
    def open(self, amounts: Amounts) -> None:
        self.limits = amounts
        self.state = apply_pool(self.state, PoolOpened(limits=amounts))

    @rule(amounts=limits)
    def open_with_other_limits(self, amounts: Amounts) -> None:
        self.open(amounts)

    @rule(wanted=some_amounts)
    def submit(self, wanted: Amounts) -> None:
        given = share(self.state, wanted, active=ACTIVE)
        short = [n for n in wanted if n in LIMITED and wanted[n] > self.left(n)]
        assert isinstance(given, str) == bool(short)
        if isinstance(given, str):
            return
        for name in LIMITED:
            if name not in wanted:
                assert given[name] == max(0, self.left(name)) // ACTIVE
        assert {name: given[name] for name in wanted} == wanted
        self.next_task += 1
        self.grant(f"t-{self.next_task}", given)

    def grant(self, task: str, amounts: Amounts) -> None:
        mine = self.live.setdefault(task, [])
        mine.append(amounts)
        granted = Granted(grant=f"{task}/{len(mine)}", task=task, amounts=amounts)
        self.state = apply_pool(self.state, granted)

    @rule(data=st.data(), wanted=some_amounts)
    def enlarge(self, data: Any, wanted: Amounts) -> None:
        fits = not isinstance(share(self.state, wanted, active=ACTIVE), str)
        if self.live and fits:
            self.grant(data.draw(st.sampled_from(sorted(self.live))), wanted)

    @rule(data=st.data(), used=some_amounts)
    def end(self, data: Any, used: Amounts) -> None:
        if not self.live:
            return
        task = data.draw(st.sampled_from(sorted(self.live)))
        grants = self.live.pop(task)
        names = {name for one in grants for name in one}
        total = {name: sum(one.get(name, 0) for one in grants) for name in names}
        back = {name: n - used.get(name, 0) for name, n in total.items()}
        self.kept.append({name: n - back[name] for name, n in total.items()})
        self.state = apply_pool(self.state, GrantReturned(task=task, amounts=back))

    @invariant()
    def what_is_out_is_what_the_list_says(self) -> None:
        out = self.state.out
        for name in self.limits:
            assert self.limits[name] - out.get(name, 0) == self.left(name)


TestAccountAgainstModel = AccountAgainstModel.TestCase  # P3
TestPoolAgainstModel = PoolAgainstModel.TestCase  # P3
