"""The estimate of a model call's tokens, for replies that come without figures."""

from __future__ import annotations

import msgspec

from ..actors.context.estimate import estimated_tokens
from ..actors.context.measure import canonical, request_text
from ..actors.model import ModelReply, ModelRequest, Usage

__all__ = ["estimate_input", "estimate_output", "estimate_usage"]


def estimate_input(request: ModelRequest) -> int:
    """Tokens of a request's canonical JSON, schemas included."""
    return estimated_tokens(request_text(request.messages, request.tools))


def estimate_output(reply: ModelReply) -> int:
    """Tokens of a reply's content and calls as canonical JSON."""
    said = canonical([reply.content, msgspec.to_builtins(reply.tool_calls)])
    return estimated_tokens(said)


def estimate_usage(request: ModelRequest, reply: ModelReply) -> Usage:
    """Both figures by the same rule, marked ``estimated``."""
    return Usage(
        input_tokens=estimate_input(request),
        output_tokens=estimate_output(reply),
        source="estimated",
    )
