from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from perdure.supervision import (
    Actor,
    Background,
    Crash,
    PoolDispatcher,
    System,
    ending,
)
from perdure.supervision import worker as worker_module
from perdure.supervision.worker import MOST, TRUSTED, Trust

PATIENCE = 30.0  # seconds; only a failing test waits that long


class Does(Actor):
    def receive(self, message: Any) -> None:
        message(self)


def sync(address: Any) -> None:
    address.ask(lambda promise: lambda actor: promise.set(), timeout=PATIENCE)


def test_a_slow_turn_is_logged_with_its_stack(log: Any) -> None:
    logged = threading.Event()
    pool = PoolDispatcher(threads=1)

    def record(event: str, **fields: Any) -> None:
        log(event, **fields)
        if event == "turn.slow":
            logged.set()

    def dawdle(actor: Actor) -> None:
        assert logged.wait(PATIENCE)

    system = System(pool, record)
    system.spawn("a", Does).tell(dawdle)
    assert logged.wait(PATIENCE)
    sync(system.address("a"))
    pool.close(PATIENCE)
    (event,) = log.of("turn.slow")
    assert event["name"] == "a"
    assert event["seconds"] >= 0.1
    assert "in dawdle" in event["stack"]


def test_a_thread_that_a_killed_actor_keeps_is_replaced(log: Any) -> None:
    pool = PoolDispatcher(threads=1)
    system = System(pool, log)
    entered, release = threading.Event(), threading.Event()
    spoke: list[str] = []

    def hang(actor: Actor) -> None:
        entered.set()
        release.wait(PATIENCE)
        spoke.append(threading.current_thread().name)

    system.spawn("stuck", Does).tell(hang)
    assert entered.wait(PATIENCE)
    assert system.kill("stuck", Crash(error="killed"))
    sync(system.spawn("stuck", Does))
    assert spoke == []
    release.set()
    sync(system.address("stuck"))
    pool.close(PATIENCE)
    assert len(log.of("actor.crashed")) == 1


def test_work_queued_behind_a_long_turn_goes_to_the_other_thread(
    pool_system: System,
) -> None:
    freed = threading.Event()
    other = pool_system.spawn("other", Does)
    sync(other)

    def tell_and_wait(actor: Actor) -> None:
        other.tell(lambda actor: freed.set())
        outcome.append(freed.wait(PATIENCE))

    outcome: list[bool] = []
    address = pool_system.spawn("a", Does)
    address.tell(tell_and_wait)
    sync(address)
    assert outcome == [True]


def test_a_busy_actor_lets_others_have_their_turns(log: Any) -> None:
    pool = PoolDispatcher(threads=1)
    system = System(pool, log)

    class Endless(Actor):
        def receive(self, message: Any) -> None:
            self.address.tell(message)

    system.spawn("endless", Endless).tell("x")
    sync(system.spawn("b", Does))
    system.stop("endless")
    assert system.join("endless", PATIENCE)
    pool.close(PATIENCE)


def test_timers_come_in_order_and_not_when_cancelled(pool: PoolDispatcher) -> None:
    order: list[int] = []
    done = threading.Event()
    pool.call_later(0.03, lambda: (order.append(3), done.set()))
    pool.call_later(0.02, lambda: order.append(2)).cancel()
    pool.call_later(0.01, lambda: order.append(1))
    assert done.wait(PATIENCE)
    assert order == [1, 3]


def test_cancelled_timers_do_not_pile_up(pool: PoolDispatcher) -> None:
    for _ in range(10_000):
        pool.call_later(3600.0, lambda: None).cancel()
    assert len(pool._timers._heap) < 200


def test_a_timer_that_raises_does_not_stop_the_next(
    pool: PoolDispatcher, pool_system: System, log: Any
) -> None:
    done = threading.Event()
    pool.call_later(0.0, sys.exit)
    pool.call_later(0.01, done.set)
    assert done.wait(PATIENCE)
    assert [event["where"] for event in log.of("callback.failed")] == ["timer"]


def test_jobs_run_side_by_side_even_if_a_thread_is_idle(pool: PoolDispatcher) -> None:
    first = threading.Event()
    pool.start_job("first", first.set)
    assert first.wait(PATIENCE)
    barrier = threading.Barrier(5, timeout=PATIENCE)
    for number in range(4):
        pool.start_job(str(number), lambda: barrier.wait() and None)
    barrier.wait()


def test_idle_job_threads_take_the_next_jobs(pool: PoolDispatcher) -> None:
    threads: set[threading.Thread] = set()
    for _ in range(50):
        done = threading.Event()

        def job(done: threading.Event = done) -> None:
            threads.add(threading.current_thread())
            done.set()

        pool.start_job("job", job)
        assert done.wait(PATIENCE)
    assert len(threads) < 10


def quick_jobs(pool: PoolDispatcher, name: str) -> None:
    """Have the pool trust jobs of this name."""
    for _ in range(2 * TRUSTED):
        pool._trust.learn(name, 0.0)


