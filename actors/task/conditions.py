"""When a task's loop stops: every condition by name, in the order they are asked.

They are asked before every iteration (B52), and before a step begins; never does it
depend on the model alone whether there is another one. The first that holds stops the
loop, and its name is on record with the step or the task that it stopped:

    cancelled       somebody asked the task to end
    budget          the account set nothing aside for the next operation (B49)
    deadline        the task's deadline has passed (A82)
    person          a call waits for somebody's word (B50)
    context         what the next request must hold does not fit (B49)
    satisfied       every step passed acceptance that can (B48)
    loop            the newest actions go round in circles (B53)
    tool_errors     so many calls in a row failed, or a service, after its retries (B49)
    step_timeout    the step's own time is over (A82)
    max_calls       the step asked for calls beyond its limit only (A82)
    max_iterations  the step had so many replies of the model (B47)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..events import CallTool, PlanStep
from ..guard.ladder import evidence
from ..plan.planner import Planner
from ..plan.standing import stuck_step
from .asked import opened
from .commands import OVERDUE, StopFor
from .parts import StepRecord
from .planned import plans
from .reasons import refusal
from .state import TaskState

__all__ = [
    "CONDITIONS",
    "Condition",
    "Held",
    "Moment",
    "condition_of",
    "first_held",
    "is_overdue",
]


class Moment:
    """What conditions look at: the state, the time, and what was refused just now.

    `now` is the second since the epoch; `refused` what a room of the task wants it to
    stop for, of which its state says nothing; `planner` the agent's. `overdue` says
    that the task's deadline has passed; `step` is the running step, `iterates` that and
    its plan, None where its answer is still to be judged.
    """

    __slots__ = ("iterates", "now", "overdue", "planner", "refused", "state", "step")

    def __init__(
        self,
        state: TaskState,
        now: float,
        refused: StopFor | None = None,
        planner: Planner | None = None,
    ) -> None:
        self.state = state
        self.now = now
        self.refused = refused
        self.planner = planner
        self.overdue = is_overdue(state, now)
        self.step = step = state.step
        self.iterates: tuple[StepRecord, PlanStep] | None = None
        if step is not None and not state.answer:
            plan = state.plan_of(step.id)
            assert plan is not None
            self.iterates = step, plan


class Condition(NamedTuple):
    """One reason to stop, asked with `why`: it holds where that says something.

    `reasons` are the reasons of pauses, and the ends, which say that it was this one.
    """

    name: str
    why: Callable[[Moment], str]
    reasons: tuple[str, ...] = ()


class Held(NamedTuple):
    """A condition that holds, and why."""

    name: str
    why: str


def _cancelled(at: Moment) -> str:
    by = at.state.cancelled_by
    return f"cancelled by {by}" if by else ""


def _budget(at: Moment) -> str:
    shortage = at.state.shortage
    return shortage.detail if shortage is not None else ""


def _person(at: Moment) -> str:
    ops = at.state.ops.values()
    waiting = [op.approval for op in ops if op.gate == "asked" and op.open]
    if at.state.questions:
        waiting += [one.question for one in opened(at.state)]
    return f"a person's word is waited for: {', '.join(waiting)}" if waiting else ""


def is_overdue(state: TaskState, now: float) -> bool:
    """Whether the deadline of a task has passed."""
    deadline = state.task.deadline
    return deadline is not None and now >= deadline


def _deadline(at: Moment) -> str:
    return OVERDUE.detail if at.overdue else ""


def _nothing(at: Moment) -> str:
    """Only a room of the task can tell: see `Moment.refused`."""
    return ""


def _satisfied(at: Moment) -> str:
    state = at.state
    if at.step is not None or plans(state, at.planner) is not None:
        return ""
    if any(one.ready for one in state.standings().values()):
        return ""
    if stuck_step(state.plan, state.statuses()):
        return ""
    return "every step passed acceptance"


def _loop(at: Moment) -> str:
    guard = at.state.guard
    if at.iterates is None or guard.stage != "stop" or guard.kind in _ERRORS:
        return ""
    return evidence(guard)


def _tool_errors(at: Moment) -> str:
    guard = at.state.guard
    if at.iterates is None or guard.stage != "stop" or guard.kind not in _ERRORS:
        return ""
    return evidence(guard)


def _step_timeout(at: Moment) -> str:
    step = at.iterates
    over = step and step[0].deadline is not None and at.now >= step[0].deadline
    return "its time is over" if over else ""


def _max_calls(at: Moment) -> str:
    if at.iterates is None:
        return ""
    beyond = False
    for op in at.state.ops.values():
        if isinstance(op.action, CallTool):
            beyond = op.beyond
            if not beyond:
                break
    most = at.iterates[1].max_calls
    return f"it asked for more than its {most} tool calls" if beyond else ""


def _max_iterations(at: Moment) -> str:
    step = at.iterates
    if step is None or not step[1].max_iterations:  # a policy has its budget alone
        return ""
    if step[0].iterations < step[1].max_iterations:
        return ""
    said = f"{step[1].max_iterations} iterations without an accepted answer"
    refused = refusal(at.state)
    return f"{said}: {refused}" if refused else said


_PERSON = ("approval", "approval_expired", "policy", "question", "unknown_effect")
_ERRORS = ("errors", "service")  # kinds of circles that are errors in a row

CONDITIONS = (
    Condition("cancelled", _cancelled, ("cancelled",)),
    Condition("budget", _budget, ("budget",)),
    Condition("deadline", _deadline, ("deadline",)),
    Condition("person", _person, _PERSON),
    Condition("context", _nothing, ("context",)),
    Condition("satisfied", _satisfied, ("completed",)),
    Condition("loop", _loop, ("loop",)),
    Condition("tool_errors", _tool_errors, ("tool_errors", "service")),
    Condition("step_timeout", _step_timeout),
    Condition("max_calls", _max_calls),
    Condition("max_iterations", _max_iterations),
)


def first_held(at: Moment) -> Held | None:
    """The first condition that holds, or None where the loop goes on."""
    refused = at.refused
    for name, why, reasons in CONDITIONS:
        said = refused is not None and refused.reason in reasons
        if held := refused.detail if refused and said else why(at):
            return Held(name, held)
    return None


def condition_of(reason: str) -> str:
    """The condition that a pause for some reason, or an end, says; "" for none."""
    return next((one.name for one in CONDITIONS if reason in one.reasons), "")
