"""Tools and callbacks that do harm: a runtime that has them goes on."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import CannotTell, Happened, tool
from perdure.actors.events import EVENTS, EffectRecorded, EffectRegistered, StepStarted
from perdure.actors.executor import beat
from perdure.actors.model import ModelReply
from perdure.actors.task.actor import Task
from perdure.models import Scripted
from perdure.storage.codec import Codec
from perdure.storage.errors import Undecodable
from perdure.storage.reader import open_reader
from perdure.storage.records import Record
from tests.actors.executor import hostile
from tests.actors.world import House, World, follow, job, standing
from tests.perdure.hosting import (
    BUDGET,
    LONG,
    Gate,
    Told,
    calls,
    gone,
    opened,
    own_threads,
    reporter,
)
from tests.perdure.test_processes import script

CODEC = Codec(EVENTS)


def recorded(folder: Path, kind: type[Any]) -> list[Any]:
    with open_reader(folder / "t.db") as reader:
        return [
            CODEC.decode(one)
            for one in reader.records(limit=10_000)
            if one.type == kind.__name__
        ]


def went_on(log: Told) -> None:
    assert log.crashes() == []
    assert log.strangers == []
    for event in ("job.failed", "callback.failed", "supervisor.restarting"):
        assert log.of(event) == []


# ── tools ────────────────────────────────────────────────────────────────────────


def test_threads_that_a_tool_leaks_are_the_hosts_and_hold_up_nothing(
    tmp_path: Path, world: World, gate: Gate
) -> None:
    # P8 P12
    @tool(effect="read")
    def leak(what: str) -> str:
        for _ in range(50):
            threading.Thread(target=gate.stand, name="leaked", daemon=True).start()
        return "leaked"

    log = Told()
    agent = reporter(world, leak, script=calls("leak", "look"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        for _ in range(3):
            task = runtime.submit("agent", "go on", budget=BUDGET)
            assert task.wait(LONG).status == "completed"
        mine = own_threads()
    assert gone(mine)
    assert sum(one.name == "leaked" for one in threading.enumerate()) == 150
    went_on(log)


def test_a_tool_that_closes_stdout_harms_the_host_and_not_the_runtime(
    tmp_path: Path,
) -> None:
    body = """
@tool(effect="read")
def shut(what: str) -> str:
    sys.stdout.close()
    sys.stderr.close()
    os.close(1)
    os.close(2)
    return "shut"

agent = reporter(World(), shut, script=calls("shut", "look"))
with opened(Path("t.db"), agent) as runtime:
    for name in ("a", "b"):
        status = runtime.submit("agent", "x", budget=BUDGET, key=name).wait(LONG).status
        Path(name).write_text(status)
os._exit(7)  # the interpreter itself cannot end well without its streams
"""
    body = body.replace("os.close(1)\n    os.close(2)", "close()")
    body = """
def close():
    for number in (1, 2):
        try:
            os.close(number)
        except OSError:
            pass
