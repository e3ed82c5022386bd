"""A process is killed while a plan is written; the next one goes on with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.actors.events import (
    EVENTS,
    EffectRecorded,
    Event,
    PlanMade,
    RecoveryLoaded,
)
from perdure.storage.codec import Codec
from perdure.storage.reader import open_reader
from tests.perdure.hosting import LONG

pytestmark = pytest.mark.proof("processes")
CODEC = Codec(EVENTS)
ROOT = str(Path(__file__).parents[2])

SCRIPT = f"""
import json, os, signal, sys
sys.path.insert(0, {ROOT!r})
from pathlib import Path
from perdure import Agent, Planner
from perdure.models import ModelReply, Scripted
from perdure.storage.reader import open_reader
from tests.actors.world import declaration, standing
from tests.perdure.hosting import LONG, faults, opened

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def reply(request):
    data = standing(request)
    if data["kind"] == "recovery":
        return ModelReply(content=declaration(request))
    if data["kind"] != "plan":
        return ModelReply(content="1")
    with open("asked", "a") as file:
        file.write("x")
    if where == "asked" and len(Path("asked").read_text()) == 1:
        die()
    steps = [{{"id": "a", "goal": "x"}}, {{"id": "b", "goal": "y"}}]
    said = {{"keep": True}} if data["plan"] else {{"steps": steps}}
    return ModelReply(content=json.dumps(said))

def observe(point, subject):
    if where == "recorded" and point == "journal.flush.after":
        with open_reader(Path("t.db")) as reader:
            if any(one.type == "EffectRecorded" for one in reader.records(limit=999)):
                die()

where = sys.argv[1]
agent = Agent(
    name="agent", instructions="Work.", model=Scripted(reply), planner=Planner()
)
"""


def run(folder: Path, where: str, body: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + body, where],
        cwd=folder,
        capture_output=True,
        timeout=LONG,
        check=False,
    ).returncode


BEGIN = """
with faults(observe=observe), opened(Path("t.db"), agent) as runtime:
    runtime.submit("agent", "plan it", key="k").wait(timeout=LONG)
"""
GO_ON = """
with opened(Path("t.db"), agent) as runtime:
    result = runtime.submit("agent", "plan it", key="k").wait(timeout=LONG)
    assert result.status == "completed", result
    assert result.steps == {"a": "completed", "b": "completed"}, result
"""


@pytest.mark.parametrize(("where", "asked"), [("asked", 3), ("recorded", 2)])
def test_a_kill_while_a_plan_is_written_asks_again_only_where_nothing_is_on_disk(
    tmp_path: Path, where: str, asked: int
) -> None:
    # P1
    assert run(tmp_path, where, BEGIN) == -9
    assert run(tmp_path, where, GO_ON) == 0
    assert len((tmp_path / "asked").read_text()) == asked  # the plan, and half-way
    found: list[Event] = []
    with open_reader(tmp_path / "t.db") as reader:
        found = [CODEC.decode(record) for record in reader.records(limit=10_000)]
    (made,) = [one for one in found if isinstance(one, PlanMade)]
    recorded = [one for one in found if isinstance(one, EffectRecorded)]
    assert made.op == recorded[0].op
    assert any(isinstance(one, RecoveryLoaded) for one in found)
