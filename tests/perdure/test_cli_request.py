"""`perdure request`: what the model was shown, rendered again from the log."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Runtime, tool
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.cli import MISUSE, main
from perdure.context import canonical, request_characters
from perdure.models import Scripted

PAGES = 20
RULE = "do not touch production"


class Reading:
    """A model that reads pages in order, and the requests that it got."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        page = len(self.requests)
        if page > PAGES:
            return ModelReply(content="done")
        call = ToolCall(id="c", name="page", arguments=json.dumps({"n": page}))
        return ModelReply(content=f"look at {page}", tool_calls=(call,))


@tool(effect="read")
def page(n: int) -> str:
    """Fetch a page."""
    return f"page {n}: order_id=A-{n:04d} {'x' * 1_500}"


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Reading, str]:
    """A task that read 20 pages, which do not fit into one request."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    model = Reading()
    agent = Agent(
        name="reader",
        instructions="Read pages.",
        model=Scripted(model),
        tools=[page],
    )
    with Runtime("tasks.db", agents=[agent]) as runtime:
        task = runtime.submit("reader", "Read the pages", constraints=[RULE])
        assert task.wait(60).status == "completed"
    return model, task.id


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_every_round_is_shown_exactly_as_the_model_got_it(
    read: tuple[Reading, str], capsys: pytest.CaptureFixture[str]
) -> None:
    # A2 A6
    model, task = read
    for place, sent in enumerate(model.requests, 1):
        out = said(capsys, "request", task, "--round", str(place), "--json")
        shown = json.loads(out)
        assert shown["messages"] == sent.messages
        assert shown["tools"] == sent.tools
        text = canonical({"messages": shown["messages"], "tools": shown["tools"]})
        assert hashlib.sha256(text.encode()).hexdigest() == shown["digest"]
        assert shown["characters"] == request_characters(sent.messages, sent.tools)
        assert (shown["round"], shown["rounds"]) == (place, PAGES + 1)
    newest = json.loads(said(capsys, "request", task, "--json"))
    assert newest["round"] == PAGES + 1


def test_what_was_shown_of_a_result_stands_beside_what_the_tool_gave(
    read: tuple[Reading, str], capsys: pytest.CaptureFixture[str]
) -> None:
    # A23: whether a result was lost on its way, or was wrong to begin with
    _, task = read
    effects = json.loads(said(capsys, "effects", task, "--json"))
    gave = {one["op"]: one for one in effects if one["tool"] == "page"}
    assert [one["result"] for one in gave.values()] == [
        page(n) for n in range(1, PAGES + 1)
    ]
    assert {one["status"] for one in gave.values()} == {"completed"}
    request = json.loads(said(capsys, "request", task, "--json"))
    shown = [m["content"] for m in request["messages"] if m["role"] == "tool"]
    whole = [one["result"] for one in gave.values() if one["result"] in shown]
    assert 0 < len(whole) < len(shown) < PAGES  # some are references, some are gone


def test_why_says_of_every_unit_what_became_of_it(
    read: tuple[Reading, str], capsys: pytest.CaptureFixture[str]
) -> None:
    # A2 A39
    _, task = read
    shown = json.loads(said(capsys, "request", task, "--json"))
    units = [one for one in shown["units"] if one["layer"] == "scratch"]
    assert len(units) == PAGES, "each exchange, whether it is in or not"
    fates = [one["fate"] for one in units]
    assert fates == sorted(fates, key=["dropped", "shrunk", "kept"].index)
    assert set(fates) == {"dropped", "shrunk", "kept"}
    held = sum("page" in str(one.get("tool_calls")) for one in shown["messages"])
    assert held == len([one for one in fates if one != "dropped"])
    assert all(one["why"] and one["evidence"] for one in units)
    assert sum(one["after"] for one in shown["units"]) < shown["characters"]
    assert [one["after"] == one["before"] for one in units] == [
        one == "kept" for one in fates
    ]
    lines = said(capsys, "request", task, "--why").splitlines()
    assert sum(line.startswith("scratch") for line in lines) == PAGES
    assert f"SHA-256 {shown['digest']}, as recorded" in lines


def test_layers_are_sorted_as_one_document(
    read: tuple[Reading, str], capsys: pytest.CaptureFixture[str]
) -> None:
    # B10 B11
    model, task = read
    for how in ((), ("--json",)):
        out = said(capsys, "request", task, "--round", "3", "--layers", *how)
        found = json.loads(out)
        assert list(found) == ["session_id", "layers"]
        assert found["session_id"] == task
        assert list(found["layers"]) == ["fixed", "task", "scratch"]
        fixed, about, scratch = found["layers"].values()
        assert [one["role"] for one in fixed] == ["system"]
        assert "Read the pages" in about[0]["content"]
        assert RULE in about[0]["content"]
        results = [one for one in scratch if one["role"] == "tool"]
        assert [one["name"] for one in results] == ["page", "page"]
        assert len(fixed + about + scratch) == len(model.requests[2].messages)


def test_the_request_reads_as_text(
    read: tuple[Reading, str], capsys: pytest.CaptureFixture[str]
) -> None:
    # A2
    _, task = read
    lines = said(capsys, "request", task, "--round", "2").splitlines()
    assert lines[0] == f"round 2 of 21 of task {task}: operation 3#1, work"
    assert "look at 1" in lines
    assert 'calls 1.0: page {"n": 1}' in lines
    assert RULE in "\n".join(lines)


@pytest.mark.parametrize(
    ("place", "fix"), [("0", "1 to 21"), ("22", "1 to 21"), ("-1", "1 to 21")]
)
def test_a_round_that_is_not_there_is_refused(
    read: tuple[Reading, str],
    capsys: pytest.CaptureFixture[str],
    place: str,
    fix: str,
) -> None:
    _, task = read
    assert main(["request", task, "--round", place]) == MISUSE
    assert fix in capsys.readouterr().err


def test_a_task_without_a_request_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    agent = Agent(name="reader", instructions="", model=Scripted(Reading()))
    with Runtime("tasks.db", agents=[agent]) as runtime:
        task = runtime.submit("reader", "Read", not_before=32_503_680_000.0).id
    assert main(["request", task]) == MISUSE
    assert "has sent no request yet" in capsys.readouterr().err
