from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import pytest

from perdure.actors.model import Model, ModelReply, ModelRequest, ToolCall, Usage
from perdure.actors.outcomes import NotSent, ServiceTrouble
from perdure.models import OpenAIModel

SCHEMA = {
    "type": "function",
    "function": {"name": "add", "description": "", "parameters": {"type": "object"}},
}
REPORTED = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def ask(url: str, **changes: Any) -> ModelReply:
    fields: dict[str, Any] = {
        "messages": [{"role": "user", "content": "2 + 2?"}],
        "tools": [],
        "max_output_tokens": 64,
        "timeout": 30.0,
    }
    model = OpenAIModel("small", base_url=url)
    return asyncio.run(model.complete(ModelRequest(**fields | changes)))


def call(number: int, id_: str | None = None, arguments: Any = "{}") -> dict[str, Any]:
    return {
        "id": f"c{number}" if id_ is None else id_,
        "type": "function",
        "function": {"name": "add", "arguments": arguments},
    }


def test_a_text_reply_comes_with_the_reported_usage(endpoint: Any) -> None:
    endpoint.answers({"role": "assistant", "content": "4"}, usage=REPORTED)
    reply = ask(endpoint.url)
    assert reply == ModelReply(
        content="4", usage=Usage(input_tokens=11, output_tokens=7), model="m-1"
    )


def test_the_request_goes_out_as_it_was_fitted(endpoint: Any) -> None:
    endpoint.answers({"role": "assistant", "content": "4"})
    ask(endpoint.url, tools=[SCHEMA])
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.requests == [
        {
            "model": "small",
            "messages": [{"role": "user", "content": "2 + 2?"}],
            "tools": [SCHEMA],
            "max_tokens": 64,
        }
    ]


def test_a_request_without_tools_sends_no_empty_list(endpoint: Any) -> None:
    endpoint.answers({"role": "assistant", "content": "4"})
    ask(endpoint.url)
    assert "tools" not in endpoint.requests[0]


def test_parallel_calls_arrive_in_order_with_null_content(endpoint: Any) -> None:
    calls = [call(1, arguments='{"a": 1}'), call(2)]
    endpoint.answers({"role": "assistant", "content": None, "tool_calls": calls})
    reply = ask(endpoint.url)
    assert reply.content is None
    assert reply.tool_calls == (
        ToolCall(id="c1", name="add", arguments='{"a": 1}'),
        ToolCall(id="c2", name="add", arguments="{}"),
    )


def test_calls_without_ids_get_different_ones(endpoint: Any) -> None:
    calls = [call(1, ""), call(2, "")]
    endpoint.answers({"role": "assistant", "content": None, "tool_calls": calls})
    ids = [call.id for call in ask(endpoint.url).tool_calls]
    assert ids == ["chat-1-0", "chat-1-1"]


def test_null_arguments_are_an_empty_object(endpoint: Any) -> None:
    message = {"role": "assistant", "tool_calls": [call(1, arguments=None)]}
    endpoint.answers(message)
    assert ask(endpoint.url).tool_calls[0].arguments == "{}"


def test_a_refusal_is_text(endpoint: Any) -> None:
    endpoint.answers({"role": "assistant", "content": None, "refusal": "I will not."})
    assert ask(endpoint.url).content == "I will not."


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
        {"usage": {"prompt_tokens": None, "completion_tokens": None}},
    ],
    ids=["missing", "null", "zero", "null figures"],
)
def test_usage_that_is_not_given_is_estimated_and_marked(
    endpoint: Any, usage: dict[str, Any]
) -> None:
    endpoint.answers({"role": "assistant", "content": "x" * 800}, **usage)  # K32
    found = ask(endpoint.url).usage
    assert found == Usage(input_tokens=30, output_tokens=524, source="estimated")


@pytest.mark.parametrize(
    ("usage", "read", "written"),
    [
        ({"prompt_tokens": 9}, 9, 524),
        ({"prompt_tokens": 9, "completion_tokens": 0}, 9, 524),
        ({"completion_tokens": 150}, 30, 150),
        ({"prompt_tokens": 0, "completion_tokens": 150}, 30, 150),
    ],
    ids=repr,
)
def test_a_missing_half_of_the_usage_is_estimated_and_the_whole_marked(
    endpoint: Any, usage: dict[str, int], read: int, written: int
) -> None:
    endpoint.answers({"role": "assistant", "content": "x" * 800}, usage=usage)
    found = ask(endpoint.url).usage
    assert found == Usage(input_tokens=read, output_tokens=written, source="estimated")


