from __future__ import annotations

import asyncio

import pytest

from perdure.actors.model import Model, ModelReply, ModelRequest, ToolCall, Usage
from perdure.models import Scripted

REQUEST = ModelRequest(
    messages=[{"role": "user", "content": "2 + 2?"}],
    tools=[],
    max_output_tokens=64,
    timeout=30.0,
)


def answer(reply: ModelReply) -> ModelReply:
    return asyncio.run(Scripted(lambda _: reply).complete(REQUEST))


def test_it_is_a_model() -> None:
    assert isinstance(Scripted(lambda _: ModelReply()), Model)


def test_a_reply_is_what_the_function_makes_of_the_request() -> None:
    model = Scripted(lambda request: ModelReply(content=request.messages[0]["content"]))
    reply = asyncio.run(model.complete(REQUEST))
    assert (reply.content, reply.model) == ("2 + 2?", "scripted")


def test_usage_that_the_function_leaves_out_is_estimated_and_marked() -> None:
    usage = answer(ModelReply(content="x" * 800)).usage
    assert usage == Usage(input_tokens=30, output_tokens=524, source="estimated")


def test_calls_count_as_output() -> None:
    reply = ModelReply(tool_calls=(ToolCall(id="1", name="f", arguments="x" * 800),))
    usage = answer(reply).usage
    assert usage is not None
    assert usage.output_tokens == 544


def test_figures_of_the_function_are_kept() -> None:
    usage = Usage(input_tokens=3, output_tokens=4)
    assert answer(ModelReply(content="x", usage=usage)).usage == usage


def test_an_error_of_the_function_is_the_calls_error() -> None:
    def fail(_: ModelRequest) -> ModelReply:
        raise TimeoutError("slow")

    with pytest.raises(TimeoutError, match="slow"):
        asyncio.run(Scripted(fail).complete(REQUEST))
