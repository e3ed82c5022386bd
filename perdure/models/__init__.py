"""Models: a scripted one, OpenAI-compatible endpoints, and what to write your own with.

A model is anything with a ``name`` and ``async complete(request) -> reply``; one that
has ``complete_streaming`` too can be heard while it writes.
"""

from __future__ import annotations

from ..actors.model import (
    Model,
    ModelReply,
    ModelRequest,
    StreamingModel,
    ToolCall,
    Usage,
)
from ..actors.outcomes import NotSent, ServiceTrouble
from .openai import OpenAIModel
from .prices import published_price
from .scripted import Scripted

__all__ = [
    "Model",
    "ModelReply",
    "ModelRequest",
    "NotSent",
    "OpenAIModel",
    "Scripted",
    "ServiceTrouble",
    "StreamingModel",
    "ToolCall",
    "Usage",
    "published_price",
]
