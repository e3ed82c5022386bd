"""The task's part for drift: judged before every model call of the work.

What actions brought is remembered here only, and learned again from the record after
a restart: all that a request shows is the event of the judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..context.drift import Act, Topic, act_of, drift, learned, topic_of
from ..context.wording import names_in
from ..events import Anchor, CallTool, DriftFound, DriftOver
from ..ledger.entry import Entry
from ..protocol import Replied
from ..rules import said

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Drifting"]

FOUND = 2_000  # names and values that are remembered; the oldest go first


class Drifting:
    """Compares what the task does with what it is for."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._topic: Topic | None = None
        self._found: dict[str, None] = {}
        self._anchors: dict[str, Anchor] | None = None  # that were learned from

    def judge(self) -> list[DriftFound | DriftOver]:
        """The event of a crossing, either way; none where nothing changes."""
        task = self._task
        rules, state = task.house.baseline, task.state
        if not rules.drift_actions:
            return [DriftOver(score=0.0)] if state.adrift else []
        acts = [act for act in state.acts if self._acts(act.tool)]
        if len(acts) < rules.drift_actions and not state.adrift:
            return []
        acts = acts[-rules.drift_actions :]
        topic, described = self._topic_now(), self._described(acts)
        now = drift(acts, topic, self._found.keys(), described)
        if (now.score > rules.drift_threshold) == state.adrift:
            return []
        if state.adrift:
            return [DriftOver(score=now.score)]
        return [DriftFound(score=now.score, why=now.why)]

    def observed(self, action: CallTool, outcome: Replied) -> None:
        """Learn from the result of a call."""
        if self._task.agent.policy is not None:
            return  # it has seen the goal
        if outcome.status == "completed" and not action.undoes:
            self._learn(act_of(action.tool, action.arguments), outcome.result)

    def recall(self, entries: Sequence[Entry]) -> None:
        """Learn again what the running step had brought before a restart."""
        if self._task.agent.policy is not None:
            return
        for entry in entries:
            if entry.kind == "tool" and entry.status == "completed":
                self._learn(act_of(entry.name, entry.arguments), entry.result)

    def _learn(self, act: Act, result: str) -> None:
        if not self._task.house.baseline.drift_actions or not self._acts(act.tool):
            return
        topic, told = self._topic_now(), self._described([act]).get(act.tool, "")
        self._keep(learned(act, result, topic, self._found.keys(), told))

    def _keep(self, units: Iterable[str]) -> None:
        self._found |= dict.fromkeys(sorted(units))
        for unit in list(self._found)[: max(0, len(self._found) - FOUND)]:
            del self._found[unit]

    def _topic_now(self) -> Topic:
        """The topic; with it, what is kept in view is known to be on it."""
        state, task = self._task.state, self._task.state.task
        if self._topic is None:
            # As submitted: what the model plans itself excuses no drift.
            plan = [text for step in task.steps for text in (step.goal, step.done)]
            says = said(task.constraints, task.rules)
            self._topic = topic_of(task.goal, says, plan, task.inputs)
        if self._anchors is not state.anchors:
            self._anchors = state.anchors
            for name, anchor in state.anchors.items():
                self._keep(names_in(f"{name}\n{anchor.value}"))
        return self._topic

    def _acts(self, name: str) -> bool:
        """Whether a tool acts: one that waits, or opens what was found, does not."""
        tool = self._task.agent.tools.get(name)
        return tool is None or not (
            tool.inside or tool.claims or tool.rests or tool.asks
        )

    def _described(self, acts: Sequence[Act]) -> dict[str, str]:
        tools = self._task.agent.tools
        return {a.tool: tools[a.tool].description for a in acts if a.tool in tools}
