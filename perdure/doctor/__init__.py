"""Whether a store is whole, which of its tasks this code can load, and its repair."""

from .examine import examine
from .quarantine import Item
from .repair import Repaired, put_back, quarantined, repair
from .report import Finding, Held, Report

__all__ = [
    "Finding",
    "Held",
    "Item",
    "Repaired",
    "Report",
    "examine",
    "put_back",
    "quarantined",
    "repair",
]
