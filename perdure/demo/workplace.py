"""Where the demo's tools work: plain data that a parent process hands to its child."""

from __future__ import annotations

from pathlib import Path

import msgspec

__all__ = ["CSV_REPORT", "MARKDOWN_REPORT", "REPORTS", "Workplace"]

CSV_REPORT = "report.csv"
MARKDOWN_REPORT = "report.md"
REPORTS = (CSV_REPORT, MARKDOWN_REPORT)


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """The places that the tools know and the model never names.

    Args:
        folder: Where the reports are written.
        database: The SQLite file of airports; only read.
        smtp_port: The mail server's port on 127.0.0.1.
        mail_store: Where the mail server keeps what it accepted; only read.
    """

    folder: str
    database: str
    smtp_port: int
    mail_store: str

    def report(self, name: str) -> Path:
        """The path of one of the two reports."""
        return Path(self.folder) / name
