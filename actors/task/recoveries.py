"""How a task's state follows the pipeline of its recovery. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..context.blocks import Window
from ..context.facts import found_after
from ..events import (
    ContextRebuilt,
    Event,
    RecoveryDeclared,
    RecoveryLoaded,
    TaskPaused,
)
from .parts import Recovery

if TYPE_CHECKING:
    from .state import TaskState

__all__ = ["CONFIRM", "asked", "declared", "recovering", "resumed"]

CONFIRM = "recovery"  # the reason of a pause until a person passes a declaration


def recovering(state: TaskState, event: Event) -> TaskState:
    """A recovery takes its next step."""
    change = msgspec.structs.replace
    recovery = state.recovery
    match event:
        case RecoveryLoaded(number=number):
            before = recovery or Recovery(number=number)
            return change(
                state,
                recovery=Recovery(
                    number=number,
                    declares=before.declares,
                    asked=before.asked,
                    confirmed=before.confirmed,
                ),
                recoveries=number,
                progressed=False,
            )
        case ContextRebuilt(facts_until=until):
            if recovery is not None:
                recovery = change(recovery, stage="rebuilt")
            state = change(state, findings=found_after(state.findings, event))
            return change(state, recovery=recovery, window=Window(), facts_until=until)
        case _:
            assert recovery is not None
            return change(state, recovery=change(recovery, stage="verified"))


def declared(state: TaskState, event: RecoveryDeclared) -> TaskState:
    """A declaration ends the recovery, or is refused."""
    if event.accepted:
        return msgspec.structs.replace(state, recovery=None)
    assert state.recovery is not None
    recovery = msgspec.structs.replace(
        state.recovery, declares=0, refused=state.recovery.refused + 1, why=event.why
    )
    return msgspec.structs.replace(state, recovery=recovery)


def asked(recovery: Recovery | None, event: TaskPaused) -> Recovery | None:
    """A person is shown the declaration, where that is what the task pauses for."""
    if recovery is None or event.reason != CONFIRM:
        return recovery
    return msgspec.structs.replace(recovery, asked=event.detail, confirmed="")


def resumed(recovery: Recovery | None, by: str) -> Recovery | None:
    """Whoever resumes passes what was shown, and gives refused declarations back."""
    if recovery is None:
        return None
    confirmed = by if recovery.asked else ""
    return msgspec.structs.replace(recovery, refused=0, confirmed=confirmed)
