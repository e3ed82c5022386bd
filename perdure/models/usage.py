"""The estimate of a model call's tokens, for replies that come without figures."""

from __future__ import annotations

import msgspec

from ..actors.context.measure import characters, request_characters
from ..actors.model import ModelReply, ModelRequest, Usage

__all__ = ["estimate_input", "estimate_output", "estimate_usage"]

CHARACTERS_PER_TOKEN = 4  # a rule of thumb for English; other scripts need more tokens


def estimate_input(request: ModelRequest) -> int:
    """Tokens of a request: characters of its JSON, schemas included, by four."""
    size = request_characters(request.messages, request.tools)
    return max(1, size // CHARACTERS_PER_TOKEN)


def estimate_output(reply: ModelReply) -> int:
    """Tokens of a reply: characters of its content and calls as JSON, by four."""
    size = characters([reply.content, msgspec.to_builtins(reply.tool_calls)])
    return max(1, size // CHARACTERS_PER_TOKEN)


def estimate_usage(request: ModelRequest, reply: ModelReply) -> Usage:
    """Both figures by the same rule, marked ``estimated``."""
    return Usage(
        input_tokens=estimate_input(request),
        output_tokens=estimate_output(reply),
        source="estimated",
    )
