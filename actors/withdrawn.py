"""Approvals that were taken back while this process ran; asked on any thread."""

from __future__ import annotations

__all__ = ["Withdrawn"]


class Withdrawn:
    """What an operation that waits for its thread must still hear of.

    The record is the row of the answer; every start reads that. Admission adds to this
    before it appends, so that no call which is handed out later can miss it.
    """

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}

    def add(self, task: str, approval: str) -> None:
        """An approval is no longer of use."""
        self._of[task] = self._of.get(task, frozenset()) | {approval}

    def discard(self, task: str, approval: str) -> None:
        """That was surely not written."""
        self._of[task] = self._of.get(task, frozenset()) - {approval}

    def holds(self, task: str, approval: str) -> bool:
        """Whether the approval was taken back."""
        return approval in self._of.get(task, ())

    def forget(self, task: str) -> None:
        """The task has stopped: nothing of it waits for a thread."""
        self._of.pop(task, None)

    def clear(self) -> None:
        """The store was opened anew: only what is in its rows was said."""
        self._of.clear()
