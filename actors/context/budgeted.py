"""A chat model that is never called with more than its budget."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ..model import Message, ToolSchema
from .fit import MAX_CHARACTERS, check_options, fit_context
from .measure import CHARACTERS, Measure, copied
from .parts import Provider
from .report import BudgetReport, Profile

__all__ = ["BudgetedModel", "PlainModel"]

REPORTS_KEPT = 64


class PlainModel(Protocol):
    """The plain chat interface: history and schemas in, an answer out."""

    async def complete(self, messages: list[Message], tools: list[ToolSchema]) -> Any:
        """Answer a chat history."""
        ...


class BudgetedModel:
    """Fits every request to `max_characters` before the model sees it.

    `calls` counts the calls that reached the model; `reports` holds the measures of
    the latest 64. The whole trajectory is the caller's to keep.

    Args:
        model: who answers.
        max_characters: code points of canonical JSON, tool schemas included.
        required_task, profile, measure, provider: as `fit_context` takes them.

    Raises `ContextBudgetError` when built with options that `fit_context` refuses.
    """

    def __init__(
        self,
        model: PlainModel,
        *,
        max_characters: int = MAX_CHARACTERS,
        required_task: str | None = None,
        profile: Profile = "source",
        measure: Measure = CHARACTERS,
        provider: Provider | None = None,
    ) -> None:
        check_options(max_characters, profile, provider)
        self.model = model
        self.max_characters = max_characters
        self.required_task = required_task
        self.profile: Profile = profile
        self.measure = measure
        self.provider = provider
        self.calls = 0
        self.reports: deque[BudgetReport] = deque(maxlen=REPORTS_KEPT)

    async def complete(self, messages: list[Message], tools: list[ToolSchema]) -> Any:
        """Answer the fitted history; the model gets copies.

        Raises `ContextBudgetError` where it cannot be fitted: then the model is not
        called, and nothing is counted.
        """
        prepared = fit_context(
            messages,
            tools,
            max_characters=self.max_characters,
            required_task=self.required_task,
            profile=self.profile,
            measure=self.measure,
            provider=self.provider,
        )
        schemas = copied(tools)
        self.reports.append(prepared.report)
        self.calls += 1
        return await self.model.complete(prepared.messages, schemas)
