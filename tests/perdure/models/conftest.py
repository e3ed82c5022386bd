"""A chat completions endpoint on loopback that answers as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Endpoint(ThreadingHTTPServer):
    """Real HTTP; keeps each request's path, headers and body."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.released = threading.Event()
        self.hangs = False
        self.cuts = False
        self.drips = False
        self.status = 200
        self.extra: dict[str, str] = {}
        self.body: bytes = b""
        self.kind = "application/json"
        self.missing = 0  # bytes promised and not sent
        self.planned: list[Callable[[], None]] = []  # one before each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answers(self, message: dict[str, Any], **more: Any) -> None:
        """Answer with a completion of one choice; `more` goes to its top level."""
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.answers_body({"id": "chat-1", "model": "m-1", "choices": [choice], **more})

    def answers_body(self, body: Any, status: int = 200, **headers: str) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.kind = "application/json"
        self.missing = 0
        self.extra = {name.replace("_", "-"): text for name, text in headers.items()}

    def answers_stream(
        self,
        *deltas: dict[str, Any],
        finish: str | None = "stop",
        usage: Any = None,
        missing: int = 0,
    ) -> None:
        """Answer in chunks of these deltas, as server-sent events."""
        head = {"id": "chat-1", "object": "chat.completion.chunk", "model": "m-1"}
        chunks: list[Any] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        if finish is not None:
            last = {"index": 0, "delta": {}, "finish_reason": finish}
            chunks += [{**head, "choices": [last]}]
            chunks += [{**head, "choices": [], "usage": usage}]
        self.answers_events(*chunks, missing=missing)

    def answers_events(self, *events: Any, missing: int = 0) -> None:
        """Answer with these as server-sent events, and the mark of the end."""
        lines = [one if isinstance(one, str) else json.dumps(one) for one in events]
        body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
        self.answers_body(body.encode())
        self.kind, self.missing = "text/event-stream", missing


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(json.loads(body))
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.server.paths.append(self.path)
        if self.server.planned:
            self.server.planned.pop(0)()
        if self.server.hangs:
            self.server.released.wait()
        if self.server.drips:
            self.drip()
        if self.server.hangs or self.server.cuts or self.server.drips:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("content-type", self.server.kind)
        length = len(self.server.body) + self.server.missing
        self.send_header("content-length", str(length))
        for name, text in self.server.extra.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(self.server.body)
        self.close_connection = self.close_connection or bool(self.server.missing)

    def drip(self) -> None:
        """Send a body without end, a byte at a time, each within any patience."""
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):  # the client went away
            while not self.server.released.wait(0.05):
                self.wfile.write(b" ")

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()
