"""Replies in pieces: the same replies, figures and errors as those that come whole."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from perdure import Price
from perdure.actors.events import EffectRecorded, Settled
from perdure.actors.model import (
    ModelReply,
    ModelRequest,
    StreamingModel,
    ToolCall,
    Usage,
)
from perdure.actors.outcomes import NotSent, ServiceTrouble
from perdure.models import OpenAIModel, Scripted
from perdure.models.streamed import Assembly
from tests.actors.world import House, unbalanced
from tests.perdure.agents import one_step

REPORTED = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def ask(url: str, **changes: Any) -> tuple[ModelReply, list[str]]:
    """The reply, and what was said before it."""
    fields: dict[str, Any] = {
        "messages": [{"role": "user", "content": "2 + 2?"}],
        "tools": [],
        "max_output_tokens": 64,
        "timeout": 30.0,
    }
    model = OpenAIModel("small", base_url=url, stream=True)
    streaming = model.complete_streaming
    assert streaming is not None
    said: list[str] = []

    async def whole() -> ModelReply:
        return await streaming(ModelRequest(**fields | changes), said.append)

    return asyncio.run(whole()), said


def delta(index: int | None, id_: str | None, name: str | None, text: str) -> Any:
    call = {
        "index": index,
        "id": id_,
        "function": {"name": name, "arguments": text},
    }
    return {"tool_calls": [{k: v for k, v in call.items() if v is not None}]}


def test_a_reply_is_said_in_pieces_and_then_given_whole(endpoint: Any) -> None:
    endpoint.answers_stream(
        {"role": "assistant", "content": ""},
        {"content": "fo"},
        {"content": "ur"},
        usage=REPORTED,
    )
    reply, said = ask(endpoint.url)
    assert said == ["fo", "ur"]
    assert reply == ModelReply(
        content="four", usage=Usage(input_tokens=11, output_tokens=7), model="m-1"
    )


def test_pieces_and_usage_are_asked_for_only_where_the_host_said_so(
    endpoint: Any,
) -> None:
    endpoint.answers_stream({"content": "4"}, usage=REPORTED)
    ask(endpoint.url)
    sent = endpoint.requests[0]
    assert (sent.pop("stream"), sent.pop("stream_options")) == (
        True,
        {"include_usage": True},
    )
    plain = OpenAIModel("small", base_url=endpoint.url)
    assert plain.complete_streaming is None
    endpoint.answers({"role": "assistant", "content": "4"})
    request = ModelRequest(
        messages=[{"role": "user", "content": "2 + 2?"}],
        tools=[],
        max_output_tokens=64,
        timeout=30.0,
    )
    asyncio.run(plain.complete(request))
    assert endpoint.requests[1] == sent


def test_a_stream_without_figures_is_charged_by_estimate(endpoint: Any) -> None:
    for usage in (None, {"prompt_tokens": 0, "completion_tokens": 0}):
        endpoint.answers_stream(*[{"content": "x" * 8}] * 100, usage=usage)  # K32
        reply, said = ask(endpoint.url)
        assert len("".join(said)) == 800
        assert reply.usage == Usage(
            input_tokens=30, output_tokens=524, source="estimated"
        )


def test_calls_come_in_pieces_side_by_side(endpoint: Any) -> None:
    endpoint.answers_stream(
        delta(0, "c1", "add", ""),
        delta(1, "c2", "look", ""),
        delta(0, None, None, '{"a"'),
        delta(1, None, None, "{}"),
        delta(0, None, None, ": 1}"),
        finish="tool_calls",
        usage=REPORTED,
    )
    reply, said = ask(endpoint.url)
    assert (reply.content, reply.finish_reason, said) == (None, "tool_calls", [])
    assert reply.tool_calls == (
        ToolCall(id="c1", name="add", arguments='{"a": 1}'),
        ToolCall(id="c2", name="look", arguments="{}"),
    )


def test_calls_that_an_endpoint_numbers_alike_are_told_apart_by_id(
    endpoint: Any,
) -> None:
    endpoint.answers_stream(
        delta(0, "c1", "add", "{}"), delta(0, "c2", "add", '{"a": 2}')
    )
    assert [call.arguments for call in ask(endpoint.url)[0].tool_calls] == [
        "{}",
        '{"a": 2}',
    ]
    endpoint.answers_stream(
        delta(None, "c1", "add", '{"a"'), delta(None, "c1", "add", ": 1}")
    )
    assert ask(endpoint.url)[0].tool_calls == (
        ToolCall(id="c1", name="add", arguments='{"a": 1}'),
    )


def test_a_refusal_is_said_and_is_text(endpoint: Any) -> None:
    endpoint.answers_stream({"refusal": "I will "}, {"refusal": "not."})
    reply, said = ask(endpoint.url)
    assert (reply.content, said) == ("I will not.", ["I will ", "not."])


def test_only_the_first_choice_is_read(endpoint: Any) -> None:
    chunk = {"id": "1", "model": "m", "object": "chat.completion.chunk"}
    endpoint.answers_events(
        {**chunk, "choices": [{"index": 1, "delta": {"content": "no"}}]},
        {
            **chunk,
            "choices": [
                {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}
            ],
        },
    )
    assert ask(endpoint.url)[0].content == "yes"


def test_an_endpoint_that_does_not_stream_will_do(endpoint: Any) -> None:
    endpoint.answers({"role": "assistant", "content": "4"}, usage=REPORTED)
    reply, said = ask(endpoint.url)
    assert (reply.content, said) == ("4", [])
    assert reply.usage == Usage(input_tokens=11, output_tokens=7)


@pytest.mark.parametrize("how", ["short", "without an end"])
def test_a_stream_cut_off_in_the_middle_is_a_lost_connection(
    endpoint: Any, how: str
) -> None:
    endpoint.answers_stream(
        {"content": "fo"}, finish=None, missing=100 if how == "short" else 0
    )
    with pytest.raises(ConnectionError, match=r"connection lost|broke off"):
        ask(endpoint.url)
    assert len(endpoint.requests) == 1


def test_a_stream_that_stands_still_is_a_timeout(endpoint: Any) -> None:
    endpoint.drips = True
    with pytest.raises(TimeoutError):
        ask(endpoint.url, timeout=1.0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_service_in_trouble_says_so_before_the_first_piece(
    endpoint: Any, status: int
) -> None:
    endpoint.answers_body({"error": {}}, status=status, retry_after="7")
    with pytest.raises(ServiceTrouble) as caught:
        ask(endpoint.url)
    assert (caught.value.status, caught.value.retry_after) == (status, 7.0)


def test_a_refused_request_was_not_run(endpoint: Any) -> None:
    endpoint.answers_body({"error": {"message": "no"}}, status=400)
    with pytest.raises(NotSent, match="small answered 400"):
        ask(endpoint.url)


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"message": "out of memory"}},
        "{",
        "4",
        {"choices": None},
        {"choices": [{"index": 0, "delta": {"content": 4}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"id": 4}]}}]},
    ],
    ids=repr,
)
def test_what_is_no_chunk_is_trouble_of_the_service(endpoint: Any, event: Any) -> None:
    endpoint.answers_events(event)
    with pytest.raises(ServiceTrouble) as caught:
        ask(endpoint.url)
    assert caught.value.status == 200


def test_a_chunk_that_is_none_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        Assembly().add({"choices": 4})


def test_a_task_pays_for_both_where_the_first_stream_broke_off(endpoint: Any) -> None:
    def broken() -> None:
        endpoint.answers_stream({"content": '"do'}, finish=None)

    def well() -> None:
        endpoint.answers_stream({"content": '"do'}, {"content": 'ne"'}, usage=REPORTED)

    endpoint.planned = [broken, well]
    model = OpenAIModel("small", base_url=endpoint.url, stream=True)
    house = House(one_step(model=model, price=Price(input=1, output=1)))
    task = house.submit()
    said = [
        (one.fields["attempt"], one.fields["text"])
        for one in task.events(partial=True)
        if one.provisional
    ]
    assert said == [(1, '"do'), (2, '"do'), (2, 'ne"')]
    recorded = house.of(f"task/{task.id}/ledger", EffectRecorded)
    assert [one.status for one in recorded] == ["unknown", "completed"]
    first, second = house.of(f"task/{task.id}/account", Settled)
    assert (first.book, first.amounts["model_calls"]) == ("unknown", 1)
    assert (second.book, second.amounts["tokens"]) == ("spent", 18)
    assert house.finish(task.id).output == "done"
    assert unbalanced(house.store) == []


def test_a_scripted_model_says_its_words_where_it_is_to_stream() -> None:
    model = Scripted(lambda _: ModelReply(content="so it  is "), stream=True)
    assert isinstance(model, StreamingModel)
    said: list[str] = []
    streaming = model.complete_streaming
    assert streaming is not None

    async def whole() -> ModelReply:
        request = ModelRequest(messages=[], tools=[], max_output_tokens=1, timeout=1.0)
        return await streaming(request, said.append)

    assert asyncio.run(whole()).content == "so it  is "
    assert said == ["so ", "it  ", "is "]
    assert Scripted(lambda _: ModelReply()).complete_streaming is None
