"""What an endpoint of OpenAI's chat completions answers, read strictly."""

from __future__ import annotations

import msgspec

from ..actors.model import ModelReply, ModelRequest, ToolCall, Usage
from ..actors.outcomes import ServiceTrouble
from .usage import estimate_input, estimate_output

__all__ = [
    "Call",
    "Choice",
    "Completion",
    "Details",
    "Function",
    "Message",
    "Reported",
    "completion_of",
    "no_completion",
    "reply_of",
]


class Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str | None = None


class Call(msgspec.Struct, frozen=True):
    function: Function
    id: str | None = None


class Message(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None


class Choice(msgspec.Struct, frozen=True):
    message: Message
    finish_reason: str | None = None


class Details(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class Reported(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None


class Completion(msgspec.Struct, frozen=True):
    choices: list[Choice]
    id: str | None = None
    model: str | None = None
    usage: Reported | None = None


def completion_of(body: bytes) -> Completion:
    """Read a whole answer. Raises ServiceTrouble where it is no completion."""
    try:
        return msgspec.json.decode(body, type=Completion)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise no_completion(error) from error


def no_completion(error: object) -> ServiceTrouble:
    """The error for an answer that is something else."""
    return ServiceTrouble(
        f"the endpoint's answer is not a chat completion: {error}", status=200
    )


def reply_of(request: ModelRequest, completion: Completion) -> ModelReply:
    """The first choice as a reply. Raises ServiceTrouble where there is none."""
    if not completion.choices:
        raise no_completion("it has no choice")
    choice = completion.choices[0]
    message = choice.message
    calls = tuple(
        ToolCall(
            id=call.id or f"{completion.id or 'call'}-{number}",
            name=call.function.name,
            arguments=call.function.arguments or "{}",
        )
        for number, call in enumerate(message.tool_calls or ())
    )
    reply = ModelReply(
        content=message.content if message.content is not None else message.refusal,
        tool_calls=calls,
        finish_reason=choice.finish_reason or ("tool_calls" if calls else "stop"),
        model=completion.model or "",
    )
    usage = _usage(request, reply, completion.usage or Reported())
    return msgspec.structs.replace(reply, usage=usage)


def _usage(request: ModelRequest, reply: ModelReply, reported: Reported) -> Usage:
    """The endpoint's figures; a missing, null or zero one is estimated and so marked.

    Cached input counts as input: `prompt_tokens` includes it.
    """
    said_something = bool(reply.content or reply.tool_calls)
    read = reported.prompt_tokens
    written = reported.completion_tokens
    if read and (written or (written == 0 and not said_something)):
        cached = (reported.prompt_tokens_details or Details()).cached_tokens or 0
        return Usage(
            input_tokens=read, output_tokens=written, cached_input_tokens=cached
        )
    return Usage(
        input_tokens=read or estimate_input(request),
        output_tokens=written or estimate_output(reply),
        source="estimated",
    )