""" + body.replace(
        "sys.stdout.close()\n    sys.stderr.close()",
        "sys.stdout and sys.stdout.close()\n    sys.stderr and sys.stderr.close()",
    )
    ended = subprocess.run(
        script(body), cwd=tmp_path, capture_output=True, timeout=LONG, check=False
    )
    assert ended.returncode == 7, ended.stderr
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "completed"


def test_what_user_code_is_given_is_its_own_to_change(world: World) -> None:
    # P5: arguments, requests, views and effects are copies; nothing of ours changes.
    asked: list[str] = []
    honest = follow({"only": [[("spoil", {"items": ["a"], "more": {"k": [1]}})]]})

    def complete(request: Any) -> ModelReply:
        asked.append(json.dumps([request.messages, request.tools], sort_keys=True))
        reply = honest(request)
        for message in request.messages:
            message["content"] = "harmed"
            message.get("tool_calls", []).clear()
        request.tools[0]["function"].clear()
        return reply

    got: list[Any] = []

    def probe(effect: Any) -> Any:
        got.append(dict(effect.arguments))
        effect.arguments.clear()
        return CannotTell() if len(got) < 2 else Happened("found")

    @tool(effect="once", probe=probe)
    def spoil(items: list[str], more: dict[str, list[int]]) -> str:
        items.clear()
        more["k"].append(2)
        raise ValueError("who knows")

    def accept(result: Any, view: Any) -> bool:
        view.inputs["deep"]["list"].append("harmed")
        view.inputs["new"] = "harmed"
        view.facts["new"] = "harmed"
        if isinstance(result, dict):
            result.clear()
        return len(asked) > 2 or "not yet"  # type: ignore[return-value]

    agent = job(
        world,
        model=Scripted(complete),
        tools=[spoil],
        plan=reporter(world, script=calls("spoil")).plan,
        accept=accept,
    )
    house = House(agent)
    inputs = {"deep": {"list": [1]}}
    result = house.run(goal="the goal", inputs=inputs)
    assert result.status == "completed"
    assert inputs == {"deep": {"list": [1]}}
    assert got == [{"items": ["a"], "more": {"k": [1]}}] * 2
    assert len(asked) > 2
    for one in asked:
        assert "harmed" not in one
        assert "the goal" in one
        assert '"name": "spoil"' in one
    assert house.log.crashes() == []


class Strange:
    """No text, no JSON, no truth."""

    def __repr__(self) -> str:
        raise ValueError("no text")

    def __bool__(self) -> bool:
        raise ValueError("no truth")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no equal")

    __hash__ = None  # type: ignore[assignment]


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


GARBAGE: list[Any] = [
    "x" * 50_000_000,
    b"\xff" * 1_000,
    float("nan"),
    object(),
    Strange(),
    endless(),
    {1: {2: Strange()}},
    "\ud800 lone",
    lambda: None,
]
NAMES = ["50 MB", "bytes", "nan", "object", "strange", "endless", "keys", "lone", "fn"]


@pytest.mark.parametrize("value", GARBAGE, ids=NAMES)
def test_whatever_a_tool_returns_is_a_result(
    tmp_path: Path, world: World, value: Any
) -> None:
    @tool(effect="once")
    def give(what: str) -> Any:
        return value

    log = Told()
    agent = reporter(world, give, script=calls("give", "look"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
    assert result.status == "completed"
    assert world.looks == 1
    went_on(log)
    assert (tmp_path / "t.db").stat().st_size < 4_000_000


@pytest.mark.parametrize("value", GARBAGE, ids=NAMES)
def test_whatever_a_model_returns_is_an_answer_or_an_error(
    tmp_path: Path, world: World, value: Any
) -> None:
    log, honest, asked = Told(), follow(calls("look")), []

    def complete(request: Any) -> Any:
        asked.append(standing(request)["kind"])
        if len(asked) > 1:
            return honest(request)
        return ModelReply(content=value) if isinstance(value, str) else value

    agent = reporter(world, script=calls("look"), model=Scripted(complete))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
    assert result.status == "completed"
    assert len(asked) > 1
    went_on(log)


@pytest.mark.parametrize("value", GARBAGE[3:7], ids=NAMES[3:7])
def test_whatever_acceptance_returns_is_no_pass_unless_it_is_true(
    tmp_path: Path, world: World, value: Any
) -> None:
    # P7
    log, asked = Told(), []

    def accept(result: Any, view: Any) -> Any:
        asked.append(1)
        return value if len(asked) == 1 else True

    with opened(tmp_path / "t.db", reporter(world, accept=accept), log=log) as runtime:
        runtime.submit("agent", "do it", budget=BUDGET).wait(LONG)
    assert len(asked) > 1
    went_on(log)


# ── in a process of its own ──────────────────────────────────────────────────────


def test_a_tool_killed_at_its_deadline_is_decided_by_its_class(
    tmp_path: Path, world: World
) -> None:
    # P2: its worker has ended, so that its probe may be asked at once.
    file = tmp_path / "marks"
    log = Told()
    steps = {"only": [[("marks", {"file": str(file)})]]}
    agent = reporter(world, hostile.marks, script=steps)
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
    assert result.status == "completed"
    (registered,) = [
        one for one in recorded(tmp_path, EffectRegistered) if one.kind == "tool"
    ]
    assert file.read_text().split() == ["began"]
    outcomes = [
        (one.status, one.by)
        for one in recorded(tmp_path, EffectRecorded)
        if one.op == registered.op
    ]
    assert outcomes == [("unknown", "run"), ("failed", "probe")]
    went_on(log)


def test_what_would_kill_the_runtime_kills_only_its_own_process(
    tmp_path: Path, world: World
) -> None:
    # P8
    log = Told()
    agent = reporter(world, hostile.poison, script=calls("poison"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
    assert (result.status, result.reason) == ("paused", "unknown_effect")
    went_on(log)


# ── the event loop ───────────────────────────────────────────────────────────────


def test_an_async_tool_that_blocks_the_loop_does_not_hold_up_the_models(
    tmp_path: Path, world: World, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beat, "BEAT_PERIOD", 0.05)

    @tool(effect="read")
    async def block(what: str) -> str:
        gate.stand()
        return "late"

    log = Told()
    agent = reporter(world, block, script=calls("block", "look"))
    with opened(tmp_path / "t.db", agent, log=log) as runtime:
        result = runtime.submit("agent", "go on", budget=BUDGET).wait(LONG)
        assert result.status == "completed"
        assert world.looks == 1
        assert not gate.left.is_set()
        gate.left.set()
        log.wait_for("effect.late", name="block")
    assert log.of("loop.abandoned") == [
        {"at": log.of("loop.abandoned")[0]["at"], "names": ["block"], "running": 1}
    ]
    went_on(log)


# ── what cannot be read ──────────────────────────────────────────────────────────


def test_a_record_that_hangs_whoever_folds_it_costs_only_its_own_task(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = [World() for _ in range(100)]
    agents = [job(world, name=f"a{n}") for n, world in enumerate(worlds)]
    fold = Task.fold

    def fold_or_hang(self: Task, state: Any, event: Any) -> Any:
        if self.id == "t-50" and isinstance(event, StepStarted):
            gate.stand()
        return fold(self, state, event)

    monkeypatch.setattr(Task, "fold", fold_or_hang)
    with opened(tmp_path / "t.db", *agents, active=100) as runtime:
        ids = iter(range(100))
        runtime._house.new_id = lambda: f"t-{next(ids)}"
        tasks = [runtime.submit(one.name, "x", budget=BUDGET) for one in agents]
        for task in [*tasks[:50], *tasks[51:]]:
            assert task.wait(LONG).status == "completed"
        assert gate.entered.is_set()
        gate.left.set()
        assert tasks[50].wait(LONG).status == "completed"


def test_a_submission_that_cannot_be_read_parks_its_task_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # R11 P8
    house = House(job(World()), job(World(), name="other"))
    bad, good = house.submit(), house.submit("other")
    house.kill()
    decode = Codec.decode

    def decode_or_raise(self: Codec, record: Record) -> Any:
        if record.stream == f"task/{bad.id}" and record.type == "TaskSubmitted":
            raise Undecodable(record.stream, "no path 2->3")
        return decode(self, record)

    with monkeypatch.context() as patched:
        patched.setattr(Codec, "decode", decode_or_raise)
        house.reopen()
        assert house.finish(good.id).status == "completed"
        parked = house.finish(bad.id)
        assert parked.status == "parked"
        assert "no path 2->3" in parked.detail
    assert house.log.crashes() == []
    house.runtime.close()
    house.reopen()
    assert house.runtime.task(bad.id).resume()
    assert house.finish(bad.id).status == "completed"
