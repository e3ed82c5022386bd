"""The part of memory that gives tasks the core facts of their scopes (A100, A92)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.reader import Reader
from ..names import task as task_name
from ..protocol import AskCore, CoreFacts
from .facts import Fact, core_prefix, is_current, known, over_cap, scopes_of
from .lookup import current

if TYPE_CHECKING:
    from .actor import Memory

__all__ = ["Core"]


class Core:
    """Answers a task that starts, and tells it again whenever they change."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._asking: dict[str, AskCore] = {}  # the tasks that run, by their names

    def asked(self, message: AskCore) -> None:
        """A task starts: it is told now, and of changes until it is gone."""
        name = task_name(message.task)
        if name not in self._asking:
            self._memory.monitor(message.reply_to)
        self._asking[name] = message
        self._tell(message)

    def changed(self, scope: str) -> None:
        """The core facts of a scope are others: tell whom they concern."""
        for message in self._asking.values():
            if scope in scopes_of(message.task, message.group):
                self._tell(message)

    def tells(self, name: str) -> bool:
        """Whether a task runs that is told of changes, by its actor's name."""
        return name in self._asking

    def down(self, name: str) -> None:
        """A task is gone; one that is there again has asked anew."""
        memory = self._memory
        if name in self._asking and not memory.system.is_running(name):
            memory.demonitor(self._asking.pop(name).reply_to)

    def _tell(self, message: AskCore) -> None:
        memory = self._memory
        version = memory.state.version
        scopes = scopes_of(message.task, message.group)

        def found(facts: list[Fact]) -> None:
            now = memory.house.now()
            holding = [one for one in facts if is_current(one, now)]
            over = over_cap(holding, message.cap)
            message.reply_to.tell(
                CoreFacts(
                    version=version,
                    facts=tuple(map(known, holding)),
                    over=over,
                )
            )

        def look(reader: Reader) -> list[Fact]:
            return [
                fact
                for scope in scopes
                for fact in current(reader, core_prefix(scope))
                if fact.scope == scope
            ]

        if memory.state.core:
            memory.read(look, found)
        else:
            found([])
