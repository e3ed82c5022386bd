"""The task's part for core facts: asked for as it begins, taken as they change.

What requests show of them is an event of the task, so that each renders again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..context.measures import counts_tokens
from ..events import KnowledgeTaken, Known
from ..memory.facts import is_current
from ..names import MEMORY
from ..protocol import AskCore, CoreFacts
from .commands import StopFor

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Knowledge"]


class Knowledge:
    """Decides nothing before the task knows what it is to know (A92).

    `told` says that it does; memory answers as soon as it is there.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._facts: tuple[Known, ...] = ()
        self._version = -1
        self._over = ""
        self.told = False

    def ask(self) -> None:
        """Ask, and be told of changes from then on."""
        task = self._task
        rules, limit = task.house.baseline, task.agent.request_limit
        if limit is None or counts_tokens(task.agent.measure):
            limit = rules.request_limit
        message = AskCore(
            task=task.id,
            group=task.state.task.group,
            cap=int(limit * rules.core_share),
            reply_to=task.address,
        )
        task.requests.send("core", task.house.address(MEMORY), message)

    def memory_is_up(self) -> None:
        """It has begun anew, and knows of nobody who is to be told."""
        self._version = -1
        self.ask()

    def heard(self, message: CoreFacts) -> None:
        """They are here, for the first time or because they changed."""
        self._task.requests.answered("core")
        if message.version < self._version:
            return
        self._version = message.version
        self._facts, self._over = message.facts, message.over
        self.told = True

    def take(self) -> None:
        """Write down what requests show from here, where that is something else.

        Not while a request is being built: it shows what its task knew before. Too much
        to be shown is a reason to pause (A101).
        """
        task, facts = self._task, self._facts
        if facts:
            now = task.house.now()
            facts = tuple(one for one in facts if is_current(one, now))
        if facts == task.state.knowledge and not self._over:
            return
        if task.state.outcome is not None or task.requests.open(_builds):
            return
        if self._over and not task.state.cancelled_by:
            task.parting.stop_for(StopFor("context", self._over, "drop, then resume"))
        elif facts != task.state.knowledge:
            task.append(KnowledgeTaken(facts=facts))


def _builds(key: object) -> bool:
    return isinstance(key, tuple) and key[0] == "assemble"
