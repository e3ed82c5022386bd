"""Work that hangs: on a thread, and on the event loop."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure.actors.executor.beat import BEAT_PERIOD, BEATS_MISSED, Beat
from perdure.actors.executor.executor import ABANDONED_LIMIT, Executor, Outcome, Work
from perdure.actors.executor.loop import Loop
from perdure.supervision import VirtualClock
from perdure.supervision.threads import Job, run_job

LONG = 30.0  # seconds; only a failing test waits so long
BEATS = BEAT_PERIOD * (BEATS_MISSED + 1)  # seconds after which a blocked loop is known


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Clockwork:
    """A dispatcher whose time the test moves; its jobs are threads."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timers: list[tuple[float, int, Timer]] = []
        self.count = 0
        self.log: Callable[..., None] = lambda event, **fields: None

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        self.count += 1
        timer = Timer(callback)
        due = self.clock.monotonic() + delay
        heapq.heappush(self.timers, (due, self.count, timer))
        return timer

    def start_job(self, name: str, job: Job) -> None:
        threading.Thread(target=run_job, args=(job,), daemon=True).start()

    def pass_by(self, seconds: float) -> None:
        """Let time pass, with all timers of it in order."""
        end = self.clock.monotonic() + seconds
        while self.timers and self.timers[0][0] <= end:
            due, _, timer = heapq.heappop(self.timers)
            self.clock.advance(max(0.0, due - self.clock.monotonic()))
            if timer.callback is not None:
                timer.callback()
        self.clock.advance(end - self.clock.monotonic())

    def waiting(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self.timers)


class Host:
    """An executor with real threads and a real loop, and time in the test's hand."""

    def __init__(self, threads: int = 4) -> None:
        self.hands = Clockwork()
        self.loop = Loop()
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.told: dict[str, Outcome] = {}
        self.changed = threading.Condition()
        self.release = threading.Event()
        self.blocked: list[threading.Thread] = []
        self.executor = Executor(
            self.hands,  # type: ignore[arg-type]
            threads=threads,
            loop=self.loop,
            log=lambda event, **fields: self.lines.append((event, fields)),
        )

    def run(self, key: str, call: Callable[[], Any], **options: Any) -> None:
        def deliver(outcome: Outcome) -> None:
            with self.changed:
                self.told[key] = outcome
                self.changed.notify_all()

        fields: dict[str, Any] = {
            "key": ("t", key),
            "name": key,
            "effect": "once",
            "call": call,
            "timeout": 60.0,
            "not_after": self.hands.clock.time() + 3600.0,
            "deliver": deliver,
        }
        self.executor.run(Work(**{**fields, **options}))

    def outcome(self, name: str) -> Outcome:
        with self.changed:
            assert self.changed.wait_for(lambda: name in self.told, LONG), name
            return self.told[name]

    def blocker(self) -> tuple[threading.Event, Callable[[], Any]]:
        """A coroutine that blocks its loop until the test releases it."""
        entered = threading.Event()

        async def block() -> str:
            self.blocked.append(threading.current_thread())
            entered.set()
            self.release.wait(LONG)
            return "done after all"

        return entered, block

    def block(self, name: str) -> None:
        entered, block = self.blocker()
        self.run(name, block, coroutine=True)
        assert entered.wait(LONG)

    def ended(self, name: str) -> bool:
        """Wait until the worker has ended."""
        for _ in range(3_000):
            if not self.executor.worker_lives(("t", name)):
                return True
            threading.Event().wait(0.01)
        return False


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.release.set()
    made.executor.close()


# ── the event loop ───────────────────────────────────────────────────────────────


def test_a_loop_that_is_blocked_is_abandoned_and_replaced(host: Host) -> None:
    # design 4
    host.block("bad")
    # A sign that was given just before the block may be among those without an answer.
    host.hands.pass_by(BEATS - 2 * BEAT_PERIOD)
    assert host.told == {}
    host.hands.pass_by(2 * BEAT_PERIOD)
    bad = host.outcome("bad")
    assert (bad.status, bad.error) == ("unknown", "it blocked its event loop for 5 s")
    assert host.executor.worker_lives(("t", "bad")), "it may still act"
    assert host.lines == [("loop.abandoned", {"names": ["bad"], "running": 1})]

    async def fine() -> str:
        return "fine"

    host.run("good", fine, coroutine=True)
    assert host.outcome("good").value == "fine"


def test_what_ran_beside_it_is_in_doubt_and_is_cancelled_if_it_ever_can_be(
    host: Host,
) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def waits() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    host.run("beside", waits, coroutine=True)
    assert started.wait(LONG)
    host.block("bad")
    host.hands.pass_by(BEATS)
    beside = host.outcome("beside")
    assert beside.status == "unknown"
    assert beside.error == "another call blocked its event loop for 5 s"
    assert not cancelled.is_set()
    host.release.set()
    assert cancelled.wait(LONG)
    assert host.ended("beside")
    assert host.ended("bad")
    assert host.outcome("bad").status == "unknown", "a late answer moves nothing"
    host.blocked[0].join(LONG)
    assert not host.blocked[0].is_alive(), "the loop that was left ends"


def test_what_had_not_begun_yet_runs_on_the_next_loop_once(host: Host) -> None:
    runs: list[str] = []

    async def late() -> str:
        runs.append(threading.current_thread().name)
        return "ran"

    host.block("bad")
    host.run("late", late, coroutine=True)
    host.hands.pass_by(BEATS)
    assert host.outcome("late").value == "ran"
    host.release.set()
    assert host.ended("bad")
    assert len(runs) == 1


