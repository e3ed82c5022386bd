"""A real SMTP server for the demo: each accepted message is a file, kept first.

The parent process runs it, so that it outlives the kills of the runtime's process.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import hashlib
import socket
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .files import write_whole

if TYPE_CHECKING:
    from aiosmtpd.smtp import SMTP

__all__ = ["HOST", "MailServer", "attachments", "find", "kept", "message_id"]

HOST = "127.0.0.1"
START_TIMEOUT = 10.0  # seconds
SUFFIX = ".eml"
ACCEPTED = "250 2.0.0 Message kept"


def message_id(request_id: str) -> str:
    """The Message-ID of the one mail that belongs to a request id."""
    digest = hashlib.sha256(request_id.encode()).hexdigest()
    return f"<{digest[:32]}@perdure.demo>"


def kept(store: Path | str) -> Iterator[EmailMessage]:
    """The messages that the server accepted, in order; duplicates as often as kept.

    Raises FileNotFoundError where there is no store: that is no proof of absence.
    """
    for path in _files(Path(store)):
        yield email.message_from_bytes(path.read_bytes(), policy=email.policy.SMTP)


def find(store: Path | str, wanted: str) -> list[EmailMessage]:
    """The kept messages with this Message-ID."""
    return [message for message in kept(store) if message["Message-ID"] == wanted]


def attachments(message: EmailMessage) -> dict[str, bytes]:
    """The files that a message carries, by name, in order."""
    return {
        part.get_filename() or "": bytes(part.get_payload(decode=True))
        for part in message.iter_attachments()
    }


def _files(store: Path) -> list[Path]:
    return sorted(path for path in store.iterdir() if path.suffix == SUFFIX)


class MailServer:
    """Accepts mail on a free port of 127.0.0.1 from a thread of its own.

    A message is on disk, flushed, before the sender hears 250. Files are numbered, not
    named by Message-ID: a message sent twice is two files.

    Raises:
        ImportError: The extra is not installed.
    """

    def __init__(self, store: Path | str) -> None:
        try:
            from aiosmtpd.smtp import SMTP
        except ImportError as error:
            raise ImportError(
                "the demo needs a mail server: pip install 'perdure[demo]'"
            ) from error
        self._protocol = SMTP
        self._store = Path(store)
        self._store.mkdir(parents=True, exist_ok=True)
        self._number = len(_files(self._store))
        self._socket = socket.create_server((HOST, 0))
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="demo-mail-server", daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(START_TIMEOUT):
            raise RuntimeError("the demo's mail server did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def handle_DATA(  # noqa: N802 - aiosmtpd looks the hook up by this name
        self, _server: SMTP, _session: Any, envelope: Any
    ) -> str:
        """Keep one message; called by aiosmtpd on the server's thread."""
        self._number += 1
        name = f"{self._number:06}{SUFFIX}"
        write_whole(
            self._store / name,
            envelope.content,
            partial=self._store / f".{name}.partial",
        )
        return ACCEPTED

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await self._loop.create_server(self._connection, sock=self._socket)
        self._started.set()
        await self._stopping.wait()
        # Not `async with server`: it would wait for clients that never hang up.
        server.close()

    def _connection(self) -> SMTP:
        # A host name is given because looking one up may ask a name server.
        return self._protocol(
            self, hostname="localhost", enable_SMTPUTF8=True, loop=self._loop
        )
