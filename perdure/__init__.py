"""perdure: an embeddable runtime that keeps long agent tasks alive."""

from __future__ import annotations

from .actors.acceptance import Verdict, View
from .actors.agent import Agent
from .actors.asking import ask, ask_within
from .actors.baseline import Baseline
from .actors.budget.account import Budget
from .actors.builtin import anchor, remember
from .actors.delegation import delegate
from .actors.events import PlanStep
from .actors.memory.vectors import Vectors
from .actors.outcomes import NotSent
from .actors.plan.planner import Planner
from .actors.plan.result import PlanResult
from .actors.plan.step import Plan, Step
from .actors.policy import (
    Call,
    Calls,
    Done,
    Finish,
    PolicyStep,
    PolicyView,
    Stop,
)
from .actors.price import Price
from .actors.rules import Rule
from .actors.task.parts import StepRecord
from .actors.timers.sleep import sleep
from .actors.tool import (
    CannotTell,
    DidNotHappen,
    Effect,
    Happened,
    Tool,
    ToolContext,
    tool,
)
from .actors.windows.limit import RateLimit
from .errors import (
    BudgetExhausted,
    ContextBudgetError,
    Misuse,
    PerdureError,
    RuntimeClosed,
    RuntimeFailed,
    StoreBusy,
    StoreRefused,
    TaskNotFound,
    UseAsync,
)
from .feed import TaskEvent
from .handle import Handle
from .result import Result
from .runtime import Runtime

__all__ = [
    "Agent",
    "Baseline",
    "Budget",
    "BudgetExhausted",
    "Call",
    "Calls",
    "CannotTell",
    "ContextBudgetError",
    "DidNotHappen",
    "Done",
    "Effect",
    "Finish",
    "Handle",
    "Happened",
    "Misuse",
    "NotSent",
    "PerdureError",
    "Plan",
    "PlanResult",
    "PlanStep",
    "Planner",
    "PolicyStep",
    "PolicyView",
    "Price",
    "RateLimit",
    "Result",
    "Rule",
    "Runtime",
    "RuntimeClosed",
    "RuntimeFailed",
    "Step",
    "StepRecord",
    "Stop",
    "StoreBusy",
    "StoreRefused",
    "TaskEvent",
    "TaskNotFound",
    "Tool",
    "ToolContext",
    "UseAsync",
    "Vectors",
    "Verdict",
    "View",
    "anchor",
    "ask",
    "ask_within",
    "delegate",
    "remember",
    "sleep",
    "tool",
]
