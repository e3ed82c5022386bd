"""One timer for the deadlines of all that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.actors.executor.deadlines import Deadlines
from perdure.actors.executor.work import NEVER, Run, Work
from tests.actors.executor.test_hanging import Clockwork


class Scene:
    def __init__(self) -> None:
        self.hands = Clockwork()
        self.runs: list[Run] = []
        self.rung: list[str] = []
        self.bad: set[str] = set()
        self.meanwhile: Callable[[], object] = lambda: None
        self.deadlines = Deadlines(
            self.hands,  # type: ignore[arg-type]
            runs=self.look,
            rung=self.ring,
        )

    def look(self) -> list[Run]:
        found = list(self.runs)
        self.meanwhile()
        return found

    def ring(self, run: Run) -> None:
        self.rung.append(run.work.name)
        if run.work.name in self.bad:
            raise SystemExit

    def run(self, name: str, seconds: float) -> Run:
        work = Work(
            key=("t", name),
            name=name,
            effect="read",
            call=lambda: None,
            timeout=seconds,
            not_after=0.0,
            deliver=lambda outcome: None,
        )
        self.runs.append(Run(work))
        self.deadlines.watch(self.runs[-1], self.hands.clock.monotonic() + seconds)
        return self.runs[-1]


def test_each_rings_once_at_its_own_deadline() -> None:
    scene = Scene()
    for name, seconds in [("b", 5.0), ("a", 3.0), ("c", 60.0)]:
        scene.run(name, seconds)
    heard = []
    for seconds in [2.75, 0.25, 1.75, 0.25, 54.75, 0.25, 100.0]:
        scene.hands.pass_by(seconds)
        heard.append("".join(scene.rung))
    assert heard == ["", "a", "a", "ab", "ab", "abc", "abc"]
    assert scene.hands.waiting() == 0
    assert scene.hands.count == 4, "one that was overtaken sets no other"


def test_what_has_ended_is_not_rung_for() -> None:
    scene = Scene()
    scene.run("a", 3.0).due = NEVER
    scene.run("b", 4.0)
    scene.hands.pass_by(10.0)
    assert scene.rung == ["b"]


def test_many_that_end_in_time_take_one_timer() -> None:
    scene = Scene()
    for number in range(1_000):
        scene.run(str(number), 60.0).due = NEVER
        scene.runs.clear()
        scene.hands.pass_by(0.01)
    assert scene.hands.count == 1


def test_one_that_begins_during_a_look_is_rung_for() -> None:
    scene = Scene()
    scene.run("a", 3.0)

    def begin() -> None:
        scene.meanwhile = lambda: None
        scene.run("b", 4.0)

    scene.meanwhile = begin
    scene.hands.pass_by(10.0)
    assert scene.rung == ["a", "b"]


def test_what_one_raises_is_logged_and_the_next_rings() -> None:
    scene = Scene()
    said: list[Any] = []
    scene.hands.log = lambda event, **fields: said.append((event, fields["where"]))
    scene.bad = {"a"}
    scene.run("a", 3.0)
    scene.run("b", 3.0)
    scene.run("c", 4.0)
    scene.hands.pass_by(10.0)
    assert scene.rung == ["a", "b", "c"]
    assert said == [("callback.failed", "deadline")]
