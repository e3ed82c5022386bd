"""The ledger's state against a list of all that was ever registered."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from perdure.actors.events import EffectProbed, EffectRecorded, EffectRegistered
from perdure.actors.ledger import entry
from perdure.actors.ledger.entry import (
    LedgerState,
    apply,
    failures,
    find_same,
    leaving,
)

FEW = 3  # operations that the step keeps here
Effect = Literal["read", "idempotent", "once"]


class Known:
    """One operation, with all its attempts in one line."""

    def __init__(self, op: int, step: str, effect: Effect, key: str) -> None:
        self.op = op
        self.step = step
        self.effect = effect
        self.key = key
        self.again()

    attempt = 0
    status = ""
    by = ""
    probes = 0
    cut_off = False

    def again(self) -> None:
        self.attempt += 1
        self.status, self.by, self.probes, self.cut_off = "pending", "", 0, False

    @property
    def open(self) -> bool:
        unsure = self.effect != "read" and self.status == "unknown"
        return self.status == "pending" or unsure


class LedgerAgainstList(RuleBasedStateMachine):
    """Operations are registered, recorded, probed and made again, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.state = LedgerState()
        self.listed: list[Known] = []
        self.step = 0
        self.steps = 1
        self.since = 0  # operations, when this step began or went on
        self.half: set[str] = set()
        self.rows: set[int] = set()  # said to leave the running step
        self.kept, entry.KEPT = entry.KEPT, FEW

    def teardown(self) -> None:
        entry.KEPT = self.kept

    def register(self, one: Known) -> None:
        event = EffectRegistered(
            op=one.op,
            attempt=one.attempt,
            step=one.step,
            kind="tool",
            name="f",
            effect=one.effect,
            key=one.key,
            arguments=one.key,
            not_after=0.0,
            holds=tuple(sorted(self.half - {one.step})),
        )
        before, open_ops = self.state, [k.op for k in self.listed if k.open]
        self.rows = self.rows if one.step == before.step else set()
        self.rows |= {gone.op for gone in leaving(before, event)}
        self.state = apply(before, event)
        self.unbounded = set(open_ops) if one.step == before.step else before.entries
        if one.step == before.step:
            passed = [op for op in before.entries if op not in open_ops]
            gone = [op for op in before.entries if op not in self.state.entries]
            assert gone == passed[: len(gone)]

    def there(self, data: Any, *status: str) -> Known | None:
        found = [
            one
            for one in self.listed
            if one.status in status and one.op in self.state.entries
        ]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(
        effect=st.sampled_from(("read", "read", "idempotent", "once")),
        key=st.sampled_from("kl"),
    )
    def call(self, effect: Effect, key: str) -> None:
        # An effect's key is its own, whatever its class, and its step's.
        step = f"s{self.step}"
        one = Known(len(self.listed) + 1, step, effect, f"{step} {effect} {key}")
        self.listed.append(one)
        self.register(one)
        assert len(self.state.entries) <= max(FEW, 1 + len(self.unbounded))

    @rule(times=st.integers(1, 2 * FEW), key=st.sampled_from("kl"))
    def look(self, times: int, key: str) -> None:
        for _ in range(times):
            self.call("read", key)
            self.record(self.listed[-1], "completed", "run")

    @rule(data=st.data())
    def call_again(self, data: Any) -> None:
        one = self.there(data, "failed", "unknown")
        if one is not None and one.step == f"s{self.step}":
            one.again()
            self.register(one)

    @rule(stuck=st.booleans())
    def next_step(self, stuck: bool) -> None:
        self.leave(self.steps, stuck)
        self.steps += 1

    @rule(data=st.data(), stuck=st.booleans())
    def go_on_with_a_stuck_step(self, data: Any, stuck: bool) -> None:
        if left := sorted(self.half):
            self.leave(int(data.draw(st.sampled_from(left))[1:]), stuck)

    def leave(self, for_step: int, stuck: bool) -> None:
        if stuck:
            self.half.add(f"s{self.step}")
        self.step, self.since = for_step, len(self.listed)
        self.half.discard(f"s{for_step}")
        self.call("once", "k")
        for one in self.listed:
            mine = one in self.in_step() and one.op > self.since
            held = one.step in {*self.half, f"s{self.step}"} and one.effect != "read"
            there = one.op in self.state.entries
            assert there <= (one.open or mine or held)
            lost = one.step in self.state.left
            assert there >= (one.open or mine or (held and not lost))

    @rule(
        data=st.data(),
        status=st.sampled_from(("completed", "failed", "unknown")),
        by=st.sampled_from(("run", "recovery", "probe", "person", "door")),
    )
    def end(self, data: Any, status: Any, by: Any) -> None:
        if one := self.there(data, "pending", "unknown"):
            self.record(one, status, by)

    def record(self, one: Known, status: Any, by: Any) -> None:
        one.status, one.by = status, by
        one.cut_off = one.cut_off or by == "recovery"
        self.state = apply(
            self.state,
            EffectRecorded(op=one.op, attempt=one.attempt, status=status, by=by),
        )

    @rule(data=st.data())
    def probe(self, data: Any) -> None:
        if one := self.there(data, "unknown"):
            one.probes += 1
            probed = EffectProbed(op=one.op, attempt=one.attempt, answer="", again_at=0)
            self.state = apply(self.state, probed)

    def in_step(self) -> list[Known]:
        return [one for one in self.listed if one.step == f"s{self.step}"]

    @invariant()
    def what_is_open_is_never_forgotten(self) -> None:
        for one in self.listed:
            assert one.op in self.state.entries or not one.open

    @invariant()
    def no_effect_of_a_step_that_goes_on_is_forgotten(self) -> None:
        for one in self.listed:
            running = one.step == f"s{self.step}"
            if one.effect == "read" or not (running or one.step in self.half):
                continue
            row = running and one.op in self.rows
            there = one.op in self.state.entries
            assert there or row or one.step in self.state.left

    @invariant()
    def what_is_there_is_as_it_was_written_last(self) -> None:
        for one in self.listed:
            if found := self.state.entries.get(one.op):
                written = (found.attempt, found.status, found.by, found.probes)
                assert written == (one.attempt, one.status, one.by, one.probes)
                assert (found.cut_off, found.open) == (
                    one.cut_off,
                    one.status in ("pending", "unknown"),
                )

    @invariant()
    def the_same_effect_is_found(self) -> None:
        for one in self.in_step():
            others = [
                k.op
                for k in self.in_step()
                if k.key == one.key and k is not one and k.op in self.state.entries
            ]
            if one.effect != "read" and others:
                same = find_same(self.state, one.key, one.op)
                assert same is not None
                assert same.op == others[-1]

    @invariant()
    def failures_are_those_of_calls_that_ran(self) -> None:
        step = f"s{self.step}"
        for key in {one.key for one in self.in_step() if one.effect != "read"}:
            failed = [
                one.op
                for one in self.listed
                if (one.key, one.step) == (key, step)
                and one.op in self.state.entries
                and one.status == "failed"
                and one.by in ("run", "probe")
            ]
            assert failures(self.state, step, "f", key, 0) == len(failed)
            if failed:
                assert failures(self.state, step, "f", key, failed[-1]) == 1
                assert failures(self.state, step, "f", key, failed[-1] + 1) == 0


TestLedgerAgainstList = LedgerAgainstList.TestCase  # P2
TestLedgerAgainstList.settings = settings(max_examples=60, stateful_step_count=30)
