"""Views: what follows from the events of a store, and how it reads as text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import Misuse, TaskNotFound, folds, views, views_effects, views_text
from perdure.actors import events
from perdure.actors.budget.account import Books
from perdure.actors.events import Event
from perdure.actors.names import ADMISSION, POOL, TASK_ROWS
from perdure.actors.task.rows import TaskRow
from perdure.events import line_of
from perdure.storage.base_reader import Reader
from perdure.storage.codec import Codec
from perdure.storage.memory import MemoryBackend
from perdure.storage.records import Row
from perdure.testing.journal_contract.bench import Bench, draft

STEPS = ("look", "send")


class Store:
    """A store in memory, filled with what the actors would have written."""

    def __init__(self) -> None:
        self.bench = Bench(MemoryBackend())
        self.codec = Codec(events.EVENTS)
        self.heads: dict[str, int] = {}

    @property
    def reader(self) -> Reader:
        return self.bench.backend.reader(lambda event, fields: None)

    def write(self, stream: str, *written: Event, row: TaskRow | None = None) -> None:
        lease = self.bench.lease(stream)
        for event in written:
            kind, _, body = self.codec.encode(event)
            self.put(lease, stream, kind, body, row)

    def put(
        self, lease: Any, stream: str, kind: str, body: bytes, row: TaskRow | None
    ) -> None:
        version = self.heads[stream] = self.heads.get(stream, 0) + 1
        rows = () if row is None else (_stored(row),)
        self.bench.now += 1.0
        one = draft(stream, version, type=kind, body=body, rows=rows)
        self.bench.journal.append([(lease, [one])])
        self.bench.commit()

    def submit(self, task: str, **more: Any) -> None:
        row = _row(task, goal=more.get("goal", "Report.")[:200])
        self.write(ADMISSION, _queued(task))
        self.write(f"task/{task}", _submitted(task, **more), row=row)

    def activate(self, task: str, epoch: int = 1) -> None:
        activated = events.TaskActivated(
            task=task, epoch=epoch, since=0, order="run", by=""
        )
        self.write(ADMISSION, activated)

    def line(self, task: str) -> views.TaskLine:
        return views.task_line(self.reader, task)


def _stored(row: TaskRow) -> Row:
    return Row(space=TASK_ROWS, key=row.task, value=msgspec.json.encode(row))


def _row(task: str, status: str = "queued", **more: Any) -> TaskRow:
    fields = {"goal": "Report.", **more}
    return TaskRow(task=task, agent="reporter", status=status, **fields)


def _queued(task: str) -> Event:
    return events.TaskQueued(
        task=task, agent="reporter", group="", priority=0, key=None
    )


def _submitted(task: str, **more: Any) -> Event:
    steps = tuple(
        events.PlanStep(id=one, goal=f"Do {one}.", done="", max_iterations=5)
        for one in STEPS
    )
    fields: dict[str, Any] = {"goal": "Report.", "budget": {}, **more}
    return events.TaskSubmitted(
        task=task,
        agent="reporter",
        agent_digest="d",
        baseline="b",
        inputs={},
        constraints=(),
        group="",
        priority=0,
        key=None,
        deadline=None,
        steps=steps,
        **fields,
    )


def _started(step: str) -> Event:
    return events.StepStarted(step=step, attempt=1, deadline=None)


def _ended(step: str, status: Any = "completed", result: str = "8") -> Event:
    return events.StepEnded(
        step=step, status=status, reason="accepted", result=result, evidence=(), op=2
    )


def _closing() -> Event:
    return events.TaskClosing(status="completed", output='{"n": 1}', reason="all done")


@pytest.fixture
def store() -> Store:
    return Store()


# ── the list ─────────────────────────────────────────────────────────────────────


def test_tasks_are_listed_as_they_were_submitted(store: Store) -> None:
    for task in ("t-c", "t-a", "t-b"):
        store.submit(task)
    found = views.tasks(store.reader)
    assert [one.task for one in found] == ["t-c", "t-a", "t-b"]
    assert [one.at for one in found] == sorted(one.at or 0.0 for one in found)


def test_a_task_runs_while_it_holds_a_slot(store: Store) -> None:
    store.submit("t-a")
    assert store.line("t-a").status == "queued"
    store.activate("t-a")
    assert store.line("t-a").status == "running"
    store.write("task/t-a", _closing())
    assert store.line("t-a").status == "closing"
    store.write("task/t-a", events.TaskClosed(status="completed"))
    assert store.line("t-a").status == "completed"
    assert store.line("t-a").reason == "all done"


def test_a_task_that_was_drained_waits_for_its_next_opening(store: Store) -> None:
    store.submit("t-a")
    store.activate("t-a")
    store.write(ADMISSION, events.TaskPassivated(task="t-a", waiting=False))
    assert store.line("t-a").status == "queued"


def test_a_stop_says_why_and_what_ends_it(store: Store) -> None:
    store.submit("t-a")
    store.activate("t-a")
    row = _row(
        "t-a", "paused", reason="budget", detail="tokens: none left", ends_with="extend"
    )
    paused = events.TaskPaused(
        reason="budget", detail="tokens: none left", ends_with="extend", epoch=1
    )
    store.write("task/t-a", paused, row=row)
    line = store.line("t-a")
    assert (line.status, line.reason, line.ends_with) == ("paused", "budget", "extend")


def test_a_task_parked_while_it_closed_says_why_it_is_parked(store: Store) -> None:
    store.submit("t-a")
    store.write("task/t-a", _closing())
    parked = events.TaskParked(
        task="t-a", status="parked", reason="6 recoveries", ends_with="resume"
    )
    row = _row(
        "t-a", "parked", reason="parked", detail="6 recoveries", ends_with="resume"
    )
    store.write(ADMISSION, parked, row=row)
    line = store.line("t-a")
    assert (line.status, line.detail, line.ends_with) == (
        "parked",
        "6 recoveries",
        "resume",
    )


def test_steps_are_counted_in_the_stream_which_is_newer_than_the_row(
    store: Store,
) -> None:
    store.submit("t-a")
    store.write("task/t-a", _started("look"), _ended("look"), _started("send"))
    assert (store.line("t-a").steps_done, store.line("t-a").steps_total) == (1, 2)


def test_an_ended_task_is_told_by_its_row_alone(store: Store) -> None:
    steps = dict.fromkeys(STEPS, "completed")
    store.write(ADMISSION, _queued("t-a"))
    row = _row("t-a", "completed", reason="all done", steps=steps, books=Books())
    store.write("task/t-a", _submitted("t-a"), row=row)
    line = store.line("t-a")
    assert (line.status, line.steps_done, line.steps_total) == ("completed", 2, 2)


def test_a_task_of_a_newer_perdure_does_not_hide_the_others(store: Store) -> None:
    store.submit("t-a")
    store.submit("t-b")
    lease = store.bench.lease("task/t-a")
    store.put(lease, "task/t-a", "NotThoughtOfYet", b"{}", None)
    found = views.tasks(store.reader)
    assert [(one.task, one.steps_total) for one in found] == [("t-a", 0), ("t-b", 2)]


# ── naming a task ────────────────────────────────────────────────────────────────


def test_a_whole_id_wins_over_longer_ones(store: Store) -> None:
    store.submit("t-ab")
    store.submit("t-a")
    assert views.find(store.reader, "t-a") == "t-a"


def test_a_beginning_names_the_only_task_that_has_it(store: Store) -> None:
    store.submit("t-abc")
    store.submit("t-b")
    assert views.find(store.reader, "t-a") == "t-abc"


def test_a_beginning_of_many_names_none(store: Store) -> None:
    for number in range(7):
        store.submit(f"t-{number}")
    with pytest.raises(Misuse) as caught:
        views.find(store.reader, "t-")
    assert str(caught.value) == (
        "7 tasks begin with 't-' (t-0, t-1, t-2, t-3, t-4, …); give more of the id"
    )


@pytest.mark.parametrize("text", ["t-b", ""])
def test_what_names_no_task_is_said_with_where_to_look(store: Store, text: str) -> None:
    store.submit("t-a")
    with pytest.raises(TaskNotFound, match=f"no task '{text}'.*perdure ps"):
        views.find(store.reader, text)


# ── one task ─────────────────────────────────────────────────────────────────────


def test_a_sheet_has_the_whole_goal_which_the_row_cuts(store: Store) -> None:
    goal = "Long.\n" * 100
    store.submit("t-a", goal=goal)
    assert views.sheet(store.reader, "t-a").goal == goal
    assert len(store.line("t-a").goal) == 200


def test_a_sheet_tells_each_step(store: Store) -> None:
    store.submit("t-a")
    store.write("task/t-a", _started("look"))
    decided = events.DecisionMade(
        op=1, step="look", action=events.CallModel(purpose="work"), why="", learned=""
    )
    seen = events.ActionObserved(op=1, attempt=1, status="completed")
    store.write("task/t-a", decided, seen, _ended("look", result='{"n": 8}'))
    look, send = views.sheet(store.reader, "t-a").steps
    assert (look.status, look.iterations, look.max_iterations) == ("completed", 1, 5)
    assert (look.result, look.reason) == ({"n": 8}, "accepted")
    assert (send.status, send.result) == ("pending", None)


def test_a_sheet_keeps_the_books_apart_and_says_what_is_left(store: Store) -> None:
    store.submit("t-a", budget={"tokens": 100, "milliseconds": 9000})
    store.write(
        "task/t-a/account",
        events.GrantTaken(grant="g", amounts={"tokens": 100, "milliseconds": 9000}),
        events.Reserved(op=1, attempt=1, book="spent", amounts={"tokens": 40}),
        events.Settled(op=1, attempt=1, book="spent", amounts={"tokens": 30}),
        events.Reserved(op=2, attempt=1, book="recovery", amounts={"tokens": 10}),
        events.Settled(
            op=2, attempt=1, book="recovery", amounts={"tokens": 5, "milliseconds": 500}
        ),
    )
    sheet = views.sheet(store.reader, "t-a")
    assert sheet.spent["tokens"] == 30
    assert sheet.spent_recovery["tokens"] == 5
    assert "tokens" not in sheet.spent_unknown
    expected = {
        "tokens": {"limit": 100, "left": 65},
        "seconds": {"limit": 9.0, "left": 8.5},
    }
    assert sheet.budget == expected
    returned = {"tokens": 65, "milliseconds": 8500}
    store.write("task/t-a/account", events.AccountClosed(returned=returned))
    assert views.sheet(store.reader, "t-a").budget == expected


def test_a_sheet_of_a_queued_task_has_its_limits(store: Store) -> None:
    store.submit("t-a", budget={"tool_calls": 7})
    budget = views.sheet(store.reader, "t-a").budget
    assert budget == {"tool_calls": {"limit": 7, "left": 7}}


def _loaded(number: int) -> Event:
    return events.RecoveryLoaded(number=number, snapshot=3, replayed=2)


def test_a_recovery_is_told_from_its_cause_to_its_declaration(store: Store) -> None:
    store.submit("t-a")
    began = events.RecoveryBegan(
        task="t-a", epoch=2, cause="ValueError: no", actor="task/t-a/task"
    )
    store.write("task/t-a", _started("look"))
    store.write("task/t-a/recovery", began)
    store.write(
        "task/t-a",
        _loaded(1),
        events.ContextRebuilt(facts=(), next="look", facts_until=0),
        events.EffectsVerified(decided={"op2": "completed"}),
        events.RecoveryDeclared(accepted=False, by="model", declaration="", why="no"),
        events.RecoveryDeclared(accepted=True, by="model", declaration="", why=""),
    )
    (one,) = views.sheet(store.reader, "t-a").recoveries
    assert (one.cause, one.actor) == ("ValueError: no", "task/t-a/task")
    assert (one.number, one.snapshot, one.replayed) == (1, 3, 2)
    assert one.decided == {"op2": "completed"}
    assert (one.refused, one.declared_by) == (1, "model")


def test_a_recovery_that_was_cut_off_stands_beside_the_next(store: Store) -> None:
    store.submit("t-a")
    began = events.RecoveryBegan(task="t-a", epoch=2, cause="process ended")
    store.write("task/t-a", _started("look"))
    store.write("task/t-a/recovery", began, began)
    store.write("task/t-a", _loaded(1), _ended("look", "limited"), _loaded(2))
    recoveries = views.sheet(store.reader, "t-a").recoveries
    assert [(one.number, one.cause) for one in recoveries] == [
        (None, "process ended"),
        (1, "process ended"),
        (2, "a step was interrupted"),
    ]


# ── effects ──────────────────────────────────────────────────────────────────────


def _registered(op: int = 2, attempt: int = 1, **more: Any) -> Event:
    fields: dict[str, Any] = {"arguments": '{"to":"x"}', "reused": None, **more}
    return events.EffectRegistered(
        op=op,
        attempt=attempt,
        step="send",
        kind="tool",
        name="send",
        effect="once",
        key="k",
        not_after=9.0,
        **fields,
    )


def _recorded(status: Any, by: Any, **more: Any) -> Event:
    return events.EffectRecorded(op=2, attempt=1, status=status, by=by, **more)


def test_an_effect_has_every_status_it_went_through(store: Store) -> None:
    probed = events.EffectProbed(op=2, attempt=1, answer="cannot tell", again_at=7.0)
    store.write(
        "task/t-a/ledger",
        _registered(),
        _recorded("unknown", "recovery", error="the process ended"),
        probed,
        _recorded("completed", "probe", result="sent"),
    )
    (effect,) = views_effects.effects(store.reader, "t-a")
    assert [(one.status, one.by) for one in effect.history] == [
        ("pending", "task"),
        ("unknown", "recovery"),
        ("completed", "probe"),
    ]
    assert effect.history[1].error == "the process ended"
    assert effect.history[0].at < effect.history[1].at < effect.history[2].at
    assert (effect.status, effect.result, effect.error) == ("completed", "sent", "")
    assert [one.answer for one in effect.probes] == ["cannot tell"]


def test_each_attempt_is_an_effect_of_its_own(store: Store) -> None:
    store.write(
        "task/t-a/ledger",
        _registered(),
        _recorded("failed", "run", error="refused"),
        _registered(attempt=2),
        _registered(op=3, reused=2),
    )
    found = views_effects.effects(store.reader, "t-a")
    assert [(one.op, one.attempt, one.status) for one in found] == [
        (2, 1, "failed"),
        (2, 2, "pending"),
        (3, 1, "pending"),
    ]
    assert found[2].reused == 2


# ── the log ──────────────────────────────────────────────────────────────────────


def test_the_log_is_of_one_task_in_the_order_of_the_store(store: Store) -> None:
    store.submit("t-a")
    store.submit("t-b")
    store.submit("t-ab")  # its id holds the other's
    store.write(POOL, events.Granted(grant="g", task="t-a", amounts={}))
    store.activate("t-a")
    store.write("task/t-a/ledger", _registered())
    found = list(views_effects.log(store.reader, "t-a"))
    assert [one["event"] for one in found] == [
        "queue.entered",
        "task.submitted",
        "pool.granted",
        "queue.activated",
        "effect.registered",
    ]
    assert [one["seq"] for one in found] == sorted(one["seq"] for one in found)
    for line, record in zip(
        found, store.reader.fetch(one["seq"] for one in found), strict=True
    ):
        name, fields = line_of(record)
        assert line == {"event": name, **fields}


def test_a_log_that_grows_is_read_up_to_where_it_ended(store: Store) -> None:
    store.submit("t-a")
    last = store.reader.durable_seq
    store.write("task/t-a", _started("look"))
    found = folds.family(store.reader, "task/t-a", last)
    assert [one.type for one in found] == ["TaskSubmitted"]


# ── text ─────────────────────────────────────────────────────────────────────────


def _line(**more: Any) -> views.TaskLine:
    fields: dict[str, Any] = {
        "task": "t-a",
        "agent": "reporter",
        "status": "running",
        "reason": "",
        "detail": "",
        "ends_with": "",
        "steps_done": 1,
        "steps_total": 2,
        "goal": "Report.",
        "at": 0.0,
    }
    return views.TaskLine(**fields | more)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    lines = list(
        views_text.tasks_text(
            [_line(), _line(task="t-longer", reason="预算", goal="B"), _line(goal="C")]
        )
    )
    assert lines == [
        "TASK      AGENT     STATUS   STEPS  REASON  ENDS WITH  GOAL",
        "t-a       reporter  running  1/2                       Report.",
        "t-longer  reporter  running  1/2    预算               B",
        "t-a       reporter  running  1/2                       C",
    ]


def test_a_list_has_one_line_a_task_however_long_its_goal() -> None:
    _, line = views_text.tasks_text([_line(goal="Find\nthe\tairports " * 20)])
    assert line.endswith("Find the airports Find …")
    assert "\n" not in line


def test_text_from_a_store_cannot_drive_a_terminal(store: Store) -> None:
    store.submit("t-a", goal="Red \x1b[31m\r\x9b2J.\nNext line, 中文.")
    sheet = views.sheet(store.reader, "t-a")
    lines = [
        *views_text.sheet_text(sheet),
        *views_text.tasks_text(views.tasks(store.reader)),
        *map(views_text.log_line, views_effects.log(store.reader, "t-a")),
    ]
    assert all(one.isprintable() for one in lines)
    assert r"goal       Red \x1b[31m\r\x9b2J." in lines
    assert "           Next line, 中文." in lines


def test_arguments_are_cut_in_text_and_whole_as_data(store: Store) -> None:
    arguments = '{"text": "%s"}' % ("x" * 500)
    store.write("task/t-a/ledger", _registered(arguments=arguments))
    effects = views_effects.effects(store.reader, "t-a")
    assert effects[0].arguments == arguments
    line = list(views_text.effects_text(effects))[-1]
    assert line.endswith("x…")
    assert len(line) < 200


def test_an_effect_in_doubt_shows_what_the_last_probe_said(store: Store) -> None:
    probed = events.EffectProbed(op=2, attempt=1, answer="cannot tell", again_at=7.0)
    store.write(
        "task/t-a/ledger", _registered(), _recorded("unknown", "recovery"), probed
    )
    line = list(views_text.effects_text(views_effects.effects(store.reader, "t-a")))[-1]
    assert "pending -> unknown (recovery) -> probed: cannot tell" in line


def test_books_stand_in_columns(store: Store) -> None:
    store.submit("t-a", budget={"tokens": 100})
    store.write(
        "task/t-a/account",
        events.GrantTaken(grant="g", amounts={"tokens": 100}),
        events.Reserved(op=1, attempt=1, book="spent", amounts={"tokens": 30}),
        events.Settled(
            op=1, attempt=1, book="spent", amounts={"tokens": 30, "tool:look": 2}
        ),
    )
    lines = list(views_text.sheet_text(views.sheet(store.reader, "t-a")))
    assert "AMOUNT      SPENT  UNKNOWN  RECOVERY  LIMIT  LEFT" in lines
    assert "tokens         30        0         0    100    70" in lines
    assert "tool:look       2        0         0" in lines
