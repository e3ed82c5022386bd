"""The task's part for taking effects back: newest first, each a call of its own.

    look for the newest -> decide -> through the door and back -> look again

What can be taken back stands in rows that the ledger writes with its records: a row is
there from an effect's completion until that of its undo, so that each is found once,
whoever crashes in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ..budget.account import Refusal
from ..context.measure import canonical
from ..events import CallTool, DecisionMade, Undoes
from ..ledger.rows import UndoRow, undo_prefix
from ..names import UNDOS, effect
from ..tool import UNDO, Effect, Tool
from .commands import StopFor
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Compensation"]


class Compensation:
    """Decides on one undo after the other, then on the end of the task."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def look(self) -> None:
        """Read which effect is next, behind all appends so far."""
        task = self._task

        def read(reader: Reader) -> Row | None:
            return reader.last_row(UNDOS, undo_prefix(task.id))

        task.read(read, self._found)

    def _found(self, newest: Row | None) -> None:
        """Take the next effect back, or end where there is none left."""
        task, state = self._task, self._task.state
        task.under_way.clear()  # nothing else is, while one is looked for
        if not state.compensate or state.open_ops() or state.outcome is not None:
            return
        if task.parting.stopping or task.parting.draining or task.parting.leaving:
            return
        if newest is None:
            done = f"effects taken back: {state.undone}"
            reason = f"cancelled by {state.cancelled_by}; {done}"
            task.parting.decide_outcome("cancelled", reason)
            return
        assert newest.value is not None
        row = msgspec.json.decode(newest.value, type=UndoRow)
        tool = task.agent.tool_of(row.tool, undo=True)
        if tool is None:
            detail = f"{effect(task.id, row.op)}: tool {row.tool} has no undo any more"
            task.parting.stop_for(StopFor("undo", detail, "resume, or cancel"))
            return
        task.append(
            DecisionMade(
                op=state.next_op,
                step=f"undo {row.op}",
                action=CallTool(
                    tool=f"{row.tool}{UNDO}",
                    arguments=self._arguments(tool, row),
                    call_id="",
                    parent=0,
                    index=0,
                    undoes=Undoes(op=row.op, place=row.place),
                ),
                why=f"take {effect(task.id, row.op)} back",
                learned="",
            )
        )

    def _arguments(self, tool: Tool, row: UndoRow) -> str:
        undone = Effect(
            task=self._task.id,
            op=row.op,
            attempt=row.attempt,
            tool=row.tool,
            arguments=msgspec.json.decode(row.arguments),
            request_id=row.request_id,
        )
        both: dict[str, Any] = {
            "effect": msgspec.to_builtins(undone),
            "result": row.result,
        }
        wanted = tool.parameters.__struct_fields__
        return canonical({name: both[name] for name in wanted})

    def clear(self, op: Op) -> None:
        """Let go of an operation; of one that may have happened, find out first."""
        task = self._task
        operations = task.operations
        if op.op in operations.sent:
            return  # under way: its outcome is waited for
        doubt = op.doubt or op.op in operations.in_doubt
        if doubt and isinstance(op.action, CallTool):
            tool = task.agent.tools.get(op.action.tool)
            if tool is not None and tool.undo is not None:
                operations.drive(op)
                return
        task.abandon(op)

    def refused(self, op: Op, refusal: Refusal) -> None:
        """A limit stands in the way of an undo."""
        stop = StopFor("budget", str(refusal), "extend, or cancel")
        self._task.parting.stop_for(stop, op)
