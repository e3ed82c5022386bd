"""Any endpoint that speaks OpenAI's chat completions, through the official SDK."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..actors.model import ModelReply, ModelRequest, ToolCall, Usage
from ..actors.outcomes import NotSent, ServiceTrouble
from .usage import estimate_input, estimate_output

__all__ = ["OpenAIModel"]

CONNECT_TIMEOUT = 10.0  # seconds
ERROR_TEXT = 300  # characters of an endpoint's error that are handed on
NO_KEY = "none"  # the SDK insists on a key; local endpoints need none
OPENAI_HOST = "api.openai.com"

# Raised by the SDK's HTTP client before a byte of the request has left. Told by name:
# which HTTP client the SDK brings differs between its versions.
NOTHING_SENT = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}
)
WORTH_ANOTHER_TRY = frozenset({408, 409, 429})  # HTTP statuses, besides 5xx


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str | None = None


class _Call(msgspec.Struct, frozen=True):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message
    finish_reason: str | None = None


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: list[_Choice]
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class OpenAIModel:
    """One model of an OpenAI-compatible endpoint; never retries by itself.

    Retries are the runtime's, so that every attempt is an operation with a record and a
    cost. Each call opens a connection of its own: on a kept one that the endpoint has
    closed meanwhile, nobody could say whether the request arrived.

    Args:
        name: The model's name as the endpoint knows it.
        base_url: The endpoint; ``OPENAI_BASE_URL``, else OpenAI's own.
        api_key: ``OPENAI_API_KEY`` if not given; may be missing where `base_url` is not
            OpenAI's. Neither shown nor logged.

    Raises:
        ImportError: The extra is not installed.
        ValueError: OpenAI's own endpoint, and no key.
    """

    def __init__(
        self, name: str, base_url: str | None = None, api_key: str | None = None
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise ImportError(
                "OpenAIModel needs the openai SDK: pip install 'perdure[openai]'"
            ) from error
        self._sdk = openai
        self._name = name
        base = base_url or os.environ.get("OPENAI_BASE_URL")
        self._base_url = base or f"https://{OPENAI_HOST}/v1"
        self._at_openai = urlsplit(self._base_url).hostname == OPENAI_HOST
        key = api_key or os.environ.get("OPENAI_API_KEY")
        if key is None and self._at_openai:
            raise ValueError(
                f"OpenAIModel({name!r}) has no key: set OPENAI_API_KEY or pass api_key="
            )
        self._key = key or NO_KEY

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r}, base_url={self._base_url!r})"

    @property
    def name(self) -> str:
        """The name that logs and results show."""
        return f"openai:{self._name}"

    @property
    def service(self) -> str:
        """What a `RateLimit` names; a Retry-After of it holds for all who use it."""
        return self.name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Send one request and read the reply.

        Raises:
            NotSent: The connection was refused, or the endpoint refused the request
                (4xx): it did not run.
            ServiceTrouble: 408, 409, 429, 5xx, or an answer that is no completion.
            ConnectionError: The connection was lost after sending; it may have run.
            TimeoutError: No whole answer within `request.timeout`; it may have run.
        """
        async with asyncio.timeout(request.timeout):
            try:
                body = await self._post(request)
            except self._sdk.OpenAIError as error:
                raise self._translated(error) from error
        return _reply(request, body)

    async def _post(self, request: ModelRequest) -> bytes:
        # OpenAI's newer models refuse `max_tokens`; older compatible endpoints know
        # nothing else, and would answer without a limit.
        limit = "max_completion_tokens" if self._at_openai else "max_tokens"
        options: dict[str, Any] = {
            "model": self._name,
            "messages": request.messages,
            limit: request.max_output_tokens,
        }
        if request.tools:
            options["tools"] = request.tools
        timeout = self._sdk.Timeout(
            request.timeout, connect=min(CONNECT_TIMEOUT, request.timeout / 2)
        )
        async with self._sdk.AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=timeout,
        ) as client:
            response = await client.chat.completions.with_raw_response.create(**options)
            return bytes(response.content)

    def _translated(self, error: Exception) -> Exception:
        text = str(error).replace(self._key, "…")[:ERROR_TEXT]
        if isinstance(error, self._sdk.APIStatusError):
            status = error.status_code
            said = f"{self.name} answered {status}: {text}"
            if status in WORTH_ANOTHER_TRY or status >= 500:
                wait = _retry_after(error.response.headers.get("retry-after"))
                return ServiceTrouble(said, status=status, retry_after=wait)
            return NotSent(said)
        if any(type(cause).__name__ in NOTHING_SENT for cause in _causes(error)):
            return NotSent(f"{self.name} cannot be reached at {self._base_url}: {text}")
        if isinstance(error, self._sdk.APITimeoutError):
            return TimeoutError(f"{self.name} did not answer in time")
        if isinstance(error, self._sdk.APIConnectionError):
            return ConnectionError(f"{self.name}: connection lost: {text}")
        return NotSent(f"{self.name}: {text}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _retry_after(header: str | None) -> float | None:
    """Seconds of a Retry-After header; a date there is ignored: it needs a clock."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _reply(request: ModelRequest, body: bytes) -> ModelReply:
    try:
        completion = msgspec.json.decode(body, type=_Completion)
        choice = completion.choices[0]
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        raise ServiceTrouble(
            f"the endpoint's answer is not a chat completion: {error}", status=200
        ) from error
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
    usage = _usage(request, reply, completion.usage or _Usage())
    return msgspec.structs.replace(reply, usage=usage)


def _usage(request: ModelRequest, reply: ModelReply, reported: _Usage) -> Usage:
    """The endpoint's figures; a missing, null or zero one is estimated and so marked.

    Cached input counts as input: `prompt_tokens` includes it.
    """
    said_something = bool(reply.content or reply.tool_calls)
    read = reported.prompt_tokens
    written = reported.completion_tokens
    if read and (written or (written == 0 and not said_something)):
        cached = (reported.prompt_tokens_details or _Details()).cached_tokens or 0
        return Usage(
            input_tokens=read, output_tokens=written, cached_input_tokens=cached
        )
    return Usage(
        input_tokens=read or estimate_input(request),
        output_tokens=written or estimate_output(reply),
        source="estimated",
    )
