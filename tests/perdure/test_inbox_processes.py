"""Several processes send to a store that is in use: each command is applied once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure import Baseline, Budget
from perdure.actors.events import CommandApplied, Granted
from perdure.storage.reader import open_reader
from perdure.storage.records import Record
from tests.actors.world import World, decode
from tests.perdure.hosting import LONG, opened, reporter

SENDERS = 3
COMMANDS = 15
SEND = """
import sys
from perdure.storage.inbox import Inbox
from perdure.storage.records import Command
store, task, name, count = sys.argv[1:]
for n in range(int(count)):
    with Inbox(store) as inbox:
        body = b'{"by": "me", "amounts": {"tool_calls": 1}}'
        inbox.send(Command(
            id=f"{name}-{n}", kind="extend", subject=task, at=1.0, body=body,
        ))
"""


def records(store: Path, stream: str) -> list[Record]:
    with open_reader(store) as reader:
        found: list[Record] = []
        while page := reader.records(found[-1].seq if found else 0, 1000, stream):
            found += page
        return found


def test_commands_of_many_processes_are_each_applied_once(tmp_path: Path) -> None:
    store = tmp_path / "tasks.db"
    looks = [[("look", {"what": str(n)})] for n in range(SENDERS * COMMANDS)]
    agent = reporter(World(), script={"only": looks})
    rules = Baseline(id="test", step_iterations=len(looks) + 1)
    with opened(store, agent, baseline=rules) as runtime:
        task = runtime.submit("agent", "Look.", budget=Budget(tool_calls=0))
        senders = [
            subprocess.Popen(
                [sys.executable, "-c", SEND, store, task.id, f"s{n}", str(COMMANDS)]
            )
            for n in range(SENDERS)
        ]
        assert [sender.wait(LONG) for sender in senders] == [0] * SENDERS
        while (result := task.wait(LONG)).status == "paused":
            assert result.reason == "budget"
        assert result.status == "completed"
    names = sorted(f"s{s}-{n}" for s in range(SENDERS) for n in range(COMMANDS))
    applied = [
        decode(record)
        for record in records(store, "services/admission")
        if record.type == CommandApplied.__name__
    ]
    assert sorted(one.command for one in applied) == names  # type: ignore[attr-defined]
    grants = [
        decode(record)
        for record in records(store, "services/pool")
        if record.type == Granted.__name__
    ]
    given = sorted(one.grant for one in grants)  # type: ignore[attr-defined]
    assert given == sorted([f"{task.id}/first", *(f"{task.id}/{n}" for n in names)])
