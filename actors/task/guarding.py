"""The task's part for circles: remembers what came of each call, and blocks some.

A call that failed by itself as often as it may is refused here, too (A107).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events import CallTool, Event, LoopFound
from ..guard.detect import LoopRules
from ..guard.ladder import blocked, look
from ..guard.seen import FREE, INFRA, OWN, REFUSED, WROTE, Seen, action_of, seen_of
from ..guard.tried import in_vain
from ..protocol import Replied
from .observing import whole
from .state import Op

if TYPE_CHECKING:
    from ..tool import Tool
    from .actor import Task

__all__ = ["Guarding"]

TROUBLES = frozenset(  # classes of errors that say nothing of what was tried
    {
        "BrokenPipeError",
        "ConnectionAbortedError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "NotSent",
        "ServiceTrouble",
        "TimeoutError",
        "gaierror",
    }
)
RAN = ("run", "probe", "subtask")  # whose word it is that a call itself failed


class Guarding:
    """Judges by results, off no clock but the time at which a poll was observed."""

    def __init__(self, task: Task) -> None:
        self._task = task
        rules = task.house.baseline
        self._rules = LoopRules(
            repeats=rules.loop_repeats,
            period=rules.loop_period,
            errors=rules.loop_errors,
            near=rules.loop_near,
            similar=rules.loop_similar,
        )

    def refusal(self, op: Op) -> str:
        """Why a call of a circle, or one tried in vain, is not let out, or nothing.

        An undo always is, and so is what may be under way already, and what a person
        made of a call.
        """
        action, state = op.action, self._task.state
        if not state.tried and state.guard.stage not in ("block", "stop"):
            return ""
        if not isinstance(action, CallTool) or op.undoes or op.doubt or op.gate:
            return ""
        name = self._action(action)
        if why := blocked(state.guard, op.op, name):
            return why
        most = self._task.house.baseline.failed_attempts
        ops = state.tried.get(name, ())
        if op.edited or not most or len(ops) < most:
            return ""
        known = state.failures.get(name)
        return in_vain(ops, known.why if known else "")

    def observed(
        self, op: Op, action: CallTool, outcome: Replied
    ) -> tuple[Seen | None, list[Event]]:
        """What is to be remembered of a call, and what is found of circles."""
        tool = self._task.agent.tools.get(action.tool)
        if tool is not None and tool.rests is not None:
            return None, []  # to wait is never a circle, what is waited for may be
        seen = self._seen(tool, action, outcome)
        status = outcome.status
        found = look(self._task.state.guard, whole(seen, op, status), self._rules)
        if found is None:
            return seen, []
        stage, finding = found
        return seen, [LoopFound(stage=stage, found=finding)]

    def _seen(self, tool: Tool | None, action: CallTool, outcome: Replied) -> Seen:
        failed = outcome.status != "completed"
        text = outcome.error if failed else outcome.result
        wrote = not failed and outcome.by != "record"
        flags = WROTE if wrote and not (tool and tool.effect == "read") else 0
        if failed:
            refused = outcome.by == "door"
            trouble = text.partition(":")[0] in TROUBLES or outcome.retry_at > 0
            flags |= INFRA if trouble else 0
            flags |= REFUSED if refused else 0
            flags |= FREE if not refused and self._free(tool, action) else 0
            own = outcome.status == "failed" and outcome.by in RAN and not trouble
            flags |= OWN if own and _repeats_itself(tool) else 0
        patience = tool.patience if tool else 0
        return seen_of(
            tool=action.tool,
            arguments=action.arguments,
            status=outcome.status,
            text=text,
            flags=flags,
            volatile=tool.volatile if tool else (),
            loop_key=tool.loop_key if tool else (),
            patience=patience,
            at=self._task.house.now() if patience else 0,
        )

    def _free(self, tool: Tool | None, action: CallTool) -> bool:
        """Whether a failed call may be made again within the retries of its kind."""
        if tool is None or tool.repeat:
            return False
        name = self._action(action)
        before = sum(
            one.action == name and one.status == "failed"
            for one in self._task.state.guard.recent
        )
        return before < self._task.house.baseline.retries_of(tool.kind)

    def _action(self, action: CallTool) -> str:
        tool = self._task.agent.tools.get(action.tool)
        return action_of(
            action.tool,
            action.arguments,
            volatile=tool.volatile if tool else (),
            loop_key=tool.loop_key if tool else (),
        )


def _repeats_itself(tool: Tool | None) -> bool:
    """Whether a call that is made again gives the same again.

    A poll waits for something else, and what generates makes something else each time.
    """
    return tool is not None and not tool.patience and tool.kind != "generate"
