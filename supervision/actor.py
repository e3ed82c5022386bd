"""The actor base: pykka's actor type, without its thread, registry and proxies."""

from __future__ import annotations

import abc
import threading
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import pykka
from pykka.messages import _ActorStop

from .lifecycle import NORMAL, Reason
from .turn import current

if TYPE_CHECKING:
    from pykka._envelope import Envelope

    from .address import Address
    from .cell import Cell
    from .dispatch import Timer
    from .system import System

__all__ = ["Actor"]

_number = count(1)


class Inbox:
    """The mailbox as pykka's references see it; ours goes by `Address`."""

    def __init__(self) -> None:
        self.cell: Cell | None = None

    def put(self, envelope: Envelope[Any], /) -> None:
        """Take a tell; refuse asks and proxies, and answer a foreign stop with no."""
        if isinstance(envelope.message, _ActorStop):
            error: Exception = pykka.ActorDeadError("not stopped: it has a supervisor")
        elif envelope.reply_to is not None or self.cell is None:
            error = TypeError(
                "use Address.ask: this actor has no pykka asks or proxies"
            )
        else:
            self.cell.post(envelope.message)
            return
        if envelope.reply_to is not None:
            envelope.reply_to.set_exception((type(error), error, None))

    def get(self) -> NoReturn:
        """Unused: the cell reads its own queue."""
        raise NotImplementedError

    def empty(self) -> bool:
        """Whether nothing waits to be read."""
        return self.cell is None or not self.cell.queue


class Actor(pykka.Actor):
    """What a domain actor extends: `started`, `receive` and `stopped`.

    All three run in turns of the dispatcher's threads, never two at once, and must not
    block. Whatever they raise, SystemExit and its like included, is a crash: nothing
    more runs on the instance, its supervisor gets one `Exited`, asks are answered with
    `ActorStopped`, unread messages are counted and logged. Properties and methods below
    work from `started` on, not yet in ``__init__``.
    """

    ready_when_started: ClassVar[bool] = True
    """False: it counts as up (`Up`, the supervisor's next child) at `ready()` only."""

    _cell: Cell

    def __init__(self) -> None:
        # All that pykka's own does but for its random name: that is a system call for
        # each start, and nobody looks an actor up that is in no registry.
        self.actor_urn = f"urn:perdure:{next(_number)}"
        self.actor_inbox = self._create_actor_inbox()
        self.actor_stopped = threading.Event()
        self._actor_ref = pykka.ActorRef(self)

    @abc.abstractmethod
    def receive(self, message: Any) -> None:
        """Handle one message, in a turn of this actor."""

    def started(self) -> None:
        """Run once, before the first message, in this actor's first turn."""

    def stopped(self) -> None:
        """Run last when the actor ends without a crash; raising makes it one."""

    @property
    def name(self) -> str:
        """Its name in the system."""
        return self._cell.name

    @property
    def incarnation(self) -> int:
        """Number of this start: unique in the system, greater than earlier ones."""
        return self._cell.incarnation

    @property
    def system(self) -> System:
        """The system it lives in."""
        return self._cell.system

    @property
    def address(self) -> Address:
        """Its own address, the same for every incarnation."""
        return self._cell.address

    def after(self, delay: float, message: Any) -> Timer:
        """Send `message` to this incarnation in `delay` seconds.

        After `Timer.cancel` it is not received, even if it is in the mailbox already.
        """
        return self._cell.after(delay, message)

    def monitor(self, address: Address, *, absent: bool = True) -> None:
        """Hear `Down` and `Up` of every incarnation from now on.

        `Down` with incarnation 0 comes at once when nobody of that name is running,
        but for one who knows: `absent=False`.
        """
        self._cell.system.monitor(self._cell, address.name, absent=absent)

    def demonitor(self, address: Address) -> None:
        """Hear no more of it, apart from what is in the mailbox already."""
        self._cell.system.demonitor(self._cell, address.name)

    def ready(self) -> None:
        """Count as up from now on; for classes with ``ready_when_started = False``."""
        self._cell.ready()

    def stop(self, reason: Reason = NORMAL) -> None:
        """End when the message in hand is done; what is queued behind is dropped."""
        if current.cell is self._cell:
            self._cell.end(reason)
        else:
            self._cell.ask_to_stop(reason)

    def asked_to_stop(self, reason: Reason) -> None:
        """End as `System.stop` asked; a supervisor sees its children off first."""
        self.stop(reason)

    def bind(self, cell: Cell) -> None:
        """Give the instance its place; called once, before `started`."""
        try:
            inbox = self.actor_inbox
        except AttributeError:
            msg = f"{type(self).__name__}.__init__ must call super().__init__()"
            raise TypeError(msg) from None
        assert isinstance(inbox, Inbox)
        inbox.cell = cell
        self._cell = cell

    @staticmethod
    def _create_actor_inbox() -> Inbox:
        return Inbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        # pykka's start() has put the actor into the registry that it shares with the
        # host, where any stop_all() would reach it.
        pykka.ActorRegistry.unregister(self.actor_ref)
        msg = f"{type(self).__name__}.start() is pykka's: use System.spawn"
        raise RuntimeError(msg)

    def __str__(self) -> str:
        cell = getattr(self, "_cell", None)
        return type(self).__name__ if cell is None else str(cell)
