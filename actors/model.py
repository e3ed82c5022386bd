"""What the runtime says to a model, and what a model says back.

A message is plain JSON in the shape that chat models share: ``{"role": ...,
"content": ..., "tool_calls": [...]}``. Nothing here knows a provider.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

__all__ = [
    "Message",
    "Model",
    "ModelReply",
    "ModelRequest",
    "Streaming",
    "StreamingModel",
    "ToolCall",
    "ToolSchema",
    "Usage",
]

Message: TypeAlias = dict[str, Any]
ToolSchema: TypeAlias = dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call that a model asks for; `arguments` is the JSON text it wrote."""

    id: str
    name: str
    arguments: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one model call, and who says so.

    `source` is ``reported`` (the provider's figures) or ``estimated`` (ours, where
    the provider sent none, null, or zero beside text). `cached_input_tokens` are those
    of the input that the provider had in its cache.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    source: Literal["reported", "estimated"] = "reported"


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One fitted request. `max_output_tokens` comes from its reservation."""

    messages: list[Message]
    tools: list[ToolSchema]
    max_output_tokens: int
    timeout: float  # seconds


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer. `usage` is None where the provider sent none."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish_reason: str = "stop"
    model: str = ""


@runtime_checkable
class Model(Protocol):
    """Anything that answers a request. Called on the runtime's event loop.

    An exception from `complete` is classified like a tool's: a refused connection
    is `failed`, a connection lost after sending is `unknown`.
    """

    @property
    def name(self) -> str:
        """The name that logs and results show."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request; raise what the transport raised."""
        ...


Streaming: TypeAlias = Callable[
    [ModelRequest, Callable[[str], None]], Awaitable[ModelReply]
]


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that also says what it writes while it still writes.

    It is then asked so for every call, whether somebody watches or not: watching
    changes nothing.
    """

    @property
    def complete_streaming(self) -> Streaming | None:
        """Answers one request as `complete` does, and raises what that raises.

        It calls its second argument with each piece of the reply's text as it comes,
        on any thread; that returns at once and raises nothing. What is returned is the
        reply, whatever was said before. None where this model is not to stream.
        """
        ...
