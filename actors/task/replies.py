"""What a model's reply becomes: an observation, and a decision for each call."""

from __future__ import annotations

from collections.abc import Sequence

from ..events import ActionObserved, CallTool, DecisionMade
from ..model import ModelReply
from ..plan.triggers import unsure
from .state import Op

__all__ = ["read_reply"]

WHY_LIMIT = 500  # characters of the model's words that go with each call
CALLS_LIMIT = 64  # tool calls of one reply that are carried out


def read_reply(
    op: Op, reply: ModelReply, first: int, phrases: Sequence[str] | None = None
) -> tuple[ActionObserved, list[DecisionMade]]:
    """Return the events of a completed model call; its calls are numbered from `first`.

    The provider's count of its input goes on record: estimates are calibrated by it.
    With `phrases`, none or some of the host's, its words are looked through for doubt.
    """
    calls = reply.tool_calls[:CALLS_LIMIT]
    usage = reply.usage
    observed = ActionObserved(
        op=op.op,
        attempt=op.attempt,
        status="completed",
        calls=len(calls),
        input_tokens=0
        if usage is None or usage.source != "reported"
        else usage.input_tokens,
        unsure="" if phrases is None else unsure(reply.content or "", phrases),
    )
    decided = [
        DecisionMade(
            op=first + place,
            step=op.step,
            action=CallTool(
                tool=call.name,
                arguments=call.arguments,
                call_id=call.id,
                parent=op.op,
                index=place,
            ),
            why=(reply.content or "")[:WHY_LIMIT],
        )
        for place, call in enumerate(calls)
    ]
    return observed, decided
