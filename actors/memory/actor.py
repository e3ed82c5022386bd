"""The actor of memory: answers the tools that the runtime itself carries out."""

from __future__ import annotations

from typing import Any

from ..durable import Durable
from ..events import Event
from ..house import House
from ..names import MEMORY
from ..protocol import Inquire, Inquired
from .evidence import Evidence, EvidenceRead
from .state import MemoryState, apply

__all__ = ["Memory"]


class Memory(Durable[MemoryState]):
    """Serves every task; a question asked twice is answered twice alike."""

    label = "memory"

    def __init__(self, house: House, epoch: int) -> None:
        super().__init__(house, MEMORY, epoch, MemoryState())
        self.evidence = Evidence(self)

    def fold(self, state: MemoryState, event: Event) -> MemoryState:
        """Fold by the rules of memory."""
        return apply(state, event)

    def handle(self, message: Any) -> None:
        """Answer what a tool of the runtime's own asks."""
        match message:
            case Inquire(tool="read_evidence"):
                self.evidence.open(message)
            case EvidenceRead():
                self.evidence.read(message)
            case Inquire():
                self.answer(message, "", error=f"there is no tool {message.tool!r}")

    def answer(self, asked: Inquire, text: str, *, error: str = "") -> None:
        """Tell a task's ledger what its call has brought."""
        asked.reply_to.tell(
            Inquired(op=asked.op, attempt=asked.attempt, text=text, error=error)
        )
