"""Hears the log of the living process: promises on disk, backoff kept, no crash."""

from __future__ import annotations

from typing import Any

from perdure.storage.memory import MemoryStore
from perdure.supervision import VirtualClock
from tests.simulation.findings import Findings
from tests.simulation.process import injected

__all__ = ["BACKOFF_FIRST", "BACKOFF_LIMIT", "Ears"]

BACKOFF_FIRST = 0.5  # seconds
BACKOFF_LIMIT = 4.0  # seconds
JITTER = 0.2  # share of a delay
ROUNDING = 0.001  # seconds; delays are logged with three digits


class Ears:
    """Checks each log line as it comes.

    `woken` are the names of the actors that came up and that nobody has looked at yet.
    """

    def __init__(
        self, findings: Findings, store: MemoryStore, clock: VirtualClock
    ) -> None:
        self.findings = findings
        self.store = store
        self.clock = clock
        self.woken: list[str] = []
        self._restarts: dict[str, tuple[str, float]] = {}  # child -> (by, due)

    def reset(self) -> None:
        """A new process owes nothing to the one before."""
        self._restarts.clear()
        self.woken.clear()

    def hear(self, event: str, fields: dict[str, Any]) -> None:
        """One log line of the living process."""
        now = self.clock.monotonic()
        if "seq" in fields:
            log = self.store.log
            held = bool(log) and fields["seq"] <= log[-1].seq
            self.findings.check(
                "acked_durable", held, lambda: f"{event} {fields} is not on disk"
            )
        match event:
            case "supervisor.restarting":
                least = min(BACKOFF_FIRST * 2 ** (fields["count"] - 1), BACKOFF_LIMIT)
                self.findings.check(
                    "live_after_faults",
                    fields["delay"] >= least * (1 - JITTER) - ROUNDING,
                    lambda: f"no backoff: {fields}",
                )
                self._restarts[fields["child"]] = (
                    fields["name"],
                    now + fields["delay"] - ROUNDING,
                )
            case "actor.started":
                name = fields["name"]
                self.woken.append(name)
                _, due = self._restarts.pop(name, ("", 0.0))
                self.findings.check(
                    "live_after_faults",
                    now >= due,
                    lambda: f"{name} came back before its backoff was over",
                )
            case "actor.crashed":
                self._forget_restarts(fields["name"])
                self.findings.check(
                    "live_after_faults",
                    injected(fields["error"]),
                    lambda: f"{fields['name']}: {fields['traceback']}",
                )
            case "actor.stopped":
                self._forget_restarts(fields["name"])
            case "callback.failed" | "job.failed":
                self.findings.check(
                    "live_after_faults",
                    injected(fields["error"]),
                    lambda: f"{event}: {fields}",
                )

    def _forget_restarts(self, ended: str) -> None:
        """A supervisor that ended owes nobody a restart any more."""
        self._restarts = {
            child: owed for child, owed in self._restarts.items() if owed[0] != ended
        }
