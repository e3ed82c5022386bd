"""What people say to tasks from another process: answers to questions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, ask
from perdure.models import Scripted
from tests.actors.world import World, follow
from tests.perdure.hosting import LONG, Gate, calls, opened, reporter
from tests.perdure.test_cli_ask import STORE, folder, here, perdure, standing

__all__ = ["folder"]

COLOUR = {"question": "Which colour?", "choices": ["red", "blue"]}
ASKING: dict[str, Any] = {"only": [[("ask", COLOUR), ("ask", {"question": "Who?"})]]}


def test_questions_are_answered_from_another_process() -> None:
    # R21
    agent = reporter(World(), ask, script=ASKING)
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Ask.")
        assert task.wait(LONG).reason == "question"
        first, second = runtime.questions()
        _, sheet, _ = perdure("show", task.id)
        assert [one["question"] for one in sheet["questions"]] == [
            first.question,
            second.question,
        ]
        _, listed, _ = perdure("ps")
        assert listed[0]["ends_with"].startswith("answer q-")
        code, _, said = perdure("answer", first.question, "3")
        assert (code, "none of the choices" in said) == (2, True)
        code, _, said = perdure("answer", first.question, "2", "--by", " ")
        assert (code, "--by: ' ' must say who it is" in said) == (2, True)
        code, value, _ = perdure("resume", task.id)
        waits = f"and waits as before: answer {first.question}"
        assert (code, waits in value["said"]) == (0, True)
        while task.status != "paused":
            task.wait(LONG)
        code, value, _ = perdure("answer", first.question, "2", "--by", "approver")
        assert (code, value["said"]) == (0, "answered")
        code, value, _ = perdure("answer", first.question, "2")
        assert (code, value["said"]) == (1, "it was answered before")
        code, value, _ = perdure("answer", second.question, "2")
        assert code == 0
        while task.status == "paused":
            task.wait(LONG)
        assert task.wait(LONG).status == "completed"
        _, sheet, _ = perdure("show", task.id)
        told = [(o["status"], o["answer"], o["by"]) for o in sheet["questions"]]
        assert told == [
            ("answered", "blue", "approver"),
            ("answered", "2", "command line"),
        ]
        for one in sheet["questions"]:
            assert one["at"] < one["answered"]


def test_show_prints_the_questions_with_their_choices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(Path(STORE), reporter(World(), ask, script=ASKING)) as runtime:
        task = runtime.submit("agent", "Ask.").id
        assert runtime.task(task).wait(LONG).reason == "question"
    code, out, _ = here(capsys, "show", task)
    assert code == 0
    assert 'Which colour?  ["red", "blue"]' in out


OWNER = """
import sys
from perdure import Agent, Runtime, ask, tool
from perdure.models import Scripted
from tests.actors.world import follow

COLOUR = {"question": "Which colour?", "choices": ["red", "blue"]}
agent = Agent(
    name="agent", instructions="Ask.", tools=[ask], recovery="rules",
    model=Scripted(follow({"task": [[("ask", COLOUR)]]})),
)
with Runtime("tasks.db", agents=[agent]) as runtime:
    handle = runtime.submit("agent", goal="Ask.", key="one")
    result = handle.wait(30)
    if sys.argv[1] == "stay":
        print(result.reason, flush=True)
        sys.stdin.read()
    while result.status == "paused":
        result = handle.wait(30)
    print(result.status, flush=True)
