from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from perdure import NotSent
from perdure.actors.executor.executor import Executor, Outcome, Work
from perdure.actors.executor.loop import Loop
from perdure.supervision import VirtualClock
from perdure.supervision.threads import Job, run_job


class HandTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ByHand:
    """A dispatcher whose jobs and timers the test runs itself."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.jobs: list[Job] = []
        self.timers: list[HandTimer] = []
        self.log: Callable[..., None] = lambda event, **fields: None

    def call_later(self, delay: float, callback: Callable[[], None]) -> HandTimer:
        self.timers.append(HandTimer(callback))
        return self.timers[-1]

    def start_job(self, name: str, job: Job) -> None:
        self.jobs.append(job)

    def run(self) -> None:
        while self.jobs:
            run_job(self.jobs.pop(0))

    def ring(self) -> None:
        """All deadlines pass."""
        for timer in self.timers:
            if timer.callback is not None:
                timer.callback()


class Bench:
    def __init__(self, threads: int = 4, loop: Loop | None = None) -> None:
        self.hands = ByHand()
        self.told: list[Outcome] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.executor = Executor(
            self.hands,  # type: ignore[arg-type]
            threads=threads,
            loop=loop,
            log=lambda event, **fields: self.lines.append((event, fields)),
        )

    def work(self, call: Callable[[], Any], name: str = "w", **options: Any) -> Work:
        fields: dict[str, Any] = {
            "key": ("t", name),
            "name": name,
            "effect": "once",
            "call": call,
            "timeout": 5.0,
            "not_after": self.hands.clock.time() + 5.0,
            "deliver": self.told.append,
            "kept": True,
        }
        return Work(**{**fields, **options})

    def run(self, call: Callable[[], Any], **options: Any) -> Outcome:
        self.executor.run(self.work(call, **options))
        self.hands.run()
        return self.told[-1]


def raising(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_result_is_delivered_and_kept_until_it_is_forgotten(bench: Bench) -> None:
    outcome = bench.run(lambda: 7)
    assert (outcome.status, outcome.value) == ("completed", 7)
    assert bench.executor.status(("t", "w")) == "ended"
    assert bench.executor.outcome(("t", "w")) == outcome
    bench.executor.forget(("t", "w"))
    assert bench.executor.status(("t", "w")) == "absent"


def test_an_outcome_that_nobody_waits_for_is_not_kept(bench: Bench) -> None:
    bench.run(lambda: 7, kept=False)
    assert bench.executor.status(("t", "w")) == "absent"


def test_how_long_it_ran_is_measured(bench: Bench) -> None:
    assert bench.run(lambda: bench.hands.clock.advance(2.5)).seconds == 2.5


def test_past_its_deadline_an_outcome_is_unknown_and_a_late_one_moves_nothing(
    bench: Bench,
) -> None:
    alive: list[bool] = []

    def slow() -> str:
        bench.hands.clock.advance(6.0)
        bench.hands.ring()
        alive.append(bench.executor.worker_lives(("t", "w")))
        return "done after all"

    bench.run(slow)
    (only,) = bench.told
    assert (only.status, only.error) == ("unknown", "no answer within 5 s")
    assert alive == [True]
    assert not bench.executor.worker_lives(("t", "w"))
    assert bench.executor.outcome(("t", "w")) == only
    late = {"task": "t", "work": "w", "name": "w", "status": "completed", "detail": ""}
    assert bench.lines == [("effect.late", late)]


def test_a_forgotten_worker_is_let_go_when_it_ends(bench: Bench) -> None:
    def slow() -> None:
        bench.hands.ring()
        bench.executor.forget(("t", "w"))
        assert bench.executor.status(("t", "w")) == "ended"

    bench.run(slow)
    assert bench.executor.status(("t", "w")) == "absent"


def test_a_deadline_that_rings_too_late_changes_nothing(bench: Bench) -> None:
    bench.run(lambda: 1)
    bench.hands.ring()
    assert [one.status for one in bench.told] == ["completed"]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_what_would_end_a_process_is_an_outcome(
    bench: Bench, error: BaseException
) -> None:
    outcome = bench.run(raising(error))
    assert outcome.status == "unknown"
    assert outcome.error.startswith(type(error).__name__)
    assert bench.run(lambda: "next", name="n").value == "next"


def test_what_surely_did_not_happen_failed_without_having_started(
    bench: Bench,
) -> None:
    outcome = bench.run(raising(NotSent("no")))
    assert (outcome.status, outcome.started, outcome.error) == (
        "failed",
        False,
        "NotSent: no",
    )


def test_an_error_without_a_text_and_one_with_too_much_are_told(bench: Bench) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    assert bench.run(raising(Mute())).error == "Mute: (its text could not be made)"
    assert (
        bench.run(raising(ValueError("\ud800")), name="lone").error == "ValueError: ?"
    )
    long = bench.run(raising(ValueError("x" * 9_000)), name="long")
    assert len(long.error) == 2_000


def test_a_coroutine_without_a_loop_runs_on_the_worker(bench: Bench) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert bench.run(work, coroutine=True).value == "done"


def test_a_base_exception_in_a_coroutine_is_an_outcome(bench: Bench) -> None:
    async def work() -> None:
        raise SystemExit(3)

    assert bench.run(work, coroutine=True).error == "SystemExit: 3"


def test_work_whose_time_is_over_is_not_started(bench: Bench) -> None:
    # B39: the registration's `not_after` is checked just before the call.
    outcome = bench.run(lambda: pytest.fail("ran"), not_after=0.0)
    assert (outcome.status, outcome.started, outcome.refused) == (
        "failed",
        False,
        False,
    )


def test_work_of_an_owner_that_lost_its_task_is_not_started(bench: Bench) -> None:
    # P9
    outcome = bench.run(
        lambda: pytest.fail("ran"), forbidden=lambda: "the task has another owner"
    )
    assert (outcome.status, outcome.started, outcome.refused) == ("failed", False, True)
    assert outcome.error == "the task has another owner"


def test_one_of_a_key_runs_at_a_time(bench: Bench) -> None:
    calls: list[str] = []
    bench.executor.run(bench.work(lambda: calls.append("first")))
    bench.executor.run(bench.work(lambda: calls.append("second")))
    bench.hands.run()
    assert calls == ["first"]
    bench.executor.run(bench.work(lambda: calls.append("third")))
    bench.hands.run()
    assert calls == ["first"], "its outcome is not forgotten yet"


def test_more_work_than_threads_waits_in_order() -> None:
    bench = Bench(threads=2)
    order: list[int] = []
    for place in range(5):
        work = bench.work(lambda place=place: order.append(place), str(place))
        bench.executor.run(work)
    assert len(bench.hands.jobs) == 2
    assert bench.executor.running() == 5
    bench.hands.run()
    assert order == [0, 1, 2, 3, 4]
    assert bench.executor.running() == 0


def test_a_hung_worker_keeps_its_thread_and_the_others_go_on() -> None:
    bench = Bench(threads=2)
    done: list[str] = []

    def hung() -> None:
        bench.hands.ring()
        bench.hands.run()

    bench.executor.run(bench.work(hung, "hung"))
    for name in ("a", "b"):
        bench.executor.run(bench.work(lambda name=name: done.append(name), name))
    bench.hands.run()
    assert done == ["a", "b"]


def test_closing_refuses_what_waits_and_lets_what_runs_end() -> None:
    bench = Bench(threads=1)
    bench.executor.run(bench.work(lambda: "ran", "runs"))
    bench.executor.run(bench.work(lambda: pytest.fail("ran"), "waits"))
    bench.executor.close()
    (refused,) = bench.told
    assert (refused.key[1], refused.status, refused.refused) == (
        "waits",
        "failed",
        True,
    )
    bench.executor.run(bench.work(lambda: pytest.fail("ran"), "late"))
    bench.hands.run()
    assert [one.key[1] for one in bench.told] == ["waits", "runs"]


def test_after_closing_no_coroutine_is_started() -> None:
    loop = Loop()
    bench = Bench(loop=loop)
    bench.executor.close()
    before = threading.active_count()
    bench.executor.run(bench.work(lambda: pytest.fail("ran"), coroutine=True))
    assert threading.active_count() == before
    assert bench.told == []


class OnLoop:
    """An executor with a real event loop, and its outcomes one by one."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.bench = Bench(loop=self.loop)
        self.arrived = threading.Event()

    def run(self, call: Callable[[], Any], **options: Any) -> Outcome:
        outcomes: list[Outcome] = []

        def deliver(outcome: Outcome) -> None:
            outcomes.append(outcome)
            self.arrived.set()

        work = self.bench.work(call, coroutine=True, deliver=deliver, **options)
        self.bench.executor.run(work)
        assert self.arrived.wait(30.0)
        self.arrived.clear()
        return outcomes[0]


@pytest.fixture
def on_loop() -> Any:
    bench = OnLoop()
    yield bench
    bench.loop.close()


def test_coroutines_run_on_one_loop_whatever_they_raise(on_loop: OnLoop) -> None:
    async def exits() -> None:
        raise SystemExit(1)

    async def works() -> str:
        return threading.current_thread().name

    assert on_loop.run(exits, name="a").error == "SystemExit: 1"
    assert on_loop.run(works, name="b").value == "perdure-loop"


def test_a_coroutine_past_its_deadline_is_unknown_and_cancelled(
    on_loop: OnLoop,
) -> None:
    cancelled = threading.Event()
    hands = on_loop.bench.hands

    async def hangs() -> None:
        threading.Thread(target=hands.ring).start()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    outcome = on_loop.run(hangs, name="a")
    assert (outcome.status, outcome.error) == ("unknown", "no answer within 5 s")
    assert cancelled.wait(30.0)
