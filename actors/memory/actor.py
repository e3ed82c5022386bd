"""The actor of memory: what it serves, and which part of it does."""

from __future__ import annotations

from typing import Any

from ...supervision.lifecycle import Down
from ..durable import Durable, Found
from ..events import Event
from ..house import House
from ..names import MEMORY
from ..protocol import AskCore, ChangeFact, EraseFacts, Inquire, Inquired
from .core import Core
from .evidence import Evidence
from .forgetting import Forgetting, SearchAgain
from .keeper import Keeper
from .recollection import Recollection
from .remembering import Remembering
from .state import MemoryState, apply

__all__ = ["Memory"]


class Memory(Durable[MemoryState]):
    """Serves every task; a question asked twice is answered twice alike."""

    label = "memory"

    def __init__(self, house: House, epoch: int) -> None:
        super().__init__(house, MEMORY, epoch, MemoryState())
        self.core = Core(self)
        self.evidence = Evidence(self)
        self.keeper = Keeper(self)
        self.remembering = Remembering(self)
        self.recollection = Recollection(self)
        self.forgetting = Forgetting(self)

    def fold(self, state: MemoryState, event: Event) -> MemoryState:
        """Fold by the rules of memory."""
        return apply(state, event)

    def handle(self, message: Any) -> None:
        """Answer what a tool of the runtime's own asks, keep facts, hand them on."""
        match message:
            case Inquire(tool="read_evidence"):
                self.evidence.open(message)
            case Inquire(tool="remember"):
                self.remembering.asked(message)
            case Inquire(tool="recall"):
                self.recollection.answer(message)
            case Inquire():
                self.answer(message, "", error=f"there is no tool {message.tool!r}")
            case ChangeFact():
                self.keeper.asked(message)
            case EraseFacts():
                self.forgetting.asked(message)
            case SearchAgain():
                self.forgetting.again(message)
            case AskCore():
                self.core.asked(message)
            case Down(name=name):
                self.core.down(name)
            case Found():
                self.hear(message)

    def answer(self, asked: Inquire, text: str, *, error: str = "") -> None:
        """Tell a ledger what its call gave."""
        asked.reply_to.tell(
            Inquired(op=asked.op, attempt=asked.attempt, text=text, error=error)
        )
