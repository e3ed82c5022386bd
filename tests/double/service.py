"""The outside world of the double bench: HTTP and mail, in a process of its own.

It counts what reaches it and is never killed. Of each thing asked for, the first
request may have its connection cut: without being processed, after that and before the
answer, or a while before it is processed all the same. Which of them is drawn from the
seed and the thing's name.
"""

from __future__ import annotations

import asyncio
import email
import json
import random
import socket
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import unquote

from aiosmtpd.smtp import SMTP

from tests.crash.children import SPAWN

__all__ = ["HOST", "Reached", "Service", "asked"]

HOST = "127.0.0.1"
START_TIMEOUT = 30.0  # seconds
CUT_SHARE = 0.3  # of the things asked for, a third for each way
LATE = 0.15  # seconds from a cut to an act that comes all the same
SLOWEST = 0.03  # seconds from an act to its answer
LARGEST = 65_536  # bytes of a request

Cut: TypeAlias = Literal["", "never", "after", "late"]
Reached: TypeAlias = tuple[str, str, str]  # class, what, request id


class World:
    """What reached it, in order, and what it did to whom."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.reached: list[Reached] = []
        self.cuts = 0
        self._asked: set[str] = set()

    async def act(self, kind: str, what: str, request_id: str) -> bool:
        """Process a request; False where its connection is to be cut."""
        chance = random.Random(f"{self._seed} {what}")
        cut = self._cut(chance, what)
        one = kind, what, request_id
        if cut == "late":
            asyncio.get_running_loop().call_later(LATE, self.reached.append, one)
        elif cut != "never":
            self.reached.append(one)
            await asyncio.sleep(chance.uniform(0.0, SLOWEST))
        self.cuts += cut != ""
        return cut == ""

    def _cut(self, chance: random.Random, what: str) -> Cut:
        first = what not in self._asked
        self._asked.add(what)
        if not first or chance.random() >= CUT_SHARE:
            return ""
        ways: tuple[Cut, ...] = ("never", "after", "late")
        return chance.choice(ways)

    async def answer(self, method: str, path: str, body: bytes) -> Any:
        """What an HTTP request gets; None cuts its connection."""
        kind, _, name = unquote(path).lstrip("/").partition("/")
        if method == "POST":
            said = json.loads(body)
            done = await self.act(kind, said["what"], said["request_id"])
            return {"done": True} if done else None
        if kind == "seen":
            return {"seen": any(name == key for _, _, key in self.reached)}
        if kind == "read":
            return {} if await self.act("read", name, "") else None
        mine = [one for one in self.reached if one[1].startswith(name)]
        return {"reached": mine, "cuts": self.cuts}


class Mail:
    """The mail server's hook."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def handle_DATA(  # noqa: N802 - aiosmtpd looks the hook up by this name
        self, server: SMTP, _session: Any, envelope: Any
    ) -> str:
        """Process one message, or cut its connection."""
        message = email.message_from_bytes(envelope.content)
        what, request_id = message["Subject"], message["X-Request-Id"]
        if not await self._world.act("once", what, request_id):
            assert server.transport is not None
            server.transport.abort()
        return "250 OK"


def serve(seed: int, ports: Connection) -> None:
    """Serve until the other end of the pipe is closed."""
    asyncio.run(_serve(World(seed), ports))


async def _serve(world: World, ports: Connection) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    web = await asyncio.start_server(_client(world), HOST, 0)
    mail = await loop.create_server(
        lambda: SMTP(Mail(world), hostname="localhost", loop=loop), HOST, 0
    )
    loop.add_reader(ports.fileno(), over.set)
    ports.send([one.sockets[0].getsockname()[1] for one in (web, mail)])
    await over.wait()


def _client(
    world: World,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def client(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            sizes = [
                int(line.partition(":")[2])
                for line in head.splitlines()
                if line.lower().startswith("content-length:")
            ]
            body = await reader.readexactly(min(sum(sizes), LARGEST))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()  # whoever asked was killed in the middle of it
            return
        answer = await world.answer(method, path, body)
        if answer is None:
            writer.transport.abort()
            return
        text = json.dumps(answer).encode()
        size = f"Content-Length: {len(text)}"
        writer.write(f"HTTP/1.1 200 OK\r\n{size}\r\nConnection: close\r\n\r\n".encode())
        writer.write(text)
        writer.close()

    return client


class Service:
    """The service's process, and where it listens."""

    def __init__(self, seed: int) -> None:
        self._ours, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=serve, args=(seed, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        if not self._ours.poll(START_TIMEOUT):
            raise RuntimeError("the service did not start")
        self.web, self.mail = self._ours.recv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ours.close()
        self._process.join(START_TIMEOUT)
        self._process.kill()


def asked(port: int, method: str, path: str, body: Any = None) -> Any:
    """One HTTP request. Raises ConnectionError where its connection is cut."""
    text = b"" if body is None else json.dumps(body).encode()
    with socket.create_connection((HOST, port), timeout=10.0) as line:
        size = f"Content-Length: {len(text)}"
        line.sendall(f"{method} {path} HTTP/1.1\r\n{size}\r\n\r\n".encode() + text)
        answer = bytearray()
        while part := line.recv(LARGEST):
            answer += part
    head, end, found = bytes(answer).partition(b"\r\n\r\n")
    if not end or not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionResetError(f"no answer from {path}")
    return json.loads(found)
