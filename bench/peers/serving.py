"""What every peer's process shares: the operation, its clock, and the parent's orders.

The standard library alone: it runs in each peer's virtual environment. The parent
writes one order a line, and reads one answer a line:

    {"do": "window", "tasks": 1, "operations": 100}   {"rate": …, "cpu_us": …}
    {"do": "die", "operations": 100}                  none: it is killed half-way
    {"do": "resume"}                                  {"seconds": …, "made": …}
    {"do": "facts"}                                   {"synchronous": …, …}
    {"do": "close"}                                   {}
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Operation", "Peer", "serve"]

CHARACTERS = 500  # of a result
CPU_EVERY = 16  # operations; to ask for the CPU that was used costs as much as many do


class Operation:
    """The one thing that all do: nothing, with 500 characters of result."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun = self.ended = 0.0
        self.used: list[tuple[int, float]] = []  # seconds of CPU at some calls
        self.die_at: int | None = None

    def reset(self) -> None:
        """Count from here."""
        self.calls = 0
        self.used.clear()

    def __call__(self, n: int) -> str:
        """Perform operation `n` of a task, and note when."""
        if n == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.ended = time.perf_counter()
        if self.calls == 0:
            self.begun = self.ended
        if self.calls % CPU_EVERY == 0:
            self.used.append((self.calls, time.process_time()))
        self.calls += 1
        return f"{n:0{CHARACTERS}}"

    def window(self) -> dict[str, float]:
        """Operations a second between the first and the last, and their CPU."""
        if len(self.used) == 1:  # a short window: its end counts for its last call
            self.used.append((self.calls, time.process_time()))
        (first, used), (last, used_at_last) = self.used[0], self.used[-1]
        return {
            "rate": (self.calls - 1) / (self.ended - self.begun),
            "cpu_us": (used_at_last - used) / max(last - first, 1) * 1e6,
        }


class Peer(Protocol):
    """One way to keep tasks durable."""

    def start(self) -> None:
        """Open the store, and resume what this peer resumes by itself."""

    def run(self, tasks: int, operations: int) -> None:
        """Run so many tasks of so many operations each, at once, to their ends."""

    def resume(self) -> None:
        """Wait for the one task that an earlier process left, going on with it."""

    def facts(self) -> dict[str, Any]:
        """What it is set to."""

    def close(self) -> None:
        """Let the store go."""


def serve(make: Callable[[dict[str, Any], Operation], Peer]) -> None:
    """Follow the parent's orders; what libraries print goes to stderr.

    Args:
        make: given the options of the command line and the operation.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    operation = Operation()
    peer = make(json.loads(sys.argv[1]), operation)
    started = False

    def start() -> None:
        nonlocal started
        if not started:
            peer.start()
            started = True

    for line in sys.stdin:
        order = json.loads(line)
        operation.reset()
        answer: dict[str, Any] = {}
        match order["do"]:
            case "window":
                start()
                peer.run(order["tasks"], order["operations"])
                expected = order["tasks"] * order["operations"]
                if operation.calls != expected:
                    raise SystemExit(f"{operation.calls} operations, not {expected}")
                answer = operation.window()
            case "die":
                operation.die_at = order["operations"] // 2
                start()
                peer.run(1, order["operations"])
                raise SystemExit("it was to be killed")
            case "resume":
                began = time.perf_counter()
                start()
                peer.resume()
                answer = {
                    "seconds": operation.begun - began,
                    "made": operation.calls,
                }
            case "facts":
                start()
                answer = peer.facts()
            case "close":
                peer.close()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if order["do"] == "close":
            break
