"""The actor of all rate windows: gives slots, and says when to come again.

Its stream is its own, not the pool's: that one is touched when a task is admitted or
ends, this one once or twice by each operation of a limited service, and by no other.
"""

from __future__ import annotations

from typing import Any

from ..durable import Durable, Folded
from ..events import Event, SlotPromised, SlotTaken, WindowClosed, WindowsSet
from ..house import House
from ..names import WINDOWS
from ..protocol import CloseWindow, SlotReply, TakeSlot, WindowIsClosed
from .window import Window, WindowsState, answer, apply, grace

__all__ = ["Windows"]


class Windows(Durable[WindowsState]):
    """Answers at once; who must wait does so elsewhere, as a row.

    An answer is told before it is flushed: what it lets out waits for a later flush.
    """

    label = "window"

    def __init__(self, house: House, epoch: int) -> None:
        super().__init__(house, WINDOWS, epoch, WindowsState())

    def fold(self, state: WindowsState, event: Event) -> WindowsState:
        """Fold by the rules of windows."""
        return apply(state, event)

    def loaded(self, folded: Folded) -> None:
        """Write down limits that differ from the last ones."""
        limits = {
            name: (one.count, one.seconds) for name, one in self.house.limits.items()
        }
        known = {
            name: (one.count, one.per)
            for name, one in self.state.windows.items()
            if one.count
        }
        if limits != known:
            self.append(WindowsSet(limits=limits))

    def handle(self, message: Any) -> None:
        """Give slots and close windows; each is safe to ask for twice."""
        match message:
            case TakeSlot():
                self._close(message.service, message.closed)
                self._give(message)
            case CloseWindow(service=service, until=until, reply_to=reply_to):
                self._close(service, until)
                reply_to.tell(WindowIsClosed(service=service, until=until))

    def _close(self, service: str, until: float) -> None:
        now = self.house.now()
        known = self.state.windows.get(service, Window())
        if until > max(now, known.closed):
            self.append(WindowClosed(service=service, until=until, said=now))

    def _give(self, wanted: TakeSlot) -> None:
        service, now = wanted.service, self.house.now()
        key = f"{wanted.task}/{wanted.op}#{wanted.attempt}"
        window = self.state.windows.get(service, Window())
        said = answer(window, key, now, waited=wanted.waited)
        if window.count and not said.known:
            if said.granted:
                self.append(SlotTaken(service=service, key=key, at=said.at))
            else:
                self.append(
                    SlotPromised(service=service, key=key, at=said.at, asked=now)
                )
        wanted.reply_to.tell(
            SlotReply(
                op=wanted.op,
                attempt=wanted.attempt,
                granted=said.granted,
                at=said.at,
                until=said.at + grace(window.per) if window.count else 0.0,
            )
        )
