"""Tools that harm the process they run in; each is imported there by its name."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from perdure import DidNotHappen, Happened, NotSent, ToolContext, tool
from perdure.actors.tool import Effect, Verdict

MEMORY = 512 * 1024 * 1024  # bytes


@tool(isolate="process", effect="read")
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(isolate="process", effect="read")
async def add_later(a: int, b: int) -> int:
    """Add two numbers, on a loop."""
    await asyncio.sleep(0)
    return a + b


@tool(isolate="process")
def whoami(ctx: ToolContext, request_id: str) -> dict[str, Any]:
    """Say where this runs, and what it was given."""
    ctx.log("hello", number=1)
    ctx.anchor("pid", str(os.getpid()))
    return {"pid": os.getpid(), "request": request_id, "fence": ctx.fence}


@tool(isolate="process", effect="read")
def talks(ctx: ToolContext) -> str:
    """Say more than anybody wants to hear, and what is no JSON."""
    ctx.log("odd", what=object(), name="x")
    for number in range(5_000):
        ctx.log("z" * 10_000, number=number)
    return "talked"


class Declined(Exception):
    """The tool's own."""


@tool(isolate="process", failed=(Declined,), unknown=(ConnectionRefusedError,))
def declares(declines: bool) -> str:
    """Raise what this tool says something of."""
    raise Declined("no") if declines else ConnectionRefusedError("after the act")


@tool(isolate="process")
def leaves(code: int) -> str:
    """End the process."""
    os._exit(code)


@tool(isolate="process")
def segfaults() -> str:
    """Read where nothing is."""
    ctypes.string_at(0)
    return "still here"


@tool(isolate="process")
def kills_itself() -> str:
    """As an out-of-memory killer would."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "still here"


@tool(isolate="process")
def refuses() -> str:
    """Prove that nothing happened."""
    raise NotSent("the desk is closed")


@tool(isolate="process")
def exits() -> str:
    """End like a script."""
    sys.exit(3)


@tool(isolate="process", effect="read")
def raises(text: str) -> str:
    """Raise an error of no known kind."""
    raise ValueError(text)


@tool(isolate="process", effect="read")
def huge() -> str:
    """Return 50 MB."""
    return "x" * 50_000_000


@tool(isolate="process", effect="read")
def odd() -> Any:
    """Return what is no JSON."""
    return [object(), float("nan")]


@tool(isolate="process", effect="read")
def prints() -> str:
    """Talk much."""
    print("y" * 200_000, flush=True)  # noqa: T201
    os.write(2, b"and on stderr\n")
    return "printed"


@tool(isolate="process", effect="read")
def closes_stdout() -> str:
    """Close what a process has by default."""
    sys.stdout.close()
    sys.stderr.close()
    for number in range(3):
        os.close(number)
    return "closed"


@tool(isolate="process")
def closes_all() -> str:
    """Close the way to answer, too."""
    os.closerange(0, 256)
    return "closed"


@tool(isolate="process")
def garbles() -> str:
    """Write garbage wherever it can."""
    for number in range(3, 64):
        try:
            os.write(number, b"\xff{garbage}\n")
        except OSError:
            continue
    return "garbled"


@tool(isolate="process")
def floods() -> str:
    """Write without an end wherever it can."""
    while True:
        for number in range(3, 64):
            try:
                os.write(number, b"z" * 65_536)
            except OSError:
                continue


@tool(isolate="process", effect="read", memory=MEMORY)
def hoards() -> int:
    """Take more memory than it may."""
    return len(bytearray(4 * MEMORY))


@tool(isolate="process", effect="read")
def leaks_threads(count: int) -> str:
    """Leave threads that never end."""
    for _ in range(count):
        threading.Thread(target=time.sleep, args=(3600,)).start()
    return "leaked"


@tool(isolate="process")
def hangs(file: str) -> str:
    """Say that it began, then never end; nor does a process that it started."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    Path(file).write_text(f"{os.getpid()} {child}")
    time.sleep(3600)
    return "never"


@tool(isolate="process", effect="read")
def leaves_a_process() -> int:
    """End, while a process that it started holds all it had open."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    return child


@tool(isolate="process", effect="read")
def dies_leaving_a_process(file: str) -> str:
    """The same, but end without an answer."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    Path(file).write_text(str(child))
    os._exit(4)


def bare(a: int) -> int:
    """A function that became a tool under another name."""
    return a + 1


renamed = tool(isolate="process", effect="read", name="plus_one")(bare)


def has_marked(effect: Effect) -> Verdict:
    """Whether the line of this request stands in the file."""
    file = Path(effect.arguments["file"])
    lines = file.read_text().split() if file.exists() else []
    done = f"done:{effect.request_id}" in lines
    return Happened("marked") if done else DidNotHappen()


@tool(isolate="process", effect="once", probe=has_marked, settle=0.0, timeout=2.0)
def marks(file: str, request_id: str) -> str:
    """Hang the first time, and do it the second."""
    first = not Path(file).exists()
    with Path(file).open("a") as lines:
        lines.write("began\n" if first else f"done:{request_id}\n")
    if first:
        time.sleep(3600)
    return "marked"


@tool(isolate="process", effect="once")
def poison(what: str) -> str:
    """End whatever process it runs in."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return "still here"
