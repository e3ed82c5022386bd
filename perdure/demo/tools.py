"""The demo's four tools, and the probe of the one that must not happen twice."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import smtplib
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal

from ..actors.outcomes import NotSent
from ..actors.tool import (
    CannotTell,
    DidNotHappen,
    Effect,
    Happened,
    Tool,
    Verdict,
    tool,
)
from .data import open_database
from .files import write_whole
from .mail import HOST, attachments, find, message_id
from .query import Query, Scalar, run, schema_of
from .workplace import CSV_REPORT, REPORTS, Workplace

__all__ = ["described", "make_probe", "make_tools"]

SENDER = "reporter@perdure.demo"
SMTP_TIMEOUT = 20.0  # seconds
ROWS_LIMIT = 200  # rows of one answer
ANSWER_CHARACTERS = 6_000  # of one answer's rows as JSON
EXPORT_LIMIT = 50_000  # rows of a CSV report
REPORT_CHARACTERS = 100_000  # of a Markdown report
REFUSALS = (
    smtplib.SMTPRecipientsRefused,
    smtplib.SMTPSenderRefused,
    smtplib.SMTPDataError,
    smtplib.SMTPConnectError,
    smtplib.SMTPHeloError,
    smtplib.SMTPNotSupportedError,
)


def make_tools(place: Workplace) -> list[Tool]:
    """The tools, bound to one workplace."""

    def list_tables() -> dict[str, Any]:
        """List the tables of the database with their columns and numbers of rows."""
        with closing(open_database(place.database)) as database:
            tables = [
                {
                    "name": name,
                    "columns": columns,
                    "rows": _count(database, name),
                }
                for name, columns in schema_of(database).items()
            ]
        return {"tables": tables}

    def query_rows(
        table: str,
        columns: list[str],
        where: dict[str, Scalar] | None = None,
        group_by: list[str] | None = None,
        order_by: list[str] | None = None,
        limit: int = 50,
    ) -> dict[str, Any]:
        """Read rows of one table.

        columns are names or count(*), min(column), max(column), sum(column); where
        gives the value each named column must equal; order_by takes names of columns,
        with a leading - for descending. At most 200 rows, each a list in the order
        of columns; more says that some are missing.
        """
        if not 1 <= limit <= ROWS_LIMIT:
            raise ValueError(f"limit={limit} must be between 1 and {ROWS_LIMIT}")
        query = Query(
            table=table,
            columns=columns,
            where=where or {},
            group_by=group_by or (),
            order_by=order_by or (),
            limit=limit + 1,
        )
        with closing(open_database(place.database)) as database:
            found = run(database, query)
        rows = _bounded(found[:limit])
        return {"columns": columns, "rows": rows, "more": len(rows) < len(found)}

    def write_report(
        name: Literal["report.csv", "report.md"],
        text: str | None = None,
        table: str | None = None,
        columns: list[str] | None = None,
        where: dict[str, Scalar] | None = None,
        order_by: list[str] | None = None,
        *,
        request_id: str,
    ) -> dict[str, Any]:
        """Write a report.

        report.md is written from text. report.csv is written by the database from
        table, columns, where and order_by, as in query_rows, with all rows.
        """
        if name == CSV_REPORT:
            if text is not None or table is None or not columns:
                raise NotSent(f"{name} is made from table and columns, not from text")
            query = Query(
                table=table,
                columns=columns,
                where=where or {},
                order_by=order_by or (),
                limit=EXPORT_LIMIT + 1,
            )
            data, rows = _export(place, query)
        else:
            if text is None or table is not None or columns:
                raise NotSent(f"{name} is made from text, not from table and columns")
            if len(text) > REPORT_CHARACTERS:
                raise NotSent(f"text has more than {REPORT_CHARACTERS} characters")
            data, rows = text.encode(), None
        path = place.report(name)
        mark = hashlib.sha256(request_id.encode()).hexdigest()[:16]
        write_whole(path, data, partial=path.with_name(f".{name}.{mark}.partial"))
        return described(name, data) | ({} if rows is None else {"rows": rows})

    def send_mail(
        to: str,
        subject: str,
        body: str,
        attachments: list[str] | None = None,
        *,
        request_id: str,
    ) -> dict[str, Any]:
        """Send one mail; attachments are names of reports that were written."""
        message = EmailMessage()
        try:
            message["From"] = SENDER
            message["To"] = to
            message["Subject"] = subject
            message["Message-ID"] = message_id(request_id)
            message["Date"] = formatdate()
        except ValueError as error:  # a line break in a header
            raise NotSent(f"the mail's header is refused: {error}") from error
        if [one.addr_spec for one in message["To"].addresses] != [to]:
            raise NotSent(f"to={to!r} is not one mail address")
        message.set_content(body)
        for name in attachments or ():
            message.add_attachment(
                _attachment(place, name),
                maintype="text",
                subtype="csv" if name == CSV_REPORT else "markdown",
                filename=name,
            )
        _deliver(place, message)
        return _sent(message)

    return [
        tool(effect="read")(list_tables),
        tool(effect="read")(query_rows),
        tool(effect="idempotent", counts_as="files_written")(write_report),
        tool(effect="once", probe=make_probe(place), counts_as="emails_sent")(
            send_mail
        ),
    ]


def make_probe(place: Workplace) -> Callable[[Effect], Verdict]:
    """The probe of `send_mail`."""

    def was_sent(effect: Effect) -> Verdict:
        """Look for the effect's Message-ID among the messages that the server kept."""
        try:
            found = find(place.mail_store, message_id(effect.request_id))
        except OSError as error:
            return CannotTell(why=str(error))
        return Happened(result=_sent(found[0])) if found else DidNotHappen()

    return was_sent


