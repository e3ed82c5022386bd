"""What the running step's exchanges have brought so far, as requests show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..context.blocks import Block
from ..events import CallTool
from ..ledger.entry import Entry
from ..model import ModelReply
from .recovery import exchange, exchanges, told

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Exchanges"]

NOT_STARTED = "error: it was given up before it started"  # so nothing is recorded


class Exchanges:
    """Replies and results by operation, then whole exchanges, in `scratch`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.replies: dict[int, ModelReply] = {}
        self.results: dict[int, str] = {}
        self.scratch: list[Block] = []
        self._recorded: tuple[Entry, ...] = ()  # of the step, as of the last rebuild

    def hold(self, op: int, text: str) -> ModelReply:
        """Keep a model's reply, decoded, with ids made unique within the task."""
        reply = msgspec.json.decode(text, type=ModelReply)
        self.replies[op] = reply
        return reply

    def recall(self, entries: Sequence[Entry], until: int) -> None:
        """Take back from the record what belongs to the exchange after `until`."""
        open_ops = {op.op for op in self._task.state.open_ops()}
        self._recorded = tuple(entries)
        for entry in entries:
            if entry.kind == "model" and entry.status == "completed":
                self.hold(entry.op, entry.result)
            elif entry.status == "pending" or entry.op in open_ops:
                continue
            elif entry.kind == "tool" and entry.parent > until:
                self.results[entry.op] = told(entry)

    def forget(self) -> None:
        """A step ended: nothing of its exchanges is needed any more."""
        self.replies.clear()
        self.results.clear()
        self.scratch.clear()
        self._recorded = ()

    def blocks_of(self, ids: range) -> Sequence[Block]:
        """Exchanges of the step; those before a recovery from the record."""
        held = [block for block in self.scratch if block.id in ids]
        return held or exchanges(self._recorded, ids)

    def remember(self, parent: int) -> None:
        """Once all calls of a reply are observed, put the exchange into scratch."""
        task = self._task
        mine = [
            op
            for op in task.state.ops.values()
            if isinstance(op.action, CallTool) and op.action.parent == parent
        ]
        if any(op.open for op in mine) or parent <= task.state.facts_until:
            return
        reply = self.replies.pop(parent)
        calls = reply.tool_calls[: len(mine)]
        results = [
            (f"{parent}.{place}", self.results.pop(op.op, NOT_STARTED))
            for place, op in enumerate(mine)
        ]
        reply = msgspec.structs.replace(reply, tool_calls=calls)
        ops = [op.op for op in mine]
        self.scratch.append(exchange(parent, reply, results, ops))

    def answer(self, op: int) -> str:
        """The answer that is to be judged: a policy's is in the task's state."""
        reply = self.replies.get(op)
        if reply is None:
            return self._task.state.choice.result
        return (reply.content or "").strip()

    def remember_answer(self, op: int) -> None:
        """Put a refused answer into scratch, so that the model sees what it said.

        One from before a recovery stays out, like every exchange before it.
        """
        reply = self.replies.pop(op, None)
        if reply is None or not (reply.content or "").strip():
            return
        if op <= self._task.state.facts_until:
            return
        self.scratch.append(exchange(op, reply, []))
