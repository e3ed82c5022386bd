"""A chat completion put together from the chunks of a stream."""

from __future__ import annotations

from typing import Any

import msgspec

from .completions import Call, Choice, Completion, Function, Message, Reported

__all__ = ["Assembly"]


class _FunctionDelta(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta = _FunctionDelta()


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _ChunkChoice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    index: int = 0
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_ChunkChoice]
    id: str | None = None
    model: str | None = None
    usage: Reported | None = None


class _Call:
    """A call that is still being written."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""

    def is_meant(self, delta: _CallDelta) -> bool:
        """Whether a piece goes on with this call.

        Some endpoints number all calls alike, and tell them apart by id only.
        """
        if delta.id and self.id and delta.id != self.id:
            return False
        return delta.index is None or delta.index == self.index

    def add(self, delta: _CallDelta) -> None:
        """Take a piece; a name that is only said again is not doubled."""
        self.id = self.id or delta.id or ""
        if delta.function.name and delta.function.name != self.name:
            self.name += delta.function.name
        self.arguments += delta.function.arguments or ""


class Assembly:
    """The first choice of a stream, chunk by chunk, and the usage behind it."""

    def __init__(self) -> None:
        self._id = ""
        self._model = ""
        self._usage: Reported | None = None
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._finish = ""

    @property
    def finished(self) -> bool:
        """Whether the reply came to its end; without, the stream was cut off."""
        return bool(self._finish)

    def add(self, raw: Any) -> str:
        """Take a chunk of the SDK; returns the text that came with it.

        Raises msgspec.ValidationError, a ValueError, where it is none.
        """
        plain = raw.to_dict(warnings=False) if hasattr(raw, "to_dict") else raw
        chunk = msgspec.convert(plain, _Chunk)
        self._id = self._id or chunk.id or ""
        self._model = self._model or chunk.model or ""
        self._usage = chunk.usage or self._usage
        text = ""
        for choice in chunk.choices:
            if choice.index == 0:
                text += self._add(choice.delta or _Delta())
                self._finish = choice.finish_reason or self._finish
        return text

    def _add(self, delta: _Delta) -> str:
        if delta.content:
            self._content.append(delta.content)
        if delta.refusal:
            self._refusal.append(delta.refusal)
        for one in delta.tool_calls or ():
            self._call_of(one).add(one)
        return (delta.content or "") + (delta.refusal or "")

    def _call_of(self, delta: _CallDelta) -> _Call:
        for call in reversed(self._calls):
            if call.is_meant(delta):
                return call
        call = _Call(delta.index)
        self._calls.append(call)
        return call

    def whole(self) -> Completion:
        """The completion that an endpoint gives which does not stream."""
        calls = [
            Call(id=one.id, function=Function(name=one.name, arguments=one.arguments))
            for one in self._calls
        ]
        message = Message(
            content="".join(self._content) if self._content else None,
            refusal="".join(self._refusal) if self._refusal else None,
            tool_calls=calls or None,
        )
        return Completion(
            id=self._id or None,
            model=self._model or None,
            choices=[Choice(message=message, finish_reason=self._finish or None)],
            usage=self._usage,
        )
