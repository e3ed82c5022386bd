"""A name to send to, whoever bears it at the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import faults
from .lifecycle import ActorStopped
from .promise import Promise
from .turn import refuse_in_turn

if TYPE_CHECKING:
    from .cell import Cell
    from .system import System

__all__ = ["Address"]


class Address:
    """Where an actor can be reached, before its first start and across restarts.

    Made by `System.address`; equal when name and system are.
    """

    __slots__ = ("_cells", "name", "system")

    def __init__(self, system: System, name: str, cells: dict[str, Cell]) -> None:
        self.name = name
        self.system = system
        self._cells = cells

    def tell(self, message: Any) -> bool:
        """Put a message into the mailbox of the current incarnation; never raises.

        False, and counted in `System.dead_letters`, when there is none. True does not
        mean that it will be read: the actor may end first.
        """
        cell = self._cells.get(self.name)
        if cell is None:
            self.system.count_dead_letters(1)
            return False
        if faults.deliveries is not None:
            return faults.deliveries.deliver(cell, message)
        return cell.post(message)

    def ask(self, make: Callable[[Promise], Any], timeout: float) -> Any:
        """Send ``make(promise)`` and wait for the answer, from a thread outside.

        Raises TimeoutError after `timeout` seconds, ActorStopped when the actor is not
        running or ends first, what the actor failed the promise with, and RuntimeError
        in an actor's turn: actors never wait for each other.
        """
        refuse_in_turn(f"ask({self.name})")
        promise = self.send_ask(make)
        try:
            return promise.result(timeout)
        except TimeoutError as error:
            promise.fail(error)
            raise

    def send_ask(self, make: Callable[[Promise], Any]) -> Promise:
        """Send ``make(promise)`` and return the promise at once.

        When the actor is not running the promise has already failed.
        """
        promise = Promise(self.system.dispatcher)
        cell = self._cells.get(self.name)
        if cell is None:
            self.system.count_dead_letters(1)
            promise.fail(ActorStopped(f"{self.name} is not running"))
        else:
            cell.post_ask(make(promise), promise)
        return promise

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Address)
            and other.name == self.name
            and other.system is self.system
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Address({self.name!r})"
