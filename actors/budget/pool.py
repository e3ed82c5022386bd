"""The shared pool: what all tasks together may use, and what each was granted."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from ...storage.records import Row
from ..durable import Durable, Folded, Found
from ..events import (
    Amounts,
    EstimatesLearned,
    Event,
    Granted,
    GrantReturned,
    PoolOpened,
)
from ..house import House
from ..names import GRANTS, POOL, account
from ..protocol import (
    Allocate,
    Allocated,
    Enlarge,
    Enlarged,
    FetchGrants,
    GrantBack,
    Grants,
    Learned,
    ReturnGrant,
)
from .account import add, limits_of, lowered, subtract
from .estimates import Samples, merged
from .recent import RETURNED, Given, Recent

__all__ = ["Given", "Pool", "PoolState", "apply_pool", "share"]


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, and what is out with tasks or used by ended ones.

    What each task has is a row (`Given`): however many there are, it takes no memory.
    `samples` are what calls of all tasks have taken.
    """

    version: int = 0
    limits: Amounts = msgspec.field(default_factory=dict)
    out: Amounts = msgspec.field(default_factory=dict)
    samples: Samples = msgspec.field(default_factory=dict)


def apply_pool(state: PoolState, event: Event) -> PoolState:
    """Fold one event of the pool's stream."""
    change = msgspec.structs.replace
    version = state.version + 1
    match event:
        case PoolOpened(limits=limits):
            return change(state, version=version, limits=limits)
        case Granted(amounts=amounts, parent=parent):
            within = parent or lowered(amounts)
            out = state.out if within else add(state.out, amounts)
            return change(state, version=version, out=out)
        case GrantReturned(amounts=amounts):
            out = {name: n - amounts.get(name, 0) for name, n in state.out.items()}
            return change(state, version=version, out=out)
        case EstimatesLearned(samples=samples):
            known = merged(state.samples, samples)
            return change(state, version=version, samples=known)
    raise TypeError(f"{type(event).__name__} does not belong to a pool")


def share(state: PoolState, wanted: Amounts, *, active: int) -> Amounts | str:
    """The first grant of a task, or why the pool cannot give it.

    What the task limits itself is granted whole. What only the pool limits is granted
    as an equal share of what is left among the tasks that may be active at once.
    """
    left = subtract(state.limits, state.out)
    grant = dict(wanted)
    for name, available in left.items():
        if name not in wanted:
            grant[name] = max(available, 0) // active
        elif wanted[name] > available:
            return (
                f"the pool has {max(available, 0)} {name} left, and the task's budget "
                f"asks for {wanted[name]}"
            )
    return grant