"""


def owner(how: str) -> subprocess.Popen[str]:
    """A process that owns the store, and runs one task that asks."""
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


def test_an_answer_given_after_the_owner_was_killed_is_taken_by_the_next() -> None:
    # B50
    first = owner("stay")
    assert first.stdout is not None
    assert first.stdout.readline().strip() == "question"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    _, listed, _ = perdure("ps")
    _, sheet, _ = perdure("show", listed[0]["task"])
    (question,) = sheet["questions"]
    code, value, _ = perdure("answer", question["question"], "1", "--timeout", "0")
    assert (code, value["applied"]) == (3, False)
    second = owner("end")
    out, _ = second.communicate(timeout=LONG)
    assert (second.returncode, out.strip()) == (0, "completed")
    _, sheet, _ = perdure("show", listed[0]["task"])
    assert [one["answer"] for one in sheet["questions"]] == ["red"]


def test_a_store_at_rest_keeps_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    agent = reporter(World(), ask, script={"only": [[("ask", COLOUR)]]})
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Ask.").id
        assert runtime.task(task).wait(LONG).reason == "question"
        (one,) = runtime.questions()
    code, out, err = here(capsys, "answer", one.question, "red", "--timeout", "0")
    assert (code, err) == (3, "")
    assert "the command is kept" in out
    with opened(Path(STORE), agent) as runtime:
        assert runtime.task(task).wait(LONG).status == "completed"


def test_a_note_reaches_a_task_of_another_process_and_one_at_rest() -> None:
    agent = reporter(World(), ask, script={"only": [[("ask", COLOUR)]]})
    with opened(Path(STORE), agent) as runtime:
        task = runtime.submit("agent", "Ask.")
        assert task.wait(LONG).reason == "question"
        code, value, _ = perdure("steer", task.id, "Not red.", "--by", "approver")
        assert code == 0
        assert value["said"].startswith("note 1 is kept: paused as before;")
        code, _, said = perdure("steer", task.id, "x" * 501)
        assert (code, "1 to 500 characters" in said) == (2, True)
        code, value, _ = perdure("steer", task.id, "x", "--replace", "2")
        assert (code, "has no note 2" in value["said"]) == (1, True)
        (one,) = runtime.questions()
    code, value, _ = perdure("steer", task.id, "Nor blue.", "--timeout", "0")
    assert (code, value["applied"]) == (3, False)
    with opened(Path(STORE), agent) as runtime:
        handle = runtime.task(task.id)
        handle.answer(one.question, "red")
        assert handle.wait(LONG).status == "completed"
        _, sheet, _ = perdure("show", task.id)
        told = [(one["text"], one["by"], one["taken"]) for one in sheet["notes"]]
        assert told == [
            ("Not red.", "approver", True),
            ("Nor blue.", "command line", True),
        ]
        code, _, said = perdure("steer", task.id, "too late")
        assert (code, "has ended (completed)" in said) == (2, True)


def test_pause_says_what_is_so_and_stops_a_task_of_another_process(
    gate: Gate,
) -> None:
    agent = reporter(World(), standing(gate), script=calls("stand", "stand"))
    with opened(Path(STORE), agent, active=1) as runtime:
        task = runtime.submit("agent", "Stand.")
        queued = runtime.submit("agent", "Stand, too.")
        assert gate.entered.wait(LONG)
        for _ in range(2):
            code, value, _ = perdure("pause", task.id, "--by", "approver")
            assert code == 0
            assert value["said"] == (
                "it pauses at its next point, after what runs now: stand; it may end "
                "before"
            )
        code, value, _ = perdure("pause", queued.id)
        assert (code, value["said"]) == (0, "it is paused")
        assert queued.status == "paused"
        gate.left.set()
        result = task.wait(LONG)
        assert (result.reason, result.ends_with) == ("operator", "resume")
        code, value, _ = perdure("pause", task.id)
        assert (code, value["said"]) == (0, "it is paused, for operator: resume")
        for one in (task, queued):
            assert perdure("resume", one.id)[0] == 0
            assert one.wait(LONG).status == "completed"
        code, _, said = perdure("pause", task.id)
        assert (code, "has ended (completed)" in said) == (2, True)


@pytest.mark.parametrize("kind", ["cancel", "pause", "steer"])
def test_what_is_said_after_the_owner_was_killed_holds_at_the_next_opening(
    kind: str,
) -> None:
    # R23
    first = owner("stay")
    assert first.stdout is not None
    assert first.stdout.readline().strip() == "question"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    _, listed, _ = perdure("ps")
    task = listed[0]["task"]
    words = ["Not red."] if kind == "steer" else []
    code, value, _ = perdure(kind, task, *words, "--timeout", "0")
    assert (code, value["applied"]) == (3, False)
    agent = Agent(
        name="agent",
        instructions="Ask.",
        tools=[ask],
        recovery="rules",
        model=Scripted(follow({"task": []})),
    )
    with opened(Path(STORE), agent) as runtime:
        handle = runtime.task(task)
        result = handle.wait(LONG)
        match kind:
            case "cancel":
                assert result.status == "cancelled"
                assert runtime.questions() == []
            case "pause":
                assert result.reason == "operator"
                assert len(runtime.questions()) == 1
            case "steer":
                assert result.reason == "question"
                _, sheet, _ = perdure("show", task)
                (note,) = sheet["notes"]
                assert (note["text"], note["taken"]) == ("Not red.", False)
