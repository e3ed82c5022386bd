"""A tool in a process of its own, seen from the runtime's side.

The process is spawned, not forked: it imports the tool by module and name, gets JSON
arguments and answers in JSON lines on a pipe of its own. Whatever it does to itself is
an outcome here. It is killed at its deadline, and dies with this process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from ..outcomes import Declared, NotSent, Outcome, RaisedElsewhere
from ..tool import EffectClass

__all__ = [
    "LINE_LIMIT",
    "LOG_LINES",
    "Answer",
    "Call",
    "IsolatedRun",
    "Line",
    "Raised",
]

ANSWER_LIMIT = 4 * 1024 * 1024  # bytes that a process may answer, log lines included
LOG_LINES = 500  # of one call; more are dropped
LINE_LIMIT = 4_096  # bytes; a longer one is cut
NO_PIDFD_POLL = 100  # milliseconds between looks at a process that has no pidfd
ENDING = 1_000  # milliseconds that a process without its pipe has to end by itself
LOWEST_FD = 10  # a host without stdio must not lend 0, 1 or 2 to the pipe
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from perdure.actors.executor.child import main; main(sys.argv[2:])"
)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is asked to do: one line of JSON on its stdin."""

    module: str
    name: str
    effect: EffectClass
    arguments: str
    request_id: str
    deadline: float
    fence: str
    memory: int | None
    declared: Declared = Declared()


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """The tool returned: its result as text, bounded there, and its anchors."""

    text: str
    anchors: dict[str, str]


class Raised(msgspec.Struct, frozen=True, kw_only=True, tag="raised"):
    """The tool raised, or was not called at all; classified where the error was."""

    error: str
    status: Outcome
    not_sent: bool
    retry_after: float = 0.0


class Line(msgspec.Struct, frozen=True, kw_only=True, tag="line"):
    """The tool said something in its log."""

    message: str
    fields: dict[str, Any]


class IsolatedRun:
    """One call in one process. `kill` may come from any thread, at any time.

    Args:
        call: module, name and arguments.
        log: told of the tool's own log lines.
    """

    def __init__(self, call: Call, log: Callable[..., None]) -> None:
        self._call = call
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    def run(self) -> Answer:
        """Run the call to its end; when this returns or raises, the process has ended.

        Raises NotSent where the tool surely was not called, RaisedElsewhere for what
        it raised, TimeoutError where it was killed, and ConnectionError where the
        process ended without an answer.
        """
        reading, writing = _pipe()
        try:
            process = self._spawn(writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        try:
            assert process.stdin is not None
            # A process that died, or that is killed before it reads, says so below.
            # Its stdin stays open: that it closes tells it that we are gone.
            with contextlib.suppress(OSError):
                process.stdin.write(msgspec.json.encode(self._call) + b"\n")
                process.stdin.flush()
            answer = self._listen(reading, process.pid)
        finally:
            os.close(reading)
            code = self._end(process)
        return self._told(answer, code)

    def kill(self) -> None:
        """Kill the process and those it started; `run` then raises TimeoutError."""
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.returncode is None:
                _kill_group(self._process.pid)

    def _spawn(self, writing: int) -> subprocess.Popen[bytes]:
        path = json.dumps([str(entry) for entry in sys.path])
        command = [sys.executable, "-c", BOOT, path, str(writing), str(os.getpid())]
        with self._lock:
            if self._killed:
                raise TimeoutError("killed at its deadline")
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our interpreter
                    command,
                    stdin=subprocess.PIPE,
                    pass_fds=(writing,),
                    start_new_session=True,
                )
            except (OSError, ValueError, TypeError) as error:
                raise NotSent(f"no process for the tool: {error}") from error
            return self._process

    def _listen(self, reading: int, pid: int) -> bytes | None:
        """The line that ends the call; None where the process ended without one."""
        poll = select.poll()
        poll.register(reading, select.POLLIN | select.POLLHUP)
        ended = _pidfd(pid)
        if ended is not None:
            poll.register(ended, select.POLLIN)
        try:
            taken, rest = 0, b""
            while True:
                events = dict(poll.poll(None if ended is not None else NO_PIDFD_POLL))
                if reading in events:
                    piece = os.read(reading, 65_536)
                    if not piece:
                        if ended is not None:  # how it ends is worth a moment
                            poll.unregister(reading)
                            poll.poll(ENDING)
                        return None
                    taken += len(piece)
                    if taken > ANSWER_LIMIT:
                        return rest + piece  # no line that could be understood
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        if not self._logged(line):
                            return line
                elif ended in events or (ended is None and self._is_over()):
                    # Not the pipe's end: processes that it left may hold that open.
                    return None
        finally:
            if ended is not None:
                os.close(ended)

    def _is_over(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def _logged(self, line: bytes) -> bool:
        try:
            said = msgspec.json.decode(line, type=Line)
        except (msgspec.DecodeError, RecursionError):
            return False
        with contextlib.suppress(Exception):
            self._log(said.message, **said.fields)
        return True

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        # Its group goes with it. The number of a process that nobody has waited for
        # yet cannot have become another's.
        with self._lock:
            if process.returncode is None:
                _kill_group(process.pid)
            code = process.wait()
            self._process = None
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        return code

    def _told(self, answer: bytes | None, code: int) -> Answer:
        if answer is None:
            if self._killed:
                raise TimeoutError("its process was killed at the deadline")
            raise ConnectionError(f"its process ended without an answer ({_how(code)})")
        try:
            told = msgspec.json.decode(answer, type=Answer | Raised)
        except (msgspec.DecodeError, RecursionError):
            raise ConnectionError("its process answered garbage") from None
        if isinstance(told, Raised):
            raise RaisedElsewhere(
                told.error,
                status=told.status,
                not_sent=told.not_sent,
                retry_after=told.retry_after,
            )
        return told


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
