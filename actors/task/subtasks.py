"""The task's part for calls that are tasks of their own: started, awaited, told of.

    share of the money -> SubtaskStarted -> queued -> SubtaskEnded -> through the door

The child's id is made of its parent's and the operation's number, so that it is begun
once however often that is asked. Meanwhile the parent is a row, without a slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...supervision.faults import hit
from ..budget.account import Books, Budget, add, limits_of
from ..budget.share import charged
from ..errors import Misuse
from ..events import (
    Amounts,
    CallTool,
    SubtaskEnded,
    SubtaskStarted,
    TaskSubmitted,
)
from ..names import ADMISSION, TASK_ROWS
from ..protocol import Cancel, Given, Submit
from ..rules import refusal
from ..submission import make_submission
from ..tool import Tool
from .attempt import rules_of
from .commands import Drive
from .looking import Looks, Rows
from .rows import ENDED, WAITS, TaskRow
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Subtasks"]

LOST = "it could not be started: its agent is not registered any more"


class Subtasks:
    """Starts sub-tasks, and gives their results to the door."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._hands_on = any(one.delegates for one in task.agent.tools.values())
        self._looks = Looks(task, TASK_ROWS)
        self._given: dict[int, Given] = {}  # by operation, until it is observed
        self._cancelled: set[int] = set()

    @property
    def unsettled(self) -> bool:
        """Whether it is not known yet that all of them exist and go on."""
        return self._looks.under_way or self._task.requests.open(_is_submit) > 0

    def given(self, op: int) -> Given | None:
        """How the sub-task ended that an operation was, once that is known."""
        return self._given.get(op)

    def passes(self, op: Op) -> bool:
        """Whether an operation may go on; a sub-task's once its result is here."""
        if not self._hands_on:
            return True
        tool = self._tool(op)
        if tool is None or op.op in self._given:
            return True
        if op.gate == "returned":
            self.look()
            return False
        assert isinstance(op.action, CallTool)
        try:
            values = tool.parse(op.action.arguments)
            self._look_for_room(op)
            self._submission(op, values, {})
        except ValueError:
            pass  # the door says what is wrong
        except Misuse as error:
            self._given[op.op] = Given(status="failed", text=str(error), books=Books())
        return True

    def _look_for_room(self, op: Op) -> None:
        """Raise Misuse where this would be one sub-task too many.

        Calls before it that wait for their money, or for a person, have their places:
        all that one reply asks for are begun side by side.
        """
        state, rules = self._task.state, self._task.house.baseline
        before = [
            one
            for one in state.open_ops()
            if one.op < op.op and one.op not in self._given and self._tool(one)
        ]
        open_now = [one for one in before if one.gate != "returned"]
        not_begun = [one for one in open_now if one.gate != "delegated"]
        if len(open_now) >= rules.subtask_width:
            raise Misuse(
                f"{len(open_now)} sub-tasks are open, and {rules.subtask_width} may be "
                "at once: hand this on when one of them has ended, or do it here"
            )
        if state.handed + len(not_begun) >= rules.subtask_total:
            raise Misuse(
                f"this task has begun {state.handed + len(not_begun)} sub-tasks, "
                f"{rules.subtask_total} are allowed in all: do it here"
            )

    def share(self, op: Op) -> Amounts | None:
        """What a sub-task is to get by its call; None for every other operation."""
        if not self._hands_on:
            return None
        tool = self._tool(op)
        if tool is None or op.gate not in ("", "approved") or op.op in self._given:
            return None
        assert isinstance(op.action, CallTool)
        try:
            values = tool.parse(op.action.arguments)
            if refusal(rules_of(self._task), tool, values):
                return None  # nothing is begun: the door says why
            limits = values["budget"]
        except ValueError:
            return None
        return limits_of(Budget(**msgspec.structs.asdict(limits))) if limits else {}

    def start(self, op: Op, amounts: Amounts) -> None:
        """The money is set aside: write the sub-task down, then queue it."""
        task = self._task
        child = f"{task.id}.{op.op}"
        task.append(SubtaskStarted(op=op.op, child=child, amounts=amounts))
        hit("subtask.started", task.subject(op))
        self._queue(task.state.ops[op.op])

    def _queue(self, op: Op) -> None:
        task = self._task
        tool = self._tool(op)
        assert isinstance(op.action, CallTool)
        try:
            values = tool.parse(op.action.arguments) if tool else None
            child = self._submission(op, values, op.amounts) if values else None
        except (ValueError, Misuse):
            child = None
        if child is None:
            self._ended(op, "failed", Given(status="failed", text=LOST, books=Books()))
            return
        message = Submit(task=child, reply_to=task.address)
        task.requests.send(("submit", child.task), _admission(task), message)

    def queued(self, child: str) -> None:
        """The sub-task is durable; from here on its end wakes this task."""
        self._task.requests.answered(("submit", child))

    def _submission(
        self, op: Op, values: dict[str, Any], amounts: Amounts
    ) -> TaskSubmitted:
        """The child's submission. Raises Misuse for what cannot be one."""
        task = self._task
        house, mine = task.house, task.state.task
        agent = house.agents.get(values["agent"])
        if agent is None:
            known = ", ".join(sorted(house.agents))
            raise Misuse(f"there is no agent {values['agent']!r}; agents: {known}")
        depth = mine.depth + 1
        if depth > house.baseline.subtask_depth:
            raise Misuse(
                f"a sub-task of depth {depth} is not started, "
                f"{house.baseline.subtask_depth} are allowed: do it here"
            )
        child = make_submission(
            agent,
            values["goal"],
            task_id=f"{task.id}.{op.op}",
            rules=house.baseline,
            codec=house.codec,
            inputs=values["inputs"],
            constraints=mine.constraints,
            bound_by=rules_of(task),
            budget=None,
            group=mine.group,
            priority=mine.priority,
            key=None,
            deadline=mine.deadline,
            not_before=None,
        )
        return msgspec.structs.replace(
            child, budget=amounts, parent=task.id, parent_op=op.op, depth=depth
        )

    # ── its end ──────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Read how the sub-tasks stand, behind all appends so far."""
        self._looks.read((op.child for op in self._handed_on()), self._found)

    def _handed_on(self) -> list[Op]:
        """The operations whose sub-task has not given its result yet."""
        return [
            op
            for op in self._task.state.open_ops()
            if op.gate in ("delegated", "returned") and op.op not in self._given
        ]

    def _found(self, found: Rows, _at: float) -> None:
        """Take the results that have come; start what was written down only."""
        for op in self._handed_on():
            if op.child not in found:
                continue
            body = found[op.child]
            if body is None:
                self._queue(op)
                continue
            row = msgspec.json.decode(body, type=TaskRow)
            if row.status in ENDED:
                self._ended(op, row.status, self._result(op, row))

    def _result(self, op: Op, row: TaskRow) -> Given:
        books = charged(row.books, op.amounts)
        spent = add(books.spent, self._task.operations.own(op))
        books = msgspec.structs.replace(books, spent=spent)
        if row.status == "completed":
            return Given(status="completed", text=row.output, books=books)
        why = f": {row.reason}" if row.reason else ""
        text = f"sub-task {row.task} ended as {row.status}{why}"
        return Given(status="failed", text=text, books=books)

    def _ended(self, op: Op, status: str, given: Given) -> None:
        task = self._task
        self._given[op.op] = given
        task.parting.gone_on(*WAITS)
        if op.gate == "delegated":
            task.append(SubtaskEnded(op=op.op, child=op.child, status=status))
            hit("subtask.ended", task.subject(op))
        task.under_way.discard(Drive(op.op, op.attempt))

    def observed(self, op: int) -> None:
        """The result is in the record."""
        self._given.pop(op, None)

    def cancel(self, op: Op) -> None:
        """Have a sub-task end, once it is sure to exist."""
        task = self._task
        if op.op in self._cancelled or self.unsettled:
            return
        self._cancelled.add(op.op)
        message = Cancel(
            task=op.child,
            by=f"its parent {task.id}",
            compensate=task.state.compensate,
        )
        _admission(task).tell(message)

    def cancel_again(self) -> None:
        """The task is to end in another way than what it handed on was told."""
        self._cancelled.clear()

    def admission_is_up(self) -> None:
        """What it was told may not have been heard: tell it again, look again."""
        self._cancelled.clear()
        self.look()

    def _tool(self, op: Op) -> Tool | None:
        action = op.action
        if not isinstance(action, CallTool):
            return None
        tool = self._task.agent.tools.get(action.tool)
        return tool if tool is not None and tool.delegates else None


def _admission(task: Task) -> Any:
    return task.house.address(ADMISSION)


def _is_submit(key: Any) -> bool:
    return isinstance(key, tuple) and key[0] == "submit"
