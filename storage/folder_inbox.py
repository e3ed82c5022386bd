"""The inbox of a store in a folder, for processes that do not own it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import msgspec

from .folder import look_at
from .folder_files import errors_of, inbox_file, names_of, write_command
from .inbox import check_command, refuse_unless_writable, sent_before
from .posix import locked
from .records import Command

__all__ = ["FolderInbox"]


class FolderInbox:
    """The slot of a store's inbox; raises as `Inbox` does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.realpath(path))
        look_at(self._path)
        refuse_unless_writable(self._path / "inbox")

    def send(self, command: Command) -> None:
        """Keep a command; it is durable when this returns.

        Raises:
            Rejected: it is too big, or its id was sent before.
            StoreTrouble: the store is full or write-protected just now.
        """
        check_command(command)
        with errors_of(str(self._path)), locked(self._path / "inbox" / ".lock"):
            names = names_of(self._path / "inbox")
            places = [int(name.partition("-")[0]) for name in names]
            own = inbox_file(self._path, command).name.partition("-")[2]
            if any(name.endswith(own) for name in names):
                raise sent_before(command)
            place = max(places, default=0) + 1
            write_command(self._path, msgspec.structs.replace(command, place=place))

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
