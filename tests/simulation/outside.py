"""The outside world: it outlives every process and counts what really happened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from perdure import DidNotHappen, Happened
from perdure.actors.model import ModelReply, ModelRequest
from tests.actors.world import Calls, as_calls, declaration, standing
from tests.simulation.findings import Findings
from tests.simulation.witness import Witness

__all__ = ["BULK", "GOAL", "LIMIT", "PART", "Outside"]

GOAL = "Job {number}: export „May“ sales, 并按区域汇总. Never twice!"
PART = "Part {number}: 汇总 a region."  # the goal of a sub-task
LIMIT = 6_000  # characters of a request
REJECTED = "rejected it"  # what a result says of a call that somebody did not want
BULK = ("look", {"what": "all"})  # told first, and needed by nothing that follows


class Outside:
    """What tools, probes and the model reach. Everything is by request id.

    Args:
        findings: where what must not happen is noted.
        witness: reads the disk beside the runtime.
        now: virtual monotonic seconds.
        sleep: has the tool that calls it wait.
        lags: seconds until an effect can be seen by a probe, in turn.
    """

    def __init__(
        self,
        findings: Findings,
        witness: Witness,
        now: Callable[[], float],
        lags: tuple[float, ...],
    ) -> None:
        self.findings = findings
        self.witness = witness
        self.now = now
        self.lags = lags
        self.sent: list[tuple[str, str]] = []  # request id, text
        self.erased: list[tuple[str, str]] = []  # request id, path
        self.writes: list[tuple[str, str, str]] = []  # request id, name, text
        self.visible: dict[str, float] = {}  # request id -> when a probe sees it
        self.results: dict[str, str] = {}  # request id -> what came of it
        self.model_calls: Counter[str] = Counter()  # by task
        self.tool_calls: Counter[str] = Counter()
        self.accepted: set[tuple[str, str]] = set()  # task, step
        self.requests: list[ModelRequest] = []
        self.sleep_before: Callable[[], None] = _awake
        self.sleep_after: Callable[[], None] = _awake

    # ── tools ────────────────────────────────────────────────────────────────────

    def look(self, what: str) -> str:
        """Look at something."""
        self.sleep_before()
        self.sleep_after()
        return f"saw {what}: " + "much to tell; " * (100 if what == "all" else 20)

    def write(self, name: str, text: str, *, request_id: str) -> str:
        """Write a file."""
        self.sleep_before()
        self._contact(request_id)
        self.writes.append((request_id, name, text))
        self.sleep_after()
        return f"wrote {name}"

    def send(self, text: str, *, request_id: str) -> str:
        """Send a mail."""
        self.sleep_before()
        self._contact(request_id)
        self.sent.append((request_id, text))
        return self._shown_later(request_id, f"sent {text}")

    def erase(self, path: str, *, request_id: str) -> str:
        """Erase a file; somebody must have approved it."""
        self.sleep_before()
        self._contact(request_id)
        self.findings.check(
            "once_at_most_once",
            self.witness.approved(request_id, "erase", {"path": path}),
            lambda: f"{request_id} erases {path}, which nobody approved",
        )
        self.erased.append((request_id, path))
        return self._shown_later(request_id, f"erased {path}")

    def _shown_later(self, request_id: str, result: str) -> str:
        lag = self.lags[len(self.results) % len(self.lags)]
        self.results[request_id] = result
        self.visible[request_id] = min(
            self.visible.get(request_id, 1e18), self.now() + lag
        )
        self.sleep_after()
        return result

    def was_done(self, effect: Any) -> Any:
        """Whether the world shows the mail, or that a file is gone."""
        seen = self.visible.get(effect.request_id)
        if seen is None or seen > self.now():
            return DidNotHappen()
        return Happened(self.results[effect.request_id])

    def _contact(self, request_id: str) -> None:
        task = self.witness.task_of_request(request_id)
        self.findings.check(
            "acked_durable",
            task is not None,
            lambda: f"{request_id} acts without a registration on disk",
        )
        self.tool_calls[task or "?"] += 1

    # ── acceptance ───────────────────────────────────────────────────────────────

    def accept(self, groups: Iterable[Calls], _: Any, view: Any) -> bool | str:
        """Every call of the step must have been answered for real, or rejected."""
        done = self.witness.answered_calls(view.task, view.step)
        for name, arguments in _needed(groups):
            if (name, _text(arguments)) not in done:
                return f"{name} {arguments} is not done"
        self.accepted.add((view.task, view.step))
        return True

    # ── the model ────────────────────────────────────────────────────────────────

    def reply(
        self, script: Mapping[str, tuple[Calls, ...]], request: ModelRequest
    ) -> ModelReply:
        """Make the calls of the step that lack a result, then answer."""
        self.requests.append(request)
        data = standing(request)
        if data["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        step = data["step"]["id"]
        done = _done(request, data)
        made = sum(m["role"] == "tool" for m in request.messages)
        made += len(data["operations"])
        for group in script[step]:
            if group == (BULK,) and done:
                continue  # its exchange may have been trimmed since
            if left := [c for c in group if (c[0], _text(c[1])) not in done]:
                return ModelReply(tool_calls=as_calls(left, made))
        return ModelReply(content=json.dumps({"step": step, "ok": True}))


def _needed(groups: Iterable[Calls]) -> list[tuple[str, Mapping[str, Any]]]:
    return [call for group in groups for call in group if call != BULK]


def _done(request: ModelRequest, data: dict[str, Any]) -> set[tuple[str, str]]:
    """Calls that ran well or were rejected, from facts and scratch alike."""
    done = {
        (one["tool"], _text(one["arguments"]))
        for one in data["operations"]
        if one["outcome"] == "completed" or REJECTED in one["result"]
    }
    calls: dict[str, tuple[str, str]] = {}
    for message in request.messages:
        for call in message.get("tool_calls", ()):
            made = call["function"]
            arguments = _text(json.loads(made["arguments"]))
            calls[call["id"]] = made["name"], arguments
        if message["role"] == "tool":
            content = message["content"]
            if REJECTED in content or not content.startswith("error:"):
                done.add(calls[message["tool_call_id"]])
    return done


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _awake() -> None: ...