class Handed:
    """A loop that runs nothing until it is told to; and then, all that it was given."""

    def __init__(self) -> None:
        self.given: list[Callable[[], Any]] = []

    def submit(self, make: Callable[[], Any], name: str) -> Callable[[], None]:
        self.given.append(make)
        return lambda: None

    def ask(self, heard: Callable[[], None]) -> None:
        """Take no turn."""

    def blocked_by(self) -> None:
        """Tell nothing."""

    def abandon(self, ended: Callable[[], None]) -> None:
        self.take_turns()  # it goes on at the very moment that it is given up

    def take_turns(self) -> None:
        given, self.given = self.given, []
        for make in given:
            asyncio.run(make())


def test_a_loop_that_goes_on_while_it_is_abandoned_begins_nothing() -> None:
    # P2
    hands, loop, runs, told = Clockwork(), Handed(), [], []
    executor = Executor(
        hands,  # type: ignore[arg-type]
        threads=1,
        loop=loop,  # type: ignore[arg-type]
        log=lambda event, **fields: None,
    )

    async def act() -> None:
        runs.append(1)

    work = Work(
        key=("t", "late"),
        name="late",
        effect="once",
        call=act,
        timeout=60.0,
        not_after=hands.clock.time() + 3600.0,
        deliver=told.append,
        coroutine=True,
    )
    executor.run(work)
    hands.pass_by(BEATS)
    assert runs == []
    loop.take_turns()
    assert runs == [1]
    assert [one.status for one in told] == ["completed"]


def test_a_loop_that_takes_turns_is_left_alone_however_long_a_call_takes(
    host: Host,
) -> None:
    started, enough = threading.Event(), threading.Event()

    async def slow() -> str:
        started.set()
        while not enough.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0)
        return "slow"

    host.run("slow", slow, coroutine=True)
    assert started.wait(LONG)
    for _ in range(20):
        host.hands.pass_by(BEAT_PERIOD)
        turn = threading.Event()
        host.loop.ask(turn.set)
        assert turn.wait(LONG)
    enough.set()
    assert host.outcome("slow").value == "slow"
    assert host.lines == []


def test_an_idle_loop_is_asked_nothing(host: Host) -> None:
    # P12: no timer goes on for a runtime that does nothing.
    async def fine() -> str:
        return "fine"

    host.run("good", fine, coroutine=True)
    host.outcome("good")
    assert host.ended("good")
    host.hands.pass_by(60.0)  # one look when what it ran would have been due
    assert host.hands.waiting() == 0


def test_a_process_that_stood_still_has_not_missed_five_beats() -> None:
    hands = Clockwork()
    asked: list[Callable[[], None]] = []
    missed: list[float] = []
    beat = Beat(
        hands,  # type: ignore[arg-type]
        ask=asked.append,
        busy=lambda: True,
        missed=lambda: missed.append(hands.clock.monotonic()),
    )
    beat.watch()
    hands.clock.advance(3600.0)  # stopped, and its loop with it
    hands.pass_by(0.0)
    assert missed == []
    for heard in asked:
        heard()
    hands.pass_by(BEAT_PERIOD * BEATS_MISSED)
    assert missed == []
    hands.pass_by(BEAT_PERIOD)
    assert len(missed) == 1
    hands.pass_by(BEAT_PERIOD * (BEATS_MISSED - 1))
    assert len(missed) == 1, "the next loop begins with none missed"


# ── threads ──────────────────────────────────────────────────────────────────────


def hang(host: Host, name: str, work: str) -> None:
    entered = threading.Event()

    def stand() -> None:
        entered.set()
        host.release.wait(LONG)

    host.run(name, stand, name=work, timeout=5.0)
    assert entered.wait(LONG), name


def test_a_thread_past_its_deadline_gives_its_place_to_the_next() -> None:
    host = Host(threads=1)
    hang(host, "hung", "hangs")
    host.run("next", lambda: "ran")
    host.hands.pass_by(4.9)
    assert host.told == {}
    host.hands.pass_by(0.1)
    assert host.outcome("hung").status == "unknown"
    assert host.outcome("next").value == "ran"
    host.run("third", lambda: "ran")
    assert host.outcome("third").value == "ran"
    host.release.set()
    assert host.ended("hung")


def test_over_32_abandoned_threads_what_hung_is_refused_and_the_rest_runs() -> None:
    # design 4, P12
    host = Host(threads=2)
    for number in range(ABANDONED_LIMIT + 1):
        hang(host, f"h{number}", "hangs")
        host.hands.pass_by(5.0)
    host.run("again", lambda: pytest.fail("ran"), name="hangs")
    refused = host.outcome("again")
    assert (refused.status, refused.started, refused.refused) == (
        "failed",
        False,
        False,
    )
    assert refused.error.startswith("hangs was not run: it hung before, and 33 threads")
    host.run("other", lambda: "ran")
    assert host.outcome("other").value == "ran"
    killable = {"name": "hangs", "kill": lambda: None}
    host.run("isolated", lambda: "ran", **killable)
    assert host.outcome("isolated").value == "ran"
    host.release.set()
    assert all(host.ended(f"h{number}") for number in range(ABANDONED_LIMIT + 1))
    host.run("later", lambda: "ran", name="hangs")
    assert host.outcome("later").value == "ran", "none is abandoned any more"


def test_an_abandoned_loop_counts_as_a_thread_and_its_blocker_as_hung() -> None:
    host = Host(threads=2)
    for number in range(ABANDONED_LIMIT):
        hang(host, f"h{number}", "hangs")
        host.hands.pass_by(5.0)
    host.block("bad")
    host.hands.pass_by(BEATS)
    host.outcome("bad")

    async def never() -> None:
        pytest.fail("ran")

    host.run("bad again", never, name="bad", coroutine=True)
    assert "it hung before" in host.outcome("bad again").error
    host.release.set()
    assert host.ended("bad")
