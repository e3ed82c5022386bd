"""Any endpoint that speaks OpenAI's chat completions, through the official SDK."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from ..actors.model import ModelReply, ModelRequest, Streaming
from ..actors.outcomes import NotSent, ServiceTrouble
from .completions import Completion, completion_of, no_completion, reply_of
from .streamed import Assembly

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
        stream: Ask for replies in pieces, for those who watch a task with
            ``partial=True``. What is recorded is the whole reply. An endpoint that
            does not stream, or tells no usage at the end of a stream, will do.

    Raises:
        ImportError: The extra is not installed.
        ValueError: OpenAI's own endpoint, and no key.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        stream: bool = False,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise ImportError(
                "OpenAIModel needs the openai SDK: pip install 'perdure[openai]'"
            ) from error
        self._sdk = openai
        self._name = name
        self._streams = stream
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
        async with self._patience(request):
            async with self._client(request) as client:
                asked = client.chat.completions.with_raw_response
                response = await asked.create(**self._options(request))
            return reply_of(request, completion_of(bytes(response.content)))

    @property
    def complete_streaming(self) -> Streaming | None:
        """`complete`, asked for in pieces; None without ``stream=True``.

        A stream that ends in the middle is a lost connection.
        """
        return self._stream if self._streams else None

    async def _stream(
        self, request: ModelRequest, said: Callable[[str], None]
    ) -> ModelReply:
        options = self._options(request)
        options |= {"stream": True, "stream_options": {"include_usage": True}}
        async with self._patience(request), self._client(request) as client:
            asked = client.chat.completions.with_streaming_response
            async with asked.create(**options) as response:
                kind = response.headers.get("content-type", "")
                if "text/event-stream" in kind:
                    whole = await self._assembled(await response.parse(), said)
                else:  # it does not stream
                    whole = completion_of(await response.read())
            return reply_of(request, whole)

    async def _assembled(self, chunks: Any, said: Callable[[str], None]) -> Completion:
        assembly = Assembly()
        try:
            async for chunk in chunks:
                if text := assembly.add(chunk):
                    said(text)
        except ValueError as error:  # no JSON, or no chunk
            raise no_completion(error) from error
        if not assembly.finished:
            raise ConnectionError(f"{self.name}: its reply broke off in the middle")
        return assembly.whole()

    @asynccontextmanager
    async def _patience(self, request: ModelRequest) -> AsyncIterator[None]:
        async with asyncio.timeout(request.timeout):
            try:
                yield
            except self._sdk.OpenAIError as error:
                raise self._translated(error) from error

    def _options(self, request: ModelRequest) -> dict[str, Any]:
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
        return options

    def _client(self, request: ModelRequest) -> Any:
        timeout = self._sdk.Timeout(
            request.timeout, connect=min(CONNECT_TIMEOUT, request.timeout / 2)
        )
        return self._sdk.AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=timeout,
        )

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
        if isinstance(error, self._sdk.APIError):  # said in the midst of a stream
            return ServiceTrouble(f"{self.name} broke off: {text}", status=200)
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
