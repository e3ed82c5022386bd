"""The only door to the outside: registers, performs, records, settles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...storage.erasure import Erasure
from ...storage.reader import Reader
from ...storage.records import Draft, Lease, Loaded, Row, blob_digest
from ...supervision.faults import hit
from ...supervision.lifecycle import Down, Up
from ..agent import Agent
from ..anchors import anchored
from ..durable import Durable, Folded, Found
from ..events import EffectRecorded, Event, RestAsked
from ..evidence import READ, opener
from ..executor.executor import Outcome
from ..house import House
from ..loads import Loads
from ..names import account, ledger
from ..protocol import (
    Consult,
    Hold,
    Inquired,
    Perform,
    Performed,
    Recall,
    Recalled,
    Replied,
    Settle,
    SettleReply,
    Verified,
    Verify,
)
from ..requests import Overdue, Requests
from ..tool import Tool
from .door import Door, Ended
from .entry import Entry, LedgerState, apply, in_order
from .inside import Inside
from .keys import Keyed, Keys
from .known import Known
from .left import Left, left_rows
from .places import place_rows
from .reopened import Reopened
from .resolve import ProbeAgain, Probed, Resolver
from .rows import rows_of
from .work import Answered, Returned, used

__all__ = ["Ledger"]

SURELY_NOT = ("probe", "person", "recovery")  # whose `failed` says it did not run
PREVIEW = 1_000  # characters of a result that went to a blob


class Ledger(Durable[LedgerState]):
    """One task's effects. A registration is flushed before its worker starts (B39).

    On its start it asks the executor for what still runs or ended unrecorded; every
    other pending attempt was cut off and is unknown (B40).
    """

    label = "ledger"

    def __init__(
        self, house: House, task: str, epoch: int, agent: Agent, loads: Loads
    ) -> None:
        super().__init__(house, ledger(task), epoch, LedgerState(), loads)
        self.task = task
        self.loads = loads
        self.agent = agent
        self.requests = Requests(self)
        self.wanted: dict[int, Perform] = {}
        self.door = Door(self)
        self.keys = Keys(self)
        self.known = Known()
        self.left = Left(self)
        self.inside = Inside(self)
        self.reopened = Reopened(self)
        self.resolver = Resolver(self)

    def fold(self, state: LedgerState, event: Event) -> LedgerState:
        """Fold by the rules of entries."""
        return apply(state, event)

    def _load(self, reader: Reader) -> Loaded:
        loaded = super()._load(reader)
        self.left.load(reader, loaded)
        self.loads.read(reader)  # the others start after this one
        return loaded

    def append(
        self,
        *events: Event,
        rows: Sequence[Row] = (),
        blobs: Sequence[bytes] = (),
        also: Sequence[tuple[Lease, Sequence[Draft]]] = (),
        erasure: Erasure | None = None,
    ) -> int:
        """Append, with the rows that others look up."""
        changed = rows_of(self.task, self.state, events, self.agent)
        left = left_rows(self.task, self.state, events, self.agent)
        rows = [*rows, *changed, *place_rows(self.task, self.state, events), *left]
        seq = super().append(
            *events, rows=rows, blobs=blobs, also=also, erasure=erasure
        )
        self.left.note(left, self.state.step)
        for event in events:
            self.known.note(event, self.state)
        return seq

    def loaded(self, folded: Folded) -> None:
        """Decide what each pending attempt of an earlier incarnation is now."""
        self.known.begin(self.state)
        for entry in list(self.state.entries.values()):
            if entry.status != "pending":
                continue
            key = self.work_key(entry.op, entry.attempt)
            match self.house.executor.status(key):
                case "absent":
                    self._cut_off(entry)
                case "ended":
                    outcome = self.house.executor.outcome(key)
                    assert outcome is not None
                    self.ended(entry.op, entry.attempt, outcome)
                case "running":
                    pass  # its outcome is delivered to this name

    def handle(self, message: Any) -> None:
        """Serve the task; hear the executor and the account."""
        match message:
            case Perform():
                self.perform(message)
            case Ended(op=op, attempt=attempt, outcome=outcome):
                self.ended(op, attempt, outcome)
            case Inquired():
                self.inside.answered(message)
            case SettleReply(op=op, attempt=attempt):
                self._settled(op, attempt)
            case Verify(attempts=wanted):
                for one in wanted:
                    self._verify(one)
            case Recall(step=step, reply_to=reply_to):
                mine = [e for e in self.state.entries.values() if e.step == step]
                reply_to.tell(Recalled(entries=in_order(mine)))
            case Probed():
                self.resolver.probed(message)
            case Keyed():
                self.keys.keyed(message)
            case Consult():
                self.resolver.consult()
            case ProbeAgain(op=op, attempt=attempt):
                self.resolver.again(op, attempt)
            case Up(name=name):
                self.requests.up(name)
            case Overdue():
                self.requests.overdue()
            case Found():
                self.hear(message)
            case Down():
                pass

    def work_key(self, op: int, attempt: int) -> tuple[str, str]:
        """The executor's name for an attempt."""
        return self.task, f"{op}#{attempt}"

    # ── perform ──────────────────────────────────────────────────────────────────

    def perform(self, wanted: Perform) -> None:
        """Take an attempt through the door, or say how it ended."""
        self.wanted[wanted.op] = wanted
        entry = self.state.entries.get(wanted.op)
        if entry is not None and entry.attempt >= wanted.attempt:
            self.decide(entry)
        elif wanted.kind == "model":
            self.door.call_model(wanted)
        elif self.reopened.knows(wanted):
            self.door.call_tool(wanted)

    # ── record, settle, answer ───────────────────────────────────────────────────

    def ended(self, op: int, attempt: int, outcome: Outcome) -> None:
        """Record the outcome of an attempt, once."""
        entry = self.state.entries.get(op)
        if entry is None or entry.attempt != attempt:
            return
        never_ran = entry.status == "unknown" and not outcome.started
        if entry.status != "pending" and not never_ran:
            return
        recorded, blobs = self._recorded(entry, outcome)
        events: list[Event] = [recorded]
        if outcome.rest:
            until = self.house.now() + outcome.rest
            events.append(RestAsked(op=op, until=until))
        seq = self.append(*events, blobs=blobs)
        hit("effect.recorded", entry.name)
        key, executor = self.work_key(op, attempt), self.house.executor
        self.when_durable(seq, lambda: executor.forget(key))
        wanted = self.wanted.get(op)
        checkpoint = "nodes" if wanted is None else wanted.checkpoint
        if checkpoint == "every":
            self.snapshot("step_observed")
        elif blobs and checkpoint == "nodes":
            self.snapshot("a big result arrived")
        if not executor.worker_lives(key):
            self.resolver.worker_ended(op)
        self.decide(self.state.entries[op])

    def _recorded(
        self, entry: Entry, outcome: Outcome
    ) -> tuple[EffectRecorded, tuple[bytes, ...]]:
        found: dict[str, Any] = {}
        blobs: tuple[bytes, ...] = ()
        value = outcome.value
        if outcome.status != "completed":
            if outcome.started:
                found["usage"] = used(entry.kind, entry.name, outcome.seconds)
                if outcome.status == "unknown" or (
                    entry.kind == "model" and not outcome.turned_away
                ):
                    found["source"] = "unknown"  # it ran without figures
        elif isinstance(value, Answered):
            price, usage = self.agent.price, value.usage
            found["usage"] = used(entry.kind, entry.name, outcome.seconds, usage, price)
            found["source"] = usage.source
            found["result"] = value.text
        else:
            assert isinstance(value, Returned)
            tool = self.tool_of(entry)
            found["usage"] = used(entry.kind, entry.name, outcome.seconds)
            found["result"], found["blob"], blobs = self.kept(
                tool, value.text, entry.op
            )
            found["anchors"] = anchored(tool, value.text, value.anchors, entry.op)
        recorded = EffectRecorded(
            op=entry.op,
            attempt=entry.attempt,
            status=outcome.status,
            by="recovery" if outcome.refused else "run",
            error=outcome.error,
            **found,
        )
        return recorded, blobs

    def tool_of(self, entry: Entry) -> Tool | None:
        """The tool whose call an entry is; an undo has one of its own."""
        return self.agent.tool_of(entry.name, undo=entry.undoes is not None)

    def kept(
        self, known: Tool | None, text: str, op: int
    ) -> tuple[str, str, tuple[bytes, ...]]:
        """What a record shows of a tool's result; with digest and blob if it is cut."""
        most = known.max_result if known else None
        body = text.encode()
        small = len(body) <= self.house.baseline.big_value
        if small and (most is None or len(text) <= most):
            return text, "", ()
        digest = blob_digest(body)
        shown = text[: most or PREVIEW].encode()[: self.house.baseline.big_value]
        opened = f"; {opener(op)} opens it" if READ in self.agent.tools else ""
        note = (
            f"\n(cut: the whole result has {len(text)} characters, "
            f"SHA-256 {digest}{opened})"
        )
        return shown.decode("utf-8", "ignore") + note, digest, (body,)

    def _cut_off(self, entry: Entry) -> None:
        self.append(
            EffectRecorded(
                op=entry.op,
                attempt=entry.attempt,
                status="unknown",
                by="recovery",
                error="the process or its worker ended before an outcome was recorded",
            )
        )
        if not self.house.executor.worker_lives(self.work_key(entry.op, entry.attempt)):
            self.resolver.worker_ended(entry.op)
        message = Hold(op=entry.op, attempt=entry.attempt)
        self.house.address(account(self.task)).tell(message)

    def decide(self, entry: Entry) -> None:
        """Go on with an attempt from where its record stands."""
        match entry.status:
            case "completed" | "failed":
                # Nothing changes it any more: the account may pass the word on.
                self.settle(
                    entry,
                    None if entry.usage else "none",
                    entry.usage,
                    fill=entry.source == "unknown",
                    then=self._performed(entry, again=self._surely_not_run(entry)),
                )
            case "unknown":
                hold = Hold(op=entry.op, attempt=entry.attempt)
                self.house.address(account(self.task)).tell(hold)
                self.resolver.resolve(entry)

    def settle(
        self,
        entry: Entry,
        book: Any,
        amounts: Any,
        *,
        fill: bool = False,
        then: Performed | None = None,
    ) -> None:
        """Have the account settle an attempt; then the task is told how it stands.

        The account tells it `then`. What an account that crashes has not settled, its
        task asks for again: it is started anew as well.
        """
        message = Settle(
            op=entry.op,
            attempt=entry.attempt,
            book=book,
            amounts=amounts,
            fill=fill,
            beside=entry.beside,
            completed=entry.status == "completed" and entry.by == "run",
            reported=entry.source == "reported",
            name=entry.name,
            reply_to=self.address if then is None else self.wanted[entry.op].reply_to,
            then=then,
        )
        to = self.house.address(account(self.task))
        if then is None:
            self.requests.send(("settle", entry.op, entry.attempt), to, message)
        else:
            to.tell(message)

    def _settled(self, op: int, attempt: int) -> None:
        if not self.requests.answered(("settle", op, attempt)):
            return
        entry = self.state.entries.get(op)
        if entry is None or entry.attempt != attempt:
            return
        again = entry.cut_off and entry.status == "unknown"
        again = again or self._surely_not_run(entry)
        self.answer(entry, again=again or self.resolver.may_repeat(entry))

    @staticmethod
    def _surely_not_run(entry: Entry) -> bool:
        """Whether an attempt that was cut off is known not to have run."""
        return entry.cut_off and entry.status == "failed" and entry.by in SURELY_NOT

    def answer(self, entry: Entry, *, again: bool = False, ask: bool = False) -> None:
        """Tell the task how an attempt stands, where the task wants to know."""
        performed = self._performed(entry, again=again, ask=ask)
        if performed is not None:
            self.wanted[entry.op].reply_to.tell(performed)

    def _performed(
        self, entry: Entry, *, again: bool = False, ask: bool = False
    ) -> Performed | None:
        wanted = self.wanted.get(entry.op)
        if wanted is None or wanted.attempt != entry.attempt:
            return None
        status = entry.status
        assert status != "pending"
        replied = Replied(
            op=entry.op,
            attempt=entry.attempt,
            status=status,
            result=entry.result,
            error=entry.error,
            anchors=entry.anchors,
            by=entry.by,
            edited=entry.edited,
            who=entry.who,
            retry_at=entry.retry_at,
            arguments=entry.arguments,
        )
        return Performed(outcome=replied, again=again, ask=ask)

    # ── recovery ─────────────────────────────────────────────────────────────────

    def _verify(self, wanted: Perform) -> None:
        entry = self.state.entries.get(wanted.op)
        self.wanted[wanted.op] = wanted
        if entry is None or entry.attempt < wanted.attempt:
            decided: Any = "not_run"
        elif entry.status == "pending":
            decided = "running"
        else:
            self.decide(entry)
            return
        message = Verified(op=wanted.op, attempt=wanted.attempt, decided=decided)
        wanted.reply_to.tell(message)
