"""Fit a chat history into a request of bounded size, without a runtime."""

from __future__ import annotations

from .actors.context.budgeted import BudgetedModel
from .actors.context.demo import demo
from .actors.context.fit import History, fit_context
from .actors.context.measure import canonical, request_characters
from .actors.context.parts import ANTHROPIC, ANY, OPENAI, Provider
from .actors.context.repair import Repair, Repaired, repair
from .actors.context.report import BudgetReport, PreparedContext
from .actors.errors import ContextBudgetError

__all__ = [
    "ANTHROPIC",
    "ANY",
    "OPENAI",
    "BudgetReport",
    "BudgetedModel",
    "ContextBudgetError",
    "History",
    "PreparedContext",
    "Provider",
    "Repair",
    "Repaired",
    "canonical",
    "demo",
    "fit_context",
    "repair",
    "request_characters",
]