class Pool(Durable[PoolState]):
    """Gives grants and takes back what is left; never touched by a single operation."""

    label = "pool"

    def __init__(self, house: House, epoch: int) -> None:
        super().__init__(house, POOL, epoch, PoolState())
        self.recent = Recent(self)

    def fold(self, state: PoolState, event: Event) -> PoolState:
        """Fold by the pool's arithmetic."""
        return apply_pool(state, event)

    def loaded(self, folded: Folded) -> None:
        """Write down limits that differ from the last ones."""
        self.recent.opened()
        limits = limits_of(self.house.pool)
        if limits != self.state.limits:
            self.append(PoolOpened(limits=limits))

    def handle(self, message: Any) -> None:
        """Grant, enlarge, tell, take back; each is safe to ask for twice."""
        match message:
            case Allocate(task=task, nothing=nothing):
                then = partial(self._allocate, message)
                self.recent.look(task, then, nothing)
            case Enlarge(task=task):
                self.recent.look(task, partial(self._enlarge, message))
            case FetchGrants(task=task, as_of=as_of, row=row):
                then = partial(self._fetched, task)
                self.recent.look(task, then, as_of, row)
            case ReturnGrant(task=task):
                self.recent.look(task, partial(self._take_back, message))
            case Learned(task=task, samples=samples):
                self.append(EstimatesLearned(task=task, samples=samples))
            case Found():
                self.hear(message)

    def _grant(self, task: str, given: Given, granted: Granted) -> Given:
        """Give a grant: the task has it besides what it has."""
        new = given.plus(granted)
        row = Row(space=GRANTS, key=task, value=msgspec.json.encode(new))
        self.append(granted, rows=[row])
        self.recent.keep(task, new)
        return new

    def _allocate(self, message: Allocate, given: Given, _: bool) -> None:
        """The first grant: what the task's budget says, of this pool or its parent's.

        Nothing is given where it stands already.
        """
        task, parent = message.task, message.parent
        grant, refusal = f"{task}/first", None
        if grant not in given.grants:
            amounts: Amounts | str = message.amounts
            if not parent:
                amounts = self._share(message.amounts)
            if isinstance(amounts, str):
                refusal = amounts
            else:
                granted = Granted(
                    grant=grant, task=task, amounts=amounts, parent=parent
                )
                self._grant(task, given, granted)
        message.reply_to.tell(Allocated(task=task, refusal=refusal))

    def _take_back(self, message: ReturnGrant, given: Given, _: bool) -> None:
        """What is left, and whole what was granted when the account had closed.

        What a sub-task leaves of its parent's grant stays with its parent.
        """
        task, mine = message.task, given.grants
        if mine:
            amounts = message.amounts
            if given.passed:
                ours = _ours(given, message.taken)
                amounts = {
                    name: min(n, ours.get(name, 0)) for name, n in amounts.items()
                }
            for grant, part in mine.items():
                if grant not in message.taken and given.own(grant):
                    amounts = add(amounts, part)
            rows = [
                Row(space=RETURNED, key=task, value=b"true"),
                Row(space=GRANTS, key=task, value=None),
            ]
            self.append(GrantReturned(task=task, amounts=amounts), rows=rows)
            self.recent.keep(task, Given(), ended=True)
        message.reply_to.tell(GrantBack(task=task))

    def _share(self, wanted: Amounts) -> Amounts | str:
        return share(self.state, wanted, active=self.house.baseline.active_tasks)

    def _enlarge(self, message: Enlarge, given: Given, ended: bool) -> None:
        """Grant more, or less; nothing would come again from who has given all back."""
        task, grant = message.task, message.grant
        refusal = "it has ended" if ended else None
        if not ended and grant not in given.grants:
            made = (
                self._lowered(message, given) if message.lower else self._more(message)
            )
            if isinstance(made, str):
                refusal = made
            else:
                granted = Granted(grant=grant, task=task, amounts=made)
                given = self._grant(task, given, granted)
        self._tell(task, given)
        promise = message.promise
        if promise is not None:
            self.when_durable(self.last_seq, lambda: promise.set(refusal))
        if message.reply_to is not None:
            enlarged = Enlarged(task=task, grant=grant, refusal=refusal)
            message.reply_to.tell(enlarged)

    def _more(self, message: Enlarge) -> Amounts | str:
        found = self._share(message.amounts)
        return found if isinstance(found, str) else message.amounts

    def _lowered(self, message: Enlarge, given: Given) -> Amounts | str:
        """Lower limits; the task gives back what it does not use at its end."""
        has: Amounts = {}
        for amounts in given.grants.values():
            has = add(has, amounts)
        for name, limit in message.amounts.items():
            if name not in has:
                return f"it does not limit {name}: there is nothing to lower"
            if limit >= has[name]:
                return f"its limit of {name} is {has[name]}: `extend` raises it"
        return {name: limit - has[name] for name, limit in message.amounts.items()}

    def _fetched(self, task: str, given: Given, _: bool) -> None:
        self._tell(task, given)

    def _tell(self, task: str, given: Given) -> None:
        message = Grants(task=task, grants=given.grants, samples=self.state.samples)
        self.house.address(account(task)).tell(message)


def _ours(given: Given, taken: tuple[str, ...]) -> Amounts:
    """The sum of what an account took of the pool's own grants."""
    total: Amounts = {}
    for grant, amounts in given.grants.items():
        if grant in taken and given.own(grant):
            total = add(total, amounts)
    return total
