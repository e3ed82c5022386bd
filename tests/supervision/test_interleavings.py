"""Mailbox, stop and address in every order of a few threads' accesses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from perdure.supervision import Actor, ActorStopped, Crash, Down, Exited, System
from perdure.supervision import pool as pool_module
from perdure.supervision import system as system_module
from perdure.supervision.cell import Cell
from perdure.supervision.idle import IdleStep
from perdure.supervision.turn import current
from tests.supervision.interleaving import (
    Explorer,
    WatchedCell,
    WatchedDict,
    access,
    explore,
)
from tests.supervision.one_pool import OnePool


class Keeper(Actor):
    """Keeps what it receives; notices when it is run on two threads at once."""

    def __init__(self, kept: list[Any]) -> None:
        super().__init__()
        self.kept = kept
        self.inside = False

    def receive(self, message: Any) -> None:
        assert not self.inside, "on two threads at once"
        self.inside = True
        access()
        if callable(message):
            message()
        else:
            self.kept.append(message)
        self.inside = False

    def stopped(self) -> None:
        self.kept.append("stopped")


class Scene:
    """A system with one keeper "a", and what has come of it."""

    def __init__(self, cell: type[Cell] = WatchedCell, workers: int = 1) -> None:
        self.cell = cell
        self.pool = OnePool(workers)
        self.crashes: list[str] = []
        self.running = False
        self.system = System(self.pool, self._log)
        self.system._cells = WatchedDict()
        self.kept: list[Any] = []
        self.spawn("a", lambda: Keeper(self.kept))

    def _log(self, event: str, **fields: Any) -> None:
        if event == "actor.crashed":
            self.crashes.append(fields["error"])

    def spawn(self, name: str, factory: Callable[[], Actor], **options: Any) -> Any:
        """Spawn; unless a thread of the run does it, the actor is started, too."""
        with mock.patch.object(system_module, "Cell", self.cell):
            address = self.system.spawn(name, factory, **options)
        if not self.running:
            while self.pool._queue:
                self.pool._queue.popleft().run(64)
        return address

    def tell(self, *messages: Any) -> Callable[[], None]:
        def body() -> None:
            for message in messages:
                self.system.address("a").tell(message)

        return body

    def run(self, one: Explorer, *bodies: Callable[[], None]) -> None:
        cells = list(dict.values(self.system._cells))
        self.running = True
        one.run(*self.pool.bodies(), *bodies)
        one.end()
        for cell in cells:
            assert len(cell.queue) == 0, f"{cell} has {list(cell.queue)} unread"
            assert not cell._stops or cell.closed
            assert cell._scheduled._depth == 0 or cell.closed
        assert len(self.pool._queue) == 0, "a cell with work, and nobody awake"
        assert len(self.pool._jobs) == 0, "a job, and nobody awake"
        assert len(self.pool._idle) == 0, "an idle step, and nobody awake"


def told_by_two(one: Explorer, cell: type[Cell] = WatchedCell) -> None:
    scene = Scene(cell)
    scene.run(one, scene.tell("a"), scene.tell("b"))
    assert sorted(scene.kept) == ["a", "b"]
    assert scene.crashes == []


def told_by_one(
    one: Explorer, cell: type[Cell] = WatchedCell, workers: int = 1
) -> None:
    scene = Scene(cell, workers)
    scene.run(one, scene.tell(1, 2))
    assert scene.crashes == []
    assert scene.kept == [1, 2]


def told_beside_a_job(one: Explorer, workers: int = 2, name: str = "job") -> None:
    scene = Scene(workers=workers)

    def job() -> Callable[[], None]:
        access()
        return scene.tell("its end")

    def start() -> None:
        scene.pool.start_job(name, job)

    scene.run(one, scene.tell(1), start)
    assert scene.crashes == []
    assert sorted(map(str, scene.kept)) == ["1", "its end"]


def told_by_a_job_that_goes_on(one: Explorer) -> None:
    scene = Scene(workers=2)

    def job() -> None:
        scene.tell(1)()
        one.wait_until(lambda: scene.kept == [1])
        went_on.append(True)

    went_on: list[bool] = []
    scene.run(one, lambda: scene.pool.start_job("job", job))
    assert went_on


def told_by_a_job_that_is_lent_late(one: Explorer, *, goes_on: bool) -> None:
    scene = Scene(workers=1 + goes_on)
    begun: list[bool] = []
    ended: list[bool] = []

    def job() -> None:
        begun.append(True)
        scene.tell(1)()
        if goes_on:
            one.wait_until(lambda: scene.kept == [1])
        ended.append(True)

    def watch() -> None:
        one.wait_until(lambda: bool(begun))
        for worker in scene.pool.workers:
            scene.pool.lend_late(worker)

    scene.run(one, lambda: scene.pool.start_job("quick", job), watch)
    assert ended
    assert scene.kept == [1]
    assert scene.pool._running == 0
    assert not any(worker._lent for worker in scene.pool.workers)


def two_at_work(one: Explorer) -> None:
    scene = Scene(workers=2)
    told = scene.tell(0, 1)
    scene.run(one, told, scene.pool._wake_one)
    assert scene.kept == [0, 1]


def woken_by_two(
    one: Explorer, step: type[IdleStep] = IdleStep, workers: int = 1
) -> None:
    scene = Scene(workers=workers)
    asked: list[int] = []
    done: list[int] = []
    inside: list[int] = []

    def run() -> bool:
        assert not inside, "on two threads at once"
        inside.append(1)
        seen = len(asked)
        access()
        done.append(seen)
        inside.clear()
        scene.tell("written")()
        return False

    with mock.patch.object(pool_module, "IdleStep", step):
        background = scene.pool.when_idle("writer", run)

    def ask() -> None:
        asked.append(1)
        background.wake()

    scene.run(one, ask, ask)
    assert done[-1] == 2, "a wake-up was lost"
    assert scene.kept == ["written"] * len(done)


def told_and_stopped(one: Explorer, cell: type[Cell] = WatchedCell) -> None:
    scene = Scene(cell)
    scene.run(one, scene.tell(1, 2), lambda: scene.system.stop("a") and None)
    assert scene.kept.pop() == "stopped"
    assert scene.kept == [1, 2][: len(scene.kept)]
    assert len(scene.kept) + scene.system.dead_letters == 2
    assert not scene.system.is_running("a")


def told_and_killed(one: Explorer, cell: type[Cell] = WatchedCell) -> None:
    scene = Scene(cell)
    reason = Crash(error="killed")
    scene.run(one, scene.tell(1, 2), lambda: scene.system.kill("a", reason) and None)
    assert scene.kept == [1, 2][: len(scene.kept)]
    assert len(scene.kept) + scene.system.dead_letters == 2
    assert scene.crashes == ["killed"]


def asked_and_stopped(one: Explorer, cell: type[Cell] = WatchedCell) -> None:
    scene = Scene(cell)
    promises: list[Any] = []

    def ask() -> None:
        promises.append(
            scene.system.address("a").send_ask(lambda promise: lambda: promise.set(1))
        )

    scene.run(one, ask, lambda: scene.system.stop("a") and None)
    (promise,) = promises
    assert promise._done
    with contextlib.suppress(ActorStopped):
        assert promise.get(0.0) == 1


def told_over_a_restart(one: Explorer, cell: type[Cell] = WatchedCell) -> None:
    scene = Scene(cell)

    def replace() -> None:
        scene.system.kill("a", Crash(error="killed"))
        scene.spawn("a", lambda: Keeper(scene.kept))

    scene.run(one, scene.tell(1, 2), replace)
    assert scene.kept in ([1, 2], [1], [2], [])
    assert len(scene.kept) + scene.system.dead_letters == 2


def ended_twice(one: Explorer, cell: type[Cell] = WatchedCell) -> None:
    scene = Scene(cell)
    heard: list[Any] = []
    scene.spawn("boss", lambda: Keeper(heard))
    child = scene.spawn(
        "child", lambda: Keeper([]), supervisor=scene.system.address("boss")
    )
    boss = dict.__getitem__(scene.system._cells, "boss")
    scene.system.monitor(boss, "child")
    scene.run(
        one,
        lambda: scene.system.kill(child.name, Crash(error="killed")) and None,
        lambda: scene.system.stop(child.name) and None,
    )
    kinds = [type(message) for message in heard]
    assert (kinds.count(Exited), kinds.count(Down)) == (1, 1)


SCENARIOS: dict[str, tuple[Callable[[Explorer], None], int]] = {  # and preemptions
    "told by one": (told_by_one, 3),
    "told by one, on two workers": (lambda one: told_by_one(one, workers=2), 1),
    "told by two": (told_by_two, 1),
    "told beside a job": (told_beside_a_job, 1),
    "told beside a job, on one worker": (lambda one: told_beside_a_job(one, 1), 2),
    "told beside a quick job": (lambda one: told_beside_a_job(one, 2, "quick"), 1),
    "told by a job that goes on": (told_by_a_job_that_goes_on, 1),
    "told by a job lent late": (
        lambda one: told_by_a_job_that_is_lent_late(one, goes_on=True),
        1,
    ),
    "lent late, and over": (
        lambda one: told_by_a_job_that_is_lent_late(one, goes_on=False),
        2,
    ),
    "two at work": (two_at_work, 1),
    "woken by two": (woken_by_two, 1),
    "woken by two, on two workers": (lambda one: woken_by_two(one, workers=2), 1),
    "told and stopped": (told_and_stopped, 1),
    "told and killed": (told_and_killed, 2),
    "asked and stopped": (asked_and_stopped, 1),
    "told over a restart": (told_over_a_restart, 1),
    "ended twice": (ended_twice, 1),
}


@pytest.mark.proof("interleavings")
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost_doubled_or_run_twice_in_any_order(name: str) -> None:
    scenario, bound = SCENARIOS[name]
    assert explore(scenario, bound) > 100


# ── it can fail ──────────────────────────────────────────────────────────────────


class LooksTooEarly(WatchedCell):
    """Looks for more to do while it still holds the flag."""

    __slots__ = ()

    def run(self, limit: int) -> bool:
        current.cell = self
        try:
            self._turn(limit)
        finally:
            current.cell = None
        more = not self.closed and bool(self.queue or self._stops)
        self._scheduled.release()
        return more and self._claim(False)


class LooksBeforePosting(WatchedCell):
    """Looks whether the incarnation has ended before the message is in."""

    __slots__ = ()

    def post(self, message: Any) -> bool:
        if self.closed:
            self.system.count_dead_letters(1)
            return False
        self.queue.append(message)
        if self._claim(False):
            self._schedule(self)
        return True


class ReleasesTheFlagFirst(WatchedCell):
    """Gives the flag back before its turn."""

    __slots__ = ()

    def run(self, limit: int) -> bool:
        self._scheduled.release()
        current.cell = self
        try:
            self._turn(limit)
        except AssertionError as error:
            self.system.exit(self, Crash(error=str(error)))
        finally:
            current.cell = None
        return False


def test_a_flag_released_after_the_last_look_loses_a_wake_up() -> None:
    with pytest.raises(AssertionError, match="unread"):
        explore(lambda one: told_by_two(one, LooksTooEarly), 2)


def test_a_look_before_the_message_is_in_loses_it() -> None:
    with pytest.raises(AssertionError, match="unread"):
        explore(lambda one: told_and_killed(one, LooksBeforePosting), 2)


def test_a_flag_released_before_the_turn_lets_two_threads_in() -> None:
    with pytest.raises(AssertionError, match="two threads at once"):
        explore(lambda one: told_by_one(one, ReleasesTheFlagFirst, workers=2), 2)


class ForgetsAWish(IdleStep):
    """Does not look, after its run, whether it was woken meanwhile."""

    def run(self) -> None:
        self._wanted = False
        self._step()
        self._claimed.release()


class ReleasesItsFlagFirst(IdleStep):
    """Lets itself be queued again before its run is over, and looks at nothing else."""

    def run(self) -> None:
        self._claimed.release()
        self._step()


def test_a_wish_that_is_not_looked_at_after_the_run_is_lost() -> None:
    with pytest.raises(AssertionError, match="a wake-up was lost"):
        explore(lambda one: woken_by_two(one, ForgetsAWish), 1)


def test_an_idle_step_released_before_its_run_lets_two_threads_in() -> None:
    with pytest.raises(AssertionError, match="on two threads at once"):
        explore(lambda one: woken_by_two(one, ReleasesItsFlagFirst, 2), 1)
