"""The shared pool: what all tasks together may use, and what each was granted."""

from __future__ import annotations

from typing import Any

import msgspec

from ...storage.records import Row
from ..durable import Durable, Folded
from ..events import (
    Amounts,
    EstimatesLearned,
    Event,
    Granted,
    GrantReturned,
    PoolOpened,
)
from ..house import House
from ..names import POOL, account
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

__all__ = ["Pool", "PoolState", "apply_pool", "share"]


RETURNED = "returned"  # a row for each task that has given its grants back


class _Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a task that wants more has given all back."""

    message: Enlarge
    incarnation: int
    ended: bool


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, what is out with tasks or used by ended ones, grants of live tasks.

    The grants in `passed` are within the grant of another task, and not out once more.
    `samples` are what calls of all tasks have taken.
    """

    version: int = 0
    limits: Amounts = msgspec.field(default_factory=dict)
    out: Amounts = msgspec.field(default_factory=dict)
    grants: dict[str, dict[str, Amounts]] = msgspec.field(default_factory=dict)
    passed: tuple[str, ...] = ()
    samples: Samples = msgspec.field(default_factory=dict)


def apply_pool(state: PoolState, event: Event) -> PoolState:
    """Fold one event of the pool's stream."""
    change = msgspec.structs.replace
    version = state.version + 1
    match event:
        case PoolOpened(limits=limits):
            return change(state, version=version, limits=limits)
        case Granted(grant=grant, task=task, amounts=amounts, parent=parent):
            mine = {**state.grants.get(task, {}), grant: amounts}
            within = parent or lowered(amounts)
            return change(
                state,
                version=version,
                out=state.out if within else add(state.out, amounts),
                grants={**state.grants, task: mine},
                passed=(*state.passed, grant) if parent else state.passed,
            )
        case GrantReturned(task=task, amounts=amounts):
            grants = {
                name: given for name, given in state.grants.items() if name != task
            }
            out = {name: n - amounts.get(name, 0) for name, n in state.out.items()}
            ended = state.grants.get(task, {})
            passed = tuple(grant for grant in state.passed if grant not in ended)
            return change(state, version=version, out=out, grants=grants, passed=passed)
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

    def fold(self, state: PoolState, event: Event) -> PoolState:
        """Fold by the pool's arithmetic."""
        return apply_pool(state, event)

    def loaded(self, folded: Folded) -> None:
        """Write down limits that differ from the last ones."""
        limits = limits_of(self.house.pool)
        if limits != self.state.limits:
            self.append(PoolOpened(limits=limits))

    def handle(self, message: Any) -> None:
        """Grant, enlarge, tell, take back; each is safe to ask for twice."""
        match message:
            case Allocate(task=task, reply_to=reply_to):
                refusal = None
                if f"{task}/first" not in self.state.grants.get(task, {}):
                    refusal = self._grant_first(message)
                reply_to.tell(Allocated(task=task, refusal=refusal))
            case Enlarge():
                self._look(message)
            case _Looked(message=wanted, incarnation=incarnation, ended=ended):
                if incarnation == self.incarnation:
                    self._enlarge(wanted, ended=ended)
            case FetchGrants(task=task):
                self._tell(task)
            case ReturnGrant(task=task, reply_to=reply_to):
                if task in self.state.grants:
                    self._take_back(message)
                reply_to.tell(GrantBack(task=task))
            case Learned(task=task, samples=samples):
                self.append(EstimatesLearned(task=task, samples=samples))

    def _take_back(self, message: ReturnGrant) -> None:
        """What is left, and whole what was granted when the account had closed.

        What a sub-task leaves of its parent's grant stays with its parent.
        """
        mine = self.state.grants[message.task]
        amounts = message.amounts
        if any(grant in self.state.passed for grant in mine):
            ours = self._ours(mine, message.taken)
            amounts = {name: min(n, ours.get(name, 0)) for name, n in amounts.items()}
        for grant, given in mine.items():
            if grant not in message.taken and self._own(grant, given):
                amounts = add(amounts, given)
        self.append(
            GrantReturned(task=message.task, amounts=amounts),
            rows=[Row(space=RETURNED, key=message.task, value=b"true")],
        )

    def _ours(self, grants: dict[str, Amounts], taken: tuple[str, ...]) -> Amounts:
        """The sum of what an account took of this pool's own grants."""
        total: Amounts = {}
        for grant, given in grants.items():
            if grant in taken and self._own(grant, given):
                total = add(total, given)
        return total

    def _own(self, grant: str, given: Amounts) -> bool:
        """Whether the pool really gave it: neither passed on, nor a limit lowered."""
        return grant not in self.state.passed and not lowered(given)

    def _grant_first(self, message: Allocate) -> str | None:
        task, parent = message.task, message.parent
        given: Amounts | str = message.amounts
        if not parent:
            given = self._share(message.amounts)
        if isinstance(given, str):
            return given
        grant = f"{task}/first"
        self.append(Granted(grant=grant, task=task, amounts=given, parent=parent))
        return None

    def _share(self, wanted: Amounts) -> Amounts | str:
        return share(self.state, wanted, active=self.house.baseline.active_tasks)

    def _look(self, message: Enlarge) -> None:
        """See first whether the task has given all back: nothing would come again."""
        if message.task in self.state.grants:
            self._enlarge(message, ended=False)
            return
        address, incarnation = self.address, self.incarnation

        def done(row: bytes | BaseException | None) -> None:
            # A failed read has failed the journal, and this actor with it.
            if not isinstance(row, BaseException):
                ended = row is not None
                address.tell(
                    _Looked(message=message, incarnation=incarnation, ended=ended)
                )

        self.house.journal.read(lambda reader: reader.row(RETURNED, message.task), done)

    def _enlarge(self, message: Enlarge, *, ended: bool) -> None:
        task, grant = message.task, message.grant
        refusal = "it has ended" if ended else None
        if not ended and grant not in self.state.grants.get(task, {}):
            give = self._lower if message.lower else self._give
            refusal = give(task, grant, message.amounts)
        self._tell(task)
        self._enlarged(message, refusal)

    def _give(self, task: str, grant: str, more: Amounts) -> str | None:
        found = self._share(more)
        if isinstance(found, str):
            return found
        self.append(Granted(grant=grant, task=task, amounts=more))
        return None

    def _lower(self, task: str, grant: str, limits: Amounts) -> str | None:
        """Lower limits; the task gives back what it does not use at its end."""
        has: Amounts = {}
        for given in self.state.grants.get(task, {}).values():
            has = add(has, given)
        for name, limit in limits.items():
            if name not in has:
                return f"it does not limit {name}: there is nothing to lower"
            if limit >= has[name]:
                return f"its limit of {name} is {has[name]}: `extend` raises it"
        less = {name: limit - has[name] for name, limit in limits.items()}
        self.append(Granted(grant=grant, task=task, amounts=less))
        return None

    def _enlarged(self, message: Enlarge, refusal: str | None) -> None:
        promise = message.promise
        if promise is not None:
            self.when_durable(self.last_seq, lambda: promise.set(refusal))
        if message.reply_to is not None:
            message.reply_to.tell(
                Enlarged(task=message.task, grant=message.grant, refusal=refusal)
            )

    def _tell(self, task: str) -> None:
        grants = self.state.grants.get(task, {})
        message = Grants(task=task, grants=grants, samples=self.state.samples)
        self.house.address(account(task)).tell(message)