def described(name: str, data: bytes) -> dict[str, Any]:
    """What tools say of a file: name, size and digest, so the same at each run."""
    return {
        "file": name,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _count(database: sqlite3.Connection, table: str) -> int:
    ((number,),) = run(database, Query(table=table, columns=["count(*)"]))
    return int(number)


def _bounded(rows: list[list[Any]]) -> list[list[Any]]:
    size = 0
    for number, row in enumerate(rows):
        size += len(json.dumps(row, ensure_ascii=False)) + 2
        if size > ANSWER_CHARACTERS:
            return rows[:number]
    return rows


def _export(place: Workplace, query: Query) -> tuple[bytes, int]:
    try:
        with closing(open_database(place.database)) as database:
            rows = run(database, query)
    except ValueError as error:
        raise NotSent(str(error)) from error
    if len(rows) > EXPORT_LIMIT:
        raise NotSent(f"more than {EXPORT_LIMIT} rows; narrow the query with where")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(query.columns)
    writer.writerows(rows)
    return text.getvalue().encode(), len(rows)


def _attachment(place: Workplace, name: str) -> bytes:
    if name not in REPORTS:
        raise NotSent(f"no report {name!r}; there are {', '.join(REPORTS)}")
    try:
        return Path(place.report(name)).read_bytes()
    except FileNotFoundError:
        raise NotSent(f"{name} was not written yet") from None


def _deliver(place: Workplace, message: EmailMessage) -> None:
    """Hand the message to the server.

    Raises NotSent where the server refused it, or could not be reached; what the
    connection raises later says nothing about whether the message arrived.
    """
    # A host name is given because looking one up may ask a name server.
    client = smtplib.SMTP(local_hostname="localhost", timeout=SMTP_TIMEOUT)
    try:
        try:
            client.connect(HOST, place.smtp_port)
        except OSError as error:
            raise NotSent(f"the mail server cannot be reached: {error}") from error
        try:
            client.send_message(message)
        except REFUSALS as error:
            raise NotSent(f"the mail server refused the mail: {error}") from error
        # Once the server has said 250, a farewell that fails changes nothing.
        with suppress(smtplib.SMTPException, OSError):
            client.quit()
    finally:
        client.close()


def _sent(message: EmailMessage) -> dict[str, Any]:
    """The result of `send_mail`, read off the message: probe and tool say the same."""
    files = [described(name, data) for name, data in attachments(message).items()]
    return {
        "to": str(message["To"]),
        "subject": str(message["Subject"]),
        "attachments": files,
    }
