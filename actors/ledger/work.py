"""What the ledger hands to the executor: tools, models and probes as work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..agent import Agent
from ..context.estimate import estimated_tokens
from ..context.measure import canonical, copied
from ..events import Amounts
from ..executor.executor import Outcome, Work
from ..executor.isolated import Call, IsolatedRun
from ..executor.work import told
from ..model import ModelReply, ModelRequest, StreamingModel, Usage
from ..outcomes import RaisedElsewhere, rest_of
from ..price import Price, cost_of
from ..speech import Speech
from ..tool import Effect, Tool, ToolContext
from .entry import Entry

__all__ = [
    "Answered",
    "Returned",
    "as_text",
    "charged",
    "model_work",
    "probe_work",
    "tool_work",
    "usage_of",
    "used",
]

RESULT_LIMIT = 262_144  # characters; more is cut, and the text says so


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back: text for the model, and variables to keep visible."""

    text: str
    anchors: dict[str, str]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a model gave back: its reply as JSON text, and what the call used."""

    text: str
    usage: Usage


def tool_work(
    tool: Tool,
    values: dict[str, Any],
    context: ToolContext,
    *,
    arguments: str,
    key: tuple[str, str],
    timeout: float,
    until: float | None = None,
    forbidden: Callable[[], str],
    deliver: Callable[[Outcome], None],
) -> Work:
    """One call of a tool; its result is made text where it ran.

    `arguments` is the JSON text of `values`, for a tool in a process of its own.
    """
    isolated = _isolated(tool, arguments, context) if tool.isolate else None

    def returned(value: Any) -> Returned:
        return Returned(text=as_text(value), anchors=dict(context.anchors))

    async def call_async() -> Returned:
        try:
            return returned(await tool.invoke(values, context))
        except Exception as error:
            _raise_declared(tool, error)
            raise

    def call() -> Returned:
        if isolated is not None:
            answer = isolated.run()
            return Returned(text=answer.text, anchors=answer.anchors)
        try:
            return returned(tool.invoke(values, context))
        except Exception as error:
            _raise_declared(tool, error)
            raise

    on_loop = tool.is_async and isolated is None
    return Work(
        key=key,
        name=tool.name,
        effect=tool.effect,
        call=call_async if on_loop else call,
        coroutine=on_loop,
        timeout=timeout,
        not_after=context.deadline,
        until=until,
        forbidden=forbidden,
        deliver=deliver,
        kept=True,
        kill=None if isolated is None else isolated.kill,
    )


def _raise_declared(tool: Tool, error: Exception) -> None:
    """Classify what it raised where the tool says how."""
    status = tool.declared.of(error)
    if status is not None:
        raise RaisedElsewhere(
            told(error),
            status=status,
            not_sent=status == "failed",
            retry_after=rest_of(error),
        ) from error


def _isolated(tool: Tool, arguments: str, context: ToolContext) -> IsolatedRun:
    call = Call(
        module=tool.function.__module__,
        name=tool.function.__qualname__,
        effect=tool.effect,
        arguments=arguments,
        request_id=context.request_id,
        deadline=context.deadline,
        fence=context.fence,
        memory=tool.memory,
        declared=tool.declared,
    )
    return IsolatedRun(call, context.log)


def model_work(
    agent: Agent,
    request: ModelRequest,
    speech: Speech,
    *,
    key: tuple[str, str],
    not_after: float,
    until: float | None = None,
    forbidden: Callable[[], str],
    deliver: Callable[[Outcome], None],
) -> Work:
    """One model call. What it says while it writes is `speech`, until its outcome."""

    def delivered(outcome: Outcome) -> None:
        speech.end()
        deliver(outcome)

    async def call() -> Answered:
        # A copy, for the model's code to change: usage is estimated from ours.
        theirs = msgspec.structs.replace(
            request, messages=copied(request.messages), tools=copied(request.tools)
        )
        model = agent.model
        streaming = isinstance(model, StreamingModel) and model.complete_streaming
        if streaming:
            reply = await streaming(theirs, speech.say)
        else:
            reply = await model.complete(theirs)
        if not isinstance(reply, ModelReply):
            raise TypeError(f"the model answered {type(reply).__name__}, no ModelReply")
        usage = usage_of(request, reply)
        reply = msgspec.structs.replace(reply, usage=usage)
        text = msgspec.json.encode(reply).decode()
        if len(text.encode()) > RESULT_LIMIT:
            raise ValueError(f"the model answered {len(text)} characters of JSON")
        return Answered(text=text, usage=usage)

    return Work(
        key=key,
        name="model",
        effect="read",
        call=call,
        coroutine=True,
        timeout=request.timeout,
        not_after=not_after,
        until=until,
        forbidden=forbidden,
        deliver=delivered,
        kept=True,
    )


def probe_work(
    tool: Tool,
    task: str,
    entry: Entry,
    values: dict[str, Any],
    *,
    timeout: float,
    now: float,
    deliver: Callable[[Outcome], None],
) -> Work:
    """One question to the world, whether an effect happened."""
    probe = tool.probe
    assert probe is not None
    effect = Effect(
        task=task,
        op=entry.op,
        attempt=entry.attempt,
        tool=tool.name,
        arguments=values,
        request_id=entry.request_id,
    )
    return Work(
        key=(task, f"probe {entry.op}#{entry.attempt}.{entry.probes}"),
        name=tool.name,
        effect="read",
        call=lambda: probe(effect),
        timeout=timeout,
        not_after=now + timeout,
        deliver=deliver,
    )


def as_text(value: Any) -> str:
    """A tool's result as the text a model sees; what cannot be text says so."""
    if value is None:
        text = "null"
    elif isinstance(value, str):
        text = value
    else:
        try:
            text = canonical(msgspec.to_builtins(value))
        except (TypeError, ValueError, RecursionError) as error:
            text = f"(done; the result cannot be shown as JSON: {error})"
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    if len(text) > RESULT_LIMIT:
        text = f"{text[:RESULT_LIMIT]}\n(cut: the result had {len(text)} characters)"
    return text


def usage_of(request: ModelRequest, reply: ModelReply) -> Usage:
    """What a call used: as reported, or estimated from its text and marked so."""
    usage = reply.usage
    text = reply.content or ""
    silent = not (text or reply.tool_calls)
    if usage is not None and _sound(usage) and (usage.output_tokens or silent):
        return usage
    written = [text, *(call.arguments for call in reply.tool_calls)]
    return Usage(
        input_tokens=estimated_tokens(canonical([request.messages, request.tools])),
        output_tokens=sum(map(estimated_tokens, written)),
        source="estimated",
    )


def _sound(usage: Usage) -> bool:
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
    return all(type(count) is int and count >= 0 for count in counts)


def used(
    kind: str,
    name: str,
    seconds: float,
    usage: Usage | None = None,
    price: Price | None = None,
) -> Amounts:
    """The amounts of one attempt that ran."""
    milliseconds = round(seconds * 1000)
    if kind == "tool":
        return {"milliseconds": milliseconds, "tool_calls": 1, f"tool:{name}": 1}
    if usage is None:
        return {"milliseconds": milliseconds, "model_calls": 1}
    return {"milliseconds": milliseconds, **charged(usage, price)}


def charged(usage: Usage, price: Price | None) -> Amounts:
    """The amounts of one model call; without a price its cost is left open."""
    amounts: Amounts = {
        "model_calls": 1,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tokens": usage.input_tokens + usage.output_tokens,
    }
    if price is not None:
        amounts["cost"] = cost_of(price, usage)
    return amounts
