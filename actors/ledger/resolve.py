"""How an unknown outcome is decided: by repeat, by probe, or by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from ..anchors import anchored
from ..events import EffectProbed, EffectRecorded, EffectResolved
from ..executor.executor import Outcome
from ..names import VERDICTS, effect
from ..tool import CannotTell, DidNotHappen, Happened
from .entry import Entry
from .work import as_text, probe_work, used

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["ProbeAgain", "Probed", "Resolver"]

REFUSED = 1.0  # seconds until a probe that was not let out is asked again
LONGEST_PAUSE = 60.0  # seconds between two looks at a worker that still runs
REPEATS = 3  # of an idempotent effect whose outcome stays unknown


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """A probe answered, raised, or did not answer in time."""

    op: int
    attempt: int
    asked: float
    outcome: Outcome


class ProbeAgain(msgspec.Struct, frozen=True, kw_only=True):
    """It is time to ask the probe of an attempt, or to ask it once more."""

    op: int
    attempt: int


class Resolver:
    """The ledger's part for unknown outcomes; one effect class, one way (design §4).

    A read is repeated. An idempotent effect is sent again with its key, three times at
    most. A `once` effect is probed: an absence is believed only `settle` seconds after
    its worker is known to have ended, and never while the worker lives. Without a
    probe, or without a word from it, a person is asked. The word of a person decides
    at any time, and is looked for first; but no absence is believed, whoever says so,
    while the worker lives.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ended_at: dict[int, float] = {}
        self._asking: set[tuple[int, int]] = set()

    def worker_ended(self, op: int) -> None:
        """The worker of the newest attempt is known to have ended now."""
        self._ended_at[op] = self._ledger.house.monotonic()

    def may_repeat(self, entry: Entry) -> bool:
        """Whether an unknown attempt may be followed by another without a decision.

        One that a crash cut off may, however many there were: crash loops are bounded
        elsewhere, and it need not be this effect that ends the process.
        """
        if entry.status != "unknown" or entry.effect != "idempotent":
            return False
        return entry.by == "recovery" or entry.attempt <= REPEATS

    def resolve(self, entry: Entry) -> None:
        """Begin, or go on, with deciding an unknown attempt."""
        ledger = self._ledger
        if entry.effect == "read" or self.may_repeat(entry):
            ledger.settle(entry, "unknown", entry.usage or None, fill=True)
            return
        self._look(entry, "decide")

    def consult(self) -> None:
        """A person may have said how an unknown attempt ended."""
        for entry in self._ledger.state.entries.values():
            if entry.status == "unknown" and entry.effect != "read":
                self._look(entry, "wait")

    def again(self, op: int, attempt: int) -> None:
        """The pause before a question is over."""
        entry = self._unknown(op, attempt)
        if entry is not None:
            self._look(entry, "probe")

    def _look(self, entry: Entry, then: Literal["decide", "probe", "wait"]) -> None:
        """Read what a person said of this attempt; go on with `then` if nobody did."""
        ledger = self._ledger
        key, op, attempt = effect(ledger.task, entry.op), entry.op, entry.attempt

        def found(word: bytes | None) -> None:
            now = self._unknown(op, attempt)
            if now is not None:
                self._go_on(now, word, then)

        ledger.read(lambda reader: reader.row(VERDICTS, key), found)

    def _unknown(self, op: int, attempt: int) -> Entry | None:
        """The entry of an attempt whose outcome nobody knows, if it is one still."""
        entry = self._ledger.state.entries.get(op)
        if entry is None or entry.attempt != attempt or entry.status != "unknown":
            return None
        return entry

    def _go_on(self, entry: Entry, word: bytes | None, then: str) -> None:
        """Take a person's word, or go on without one."""
        if word is not None:
            said = msgspec.json.decode(word, type=EffectResolved)
            if said.attempt == entry.attempt:
                self._said(entry, said, then)
                return
        if then == "decide":
            self._ask(entry)
        elif then == "probe":
            self._probe(entry)

    def _said(self, entry: Entry, said: EffectResolved, then: str) -> None:
        if said.happened or not self._worker_lives(entry):
            who = said.by or "somebody"
            self._decided(entry, happened=said.happened, result=said.result, who=who)
        elif then == "probe" or (entry.op, entry.attempt) not in self._asking:
            self._asking.add((entry.op, entry.attempt))
            self._await_worker(entry)

    def _await_worker(self, entry: Entry) -> None:
        wait = min(2.0**entry.probes, LONGEST_PAUSE)
        self._later(entry, "its worker still runs, whatever a person says", wait)

    def _ask(self, entry: Entry) -> None:
        """Ask the probe, in its time; or a person, where there is none."""
        ledger = self._ledger
        tool = ledger.tool_of(entry)
        if tool is None or tool.probe is None:
            ledger.answer(entry, ask=True)
        elif (entry.op, entry.attempt) not in self._asking:
            self._asking.add((entry.op, entry.attempt))
            if tool.probe_after and not entry.probes:
                again = ProbeAgain(op=entry.op, attempt=entry.attempt)
                ledger.after(tool.probe_after, again)
            else:
                self._probe(entry)

    def probed(self, message: Probed) -> None:
        """Weigh what the probe said."""
        entry = self._unknown(message.op, message.attempt)
        if entry is None:
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

    def _worker_lives(self, entry: Entry) -> bool:
        ledger = self._ledger
        key = ledger.work_key(entry.op, entry.attempt)
        return ledger.house.executor.worker_lives(key)

    def _probe(self, entry: Entry) -> None:
        ledger = self._ledger
        house = ledger.house
        if self._worker_lives(entry):
            self._unsure(entry, "its worker still runs")
            return
        self._ended_at.setdefault(entry.op, house.monotonic())
        tool = ledger.tool_of(entry)
        assert tool is not None
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
        tool = self._ledger.tool_of(entry)
        assert tool is not None
        return self._ended_at[entry.op] + tool.settle

    def _decided(
        self, entry: Entry, *, happened: bool, result: str, who: str = ""
    ) -> None:
        """Record how an attempt ended, by the word of `who` or of the probe."""
        ledger = self._ledger
        self._asking.discard((entry.op, entry.attempt))
        tool = ledger.tool_of(entry)
        anchors = anchored(tool, result, {}, entry.op) if happened else {}
        result, blob, blobs = ledger.kept(tool, result, entry.op)
        absent = f"{who} says so" if who else "the probe found nothing"
        ledger.append(
            EffectRecorded(
                op=entry.op,
                attempt=entry.attempt,
                status="completed" if happened else "failed",
                by="person" if who else "probe",
                result=result,
                blob=blob,
                error="" if happened else f"surely not done: {absent}",
                usage=used(entry.kind, entry.name, 0.0) if happened else {},
                anchors=anchors,
                who=who,
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
