"""A task as one document: every field of it, as of one place of the log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from perdure import Effect, Misuse, Plan, Step, tool
from perdure.actors import names
from perdure.cli_checkpoint import checkpoint_text
from perdure.models import Scripted
from perdure.storage.base_reader import Reader
from perdure.storage.memory import MemoryBackend
from perdure.views_checkpoint import checkpoint
from tests.actors.world import House, World, follow, job

BIG = "x" * 3_000


@contextmanager
def reading(house: House) -> Iterator[Reader]:
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        yield reader


def document(house: House, task: str, at: int | None = None) -> dict[str, Any]:
    with reading(house) as reader:
        found: dict[str, Any] = json.loads(
            msgspec.json.encode(checkpoint(reader, task, at))
        )
    return found


def mailing(world: World, approve: bool = False) -> House:
    """The job of three steps, whose tools say what their effects are counted as."""
    agent = job(
        world,
        plan=Plan(
            steps=(
                Step(id="find", goal="find it", done="a list"),
                Step(id="write", goal="write it", done="a file"),
                Step(id="send", goal="send it", done="a mail was sent"),
            )
        ),
    )
    agent.tools["write"].counts_as = "files_written"
    agent.tools["send"].counts_as = "emails_sent"
    agent.tools["send"].approval = approve
    return House(agent)


def test_every_field_of_a_checkpoint_while_a_call_waits() -> None:
    # B18 B19 B20 B21 B22 B23 B24 B30
    world = World()
    house = mailing(world, approve=True)
    task = house.submit(
        goal="Report.",
        inputs={"month": 5},
        constraints=["once"],
    ).id
    assert house.finish(task).reason == "approval"
    found = document(house, task)
    assert found["checkpoint_id"] == f"cp_{task}_{found['seq']}"
    assert found["schema_version"] == 1
    assert found["session_id"] == task
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["created_at"])
    assert found["goal"] == {
        "raw_input": "Report.",
        "inputs": {"month": 5},
        "constraints": ["once"],
        "final_goal": "Report.",
    }
    status = found["task_status"]
    assert status["current_step"] == "send"
    assert status["completed_steps"] == ["find", "write"]
    assert status["pending_steps"] == []
    assert (status["status"], status["reason"]) == ("paused", "approval")
    assert [one["step"] for one in found["completed"]] == ["find", "write"]
    assert found["completed"][0]["summary"] == '{"ok":true,"step":"find"}'
    upcoming = found["next_step"]
    assert (upcoming["step"], upcoming["goal"]) == ("send", "send it")
    assert upcoming["expected_result"] == "a mail was sent"
    assert upcoming["parameters"] == {"month": 5}
    (action,) = upcoming["actions"]
    assert (action["tool"], action["status"]) == ("send", "asked")
    assert action["parameters"] == {"text": "hello"}
    called = [
        (one["tool"], one["input"], one["output"], one["status"])
        for one in found["tools_called"]
    ]
    assert called == [
        ("look", '{"what":"a"}', "saw a", "completed"),
        ("look", '{"what":"b"}', "saw b", "completed"),
        ("write", '{"name":"f","text":"1"}', "wrote f", "completed"),
        ("look", '{"what":"c"}', "saw c", "completed"),
    ]
    assert found["side_effects"] == {"files_written": 1}
    written = found["tools_called"][2]["evidence"]
    assert found["effects"] == {
        "pending": [],
        "completed": [written],
        "failed": [],
        "unknown": [],
        "undone": [],
    }
    spent = house.finish(task).spent
    use = found["resource_usage"]
    assert use["tokens_consumed"] == spent["input_tokens"] + spent["output_tokens"] > 0
    assert (use["tool_calls"], use["model_calls"]) == (4, spent["model_calls"])
    assert found["snapshot"]["reason"] == "paused: approval"


def test_the_document_of_an_ended_task() -> None:
    # B24 B30
    house = mailing(World())
    task = house.run().task
    found = document(house, task)
    assert found["task_status"]["completed_steps"] == ["find", "write", "send"]
    assert found["task_status"]["current_step"] is None
    assert found["next_step"] is None
    assert found["side_effects"] == {"emails_sent": 1, "files_written": 1}


def test_all_streams_are_shown_as_of_one_seq() -> None:
    # B30: what is behind it is not in it, whichever stream it stands in.
    world = World()
    house = mailing(world)
    task = house.run().task
    first = house.store.streams[names.family(task)][0].seq
    before: dict[str, Any] = {}
    for record in house.store.log:
        if record.seq < first:
            continue
        found = document(house, task, record.seq)
        mine = [
            one
            for one in house.store.log
            if one.seq <= record.seq and one.stream.startswith(f"task/{task}")
        ]
        assert found["seq"] == mine[-1].seq
        done = [one for one in mine if one.type == "EffectRecorded"]
        begun = [one for one in mine if one.type == "EffectRegistered"]
        closed = [one["status"] for one in found["tools_called"]]
        assert closed.count("pending") <= len(begun) - len(done)
        settled = sum(one.type == "Settled" for one in mine)
        use = found["resource_usage"]
        assert use["tool_calls"] + use.get("model_calls", 0) <= settled
        if found["snapshot"]:
            assert found["snapshot"]["seq"] <= record.seq
        assert len(found["tools_called"]) >= len(before.get("tools_called", ()))
        before = found
    assert before == document(house, task)


def test_what_comes_next_is_what_may_begin() -> None:
    # B21
    steps = (
        Step(id="find", goal="find it"),
        Step(id="send", goal="send it", needs=("write",)),
        Step(id="write", goal="write it", needs=("find",)),
    )
    house = House(job(World(), plan=Plan(steps=steps)))
    task = house.run().task
    ended = [
        record.seq
        for record in house.store.streams[f"task/{task}"]
        if record.type == "StepEnded"
    ]
    found = document(house, task, ended[0])
    assert found["task_status"]["current_step"] is None
    assert found["next_step"]["step"] == "write"
    assert found["task_status"]["pending_steps"] == ["send", "write"]


def test_what_was_taken_back_does_not_stand() -> None:
    def unsend(effect: Effect) -> None:
        """Recall a mail."""

    @tool(effect="once", undo=unsend, counts_as="emails_sent")
    def send(text: str) -> str:
        """Send a mail."""
        return "sent"

    twice = [[("send", {"text": "a"})], [("send", {"text": "a"})]]
    script = follow({"find": twice, "write": [[("ask", {})]]})

    @tool(effect="read", approval=True)
    def ask() -> str:
        """Ask somebody."""
        return "yes"

    house = House(job(World(), tools=[send, ask], model=Scripted(script)))
    handle = house.submit()
    assert house.finish(handle.id).reason == "approval"
    before = document(house, handle.id)
    assert before["side_effects"] == {"emails_sent": 1}  # once, however often asked
    handle.cancel(compensate=True)
    after = document(house, handle.id)
    assert after["side_effects"] == {}
    assert after["effects"]["undone"] == before["effects"]["completed"]


def test_inputs_and_outputs_are_bounded() -> None:
    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return BIG

    house = House(
        job(
            World(),
            tools=[look],
            plan=Plan(steps=(Step(id="find", goal="find"),)),
            model=Scripted(follow({"find": [[("look", {"what": BIG})]]})),
        )
    )
    found = document(house, house.run().task)
    (one,) = found["tools_called"]
    assert len(one["input"]) == len(one["output"]) == 1_000
    assert one["evidence"] == "op2"


def test_the_document_for_people_says_the_same() -> None:
    house = mailing(World(), approve=True)
    task = house.submit(goal="Report.\x1b[2J", constraints=["Once."]).id
    house.finish(task)
    with reading(house) as reader:
        text = "\n".join(checkpoint_text(checkpoint(reader, task)))
    assert "\x1b" not in text and "Report.\\x1b[2J" in text
    assert re.search(r'op\d+ send \{"text": "hello"\} \(asked\)', text)
    assert "side effects  files_written 1" in text
    assert "paused: approval (task/" in text
    assert re.search(r"op\d+ +write +write +completed", text)


def test_a_place_before_the_task_is_misuse() -> None:
    house = mailing(World())
    task = house.run().task
    with reading(house) as reader, pytest.raises(Misuse, match="no record up to seq 1"):
        checkpoint(reader, task, 1)


def test_an_erased_task_has_none() -> None:
    house = mailing(World())
    task = house.run().task
    house.runtime.erase(task=task, by="somebody")
    with reading(house) as reader, pytest.raises(Misuse, match="erased by somebody"):
        checkpoint(reader, task)


def test_what_a_tool_may_be_counted_as() -> None:
    def send(text: str) -> str:
        """Send a mail."""
        return text

    with pytest.raises(Misuse, match="counts_as='mails sent' must be a name"):
        tool(effect="once", counts_as="mails sent")(send)
    with pytest.raises(Misuse, match="of a read, which has no effect"):
        tool(effect="read", counts_as="mails")(send)
