"""The report job in real processes, SIGKILLed: nothing lost, nothing twice."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.actors.model import ModelReply, ModelRequest
from perdure.demo import child, parent
from perdure.demo.audit import Journal, budget_ok
from perdure.demo.child import make_agent
from perdure.demo.data import build_database
from perdure.demo.mail import MailServer
from perdure.demo.plan import CONSTRAINTS, goal, inputs
from perdure.demo.script import reply
from perdure.demo.workplace import Workplace
from perdure.models import Scripted
from perdure.replay import render_again
from perdure.runtime import Runtime
from perdure.storage.reader import open_reader

# Seconds; the first test of a process also runs the job that the others compare with,
# and the one that lists its fault points.
pytestmark = pytest.mark.timeout(180)

JOB = {"country": "NO", "operator": "operator@example.org"}
RIGHT = {
    "status": "completed",
    "mails": 1,
    "duplicate_effects": 0,
    "lost_steps": 0,
    "redone_steps": 0,
    "budget_ok": True,
    "steps": 7,
}


def run(folder: Path, plan: parent.Plan) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    job = parent.Job(folder, model="scripted", say=lambda _: None, **JOB)
    return job.run(plan)


def command(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perdure", "demo", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("unkilled"), parent.kills_by_seed(0, 0))


@pytest.fixture(scope="module")
def hits() -> list[tuple[str, str]]:
    return parent.rehearse((), **JOB)


def assert_as_if_never_killed(
    counted: dict[str, Any], unkilled: dict[str, Any]
) -> None:
    assert {name: counted[name] for name in RIGHT} == RIGHT
    assert counted["spent"] == unkilled["spent"]
    assert counted["report_sha256"] == unkilled["report_sha256"]


def test_the_job_passes_as_many_fault_points_as_the_seeds_count_on(
    hits: list[tuple[str, str]],
) -> None:
    first = [point for point, _ in hits].index(parent.FIRST_DECISION)
    assert len(hits) - first >= parent.HITS


@pytest.mark.parametrize("seed", range(6))
def test_five_kills_change_nothing(
    tmp_path: Path, unkilled: dict[str, Any], seed: int
) -> None:
    # R3, P1, P2, P3, P6
    counted = run(tmp_path, parent.kills_by_seed(5, seed))
    assert (counted["kills"], counted["recoveries"]) == (5, 5)
    assert_as_if_never_killed(counted, unkilled)


@pytest.mark.timeout(240)
def test_a_kill_at_any_fault_point_changes_nothing(
    tmp_path: Path, unkilled: dict[str, Any], hits: list[tuple[str, str]]
) -> None:
    # R3, R4: a point that only a recovery passes is reached by one kill before it.
    recovering = parent.rehearse((parent.REACH_RECOVERY,), **JOB)
    passed = {point for point, _ in hits}
    points = sorted(passed | {point for point, _ in recovering})
    assert "recovery.declared" in points

    def one(point: str) -> dict[str, Any]:
        return run(tmp_path / point, parent.kills_at(point, hits))

    with ThreadPoolExecutor(2) as pool:
        for point, counted in zip(points, pool.map(one, points), strict=True):
            assert counted["kills"] == (1 if point in passed else 2), point
            assert_as_if_never_killed(counted, unkilled)


def test_a_mail_that_was_out_when_the_process_died_is_found_by_its_probe(
    tmp_path: Path, hits: list[tuple[str, str]]
) -> None:
    # R1, K39, B40: accepted by the server, killed before the record.
    counted = run(tmp_path, parent.kills_at("effect.executed", hits))
    assert counted["mails"] == 1
    events = Journal(tmp_path / "tasks.db").events()
    sent = {
        event.body["op"]
        for event in events
        if event.type == "EffectRegistered" and event.body["name"] == "send_mail"
    }
    (op,) = sent
    history = [
        (event.body["status"], event.body["by"])
        for event in events
        if event.type == "EffectRecorded" and event.body["op"] == op
    ]
    assert history == [("unknown", "recovery"), ("completed", "probe")]


def test_a_mail_that_was_not_out_yet_is_sent_once(
    tmp_path: Path, unkilled: dict[str, Any], hits: list[tuple[str, str]]
) -> None:
    # K39: killed before the call; the probe's "no" is believed after `settle` only.
    counted = run(tmp_path, parent.kills_at("effect.executing", hits))
    assert_as_if_never_killed(counted, unkilled)


def test_every_request_can_be_rendered_again_from_a_killed_store(
    tmp_path: Path,
) -> None:
    # A2, A6: what the model saw, from digest and parts.
    run(tmp_path, parent.kills_by_seed(4, 11))
    with open_reader(tmp_path / "tasks.db") as reader:
        records = reader.records(limit=100_000)
        built = [json.loads(r.body) for r in records if r.type == "RequestBuilt"]
        (task,) = {r.stream.split("/")[1] for r in records if r.type == "TaskSubmitted"}
        newest = {one["op"]: one["digest"] for one in built}
        assert len(newest) >= 15
        for op, digest in newest.items():
            rendered = render_again(reader, task, op)
            assert rendered.digest == digest
            assert goal("NO") in json.dumps(rendered.messages, ensure_ascii=False)


def test_without_the_confirmed_facts_the_job_fails(tmp_path: Path) -> None:
    # A37: the scripted model knows only what the request says.
    def forgetful(request: ModelRequest) -> ModelReply:
        *before, last = request.messages
        text = last["content"]
        head, fence, data = text.rpartition("\n```json\n")
        told = json.loads(data.removesuffix("\n```"))
        told["facts"] = []
        last = {**last, "content": f"{head}{fence}{json.dumps(told)}\n```"}
        return reply(msgspec.structs.replace(request, messages=[*before, last]))

    (tmp_path / "reports").mkdir()
    build_database(tmp_path / "airports.db")
    with MailServer(tmp_path / "mails") as server:
        place = Workplace(
            folder=str(tmp_path / "reports"),
            database=str(tmp_path / "airports.db"),
            smtp_port=server.port,
            mail_store=str(tmp_path / "mails"),
        )
        agent = make_agent(place, Scripted(forgetful))
        with Runtime(tmp_path / "tasks.db", agents=[agent]) as runtime:
            task = runtime.submit(
                agent.name,
                goal("NO"),
                inputs=inputs("NO", JOB["operator"]),
                constraints=CONSTRAINTS,
                budget=child.BUDGET,
            )
            result = task.wait(timeout=50)
    assert result.status == "paused"
    assert result.steps["survey"] == "completed"
    assert result.steps["collect"] != "completed"


def test_the_command_ends_with_one_json_object_and_says_scripted() -> None:
    done = command("--kills", "2", "--seed", "7", "--json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "scripted, no LLM" in lines[0]
    counted = json.loads(lines[-1])
    assert (counted["kills"], counted["recoveries"], counted["mails"]) == (2, 2, 1)
    assert list(counted) == [
        "status",
        "model",
        "kills",
        "recoveries",
        "mails",
        "duplicate_effects",
        "lost_steps",
        "redone_steps",
        "budget_ok",
        "spent",
        "spent_unknown",
        "spent_recovery",
        "report_sha256",
        "steps",
        "seconds",
    ]


def test_the_command_lists_the_points_and_kills_inside_a_recovery() -> None:
    listed = command("--list-kill-points")
    assert listed.returncode == 0
    points = listed.stdout.split()
    assert points == sorted(set(points))
    assert {"effect.executed", "recovery.verified", "journal.flush.before"} <= set(
        points
    )
    done = command("--kill-at", "recovery.verified", "--json")
    counted = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, counted["kills"]) == (0, 2)


@pytest.mark.parametrize(("kills", "seed"), [(6, 1), (7, 0), (12, 3)])
def test_more_kills_than_five_wait_for_progress(
    tmp_path: Path, unkilled: dict[str, Any], kills: int, seed: int
) -> None:
    counted = run(tmp_path, parent.kills_by_seed(kills, seed))
    assert (counted["kills"], counted["recoveries"]) == (kills, kills)
    assert_as_if_never_killed(counted, unkilled)


def test_a_model_without_a_key_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    done = command("--model", "openai:x", "--dir", str(tmp_path / "new"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    line = [
        sys.executable,
        "-m",
        "perdure",
        "demo",
        "--kills",
        "0",
        "--dir",
        str(folder),
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for said in process.stdout:
            if said.startswith("task "):
                break
        process.kill()
    # The owner's lock is free once the orphan has seen the end of its stdin.
    lock = os.open(folder / "tasks.db.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)


def test_a_point_that_is_not_passed_ends_with_1() -> None:
    done = command("--kill-at", "no.such.point")
    assert done.returncode == 1
    assert "no.such.point" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--kills", "-1"], "-1"),
        (["--kills", "many"], "many"),
        (["--kills", "21"], "21"),
        (["--country", "XX"], "XX"),
        (["--operator", "nobody"], "nobody"),
        (["--dir", ""], "--dir"),
        (["--kill-at", ""], "--kill-at"),
        (["--model", "parrot"], "parrot"),
        (["--model", "openai:"], "openai:NAME"),
        (["--kill-at", "x", "--kills", "2"], "--kills"),
        (["--dir", "/dev/null/below"], "/dev/null/below"),
    ],
)
def test_bad_options_are_one_sentence(options: list[str], named: str) -> None:
    done = command(*options)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_an_occupied_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = command("--dir", str(tmp_path))
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_audit_sees_books_that_do_not_balance(tmp_path: Path) -> None:
    run(tmp_path, parent.kills_by_seed(0, 0))
    events = Journal(tmp_path / "tasks.db").events()
    assert budget_ok(events)
    settled = next(n for n, e in enumerate(events) if e.type == "Settled")
    twice = [*events[: settled + 1], events[settled], *events[settled + 1 :]]
    assert not budget_ok(twice)
    forgotten = [*events[:settled], *events[settled + 1 :]]
    assert not budget_ok(forgotten)
    body = events[settled].body
    more = {**body, "amounts": {**body["amounts"], "tokens": 1}}
    event = events[settled]
    wrong = type(event)(event.seq, event.stream, event.type, more)
    assert not budget_ok([*events[:settled], wrong, *events[settled + 1 :]])


def test_a_store_is_readable_with_plain_sql_while_a_runtime_owns_it(
    tmp_path: Path,
) -> None:
    # From another process: a second SQLite in ours would drop the first one's locks.
    run(tmp_path, parent.kills_by_seed(0, 0))
    code = (
        "import sqlite3, sys;"
        "database = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True);"
        "print(database.execute('SELECT count(*) FROM events').fetchone()[0])"
    )
    with Runtime(tmp_path / "tasks.db"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "tasks.db")],
            capture_output=True,
            text=True,
            check=True,
        )
    assert int(done.stdout) > 100
