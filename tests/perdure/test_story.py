"""The log file alone tells what happened: crashes, recoveries, effects, amounts (P11).

Every figure is taken twice: from the lines of the log, and by SQL over the store.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.parent import Job, kills_by_seed
from perdure.events import fields_of
from perdure.logs import check, read_log
from perdure.supervision.lifecycle import Crash
from tests.actors.world import World
from tests.perdure.hosting import BUDGET, LONG, Gate, calls, opened, reporter

LINES = {
    "RecoveryBegan": "recovery.began",
    "RecoveryLoaded": "recovery.loaded",
    "ContextRebuilt": "context.rebuilt",
    "EffectsVerified": "recovery.verified",
    "RecoveryDeclared": "recovery.declared",
    "EffectRegistered": "effect.registered",
    "EffectRecorded": "effect.recorded",
    "Settled": "account.settled",
    "Granted": "pool.granted",
    "StepEnded": "step.ended",
    "TaskClosed": "task.closed",
}
RECOVERY = ("recovery.loaded", "context.rebuilt", "recovery.verified")
CUT = 8_192  # characters of one field of a line


class Story:
    """What happened to the tasks of a store, rebuilt from named events in order."""

    def __init__(self) -> None:
        self.recoveries: list[tuple[str, str, str]] = []  # task, cause, actor
        self.steps: list[tuple[str, str]] = []  # of recoveries: task, which
        self.effects: dict[str, list[str]] = {}  # by task and attempt
        self.amounts: dict[tuple[str, str], Counter[str]] = {}  # by task and book
        self.ended: dict[str, str] = {}  # steps and tasks

    def take(self, name: str, task: str, fields: dict[str, Any]) -> None:
        match name:
            case "recovery.began":
                told = (task, fields["cause"], fields.get("actor", ""))
                self.recoveries.append(told)
            case "recovery.loaded" | "context.rebuilt" | "recovery.verified":
                self.steps.append((task, name))
            case "recovery.declared":
                self.steps.append((task, f"{name}: {fields['accepted']}"))
            case "effect.registered":
                key = f"{task} {fields['op']}#{fields['attempt']}"
                self.effects.setdefault(key, []).append(fields["name"])
            case "effect.recorded":
                key = f"{task} {fields['op']}#{fields['attempt']}"
                self.effects[key].append(f"{fields['status']} by {fields['by']}")
            case "account.settled":
                book = self.amounts.setdefault((task, fields["book"]), Counter())
                book.update(fields["amounts"])
            case "pool.granted":
                self.amounts[fields["task"], "granted"] = Counter(fields["amounts"])
            case "step.ended":
                self.ended[f"{task} {fields['step']}"] = fields["status"]
            case "task.closed":
                self.ended[task] = fields["status"]

    def as_data(self) -> dict[str, Any]:
        return vars(self)


def rows(store: Path) -> Iterator[tuple[int, str, str, float, int, dict[str, Any]]]:
    with closing(sqlite3.connect(store)) as database:
        for seq, stream, kind, at, epoch, body in database.execute(
            "SELECT seq, stream, type, at, epoch, body FROM events ORDER BY seq"
        ):
            yield seq, stream, kind, at, epoch, fields_of(kind, body)


def task_in(stream: str) -> str:
    return stream.split("/")[1] if stream.startswith("task/") else ""


def story_by_sql(store: Path) -> Story:
    story = Story()
    for _, stream, kind, _, _, body in rows(store):
        if kind in LINES:
            story.take(LINES[kind], task_in(stream), body)
    return story


def story_by_log(log: Path) -> Story:
    story = Story()
    for line in read_log(log):
        if line["event"] in LINES.values():
            story.take(line["event"], line["task"], line)
    return story


def cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > CUT:
        return f"{value[:CUT]}… ({len(value)} characters)"
    return value


def assert_each_record_has_its_line(store: Path, log: Path) -> None:
    """One line a record, in order, with all that the record says."""
    lines = [line for line in read_log(log) if "seq" in line]
    records = list(rows(store))
    assert [line["seq"] for line in lines] == [seq for seq, *_ in records]
    assert [seq for seq, *_ in records] == list(range(1, len(records) + 1))
    for line, (_, stream, kind, at, epoch, body) in zip(lines, records, strict=True):
        if kind in LINES:
            assert line["event"] == LINES[kind]
        told = {name: line[name] for name in body if name in line}
        assert told == {name: cut(value) for name, value in body.items()}
        assert (line["at"], line["epoch"]) == (at, epoch)
        assert line["task"] == (body.get("task") or task_in(stream))


def assert_only_catalogued(log: Path) -> None:
    for line in read_log(log):
        event = line.pop("event")
        check(event, line)


@pytest.mark.parametrize("seed", [3, 11])
def test_the_log_of_a_job_that_was_killed_again_and_again_tells_all_of_it(
    tmp_path: Path, seed: int
) -> None:  # B3
    job = Job(
        tmp_path,
        country="NO",
        operator="operator@example.org",
        model="scripted",
        say=lambda text: None,
    )
    counted = job.run(kills_by_seed(4, seed))
    assert (counted["status"], counted["kills"]) == ("completed", 4)
    store, log = tmp_path / "tasks.db", tmp_path / "log.jsonl"
    assert_each_record_has_its_line(store, log)
    assert_only_catalogued(log)
    told, recorded = story_by_log(log), story_by_sql(store)
    assert told.as_data() == recorded.as_data()

    # What the outsider counted, from the log alone.
    starts = [line for line in read_log(log) if is_start(line)]
    assert len(starts) - 1 == counted["kills"]
    assert len(told.recoveries) >= counted["kills"] - in_vain(log)
    assert {cause for _, cause, _ in told.recoveries} == {"process ended"}
    (task,) = {task for task, _ in told.steps}
    assert told.ended[task] == "completed"
    for book in ("spent", "unknown", "recovery"):
        name = "spent" if book == "spent" else f"spent_{book}"
        amounts = told.amounts.get((task, book), Counter())
        assert amounts["model_calls"] == counted[name]["model_calls"]
        assert amounts["output_tokens"] == counted[name]["output_tokens"]
        by_tool = {
            dimension.removeprefix("tool:"): number
            for dimension, number in amounts.items()
            if dimension.startswith("tool:") and number
        }
        assert by_tool == counted[name]["tool_calls"]
    mails = [
        said
        for said in told.effects.values()
        if said[0] == "send_mail" and said[-1].startswith("completed")
    ]
    assert len(mails) == counted["mails"] == 1


def is_start(line: dict[str, Any]) -> bool:
    return bool(line["event"] == "actor.started" and line["name"] == "journal")


def in_vain(log: Path) -> int:
    """Starts that died before they activated the task: no recovery began in them."""
    starts: list[bool] = []
    for line in read_log(log):
        if is_start(line):
            starts.append(False)
        elif line["event"] == "queue.activated" and starts:
            starts[-1] = True
    return starts.count(False)


@pytest.mark.parametrize("actor", ["ledger", "account", "context", "task"])
def test_the_log_says_who_crashed_why_and_what_came_back(
    tmp_path: Path, actor: str
) -> None:
    from perdure import tool

    gate, world = Gate(), World()
    store, log = tmp_path / "t.db", tmp_path / "log.jsonl"

    @tool(effect="read")
    def hold(what: str) -> str:
        gate.stand()
        return "held"

    agent = reporter(world, hold, script=calls("hold", "look"))
    with opened(store, agent, log=log) as runtime:
        task = runtime.submit("agent", "hold", budget=BUDGET)
        assert gate.entered.wait(LONG)
        victim = f"task/{task.id}/{actor}"
        runtime._system.kill(victim, Crash(error="bit flip", traceback="here"))
        gate.left.set()
        assert task.wait(LONG).status == "completed"
    lines = list(read_log(log))
    crash = next(line for line in lines if line["event"] == "actor.crashed")
    assert (crash["name"], crash["error"]) == (victim, "bit flip")
    assert crash["traceback"] == "here"
    after = lines[lines.index(crash) :]
    told = [line["event"] for line in after if line.get("child", victim) == victim]
    assert told.index("supervisor.restarting") < told.index("supervisor.asked")
    again = next(
        line
        for line in after
        if line["event"] == "actor.started" and line["name"] == victim
    )
    assert again["incarnation"] > crash["incarnation"]
    (began,) = [line for line in after if line["event"] == "recovery.began"]
    assert (began["cause"], began["actor"]) == ("bit flip", victim)
    for step in RECOVERY:
        assert step in told
    assert_each_record_has_its_line(store, log)
    assert_only_catalogued(log)
    assert story_by_log(log).as_data() == story_by_sql(store).as_data()
