"""A model without a model: replies computed from the request alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import msgspec

from ..actors.model import ModelReply, ModelRequest, Streaming
from .usage import estimate_usage

__all__ = ["Scripted"]

WORD = re.compile(r"\S+\s*|\s+")


class Scripted:
    """Answers with `fn(request)`; says nothing about how good a real model would be.

    `fn` must be a pure function of the request: no counter, no state, no look outside.
    Then a task that is killed and recovered gets the replies that an undisturbed one
    gets, and what the runtime forgets to put into a request is missed at once. It runs
    on the runtime's event loop, so it must be quick; what it raises fails the call.
    A reply without usage gets the estimate of `perdure.models.usage`. With ``stream``
    it says its text word by word first, as a model does that streams.
    """

    def __init__(
        self,
        fn: Callable[[ModelRequest], ModelReply],
        name: str = "scripted",
        *,
        stream: bool = False,
    ) -> None:
        self._fn = fn
        self._name = name
        self._streams = stream

    @property
    def name(self) -> str:
        """The name that logs and results show."""
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return `fn`'s reply, with usage and the model's name filled in."""
        reply = self._fn(request)
        usage = reply.usage or estimate_usage(request, reply)
        return msgspec.structs.replace(
            reply, usage=usage, model=reply.model or self._name
        )

    @property
    def complete_streaming(self) -> Streaming | None:
        """`complete`, said in words; None without ``stream=True``."""
        return self._stream if self._streams else None

    async def _stream(
        self, request: ModelRequest, said: Callable[[str], None]
    ) -> ModelReply:
        reply = await self.complete(request)
        for word in WORD.findall(reply.content or ""):
            said(word)
            await asyncio.sleep(0)
        return reply
