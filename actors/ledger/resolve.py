"""How an unknown outcome is decided: by repeat, by probe, or by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..events import EffectProbed, EffectRecorded
from ..executor.executor import Outcome
from ..tool import CannotTell, DidNotHappen, Happened
from .entry import Entry
from .work import as_text, probe_work, used

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["ProbeAgain", "Probed", "Resolver"]

REFUSED = 1.0  # seconds until a probe that was not let out is asked again
REPEATS = 3  # of an idempotent effect whose outcome stays unknown


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """A probe answered, raised, or did not answer in time."""

    op: int
    attempt: int
    asked: float
    outcome: Outcome


class ProbeAgain(msgspec.Struct, frozen=True, kw_only=True):
    """It is time to ask the probe of an attempt once more."""

    op: int
    attempt: int


class Resolver:
    """The ledger's part for unknown outcomes; one effect class, one way (design §4).

    A read is repeated. An idempotent effect is sent again with its key, three times at
    most. A `once` effect is probed: an absence is believed only `settle` seconds after
    its worker is known to have ended, and never while the worker lives. Without a
    probe, or without a word from it, a person is asked.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ended_at: dict[int, float] = {}
        self._asking: set[tuple[int, int]] = set()

    def worker_ended(self, op: int) -> None:
        """The worker of the newest attempt is known to have ended now."""
        self._ended_at[op] = self._ledger.house.monotonic()

    def may_repeat(self, entry: Entry) -> bool:
        """Whether an unknown attempt may be followed by another without a decision."""
        if entry.status != "unknown":
            return False
        return entry.effect == "idempotent" and entry.attempt <= REPEATS

    def resolve(self, entry: Entry) -> None:
        """Begin, or go on, with deciding an unknown attempt."""
        ledger = self._ledger
        if entry.effect == "read" or self.may_repeat(entry):
            ledger.settle(entry, "unknown", None)
            return
        tool = ledger.agent.tools.get(entry.name)
        if tool is None or tool.probe is None:
            ledger.answer(entry, ask=True)
        elif (entry.op, entry.attempt) not in self._asking:
            self._asking.add((entry.op, entry.attempt))
            self._probe(entry)

    def again(self, op: int, attempt: int) -> None:
        """The pause between two questions is over."""
        entry = self._ledger.state.entries.get(op)
        if entry is not None and entry.attempt == attempt and entry.status == "unknown":
            self._probe(entry)

    def probed(self, message: Probed) -> None:
        """Weigh what the probe said."""
        entry = self._ledger.state.entries.get(message.op)
        if (
            entry is None
            or entry.attempt != message.attempt
            or entry.status != "unknown"
        ):
            return
        if message.outcome.refused:  # nobody was asked: the runtime is closing
            again = ProbeAgain(op=message.op, attempt=message.attempt)
            self._ledger.after(REFUSED, again)
            return
        verdict = message.outcome.value
        match verdict:
            case Happened(result=result):
                self._decided(entry, happened=True, result=as_text(result))
            case DidNotHappen():
                wait = self._believed_at(entry) - message.asked
                if wait <= 0:
                    self._decided(entry, happened=False, result="")
                else:
                    self._later(entry, "did not happen, so far", wait)
            case CannotTell(why=why):
                self._unsure(entry, f"cannot tell: {why}")
            case _:
                said = message.outcome.error or f"answered {type(verdict).__name__}"
                self._unsure(entry, said)

    def _probe(self, entry: Entry) -> None:
        ledger = self._ledger
        house = ledger.house
        if house.executor.worker_lives(ledger.work_key(entry.op, entry.attempt)):
            self._unsure(entry, "its worker still runs")
            return
        self._ended_at.setdefault(entry.op, house.monotonic())
        tool = ledger.agent.tools[entry.name]
        address, asked = ledger.address, house.monotonic()

        def deliver(outcome: Outcome) -> None:
            address.tell(
                Probed(op=entry.op, attempt=entry.attempt, asked=asked, outcome=outcome)
            )

        work = probe_work(
            tool,
            ledger.task,
            entry,
            tool.parse(entry.arguments),
            timeout=house.baseline.probe_timeout,
            now=house.now(),
            deliver=deliver,
        )
        ledger.when_durable(ledger.last_seq, lambda: house.executor.run(work))

    def _believed_at(self, entry: Entry) -> float:
        tool = self._ledger.agent.tools[entry.name]
        return self._ended_at[entry.op] + tool.settle

    def _decided(self, entry: Entry, *, happened: bool, result: str) -> None:
        ledger = self._ledger
        self._asking.discard((entry.op, entry.attempt))
        blobs: tuple[bytes, ...] = ()
        blob = ""
        if happened and len(result.encode()) > ledger.house.baseline.big_value:
            blobs = (result.encode(),)
            blob, result = ledger.big(result)
        ledger.append(
            EffectRecorded(
                op=entry.op,
                attempt=entry.attempt,
                status="completed" if happened else "failed",
                by="probe",
                result=result,
                blob=blob,
                error="" if happened else "surely not done: the probe found nothing",
                usage=used(entry.kind, entry.name, 0.0) if happened else {},
            ),
            blobs=blobs,
        )
        ledger.decide(ledger.state.entries[entry.op])

    def _unsure(self, entry: Entry, answer: str) -> None:
        if entry.probes + 1 >= self._ledger.house.baseline.probe_attempts:
            self._asking.discard((entry.op, entry.attempt))
            self._ledger.answer(entry, ask=True)
            return
        self._later(entry, answer, float(2**entry.probes))

    def _later(self, entry: Entry, answer: str, wait: float) -> None:
        ledger = self._ledger
        ledger.append(
            EffectProbed(
                op=entry.op,
                attempt=entry.attempt,
                answer=answer,
                again_at=ledger.house.now() + wait,
            )
        )
        ledger.after(wait, ProbeAgain(op=entry.op, attempt=entry.attempt))
