"""How a task's state follows its policy's decisions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..events import CallTool, DecisionMade, FinishStep, PauseTask
from .commands import AskModel, AskPolicy, Command, StopFor

if TYPE_CHECKING:
    from .parts import Op
    from .state import TaskState

__all__ = ["Choice", "by_policy", "chose", "counted", "failed", "is_own"]


class Choice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a policy's newest decision was, and how far the step is by them.

    `memo` is JSON text. `since` is the first operation of the step's attempt,
    `exchange` the first of the newest decision, `finished` how many have ended.
    `result` waits for acceptance, `stop` for somebody to resume; `failures` is how
    often in a row the policy gave no decision.
    """

    memo: str = "null"
    since: int = 0
    exchange: int = 0
    finished: int = 0
    result: str = ""
    stop: str = ""
    failures: int = 0


def is_own(op: int, action: object) -> bool:
    """Whether a call is a policy's: its exchange is named by its own first call."""
    if isinstance(action, CallTool):
        return action.undoes is None and action.parent == op - action.index
    return isinstance(action, FinishStep | PauseTask)


def by_policy(state: TaskState, due: Command) -> Command:
    """What is due where an agent decides by its own policy."""
    if not isinstance(due, AskModel):
        return due
    if state.choice.stop:
        return StopFor("policy", state.choice.stop, "resume")
    return AskPolicy(due.step, due.iteration)


def chose(choice: Choice, event: DecisionMade) -> Choice:
    """A policy decided; the calls of a decision come one event each."""
    change = msgspec.structs.replace
    memo = choice.memo if event.memo is None else event.memo
    match event.action:
        case CallTool(index=0):
            return change(choice, memo=memo, failures=0, exchange=event.op)
        case FinishStep(result=result):
            return change(choice, memo=memo, failures=0, result=result)
        case PauseTask():
            return change(choice, memo=memo, failures=0, stop=event.why)
    return change(choice, memo=memo)


def counted(choice: Choice, op: Op) -> Choice:
    """One more call has ended."""
    if not is_own(op.op, op.action):
        return choice
    return msgspec.structs.replace(choice, finished=choice.finished + 1)


def failed(choice: Choice) -> Choice:
    """The policy raised, hung, or returned what is no action."""
    return msgspec.structs.replace(choice, failures=choice.failures + 1)
