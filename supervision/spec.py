"""Supervisors and their children as plain data, checked when it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from .backoff import Backoff

if TYPE_CHECKING:
    from .actor import Actor

__all__ = ["AutoShutdown", "ChildSpec", "RestartType", "Strategy", "SupervisorSpec"]

RestartType = Literal["permanent", "transient", "temporary"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]

RESTARTS = get_args(RestartType)
STRATEGIES = get_args(Strategy)
AUTO_SHUTDOWNS = get_args(AutoShutdown)
SHUTDOWN_TIMEOUT = 5.0  # seconds
START_TIMEOUT = 30.0  # seconds


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One child: the name it bears, how it is made, and when it is started again.

    `restart`: ``permanent`` always, ``transient`` after a crash, ``temporary`` never.
    `shutdown` is how long, in seconds, it may take to stop before it is killed: 0 kills
    at once, None waits for ever. `start_timeout` is how long it may take to be up
    before that counts as a failed start; None waits for ever. Give a supervisor None
    for both: its own children have their limits.
    `significant` children count for the supervisor's `auto_shutdown`.
    """

    name: str
    factory: Callable[[], Actor]
    restart: RestartType = "permanent"
    shutdown: float | None = SHUTDOWN_TIMEOUT
    start_timeout: float | None = START_TIMEOUT
    significant: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            _refuse("ChildSpec", "name", self.name, "give the actor's name")
        where = f"ChildSpec({self.name!r})"
        if not callable(self.factory):
            _refuse(where, "factory", self.factory, "give a function that makes it")
        _check_choice(where, "restart", self.restart, RESTARTS)
        _check_number(where, "shutdown", self.shutdown, least=0.0)
        _check_number(where, "start_timeout", self.start_timeout, above=0.0)
        if self.significant and self.restart == "permanent":
            fix = "make the child transient or temporary; a permanent one never ends"
            _refuse(where, "significant", self.significant, fix)


class SupervisorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A supervisor: which children, and what the end of one means for the others.

    More than `intensity` restarts (failed attempts included) within `period` seconds,
    and it stops its children and crashes; None sets no limit of its own.
    `gate` names an actor that is asked before each restart (`MayRestart`).
    A ``dynamic`` one has no children here: it is sent `StartChild`.
    """

    strategy: Strategy = "one_for_one"
    intensity: int | None = 1
    period: float = 5.0
    children: tuple[ChildSpec, ...] = ()
    auto_shutdown: AutoShutdown = "never"
    backoff: Backoff = Backoff()
    gate: str | None = None

    def __post_init__(self) -> None:
        where = "SupervisorSpec"
        _check_choice(where, "strategy", self.strategy, STRATEGIES)
        _check_choice(where, "auto_shutdown", self.auto_shutdown, AUTO_SHUTDOWNS)
        _check_number(where, "intensity", self.intensity, least=0.0)
        if self.period is None:
            _refuse(where, "period", self.period, "give seconds, more than 0")
        _check_number(where, "period", self.period, above=0.0)
        if self.gate == "":
            _refuse(where, "gate", self.gate, "give an actor's name, or None")
        if self.strategy == "dynamic":
            if self.children:
                names = [child.name for child in self.children]
                fix = "leave it empty and send StartChild"
                _refuse(where, "children", names, fix)
            if self.auto_shutdown != "never":
                fix = "give never: a dynamic supervisor outlives its children"
                _refuse(where, "auto_shutdown", self.auto_shutdown, fix)
        names = [child.name for child in self.children]
        for name in names:
            if names.count(name) > 1:
                _refuse(where, "children", name, "give each child a name of its own")
        for child in self.children:
            if child.significant and self.auto_shutdown == "never":
                fix = f"set auto_shutdown, or make {child.name} not significant"
                _refuse(where, "auto_shutdown", self.auto_shutdown, fix)


def _check_choice(where: str, field: str, value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        _refuse(where, field, value, f"give one of {', '.join(names)}")


def _check_number(
    where: str,
    field: str,
    value: float | None,
    least: float = float("-inf"),
    above: float = float("-inf"),
) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _refuse(where, field, value, "give a number")
    if not (value >= least and value > above):
        bound = f"at least {least:g}" if above == float("-inf") else f"over {above:g}"
        _refuse(where, field, value, f"give a number {bound}")


def _refuse(where: str, field: str, value: Any, fix: str) -> None:
    msg = f"{where}.{field} = {value!r}: {fix}"
    raise ValueError(msg)
