"""The inbox: what others ask of the runtime that owns a store, as durable rows.

Any process that may write the file may send a command, whether a runtime is open on
it or not; the runtime applies each once and writes its answer beside it, in the
transaction of what it did.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import apsw

from .errors import CannotOpen, Rejected, StoreTrouble
from .posix import forget_cached
from .records import Command, Row
from .sqlite_aside import may_write
from .sqlite_file import connect, errors_of, look, wal_of

__all__ = [
    "ANSWERS",
    "Inbox",
    "answer_row",
    "check_command",
    "refuse_unless_writable",
    "sent_before",
    "unwritable",
]

ANSWERS = "answer"  # the space of rows that answers stand in, by the command's id
MAX_COMMAND = 64 * 1024  # bytes of one body
MAX_WORD = 256  # characters of id, kind and subject
BUSY_TIMEOUT = 5_000  # milliseconds to wait for the owner's batch

_SEND = "INSERT INTO inbox (id, at, kind, subject, body) VALUES (?, ?, ?, ?, ?)"


class Inbox:
    """The slot of a store's inbox, for processes that do not own it.

    Args:
        path: the store's file, which exists.

    Raises:
        CannotOpen: it cannot be written here, or as for a reader.
        NotAStore, NewerLayout: as for a reader.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.realpath(path))
        look(self._path)
        refuse_unless_writable(self._path)
        if wal := wal_of(self._path):
            forget_cached(wal)  # a commit must not stand behind what is on no disk
        self._connection = connect(self._path, write=True)
        with errors_of(str(self._path)):
            self._connection.set_busy_timeout(BUSY_TIMEOUT)
            self._connection.pragma("synchronous", "FULL")
            self._connection.pragma("fullfsync", 1)

    def send(self, command: Command) -> None:
        """Keep a command; it is durable when this returns.

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
        with errors_of(str(self._path)):
            if self._connection.readonly("main"):
                raise StoreTrouble(str(self._path), "readonly", "it is write-protected")
            try:
                self._connection.execute(_SEND, values)
            except apsw.ConstraintError:
                raise sent_before(command) from None

    def close(self) -> None:
        """Let the store go; safe to call twice."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_command(command: Command) -> None:
    """Raise Rejected where a command cannot be kept."""
    longest = max(len(word) for word in (command.id, command.kind, command.subject))
    if longest > MAX_WORD:
        raise Rejected(
            f"command {command.kind[:MAX_WORD]}",
            f"its id, kind or subject has {longest} characters, {MAX_WORD} are allowed",
        )
    if len(command.body) > MAX_COMMAND:
        raise Rejected(
            f"command {command.kind}",
            f"it has {len(command.body)} bytes, {MAX_COMMAND} are allowed",
        )


def refuse_unless_writable(path: Path) -> None:
    """Raise CannotOpen where this user may not write a file, or not beside it."""
    if not may_write(path):
        raise unwritable(str(path))


def unwritable(path: str) -> CannotOpen:
    """What somebody is told who may only read the store."""
    return CannotOpen(
        path,
        "a command is kept in it, and this user may not write it here",
        "send it where it can be written, as a user who may",
    )


def sent_before(command: Command) -> Rejected:
    """What a second command of one id is told."""
    return Rejected(f"command {command.kind}", f"{command.id} was sent before")


def answer_row(command: str, answer: bytes) -> Row:
    """The row that answers a command; it goes with the event that applies it."""
    return Row(space=ANSWERS, key=command, value=answer)
