"""The same actors on one thread, in an order drawn from a seed, in virtual time."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from .clock import VirtualClock
from .lifecycle import Crash
from .threads import Job, log_job_failed, run_guarded, run_job
from .turn import current

if TYPE_CHECKING:
    from .cell import Cell
    from .dispatch import Background, Mailbox, Timer
    from .promise import Promise

__all__ = ["SimulatedDispatcher"]

JOB_DELAY = 0.1  # virtual seconds a job waits at most for its thread
MAX_STEPS = 100_000


class SimulatedDispatcher:
    """A dispatcher that takes one step at a time; same seed, same schedule.

    A step is one message handled, one timer, one job, or one round of a background.
    Which comes next is drawn from the seed, and so is the sender whose oldest message
    an actor gets: order holds between one sender and one receiver only. Virtual time
    jumps to the next timer when nothing else can run. `trace` has a label per step.

    One thread only. `clock` lets a second dispatcher go on where a halted one stood.
    """

    def __init__(self, seed: int, clock: VirtualClock | None = None) -> None:
        self.clock = VirtualClock() if clock is None else clock
        self.trace: list[str] = []
        self.log: Callable[..., None] = _no_log
        self._chance = random.Random(seed)  # noqa: S311 -- a schedule, not a secret
        # Not from the schedule's numbers: a task more would change all that follows.
        self._tokens = random.Random(f"tokens {seed}")  # noqa: S311 -- as above
        self._ready: list[Cell] = []
        self._cells: dict[str, Cell] = {}
        self._jobs: list[tuple[str, Job]] = []
        self._woken: list[_SimulatedBackground] = []
        self._timers: list[tuple[float, int, _SimulatedTimer]] = []
        self._order = count()
        self._label = "outside"
        self._halted = False
        self._stepping = False

    def mailbox(self) -> Mailbox:
        """A mailbox that keeps each sender's messages in order, and no more."""
        return _SimulatedMailbox(self)

    def schedule(self, cell: Cell) -> None:
        """Make the cell one of those that may take the next step."""
        if not self._halted:
            self._ready.append(cell)
            self._cells[cell.name] = cell

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back, as a step of its own, once virtual time has come to it."""
        timer = _SimulatedTimer(callback)
        if not self._halted:
            due = self.clock.monotonic() + max(0.0, delay)
            heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def background(self, name: str, step: Callable[[], bool]) -> Background:
        """Each round of `step` is one step here."""
        self._check_open()
        return _SimulatedBackground(self, name, step)

    def when_idle(self, name: str, step: Callable[[], bool]) -> Background:
        """A background like others: between two turns is everywhere."""
        return self.background(name, step)

    def start_job(self, name: str, job: Job) -> None:
        """Run the job as one step, now or at a drawn time within 0.1 s."""
        self._check_open()
        delay = self._chance.choice((0.0, self._chance.random() * JOB_DELAY))
        self.call_later(delay, lambda: self._jobs.append((name, job)))

    def wait(self, promise: Promise, timeout: float | None) -> Any:
        """Take steps until the promise is done, nothing can run, or time is up.

        Raises RuntimeError from inside a step.
        """
        end = None if timeout is None else self.clock.monotonic() + timeout
        if timeout is not None:
            self.call_later(timeout, _nothing)
        while not promise.done and (end is None or self.clock.monotonic() < end):
            if not self.step():
                break
        if not promise.done:
            msg = f"no answer within {timeout} s of virtual time"
            raise TimeoutError(msg)
        return promise.get(0.0)

    def random(self) -> float:
        """A number in [0, 1), drawn from the seed."""
        return self._chance.random()

    def token(self) -> str:
        """Twelve hexadecimal digits, drawn from the seed.

        Dispatchers that work on one store in turn need seeds of their own.
        """
        return f"{self._tokens.getrandbits(48):012x}"

    def step(self) -> bool:
        """Take one step; False if there is none to take, now or later.

        Raises RuntimeError from inside a step: a simulated thread cannot block.
        """
        if self._stepping:
            msg = "a step was asked for inside a step: nothing simulated may block"
            raise RuntimeError(msg)
        self._stepping = True
        try:
            return self._step()
        finally:
            self._stepping = False
            self._label = "outside"

    @property
    def idle(self) -> bool:
        """Whether nothing can run before virtual time moves to the next timer."""
        self._drop_cancelled()
        runnable = self._ready or self._jobs or self._woken
        due = self._timers and self._timers[0][0] <= self.clock.monotonic()
        return not runnable and not due

    def _step(self) -> bool:
        self._drop_cancelled()
        ready, jobs, woken = len(self._ready), len(self._jobs), len(self._woken)
        due = self._timers and self._timers[0][0] <= self.clock.monotonic()
        choices = ready + jobs + woken + bool(due)
        if not choices:
            if not self._timers:
                return False
            self.clock.advance(self._timers[0][0] - self.clock.monotonic())
            self._run_timer()
            return True
        pick = self._chance.randrange(choices)
        if pick < ready:
            self._run_cell(self._ready.pop(pick))
        elif pick < ready + jobs:
            self._run_job(*self._jobs.pop(pick - ready))
        elif pick < ready + jobs + woken:
            self._run_background(self._woken.pop(pick - ready - jobs))
        else:
            self._run_timer()
        return True

    def run(
        self, until: Callable[[], bool] | None = None, max_steps: int = MAX_STEPS
    ) -> bool:
        """Take steps until `until()` holds (True) or there are none left (False).

        Raises RuntimeError after `max_steps`, with the last labels of the trace.
        """
        for _ in range(max_steps):
            if until is not None and until():
                return True
            if not self.step():
                return until is not None and until()
        msg = f"still running after {max_steps} steps: {self.trace[-5:]}"
        raise RuntimeError(msg)

    def run_for(self, seconds: float) -> None:
        """Take all steps of the next `seconds` of virtual time, and be there then."""
        reached: list[bool] = []
        self.call_later(seconds, lambda: reached.append(True))
        self.run(until=lambda: bool(reached))

    def crash(self, name: str) -> bool:
        """End the current incarnation of `name` as a crash; False if there is none."""
        cell = self._cells.get(name)
        if cell is None or cell.closed:
            return False
        self.trace.append(f"crash {cell}")
        return cell.system.exit(cell, Crash(error="simulated crash"))

    def halt(self) -> None:
        """Lose everything, as when the process dies: nothing runs here any more."""
        self.trace.append("halt")
        self._halted = True
        self._ready.clear()
        self._jobs.clear()
        self._woken.clear()
        self._timers.clear()
        self._cells.clear()

    def close(self, timeout: float) -> None:
        """End like a closed pool: nothing new starts."""
        self.halt()

    def _run_cell(self, cell: Cell) -> None:
        self._label = str(cell)
        mailbox = cell.queue
        assert isinstance(mailbox, _SimulatedMailbox)
        mailbox.taken = "-"
        again = cell.run(1)
        self.trace.append(f"{cell} {mailbox.taken}")
        if cell.closed:
            if self._cells.get(cell.name) is cell:
                del self._cells[cell.name]
        elif again:
            self.schedule(cell)

    def _run_job(self, name: str, job: Job) -> None:
        self._label = f"job {name}"
        self.trace.append(self._label)
        try:
            run_job(job)
        except BaseException as error:
            log_job_failed(self.log, name, error)

    def _run_background(self, background: _SimulatedBackground) -> None:
        self._label = f"background {background.name}"
        self.trace.append(self._label)
        run_guarded(self._label, background.round, self.log)

    def _run_timer(self) -> None:
        callback = heapq.heappop(self._timers)[2].callback
        self._label = f"timer @{self.clock.monotonic():.3f}"
        self.trace.append(self._label)
        if callback is not None:
            run_guarded("timer", callback, self.log)

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)

    def _check_open(self) -> None:
        if self._halted:
            msg = "the dispatcher is closed: make a new one"
            raise RuntimeError(msg)

    def sender(self) -> str:
        """Who speaks at the moment: an actor, a job, a timer, or the test."""
        return self._label if current.cell is None else str(current.cell)

    def choose(self, size: int) -> int:
        """A number below `size`, drawn from the seed."""
        return self._chance.randrange(size)

    def woken(self, background: _SimulatedBackground) -> None:
        """Make the background one of those that may take the next step."""
        if not self._halted and background not in self._woken:
            self._woken.append(background)


class _SimulatedMailbox:
    """One queue for each sender; who is heard next is drawn."""

    def __init__(self, dispatcher: SimulatedDispatcher) -> None:
        self._dispatcher = dispatcher
        self._queues: dict[str, deque[Any]] = {}
        self._size = 0
        self.taken = "-"

    def append(self, message: Any, /) -> None:
        """Put one message in behind the others of its sender."""
        self._queues.setdefault(self._dispatcher.sender(), deque()).append(message)
        self._size += 1

    def popleft(self) -> Any:
        """Take the oldest message of a drawn sender."""
        if not self._size:
            raise IndexError
        senders = list(self._queues)
        sender = senders[self._dispatcher.choose(len(senders))]
        queue = self._queues[sender]
        message = queue.popleft()
        if not queue:
            del self._queues[sender]
        self._size -= 1
        self.taken = f"{type(message).__name__} from {sender}"
        return message

    def __len__(self) -> int:
        return self._size


class _SimulatedTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Make it not happen; nothing if it has."""
        self.callback = None


class _SimulatedBackground:
    def __init__(
        self, dispatcher: SimulatedDispatcher, name: str, step: Callable[[], bool]
    ) -> None:
        self.name = name
        self._dispatcher = dispatcher
        self._step = step
        self._stopped = False

    def wake(self) -> None:
        """Have the step run again."""
        if not self._stopped:
            self._dispatcher.woken(self)

    def round(self) -> None:
        """One round of the step."""
        if not self._stopped and self._step():
            self._dispatcher.woken(self)

    def stop(self, timeout: float) -> bool:
        """Let the step run dry here and now, then end."""
        while not self._stopped and self._step():
            pass
        self._stopped = True
        return True


def _no_log(event: str, **fields: Any) -> None:
    """Stand in until a System gives its log."""


def _nothing() -> None:
    """A timer that only has virtual time come to it."""
