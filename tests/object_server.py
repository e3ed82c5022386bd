"""A server of a test's own that speaks S3 over HTTP, to be hung, stopped and started.

It is a process; what it holds goes when it is stopped.
"""

from __future__ import annotations

import http.client
import importlib.util
import signal
import socket
import subprocess
import sys
import time

import pytest

__all__ = ["BUCKET", "SECRET", "ObjectServer"]

BUCKET = "tasks"
SECRET = "not-for-any-log"
STARTING = 40.0  # seconds


class ObjectServer:
    """One server on loopback, with one bucket."""

    def __init__(self) -> None:
        if importlib.util.find_spec("moto") is None:
            pytest.skip("no S3 server is installed: it comes with the extra `test`")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to know beside the address."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start it, with an empty bucket."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + STARTING
        while True:
            try:
                self.request("PUT", f"/{BUCKET}")
            except OSError:
                assert time.monotonic() < end
                assert self._process.poll() is None
                time.sleep(0.05)
            else:
                return

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Ask it something, beside its clients."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()

    def hang(self) -> None:
        """Let it take connections, and answer none."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, with all it holds."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
