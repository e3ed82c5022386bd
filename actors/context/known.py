"""What was found out of a block once: that it is well-formed, and its size."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ContextBudgetError
from ..evidence import READ
from ..model import ToolSchema
from .blocks import Block
from .facts import Finding, findings_of
from .measure import CHARACTERS, Measure
from .parts import ANY, measurable
from .references import by_reference
from .units import Unit, refuse_strictly, units

__all__ = ["Known", "Sized"]

SCRATCH = 1  # its place among the parts that are measured


class Sized:
    """One block, checked and measured; its reference only once it is asked for."""

    def __init__(self, block: Block, measure: Measure, *, opens: bool) -> None:
        self.block = block
        self.units = _checked(block)
        self.size = _size(measure, block)
        self.calls = [
            call["id"]
            for message in block.messages
            for call in message.get("tool_calls") or ()
        ]
        self._measure = measure
        self._opens = opens
        self._reference: tuple[Block, int] | None = None
        self._findings: tuple[Finding, ...] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the block says in short."""
        if self._findings is None:
            self._findings = tuple(findings_of(self.block))
        return self._findings

    @property
    def reference(self) -> tuple[Block, int]:
        """The block with its bulky results as references, and the size of that."""
        if self._reference is None:
            shorter = by_reference(self.block, opens=self._opens)
            same = shorter is self.block
            size = self.size if same else _size(self._measure, shorter)
            self._reference = shorter, size
        return self._reference


class Known:
    """Blocks that requests are made of, each measured once however many it is in.

    Belongs to one task: between two requests only what changed is measured again.
    `tools` are those of the model's: references say how they are opened only where one
    of them opens them.
    """

    def __init__(
        self, tools: Sequence[ToolSchema] = (), measure: Measure = CHARACTERS
    ) -> None:
        self.measure = measure
        self.opens = any(_is_opener(one) for one in tools)
        self._sized: dict[tuple[str, int, int], Sized] = {}

    def sized(self, *parts: Sequence[Block]) -> list[list[Sized]]:
        """Return the blocks of each part, measured; those of no part are forgotten.

        Raises `ContextBudgetError` for a malformed block, which it names.
        """
        held, self._sized = self._sized, {}
        found: list[list[Sized]] = []
        for place, part in enumerate(parts):
            mine: list[Sized] = []
            for block in part:
                key = (block.layer, place, block.id)
                one = held.get(key)
                if one is None or one.block != block:
                    one = Sized(block, self.measure, opens=self.opens)
                self._sized[key] = one
                mine.append(one)
            found.append(mine)
        return found

    def scratch(self, block: Block) -> Sized:
        """What is known of a block that the newest request was made from."""
        one = self._sized.get(("scratch", SCRATCH, block.id))
        if one is None or one.block is not block:
            one = Sized(block, self.measure, opens=self.opens)
        return one


def _checked(block: Block) -> list[Unit]:
    try:
        found = units(block.messages)  # an exchange split over blocks cannot be cut
        refuse_strictly(block.messages)
    except ContextBudgetError as error:
        named = f", {block.evidence}" if block.evidence else ""
        raise ContextBudgetError(
            f"{error} of block {block.id} ({block.layer}{named})"
        ) from error
    return found


def _is_opener(schema: ToolSchema) -> bool:
    function = schema.get("function")
    return isinstance(function, dict) and function.get("name") == READ


def _size(measure: Measure, block: Block) -> int:
    return sum(measure.part(measurable(message, ANY)) for message in block.messages)