def test_a_job_trusted_to_be_short_is_lent_its_thread_once_it_is_long(
    pool: PoolDispatcher, pool_system: System
) -> None:
    quick_jobs(pool, "job")
    begun, over = threading.Event(), threading.Event()
    names: list[str] = []

    def job() -> None:
        begun.set()
        over.wait(PATIENCE)
        names.append(threading.current_thread().name)

    pool.start_job("job", job)
    assert begun.wait(PATIENCE)
    sync(pool_system.spawn("a", Does))
    over.set()
    while not names:
        sync(pool_system.address("a"))
    assert names == ["perdure-job-job"]


def test_jobs_are_trusted_while_hardly_any_is_slow() -> None:
    trust = Trust()
    for _ in range(TRUSTED):
        assert not trust.has("read")
        trust.learn("read", 0.0001)
    assert trust.has("read")
    assert not trust.has("write")
    trust.learn("read", 0.1)
    assert not trust.has("read")
    for _ in range(1_000):
        trust.learn("read", 0.0001)
    for _ in range(MOST):
        assert trust.has("read")
        trust.learn("read", 0.1)
    assert not trust.has("read")


def test_one_thread_at_a_time_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "QUICK_JOB", PATIENCE)
    pool = PoolDispatcher(threads=2)
    monkeypatch.setattr(pool, "_look_at", lambda worker: None)  # however slow it is
    quick_jobs(pool, "job")
    running: list[int] = []
    most: list[int] = []
    done = threading.Event()

    def job(number: int) -> None:
        if number % 100 == 0:
            pool._wake_one()  # as the watchdog does where it sees no other way
        running.append(number)
        most.append(len(running))
        time.sleep(0)  # lets go of the interpreter
        running.remove(number)
        if number == 999:
            done.set()

    for number in range(1_000):
        pool.start_job("job", lambda number=number: job(number))
    assert done.wait(PATIENCE)
    pool.close(PATIENCE)
    assert max(most) == 1


def test_what_a_job_raises_is_logged_and_its_thread_lives_on(
    pool: PoolDispatcher, pool_system: System, log: Any
) -> None:
    logged = threading.Event()
    pool.log = lambda event, **fields: (log(event, **fields), logged.set())
    pool.start_job("export", sys.exit)
    assert logged.wait(PATIENCE)
    assert [event["name"] for event in log.of("job.failed")] == ["export"]


def test_a_background_runs_when_woken_until_done(pool: PoolDispatcher) -> None:
    rounds: list[int] = []
    done = threading.Event()

    def step() -> bool:
        rounds.append(len(rounds))
        if len(rounds) == 3:
            done.set()
        return len(rounds) < 3

    background = pool.background("writer", step)
    background.wake()
    assert done.wait(PATIENCE)
    assert background.stop(PATIENCE)
    assert rounds[:3] == [0, 1, 2]


@pytest.mark.parametrize("make", [PoolDispatcher.background, PoolDispatcher.when_idle])
def test_stopping_a_background_finishes_what_is_there(
    pool: PoolDispatcher, make: Callable[..., Background]
) -> None:
    left = list(range(100))

    def step() -> bool:
        left.pop()
        return bool(left)

    background = make(pool, "writer", step)
    assert background.stop(PATIENCE)
    assert left == []
    background.wake()  # nobody runs it any more


@pytest.mark.parametrize("make", [PoolDispatcher.background, PoolDispatcher.when_idle])
def test_a_step_that_raises_is_logged_and_the_next_wake_works(
    pool: PoolDispatcher, log: Any, make: Callable[..., Background]
) -> None:
    outcomes = [SystemExit(), None]
    done = threading.Event()
    failed = threading.Event()
    pool.log = lambda event, **fields: (log(event, **fields), failed.set())

    def step() -> bool:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        done.set()
        return False

    background = make(pool, "writer", step)
    background.wake()
    assert failed.wait(PATIENCE)
    background.wake()
    assert done.wait(PATIENCE)


def test_an_idle_step_runs_on_a_thread_that_takes_turns(
    pool: PoolDispatcher,
) -> None:
    done = threading.Event()
    names: list[str] = []

    def step() -> bool:
        names.append(threading.current_thread().name)
        if len(names) == 3:
            done.set()
        return len(names) < 3

    pool.when_idle("writer", step).wake()
    assert done.wait(PATIENCE)
    assert all(name.startswith("perdure-turns") for name in names)
    assert len(names) == 3


def test_an_idle_step_runs_though_there_is_always_a_turn(
    pool: PoolDispatcher, pool_system: System
) -> None:
    done = threading.Event()
    step = pool.when_idle("writer", lambda: bool(done.set()))

    class Busy(Actor):
        def started(self) -> None:
            self.address.tell("go on")

        def receive(self, message: str) -> None:
            step.wake()
            if not done.is_set():
                self.address.tell(message)

    pool_system.spawn("busy", Busy)
    assert done.wait(PATIENCE)


