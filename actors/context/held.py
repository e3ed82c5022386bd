"""A history whose messages are validated and measured once, and what of it may go."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from ..errors import ContextBudgetError
from ..model import Message, ToolSchema
from .measure import Measure
from .notice import measured, noticed
from .parts import ANY, Provider, measurable, text_of
from .report import Profile
from .units import Splitter, Unit, refuse_unportable

__all__ = ["Cut", "Edge", "Held"]

PINNED_ROLES = frozenset({"system", "developer"})


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """Where a history is cut: what stands before `unit` goes.

    `stay` are the units before it that stay all the same, beside instructions.
    """

    unit: int = 0
    stay: tuple[int, ...] = ()


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What stays and what goes.

    Args:
        edge: where the cut is.
        kept: indices of messages, in order.
        newest: how many of them, the last, are the newest unit of the current turn
            and what stands behind it; 0 without such a unit.
        size: the parts of what is kept, in the measure.
        omitted: messages left out, with those that notices in the history name.
        messages, turns, exchanges: what this cut drops, and those before it did not.
    """

    edge: Edge
    kept: list[int]
    newest: int
    size: int
    omitted: int
    messages: int
    turns: int
    exchanges: int


class Held:
    """Messages, and running sums over them, so that a cut is found by halving.

    For each unit the sums say how much of what stands before it may go: a cut at a
    unit drops that, pinned units excepted. Sums are over units that may go at all.
    """

    def __init__(
        self,
        tools: list[ToolSchema],
        *,
        profile: Profile,
        measure: Measure,
        provider: Provider | None,
        required_task: str | None,
    ) -> None:
        strict = profile != "source"
        self.messages: list[Message] = []
        self.size = self.given = self.given_size = self.noticed = 0
        if not isinstance(tools, list):
            raise ContextBudgetError("tools must be a list")
        if strict:
            refuse_unportable(tools, "tools")
        self.measure = measure
        self.schemas = measure.part(tools)
        self.profile = profile
        self.provider = (provider or ANY) if strict else None
        self._required = required_task
        self._splitter = Splitter(provider=self.provider, strict=strict)
        self._open = 0  # size of the unit that is not complete
        self._starts: list[int] = []  # of each unit, its first message
        self._counts = [0]
        self._sizes = [0]
        self._exchanges = [0]
        self._pinned: list[int] = []  # units that instruct
        self._users: list[int] = []
        self._active: list[int] = []  # units of the current turn that may go
        self._task: int | None = None  # the newest unit that says the required task
        self.edge = Edge()  # of the cut that stands; moved by whoever keeps one

    def add(self, message: Message) -> None:
        """Hold one more message; `ContextBudgetError` where it is malformed."""
        where = f"message {self.given}"
        if self.provider is not None:
            refuse_unportable(message, where)
            if isinstance(message, dict) and isinstance(message.get("content"), list):
                # Before it is measured: a part without a type has no measure.
                self.provider.refuse(message["content"], where)
        size = self.part(message)
        unit = self._splitter.add(message)
        self.given += 1
        self.given_size += size
        if self.profile == "runtime" and (earlier := noticed(message)):
            self.noticed += earlier
            return
        self.messages.append(message)
        self.size += size
        self._open += size
        if unit is not None:
            self._close(unit)

    def part(self, message: Message) -> int:
        """Return what one message measures."""
        if self.provider is None:
            return self.measure.part(message)
        return self.measure.part(measurable(message, self.provider))

    def total(self, messages: Sequence[Message]) -> int:
        """Return what a request of these messages measures."""
        return self.measure.total(
            len(messages), sum(map(self.part, messages)), self.schemas
        )

    def _close(self, unit: Unit) -> None:
        place = len(self._starts)
        count, size = unit.end - unit.first, self._open
        self._open = 0
        self._starts.append(len(self.messages) - count)
        goes = unit.role not in PINNED_ROLES
        self._counts.append(self._counts[-1] + goes * count)
        self._sizes.append(self._sizes[-1] + goes * size)
        self._exchanges.append(self._exchanges[-1] + (goes and unit.exchange))
        if unit.role == "user":
            self._users.append(place)
            self._active = []
            if text_of(self.messages[-1]["content"]) == self._required:
                self._task = place
        elif goes:
            self._active.append(place)
        else:
            self._pinned.append(place)

    def check(self) -> None:
        """Raise `ContextBudgetError` where no request can be made of it as it stands.

        That is an exchange without all its results, or no current task, or another
        one than was required.
        """
        self._splitter.finish()
        if not self._users:
            raise ContextBudgetError("a current user task is required")
        content = self.messages[self._starts[self._users[-1]]]["content"]
        text = text_of(content)
        if not text.strip() and (
            isinstance(content, str) or all(part["type"] == "text" for part in content)
        ):
            raise ContextBudgetError("a current user task is required, not a blank one")
        if self._required is None:
            return
        if self.profile == "runtime":
            if self._task is None:
                raise ContextBudgetError(
                    "no user message is the required task; one must equal it exactly"
                )
        elif text != self._required:
            raise ContextBudgetError(
                "the last user message is not the required task; it must equal it "
                "exactly"
            )

    def cut(self, limit: int, low_water: float) -> Cut:
        """Return the first cut from `edge` on that fits `limit`, or the last there is.

        Once over, it goes down to the share `low_water` of the limit. Cuts drop what
        stands before the first user message, then whole user turns, then units of the
        current turn: each but the newest.
        """
        if self._measured(self.edge) <= limit:
            return self._cut(self.edge)
        goal = int(limit * low_water) if low_water < 1 else limit
        cuts = range(len(self._users) + max(len(self._active) - 1, 0))
        cuts = cuts[bisect_right(cuts, self.edge.unit, key=self._place) :]
        if not cuts:
            return self._cut(self.edge)

        def fits(cut: int) -> bool:
            return self._bare(self._at(cut)) <= goal

        # Without the notice, a request only gets shorter from cut to cut.
        first = bisect_left(cuts[:-1], True, key=fits)
        found = next(
            (cut for cut in cuts[first:] if self._measured(self._at(cut)) <= goal),
            cuts[-1],
        )
        return self._cut(self._at(found))

    def _place(self, cut: int) -> int:
        turns = len(self._users)
        return self._users[cut] if cut < turns else self._active[cut - turns + 1]

    def _at(self, cut: int) -> Edge:
        place, task = self._place(cut), self._task
        pinned = {self._users[-1], self._users[-1] if task is None else task}
        return Edge(unit=place, stay=tuple(sorted(u for u in pinned if u < place)))

    def _gone(self, edge: Edge) -> tuple[int, int]:
        """Messages and size that a cut drops."""
        counts, sizes = self._counts, self._sizes
        count, size = counts[edge.unit], sizes[edge.unit]
        for unit in edge.stay:
            count -= counts[unit + 1] - counts[unit]
            size -= sizes[unit + 1] - sizes[unit]
        return count, size

    def _bare(self, edge: Edge) -> int:
        count, size = self._gone(edge)
        return self.measure.total(
            len(self.messages) - count, self.size - size, self.schemas
        )

    def _measured(self, edge: Edge) -> int:
        count, size = self._gone(edge)
        return measured(
            self.measure,
            len(self.messages) - count,
            self.size - size,
            self.schemas,
            self.noticed + count,
        )

    def _turns(self, edge: Edge) -> int:
        return bisect_left(self._users, edge.unit) - len(edge.stay)

    def _cut(self, edge: Edge) -> Cut:
        count, size = self._gone(edge)
        before = self._pinned[: bisect_left(self._pinned, edge.unit)]
        kept = [self._starts[unit] for unit in sorted([*before, *edge.stay])]
        total = len(self.messages)
        return Cut(
            edge=edge,
            kept=[*kept, *range(self._starts[edge.unit], total)],
            newest=total - self._starts[self._active[-1]] if self._active else 0,
            size=self.size - size,
            omitted=self.noticed + count,
            messages=count - self._gone(self.edge)[0],
            turns=self._turns(edge) - self._turns(self.edge),
            exchanges=self._exchanges[edge.unit] - self._exchanges[self.edge.unit],
        )
