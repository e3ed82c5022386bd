"""A tool in a process of its own, seen from inside that process.

Nothing of the runtime is here: no store, no actors, no log. The tool may do to this
process what it likes; its stdout and stderr are those of the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from ..ledger.work import as_text
from ..outcomes import NotSent, classify, rest_of, surely_not_sent
from ..tool import Tool, ToolContext, tool
from .isolated import LINE_LIMIT, LOG_LINES, Answer, Call, Line, Raised
from .loop import run_inline
from .work import told

__all__ = ["main"]

PR_SET_PDEATHSIG = 1  # of prctl(2), Linux


def main(arguments: Sequence[str]) -> None:
    """Do one call: read it from stdin, answer on the pipe, end without clean-up."""
    answers, parent = int(arguments[0]), int(arguments[1])
    os.set_inheritable(answers, False)
    asked = sys.stdin.buffer.readline()
    die_with(parent)
    call = msgspec.json.decode(asked, type=Call)
    try:
        answer: Answer | Raised = perform(call, answers)
    except BaseException as error:
        said = call.declared.of(error)
        answer = Raised(
            error=told(error),
            status=said or classify(error, call.effect),
            not_sent=surely_not_sent(error) if said is None else said == "failed",
            retry_after=rest_of(error),
        )
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    send(answers, answer)
    # Threads and exit handlers that the tool left behind do not matter any more.
    os._exit(0)


def perform(call: Call, answers: int) -> Answer:
    """Import the tool and call it. Raises NotSent where it could not be called."""
    if call.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (call.memory, call.memory))
    try:
        found = find(call)
        values = found.parse(call.arguments)
    except BaseException as error:
        where = f"{call.module}.{call.name}"
        raise NotSent(f"{where} cannot be called: {told(error)}") from error
    anchors: dict[str, str] = {}
    lines = itertools.count()

    def log(message: str, **fields: Any) -> None:
        if next(lines) < LOG_LINES:
            send(answers, bounded(Line(message=str(message), fields=fields)))

    context = ToolContext(
        request_id=call.request_id,
        deadline=call.deadline,
        fence=call.fence,
        log=log,
        anchors=anchors,
    )
    value = found.invoke(values, context)
    if found.is_async:
        value = run_inline(value)
    return Answer(text=as_text(value), anchors=anchors)


def find(call: Call) -> Tool:
    """The tool by module and name; the name may stand for its bare function."""
    found: Any = importlib.import_module(call.module)
    for part in call.name.split("."):
        found = getattr(found, part)
    return found if isinstance(found, Tool) else tool(found)


def bounded(line: Line) -> Line:
    """The line as it is, or cut, or shown as text where it cannot be JSON."""
    try:
        if len(msgspec.json.encode(line)) <= LINE_LIMIT:
            return line
        return Line(message=line.message[: LINE_LIMIT // 8], fields={"cut": True})
    except (TypeError, ValueError, RecursionError):
        shown = {str(name)[:64]: ascii(one)[:200] for name, one in line.fields.items()}
        return Line(message=ascii(line.message)[: LINE_LIMIT // 8], fields=shown)


def send(answers: int, message: Answer | Raised | Line) -> None:
    """Write one line."""
    rest = msgspec.json.encode(message) + b"\n"
    while rest:
        rest = rest[os.write(answers, rest) :]


def die_with(parent: int) -> None:
    """Have this process end when its parent does, whatever the tool does meanwhile.

    Linux does it for us; elsewhere a thread waits for stdin to close.
    """
    if not _death_signal():
        threading.Thread(target=_die_at_end_of_stdin, daemon=True).start()
    if os.getppid() != parent:  # it ended before we said so
        os._exit(1)


def _death_signal() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        return bool(prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)
    return False


def _die_at_end_of_stdin() -> None:
    while os.read(0, 4_096):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
