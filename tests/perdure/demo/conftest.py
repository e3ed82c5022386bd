"""The demo's workplace, real in every part: database, folder, mail server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.actors.acceptance import View
from perdure.actors.context.render import (
    FactView,
    StepView,
    TaskView,
    render_moving,
    render_task_stable,
)
from perdure.actors.model import Message, ModelReply, ModelRequest, ToolCall
from perdure.demo.data import build_database
from perdure.demo.mail import MailServer
from perdure.demo.plan import CONSTRAINTS, INSTRUCTIONS, goal, inputs, make_plan
from perdure.demo.script import reply
from perdure.demo.tools import make_tools
from perdure.demo.workplace import Workplace


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "airports.db"
    build_database(path)
    return path


@pytest.fixture
def place(database: Path, tmp_path: Path) -> Iterator[Workplace]:
    folder = tmp_path / "reports"
    folder.mkdir()
    store = tmp_path / "mail"
    with MailServer(store) as server:
        yield Workplace(
            folder=str(folder),
            database=str(database),
            smtp_port=server.port,
            mail_store=str(store),
        )


class Bench:
    """Plays the runtime for the scripted model: one step after the other, no crash.

    `requests` holds each view of the task with the exchanges of its step so far,
    `results` what each step ended with.
    """

    def __init__(self, place: Workplace, country: str = "NO") -> None:
        self.plan = make_plan(place)
        self.tools = {tool.name: tool for tool in make_tools(place)}
        self.country = country
        self.results: dict[str, Any] = {}
        self.requests: list[tuple[TaskView, list[Message]]] = []
        self.verdicts: dict[str, bool | str] = {}

    def run(self) -> None:
        for step in self.plan.steps:
            result = self.run_step(step.id)
            assert step.accept is not None
            self.verdicts[step.id] = step.accept(result, self.look(step.id))
            self.results[step.id] = result

    def run_step(self, step: str) -> Any:
        scratch: list[Message] = []
        while True:
            self.requests.append((self.view(step), list(scratch)))
            answer = reply(request(self.view(step), scratch))
            if not answer.tool_calls:
                return json.loads(answer.content or "")
            scratch += self.exchange(answer)

    def exchange(self, answer: ModelReply) -> list[Message]:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.tool_calls
        ]
        asked = {"role": "assistant", "content": answer.content, "tool_calls": calls}
        return [asked, *map(self.perform, answer.tool_calls)]

    def perform(self, call: ToolCall) -> Message:
        tool = self.tools[call.name]
        extra = {"request_id": call.id} if "request_id" in tool.injected else {}
        result = tool(**tool.parse(call.arguments), **extra)
        text = json.dumps(result, ensure_ascii=False)
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def view(self, step: str) -> TaskView:
        return TaskView(
            goal=goal(self.country),
            constraints=CONSTRAINTS,
            inputs=inputs(self.country, "operator@example.org"),
            steps=tuple(
                StepView(
                    id=one.id,
                    goal=one.goal,
                    done=one.done,
                    status="completed" if one.id in self.results else "pending",
                )
                for one in self.plan.steps
            ),
            current=step,
            facts=tuple(
                FactView(name=name, value=json.dumps(value), evidence=name, step=name)
                for name, value in self.results.items()
            ),
        )

    def look(self, step: str) -> View:
        """What the acceptance function of `step` sees."""
        before = {}
        for one in self.plan.steps:
            if one.id == step:
                break
            before[one.id] = self.results[one.id]
        return View(
            task="t",
            step=step,
            goal=goal(self.country),
            inputs=inputs(self.country, "operator@example.org"),
            facts=before,
        )


def request(view: TaskView, scratch: list[Message]) -> ModelRequest:
    return ModelRequest(
        messages=[
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": render_task_stable(view)},
            *scratch,
            {"role": "user", "content": render_moving(view)},
        ],
        tools=[],
        max_output_tokens=2_048,
        timeout=30.0,
    )


@pytest.fixture
def bench(place: Workplace) -> Bench:
    """A job that ran to its end."""
    played = Bench(place)
    played.run()
    return played
