"""What people are asked by a task, and told it, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from .views import TaskSheet
from .views_text import REASON, short, table, tame, time_text, value_text

__all__ = ["waiting_text"]


def waiting_text(sheet: TaskSheet) -> Iterator[str]:
    """The tables of approvals, questions and notes, where there are any."""
    if sheet.approvals:
        yield ""
        yield from table(
            ("APPROVAL", "OP", "TOOL", "STATUS", "ASKED", "EXPIRES", "BY", "ARGUMENTS"),
            (
                (
                    one.approval,
                    str(one.op),
                    short(one.tool, REASON),
                    one.status,
                    time_text(one.at),
                    "-" if one.expires is None else time_text(one.expires),
                    short(one.by, REASON) or "-",
                    value_text(one.arguments),  # whole: it is what is approved
                )
                for one in sheet.approvals
            ),
        )
    if sheet.questions:
        head = "QUESTION", "STATUS", "ASKED", "EXPIRES", "BY", "ANSWER", "TEXT"
        yield ""
        yield from table(
            (*head, "CHOICES"),
            (
                (
                    one.question,
                    one.status,
                    time_text(one.at),
                    "-" if one.expires is None else time_text(one.expires),
                    short(one.by, REASON) or "-",
                    short(one.answer, REASON) or "-",
                    tame(" ".join(one.text.split())),  # whole: it is to be answered
                    value_text(one.choices) if one.choices else "-",
                )
                for one in sheet.questions
            ),
        )
    if sheet.notes:
        yield ""
        yield from table(
            ("NOTE", "GIVEN", "BY", "TAKEN", "TEXT"),
            (
                (
                    str(one.number),
                    time_text(one.at),
                    short(one.by, REASON),
                    "yes" if one.taken else "not yet",
                    value_text(one.text),
                )
                for one in sheet.notes
            ),
        )
