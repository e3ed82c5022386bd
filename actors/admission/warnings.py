"""Warnings that nobody has answered yet, and that the time is nearly over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...supervision.faults import hit
from ..events import ExpiryNear
from ..names import (
    APPROVAL_ANSWERS,
    APPROVALS,
    QUESTION_ANSWERS,
    QUESTIONS,
    TIMER_ROWS,
)
from ..protocol import Warn
from ..task.expiring import no_warning, warning_key
from ..task.rows import ApprovalRow, QuestionRow

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Warnings"]


class Warnings:
    """Admission's part for them: the task that asks is not woken."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._given: set[str] = set()  # not sure to be read yet

    def warn(self, message: Warn) -> None:
        """Warn once of what is open, and still can be answered."""
        admission = self._admission
        if admission.drains is not None:
            return  # the row stays: the next opening warns

        def look(reader: Reader) -> ApprovalRow | QuestionRow | None:
            asked = _asked(reader, message.subject)
            if asked is None or asked.status != "open":
                return None
            if asked.expires is None:
                return None
            key = warning_key(asked.task, asked.op, asked.at, asked.expires)
            return None if reader.row(TIMER_ROWS, key) is None else asked

        def found(asked: ApprovalRow | QuestionRow | None) -> None:
            if asked is None or asked.expires is None:
                return
            if message.subject in self._given:
                return
            if admission.house.now() >= asked.expires:
                return
            self._given.add(message.subject)
            near = ExpiryNear(
                task=asked.task,
                what="question" if isinstance(asked, QuestionRow) else "approval",
                subject=message.subject,
                expires=asked.expires,
            )
            rows = no_warning(asked.task, asked.op, asked.at, asked.expires)
            admission.append(near, rows=rows)
            admission.read(lambda _: None, lambda _: self._readable(message.subject))
            hit("expiry.near", near.what)

        admission.read(look, found)

    def _readable(self, subject: str) -> None:
        self._given.discard(subject)


def _asked(reader: Reader, subject: str) -> ApprovalRow | QuestionRow | None:
    """What is asked, where nobody has answered it."""
    if (row := reader.row(QUESTIONS, subject)) is not None:
        if reader.row(QUESTION_ANSWERS, subject) is not None:
            return None
        return msgspec.json.decode(row, type=QuestionRow)
    if (row := reader.row(APPROVALS, subject)) is not None:
        if reader.row(APPROVAL_ANSWERS, subject) is not None:
            return None
        return msgspec.json.decode(row, type=ApprovalRow)
    return None
