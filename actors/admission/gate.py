"""The gate of recoveries: each is written down before anything of the task is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Draft, Lease, Record
from ...supervision.faults import hit
from ...supervision.lifecycle import Crash
from ...supervision.protocol import GiveUp, MayRestart, Restart
from ..events import Event, ProgressMade, RecoveryBegan
from .strikes import why_park

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Gate", "recoveries"]

MOST = 10_000  # recoveries of a task that are counted


class Gate:
    """Admission's part for crash loops, over the stream ``task/<id>/recovery``."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._waiting: dict[str, list[Callable[[Sequence[Record]], None]]] = {}
        self._seen: dict[str, Sequence[Record]] = {}  # what nobody has added to since
        self._began: dict[str, tuple[int, int]] = {}  # version and epoch, where last

    def may_restart(self, message: MayRestart) -> None:
        """Answer a family's supervisor: restart, or give up and be parked."""
        admission = self._admission
        task = message.supervisor.removeprefix("task/")
        supervisor = admission.house.address(message.supervisor)

        def found(records: Sequence[Record]) -> None:
            if admission.activation.is_over(task, message.incarnation):
                return  # its end was a strike of its own
            place = admission.state.tasks.get(task)
            if place is None or place.where != "active":
                supervisor.tell(GiveUp(child=message.child, reason="the task ended"))
                return
            reason = message.reason
            cause = type(reason).__name__
            if isinstance(reason, Crash):
                cause = reason.error
            if why := self.why_park(records):
                admission.park(task, f"{why}; last: {cause}", "resume")
                supervisor.tell(GiveUp(child=message.child, reason=why))
                return
            began = RecoveryBegan(
                task=task, epoch=place.epoch, cause=cause, actor=message.child
            )
            change = self.strike(task, place.epoch, len(records) + 1, began)
            seq = admission.house.journal.append([change])[-1].seq
            hit("recovery.began", place.agent)
            answer = Restart(child=message.child)
            admission.when_durable(seq, lambda: supervisor.tell(answer))

        self.with_strikes(task, found)

    def progressed(self, task: str) -> None:
        """The task got further: recoveries so far were not in vain."""
        admission = self._admission
        place = admission.state.tasks.get(task)
        if place is None:
            return

        def began(version: int, epoch: int) -> None:
            now = admission.place(task)  # it may have slept meanwhile
            if now is None or epoch > place.epoch:
                return
            made = ProgressMade(task=task)
            change = self.strike(task, now.epoch, version + 1, made)
            seq = admission.house.journal.append([change])[-1].seq
            admission.when_durable(seq, lambda: hit("recovery.progressed", place.agent))

        def found(records: Sequence[Record]) -> None:
            last = records[-1] if records else None
            if last is not None and last.type == "RecoveryBegan":
                began(len(records), last.epoch)

        last = self._began.get(task)
        if last is not None and task not in self._waiting:
            began(*last)
        else:
            self.with_strikes(task, found)

    def why_park(self, records: Sequence[Record]) -> str:
        """Why the task may not begin one more recovery, or nothing."""
        house = self._admission.house
        return why_park(records, now=house.now(), rules=house.baseline)

    def strike(
        self, task: str, epoch: int, version: int, *events: Event
    ) -> tuple[Lease, list[Draft]]:
        """The change that adds events to the task's recovery stream."""
        admission = self._admission
        self.forget(task)
        if isinstance(events[-1], RecoveryBegan):
            self._began[task] = version + len(events) - 1, epoch
        stream = f"task/{task}/recovery"
        lease = admission.house.journal.acquire(stream, epoch)
        return lease, [
            admission.draft(stream, version + place, event)
            for place, event in enumerate(events)
        ]

    def with_strikes(self, task: str, then: Callable[[Sequence[Record]], None]) -> None:
        """Read a task's recovery stream; one reader of it at a time may append."""
        seen = self._seen.pop(task, None)
        if seen is not None and task not in self._waiting:
            then(seen)
            return
        waiting = self._waiting.setdefault(task, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._read(task)

    def seen(self, task: str, records: Sequence[Record]) -> None:
        """Somebody has read the stream, behind every append made so far."""
        if task not in self._waiting:
            self._seen[task] = records

    def forget(self, task: str) -> None:
        """What is known of its stream is so no longer, or of no use."""
        self._seen.pop(task, None)
        self._began.pop(task, None)

    def _read(self, task: str) -> None:
        def found(records: Sequence[Record]) -> None:
            waiting = self._waiting[task]
            waiting.pop(0)(records)
            if waiting:
                self._read(task)
            else:
                del self._waiting[task]

        self._admission.read_about(
            lambda _: [task], lambda reader: recoveries(reader, task), found
        )


def recoveries(reader: Reader, task: str) -> list[Record]:
    """The records of its recovery stream; one that is damaged counts as a strike."""
    return [
        one if sound else msgspec.structs.replace(one, type="", body=b"{}")
        for one, sound in reader.examined(f"task/{task}/recovery", 0, MOST)
    ]
