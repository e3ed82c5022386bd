"""Whether a store is whole, and which of its tasks this code can load."""

from .examine import examine
from .report import Finding, Held, Report

__all__ = ["Finding", "Held", "Report", "examine"]
