"""The errors that the rooms below the front door raise."""

from __future__ import annotations

__all__ = ["ContextBudgetError", "Misuse", "PerdureError"]


class PerdureError(Exception):
    """Something in perdure failed; the subclass says whose fault it is."""


class ContextBudgetError(PerdureError, ValueError):
    """A request does not fit its budget, or its tool protocol is malformed.

    Raised before the model is called. Raise the limit, or shorten the part that
    the message names.
    """

    fault = "yours"


class Misuse(PerdureError):
    """A value you gave cannot be used; the message names it, and the fix."""

    fault = "yours"
