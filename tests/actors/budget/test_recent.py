"""The pool reads a row once, and never what it has just written."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.actors.baseline import Baseline
from perdure.actors.budget.recent import PER_SLOT, RETURNED, Given, Recent
from perdure.actors.names import GRANTS

SLOTS = 2
MOST = SLOTS * PER_SLOT
SOME = Given(grants={"x/first": {"tokens": 5}})


class Desk:
    """Stands in for the pool: reads end when a test says so."""

    def __init__(self, last_seq: int = 0) -> None:
        self.last_seq = last_seq
        self.rows: dict[tuple[str, str], bytes] = {}
        self.reads: list[Any] = []
        self.recent = Recent(self)  # type: ignore[arg-type]
        self.recent.opened()
        self.heard: list[tuple[str, Given, bool]] = []

    @property
    def house(self) -> Any:
        class House:
            baseline = msgspec.structs.replace(Baseline(), active_tasks=SLOTS)

        return House

    def row(self, space: str, key: str) -> bytes | None:
        return self.rows.get((space, key))

    def read(self, run: Any, then: Any) -> None:
        self.reads.append(lambda: then(run(self)))

    def end_reads(self) -> int:
        count = 0
        while self.reads:
            self.reads.pop(0)()
            count += 1
        return count

    def ask(
        self, task: str, name: str = "", as_of: int = 0, row: bytes | None = None
    ) -> None:
        def then(given: Given, ended: bool) -> None:
            self.heard.append((name or task, given, ended))

        self.recent.look(task, then, as_of, row)


def test_what_was_read_or_written_is_not_read_again() -> None:
    desk = Desk()
    desk.rows[GRANTS, "x"] = msgspec.json.encode(SOME)
    desk.ask("x")
    assert desk.end_reads() == 1
    desk.ask("x")
    desk.recent.keep("y", SOME)
    desk.ask("y")
    assert desk.end_reads() == 0
    assert desk.heard == [("x", SOME, False), ("x", SOME, False), ("y", SOME, False)]


def test_who_gave_all_back_is_known_to_have_done_so() -> None:
    desk = Desk()
    desk.rows[RETURNED, "x"] = b"true"
    desk.ask("x")
    desk.end_reads()
    desk.recent.keep("y", Given(), ended=True)
    desk.ask("y")
    assert desk.heard == [("x", Given(), True), ("y", Given(), True)]


def test_while_a_row_is_read_what_else_concerns_its_task_waits_in_line() -> None:
    desk = Desk()
    given = Given(grants={"x/more": {}})
    desk.recent.look("x", lambda *_: desk.recent.keep("x", given))
    desk.ask("x", "second")
    desk.ask("x", "third")
    assert desk.heard == []
    assert desk.end_reads() == 1
    assert desk.heard == [("second", given, False), ("third", given, False)]


def test_few_are_remembered_and_of_the_others_the_rows_tell() -> None:
    desk = Desk()
    for n in range(MOST + 1):
        desk.recent.keep(f"{n}", SOME)
    assert len(desk.recent) == MOST
    desk.rows[GRANTS, "0"] = msgspec.json.encode(SOME)
    desk.ask("0")
    assert desk.heard == []
    assert desk.end_reads() == 1
    assert desk.heard == [("0", SOME, False)]


def test_a_task_without_a_row_is_not_looked_up_where_nothing_newer_is_forgotten() -> (
    None
):
    desk = Desk(last_seq=10)
    desk.ask("new", as_of=10)
    assert desk.end_reads() == 0
    assert desk.heard == [("new", Given(), False)]


def test_what_was_written_after_a_look_and_forgotten_since_is_read() -> None:
    desk = Desk(last_seq=10)
    desk.last_seq = 12
    desk.recent.keep("x", SOME)
    desk.rows[GRANTS, "x"] = msgspec.json.encode(SOME)
    for n in range(MOST):
        desk.recent.keep(f"{n}", SOME)
    desk.ask("x", as_of=11)
    assert desk.end_reads() == 1
    assert desk.heard == [("x", SOME, False)]


def test_what_an_earlier_incarnation_may_have_written_is_read() -> None:
    desk = Desk(last_seq=10)
    desk.rows[GRANTS, "x"] = msgspec.json.encode(SOME)
    desk.ask("x", as_of=9)
    desk.end_reads()
    assert desk.heard == [("x", SOME, False)]


def test_a_row_that_somebody_read_is_taken_where_nothing_newer_is_forgotten() -> None:
    desk = Desk(last_seq=10)
    desk.ask("x", as_of=11, row=msgspec.json.encode(SOME))
    assert desk.end_reads() == 0
    assert desk.heard == [("x", SOME, False)]


def test_who_is_known_is_not_new_whatever_somebody_saw() -> None:
    desk = Desk()
    desk.recent.keep("x", SOME)
    desk.ask("x", as_of=99)
    assert desk.heard == [("x", SOME, False)]