def test_an_idle_step_that_blocks_holds_up_no_turn(
    pool: PoolDispatcher, pool_system: System
) -> None:
    told, free = threading.Event(), threading.Event()

    class Hears(Actor):
        def receive(self, message: str) -> None:
            told.set()

    address = pool_system.spawn("hears", Hears)
    inside = threading.Event()

    def step() -> bool:
        inside.set()
        free.wait(PATIENCE)
        return False

    pool.when_idle("writer", step).wake()
    assert inside.wait(PATIENCE)
    address.tell("meanwhile")
    assert told.wait(PATIENCE)
    free.set()


def test_an_idle_step_in_hand_is_not_stopped_in_time(pool: PoolDispatcher) -> None:
    inside, free = threading.Event(), threading.Event()

    def step() -> bool:
        inside.set()
        free.wait(PATIENCE)
        return False

    background = pool.when_idle("writer", step)
    background.wake()
    assert inside.wait(PATIENCE)
    assert not background.stop(0.0)
    free.set()
    assert background.stop(PATIENCE)


def test_a_turn_that_hangs_holds_up_neither_turns_nor_jobs_nor_idle_steps(
    pool: PoolDispatcher, pool_system: System
) -> None:
    free, hangs = threading.Event(), threading.Event()

    class Hangs(Actor):
        def receive(self, message: str) -> None:
            hangs.set()
            free.wait(PATIENCE)

    class Hears(Actor):
        def receive(self, message: threading.Event) -> None:
            message.set()

    pool_system.spawn("hangs", Hangs).tell("now")
    address = pool_system.spawn("hears", Hears)
    assert hangs.wait(PATIENCE)
    for _ in range(50):  # jobs of a name that is trusted by then, too
        told, ran, stepped = (threading.Event() for _ in range(3))
        address.tell(told)
        pool.start_job("job", ran.set)
        pool.when_idle("step", lambda step=stepped: bool(step.set())).wake()
        assert told.wait(PATIENCE)
        assert ran.wait(PATIENCE)
        assert stepped.wait(PATIENCE)
    free.set()


def test_threads_that_turns_took_for_long_are_the_pools_again(
    pool: PoolDispatcher, pool_system: System
) -> None:
    class Slow(Actor):
        def receive(self, message: threading.Event) -> None:
            time.sleep(0.03)
            message.set()

    address = pool_system.spawn("slow", Slow)
    for _ in range(10):
        done = threading.Event()
        address.tell(done)
        assert done.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while pool._lent and time.monotonic() < deadline:
        time.sleep(0.001)
    assert pool._lent == 0
    assert len(pool._workers) <= 4


def test_closing_ends_the_threads_and_starts_nothing_new() -> None:
    before = set(threading.enumerate())
    pool = PoolDispatcher(threads=3)
    pool.background("writer", lambda: False)
    pool.close(PATIENCE)
    assert set(threading.enumerate()) <= before
    with pytest.raises(RuntimeError, match="closed"):
        pool.start_job("job", lambda: None)
    with pytest.raises(RuntimeError, match="closed"):
        pool.background("writer", lambda: False)


def test_every_thread_is_daemonic() -> None:
    before = set(threading.enumerate())
    pool = PoolDispatcher(threads=2)
    pool.background("writer", lambda: False)
    pool.start_job("job", lambda: None)
    ours = set(threading.enumerate()) - before
    assert ours
    assert all(thread.daemon for thread in ours)
    pool.close(PATIENCE)


FORKED = """
import os, sys
from perdure.supervision import *

class Idle(Actor):
    def receive(self, message): ...

pool = PoolDispatcher()
system = System(pool, lambda event, **fields: None)
address = system.spawn("a", Idle)
pid = os.fork()
if pid == 0:
    refused = []
    if not address.tell("x"):
        refused.append("tell")
    for name, call in [
        ("spawn", lambda: system.spawn("b", Idle)),
        ("call_later", lambda: pool.call_later(1.0, print)),
        ("background", lambda: pool.background("w", lambda: False)),
        ("start_job", lambda: pool.start_job("j", print)),
    ]:
        try:
            call()
        except RuntimeError as error:
            assert "forked" in str(error), error
            refused.append(name)
    pool.close(1.0)
    os.write(1, " ".join(refused).encode())
    os._exit(0)
os.waitpid(pid, 0)
assert address.tell("x")
"""


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env=dict(os.environ),
    )
    assert child.stdout == "tell spawn call_later background start_job"


def test_nothing_is_handed_out_once_the_main_thread_has_ended(
    pool: PoolDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending._Main, "over", True)
    with pytest.raises(RuntimeError, match="the main thread has ended"):
        pool.start_job("job", lambda: None)


def test_a_pool_has_at_least_one_thread() -> None:
    with pytest.raises(ValueError, match="at least one"):
        PoolDispatcher(threads=0)
