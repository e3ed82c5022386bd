"""A supervisor: OTP's rules over actors that start, stop and crash on their own time.

Every event changes the state of one child; `_advance` then takes the next step that
the order of the children allows. Nothing here waits.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from .actor import Actor
from .child import Child, Status, error_text, refuse
from .dues import Dues, Tick, What
from .lifecycle import SHUTDOWN, Crash, Down, Exited, Reason, Shutdown, Started, Up
from .protocol import GiveUp, MayRestart, Restart, StartChild, StopChild
from .spec import SupervisorSpec

__all__ = ["Supervisor", "SupervisorFailed"]

PENDING = (Status.DUE, Status.ASKING)  # by identity: an Enum's hash is Python
GATE_RETRY = 5.0  # seconds without an answer, after which the gate is asked again


class SupervisorFailed(Exception):
    """A supervisor could not keep its children up; its own supervisor decides."""


class Supervisor(Actor):
    """Keeps the children of its spec up, or crashes itself for its own supervisor.

    Counts as up when its children are; stops when they have stopped, in reverse order.
    """

    ready_when_started: ClassVar[bool] = False

    def __init__(self, spec: SupervisorSpec) -> None:
        super().__init__()
        self._spec = spec
        self._children = {child.name: Child(child) for child in spec.children}
        self._dynamic = spec.strategy == "dynamic"
        self._after_its_end: dict[str, list[StartChild]] = {}
        self._restarts: deque[float] = deque()  # monotonic seconds
        self._dues = Dues(self)
        self._up = False
        self._closing: Reason | None = None

    def started(self) -> None:
        """Start the first child; the others follow as it comes up."""
        if self._spec.gate is not None:
            self.monitor(self.system.address(self._spec.gate))
        self._advance()

    def asked_to_stop(self, reason: Reason) -> None:
        """Stop the children, then end."""
        self._close(reason)

    def receive(self, message: Any) -> None:
        """Hear of children, timers, the gate, and, if dynamic, of new children."""
        match message:
            case Started(child=name, incarnation=incarnation):
                self._on_started(self._children[name], incarnation)
            case Exited(child=name, reason=reason):
                self._on_exited(self._children[name], reason)
                for start in self._after_its_end.pop(name, ()):
                    self._on_start_child(start)
            case Tick():
                for child, what in self._dues.over():
                    self._on_due(child, what)
            case Restart(child=name):
                self._on_restart(name)
            case GiveUp(child=name, reason=why):
                self._on_give_up(name, why)
            case Up():
                self._on_gate_up()
            case Down():
                pass
            case StartChild() if self._dynamic:
                self._on_start_child(message)
            case StopChild(name=name) if self._dynamic:
                self._on_stop_child(name)
            case _:
                kind = type(message).__name__
                self.system.log("message.unexpected", name=self.name, kind=kind)

    # Children start and end

    def _on_started(self, child: Child, incarnation: int) -> None:
        child.incarnation = incarnation
        if child.status is not Status.STARTING:
            return
        self._dues.drop(child)
        child.status = Status.RUNNING
        child.was_up = True
        child.up_since = self.system.clock.monotonic()
        child.answer()
        self._advance()

    def _on_exited(self, child: Child, reason: Reason) -> None:
        self._dues.drop(child)
        before, child.status = child.status, Status.ENDED
        if self._closing is not None:
            child.answer_failed("its supervisor is stopping")
        elif before in (Status.DOOMED, Status.STOPPING):
            self._on_stopped(child)
        elif before is Status.STARTING and not child.was_up:
            self._on_first_start_failed(child, reason)
        elif before is Status.STARTING:
            self._plan_restart(child, 0.0, reason)
        elif child.wants_restart(reason):
            up_for = self.system.clock.monotonic() - child.up_since
            self._plan_restart(child, up_for, reason)
        else:
            self._on_ended(child)
        self._advance()

    def _on_stopped(self, child: Child) -> None:
        if self._dynamic:
            child.answer_failed("it was stopped")
            del self._children[child.name]
        elif child.spec.restart != "temporary":
            child.status = Status.IDLE

    def _on_first_start_failed(self, child: Child, reason: Reason) -> None:
        error = error_text(reason)
        if self._dynamic:
            del self._children[child.name]
            child.answer_failed(error)
        else:
            self._close(Crash(error=f"{child.name} did not start: {error}"))

    def _on_ended(self, child: Child) -> None:
        if self._dynamic:
            del self._children[child.name]
        if not child.spec.significant:
            return
        all_ended = all(
            other.status is Status.ENDED
            for other in self._children.values()
            if other.spec.significant
        )
        if all_ended or self._spec.auto_shutdown == "any_significant":
            self._be_up()  # ending on purpose is no failed start
            self._close(Shutdown(detail=f"{child.name} ended"))

    # Restarts

    def _plan_restart(self, child: Child, up_for: float, reason: Reason) -> None:
        child.crashes = self._spec.backoff.count(child.crashes, up_for)
        child.reason = reason
        if self._is_over_limit():
            limit = f"over {self._spec.intensity} restarts in {self._spec.period:g} s"
            self._log_gave_up(child, limit)
            child.answer_failed(limit)
            self._close(Crash(error=f"{child.name}: {limit}; {error_text(reason)}"))
            return
        delay = self._spec.backoff.delay(child.crashes, self.system.dispatcher.random)
        self.system.log(
            "supervisor.restarting",
            name=self.name,
            child=child.name,
            delay=round(delay, 3),
            count=child.crashes,
            error=error_text(reason),
        )
        child.status = Status.DUE
        self._dues.set(child, delay, "restart")
        for other in self._affected_by(child):
            if other.status in (Status.STARTING, Status.RUNNING):
                self._doom(other)
            elif other.status is Status.ENDED and other.spec.restart != "temporary":
                other.status = Status.IDLE

    def _is_over_limit(self) -> bool:
        if self._spec.intensity is None:
            return False
        now = self.system.clock.monotonic()
        self._restarts.append(now)
        while now - self._restarts[0] > self._spec.period:
            self._restarts.popleft()
        return len(self._restarts) > self._spec.intensity

    def _affected_by(self, child: Child) -> list[Child]:
        children = list(self._children.values())
        match self._spec.strategy:
            case "one_for_all":
                return [other for other in children if other is not child]
            case "rest_for_one":
                return children[children.index(child) + 1 :]
            case "one_for_one" | "dynamic":
                return []

    def _on_due(self, child: Child, what: What) -> None:
        match what:
            case "restart" if self._spec.gate is not None:
                self._ask(child, self._spec.gate)
            case "restart":
                self._allow(child)
            case "start":
                limit = f"{child.spec.start_timeout:g} s"
                self._kill(child, f"killed: its start took over {limit}")
            case "stop":
                limit = f"{child.spec.shutdown:g} s"
                self._kill(child, f"killed: its stop took over {limit}")

    def _ask(self, child: Child, gate: str) -> None:
        child.status = Status.ASKING
        self.system.log("supervisor.asked", name=self.name, child=child.name, gate=gate)
        question = MayRestart(
            supervisor=self.name,
            incarnation=self.incarnation,
            child=child.name,
            reason=child.reason,
        )
        self.system.address(gate).tell(question)
        self._dues.set(child, GATE_RETRY, "restart")

    def _on_gate_up(self) -> None:
        for child in list(self._children.values()):
            if child.status is Status.ASKING and self._spec.gate is not None:
                self._ask(child, self._spec.gate)

    def _on_restart(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.status is Status.ASKING:
            self._allow(child)

    def _on_give_up(self, name: str, why: str) -> None:
        child = self._children.get(name)
        if child is not None and child.status is Status.ASKING:
            self._log_gave_up(child, why)
            self._be_up()  # ending on purpose is no failed start
            self._close(Shutdown(detail=why))

    def _allow(self, child: Child) -> None:
        self._dues.drop(child)
        child.status = Status.IDLE
        if self._dynamic or (self._up and self._spec.strategy == "one_for_one"):
            self._start_child(child)
        self._advance()

    # The next step

    def _advance(self) -> None:
        if self._dynamic:
            self._advance_dynamic()
            return
        doomed: Child | None = None
        starting, all_up = False, True
        for child in self._children.values():
            status = child.status
            if status is Status.STOPPING:
                return
            if status is Status.DOOMED:
                doomed = child  # the last of them stops first
            elif status is Status.STARTING:
                starting = True
            all_up = all_up and (child.was_up or status is Status.ENDED)
        if doomed is not None:
            self._stop_child(doomed)
        elif self._closing is not None:
            self._end(self._closing)
        elif not starting and (following := self._next_to_start()) is not None:
            self._start_child(following)
        elif all_up:
            self._be_up()

    def _next_to_start(self) -> Child | None:
        """The first that may start now; nobody is starting."""
        first: Child | None = None
        for child in self._children.values():
            if child.status is Status.IDLE and first is None:
                first = child
                if self._spec.strategy != "one_for_all":
                    return first
            elif child.status in PENDING and self._spec.strategy != "one_for_one":
                return None
        return first

    def _advance_dynamic(self) -> None:
        if self._closing is None:
            self._be_up()
            return
        # All at once, as OTP does for children of one kind: they do not know each
        # other, and a thousand of them in a row would take a thousand timeouts.
        for child in reversed(list(self._children.values())):
            if child.status is Status.DOOMED:
                self._stop_child(child)
            elif child.status is Status.ENDED:
                del self._children[child.name]
        if not self._children:
            self._end(self._closing)

    def _be_up(self) -> None:
        if not self._up:
            self._up = True
            self.ready()

    def _start_child(self, child: Child) -> None:
        child.status = Status.STARTING
        self._dues.set(child, child.spec.start_timeout, "start")
        try:
            self.system.spawn(child.name, child.spec.factory, self.address)
        except ValueError as error:
            # The name is another actor's: a failed start, and not ours to stop.
            self._on_exited(child, Crash(error=str(error)))

    def _stop_child(self, child: Child) -> None:
        child.status = Status.STOPPING
        if child.spec.shutdown == 0:
            self._kill(child, "killed: it may take no time to stop")
        else:
            self.system.stop(child.name, SHUTDOWN)
            self._dues.set(child, child.spec.shutdown, "stop")

    def _kill(self, child: Child, error: str) -> None:
        self.system.kill(child.name, Crash(error=error))

    def _doom(self, child: Child) -> None:
        self._dues.drop(child)
        child.status = Status.DOOMED

    def _close(self, reason: Reason) -> None:
        """Stop all children in reverse order, then end; the first reason counts."""
        if self._closing is not None:
            return
        self._closing = reason
        for child in self._children.values():
            match child.status:
                case Status.STARTING | Status.RUNNING:
                    self._doom(child)
                case Status.IDLE | Status.DUE | Status.ASKING:
                    self._dues.drop(child)
                    child.status = Status.ENDED
                    child.answer_failed("its supervisor is stopping")
                case _:
                    pass
        self._advance()

    def _end(self, reason: Reason) -> None:
        if isinstance(reason, Crash):
            raise SupervisorFailed(reason.error)
        self.stop(reason)

    # Dynamic children

    def _on_start_child(self, message: StartChild) -> None:
        name, caller = message.spec.name, message.reply_to
        child = self._children.get(name)
        if self._closing is not None:
            refuse(caller, name, "its supervisor is stopping")
        elif child is not None and self._is_ending(child):
            self._after_its_end.setdefault(name, []).append(message)
        else:
            if child is None:
                child = self._children[name] = Child(message.spec)
            if caller is not None:
                child.callers.append(caller)
            if child.status is Status.IDLE:
                self._start_child(child)
            elif child.status is Status.RUNNING:
                child.answer()

    def _is_ending(self, child: Child) -> bool:
        """Whether it stops, or has ended and its `Exited` is still to come."""
        alive = child.status in (Status.STARTING, Status.RUNNING)
        ended = alive and not self.system.is_running(child.name)
        return ended or child.status is Status.STOPPING

    def _on_stop_child(self, name: str) -> None:
        child = self._children.get(name)
        if child is None or self._closing is not None:
            return
        match child.status:
            case Status.STARTING | Status.RUNNING:
                self._doom(child)
                self._stop_child(child)
            case Status.DUE | Status.ASKING:
                self._dues.drop(child)
                child.answer_failed("it was stopped")
                del self._children[name]
            case _:
                pass

    def _log_gave_up(self, child: Child, reason: str) -> None:
        self.system.log(
            "supervisor.gave_up", name=self.name, child=child.name, reason=reason
        )