def test_no_output_tokens_for_an_empty_reply_is_a_report(endpoint: Any) -> None:
    endpoint.answers(
        {"role": "assistant", "content": ""},
        usage={"prompt_tokens": 9, "completion_tokens": 0},
    )
    assert ask(endpoint.url).usage == Usage(input_tokens=9, output_tokens=0)


def test_cached_input_counts_once(endpoint: Any) -> None:
    endpoint.answers(  # K33
        {"role": "assistant", "content": "4"},
        usage={
            "prompt_tokens": 39_019,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 39_000},
        },
    )
    assert ask(endpoint.url).usage == Usage(
        input_tokens=39_019, output_tokens=5, cached_input_tokens=39_000
    )


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_service_in_trouble_is_asked_once_and_says_so(
    endpoint: Any, status: int
) -> None:
    endpoint.answers_body(
        {"error": {"message": "overloaded"}}, status=status, retry_after="7"
    )
    with pytest.raises(ServiceTrouble, match="overloaded") as caught:
        ask(endpoint.url)
    assert (caught.value.status, caught.value.retry_after) == (status, 7.0)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("wait", ["", "-1", "nan", "inf", "Wed, 21 Oct 2015 07:28:00"])
def test_a_wait_that_is_no_number_of_seconds_is_ignored(
    endpoint: Any, wait: str
) -> None:
    endpoint.answers_body({}, status=429, retry_after=wait)
    with pytest.raises(ServiceTrouble) as caught:
        ask(endpoint.url)
    assert caught.value.retry_after is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refused_request_was_not_run(endpoint: Any, status: int) -> None:
    endpoint.answers_body({"error": {"message": "no"}}, status=status)
    with pytest.raises(NotSent, match=f"small answered {status}"):
        ask(endpoint.url)
    assert len(endpoint.requests) == 1


def test_a_refused_connection_was_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NotSent, match="cannot be reached"):
        ask(f"http://127.0.0.1:{port}/v1")


def test_a_connection_cut_after_sending_is_lost(endpoint: Any) -> None:
    endpoint.cuts = True
    with pytest.raises(ConnectionError, match="connection lost"):
        ask(endpoint.url)
    assert len(endpoint.requests) == 1


def test_an_answer_that_comes_in_drops_is_a_timeout_too(endpoint: Any) -> None:
    endpoint.drips = True
    with pytest.raises(TimeoutError):
        ask(endpoint.url, timeout=1.0)


def test_an_answer_that_does_not_come_is_a_timeout(endpoint: Any) -> None:
    endpoint.hangs = True
    with pytest.raises(TimeoutError):
        ask(endpoint.url, timeout=0.5)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b'"text"',
        b"\xff",
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": {"content": 4}}]},
    ],
    ids=repr,
)
def test_an_answer_that_is_no_completion_is_trouble(endpoint: Any, body: Any) -> None:
    endpoint.answers_body(body)
    with pytest.raises(ServiceTrouble, match="not a chat completion") as caught:
        ask(endpoint.url)
    assert caught.value.status == 200


def test_place_and_key_come_from_the_environment(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    endpoint.answers({"role": "assistant", "content": "4"})
    request = ModelRequest(
        messages=[{"role": "user", "content": "?"}],
        tools=[],
        max_output_tokens=1,
        timeout=30.0,
    )
    asyncio.run(OpenAIModel("small").complete(request))
    assert endpoint.headers[0]["authorization"] == "Bearer sk-secret"


def test_the_key_is_in_no_text(endpoint: Any) -> None:
    endpoint.answers_body({"error": {"message": "bad key sk-secret"}}, status=401)
    model = OpenAIModel("small", base_url=endpoint.url, api_key="sk-secret")
    request = ModelRequest(messages=[], tools=[], max_output_tokens=1, timeout=30.0)
    with pytest.raises(NotSent, match="bad key") as caught:
        asyncio.run(model.complete(request))
    assert "sk-secret" not in f"{model!r}{caught.value}"


def test_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        OpenAIModel("small")


def test_openai_itself_is_given_its_own_name_of_the_output_limit() -> None:
    at_openai = OpenAIModel("small", api_key="k")
    elsewhere = OpenAIModel("small", base_url="http://127.0.0.1:1/v1")
    assert (at_openai._at_openai, elsewhere._at_openai) == (True, False)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install 'perdure\[openai\]'"):
        OpenAIModel("small", api_key="k")


def test_it_is_a_model() -> None:
    assert isinstance(OpenAIModel("small", api_key="k"), Model)
