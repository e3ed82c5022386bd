"""The inbox of a store in PostgreSQL, for processes that do not own it."""

from __future__ import annotations

from typing import Self

import psycopg

from .errors import Rejected
from .inbox import check_command, sent_before, unwritable
from .postgres import INBOX_CHANNEL
from .postgres_server import connect, errors_of, look, shown
from .records import Command

__all__ = ["PostgresInbox"]

_SEND = """
INSERT INTO perdure_inbox (id, at, kind, subject, body) VALUES (%s, %s, %s, %s, %s)
"""


class PostgresInbox:
    """The slot of a store's inbox; raises as `Inbox` does."""

    def __init__(self, url: str) -> None:
        self._path = shown(url)
        self._connection = connect(url, write=True)
        try:
            look(self._connection, url)
            if not self._may_write():
                raise unwritable(self._path)
        except BaseException:
            self.close()
            raise

    def send(self, command: Command) -> None:
        """Keep a command, and tell the owner; it is durable when this returns.

        Raises:
            Rejected: it is too big, or its id was sent before.
            StoreTrouble: the store is full, busy or write-protected just now.
        """
        check_command(command)
        values = (
            command.id,
            command.at,
            command.kind,
            command.subject,
            command.body,
        )
        with errors_of(self._path):
            try:
                with self._connection.transaction():
                    # One at a time: who has a later place must not be seen first.
                    self._connection.execute(
                        "LOCK TABLE perdure_inbox IN SHARE ROW EXCLUSIVE MODE"
                    )
                    self._connection.execute(_SEND, values)
                    self._connection.execute(f"NOTIFY {INBOX_CHANNEL}")
            except psycopg.errors.UniqueViolation:
                raise sent_before(command) from None
            except psycopg.DataError as error:
                raise Rejected(f"command {command.kind}", str(error)) from None

    def _may_write(self) -> bool:
        with errors_of(self._path):
            found = self._connection.execute(
                "SELECT has_table_privilege('perdure_inbox', 'INSERT') "
                "AND NOT pg_is_in_recovery()"
            ).fetchone()
        return bool(found and found[0])

    def close(self) -> None:
        """Let the store go; safe to call twice."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
