"""What is known: replaced but never lost, held to a cap, over when its time is."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from perdure.actors.memory import facts
from perdure.actors.memory.facts import Change, Fact, Held, Said

CAP = 400  # characters


def said(value: str, **options: Any) -> Said:
    options.setdefault("key", "db")
    return Said(value=f'"{value}"', **options)


def make(
    what: Said,
    held: Held,
    status: Literal["fact", "hypothesis"] = "fact",
    *,
    now: float = 10.0,
    fact_id: str = "f9",
) -> Change:
    return facts.state(
        what, held, status=status, fact_id=fact_id, now=now, by="host", cap=CAP
    )


def stated(what: Said, **options: Any) -> Fact:
    found = make(what, Held(), **options).stated
    assert found is not None
    return found


def test_another_value_ends_the_one_before_with_its_evidence_and_time() -> None:
    # K53
    old = stated(said("MySQL", evidence="the wiki"), now=10.0, fact_id="f1")
    change = make(said("PostgreSQL", evidence="the operator"), Held(fact=old), now=20.0)
    (ended,) = change.ended
    assert (ended.value, ended.evidence, ended.ended) == ('"MySQL"', "the wiki", 20.0)
    assert (ended.how, ended.ended_by) == ("superseded", "host")
    assert change.stated is not None
    assert (change.stated.value, change.stated.evidence) == (
        '"PostgreSQL"',
        "the operator",
    )


def test_the_same_again_changes_nothing_whoever_says_it() -> None:
    # K53
    old = stated(said("MySQL", evidence="the wiki"))
    change = make(said("MySQL", evidence="somebody else"), Held(fact=old))
    assert (change.done, change.ended, change.stated) == (True, (), None)


def test_a_fact_past_its_time_is_not_current_and_is_ended_as_expired() -> None:
    old = stated(said("MySQL", until=50.0))
    assert facts.is_current(old, 49.9)
    assert not facts.is_current(old, 50.0)
    change = make(said("MySQL", until=90.0), Held(fact=old), now=60.0)
    (ended,) = change.ended
    assert (ended.how, ended.ended) == ("expired", 50.0)
    assert change.stated is not None


def test_a_hypothesis_never_ends_a_fact() -> None:
    old = stated(said("MySQL"))
    change = make(said("MongoDB"), Held(fact=old), "hypothesis")
    assert change.ended == ()
    assert change.stated is not None
    assert change.stated.status == "hypothesis"


def test_a_hypothesis_of_what_is_known_says_nothing_new() -> None:
    change = make(said("MySQL"), Held(fact=stated(said("MySQL"))), "hypothesis")
    assert (change.ended, change.stated) == ((), None)


@pytest.mark.parametrize(
    ("value", "how"), [("MySQL", "confirmed"), ("MongoDB", "superseded")]
)
def test_a_fact_decides_the_hypothesis_of_its_key(value: str, how: str) -> None:
    guess = stated(said("MySQL"), status="hypothesis")
    change = make(said(value), Held(hypothesis=guess))
    assert [one.how for one in change.ended] == [how]


def test_a_hypothesis_is_never_core() -> None:
    assert not stated(said("MySQL", core=True), status="hypothesis").core


def test_a_core_fact_stays_core_unless_somebody_says_otherwise() -> None:
    old = stated(said("MySQL", core=True))
    for core, expected in ((None, True), (False, False)):
        change = make(said("PostgreSQL", core=core), Held(fact=old, core=(old,)))
        assert change.stated is not None
        assert change.stated.core is expected


def test_core_facts_over_their_cap_are_refused_by_name_and_size() -> None:
    # A101
    big = stated(said("x" * 300, key="layout", core=True), fact_id="f1")
    change = make(said("y" * 100, key="style", core=True), Held(core=(big,)))
    assert (change.done, change.stated, change.ended) == (False, None, ())
    assert f"may have {CAP} characters together" in change.said
    assert "layout (global) 311" in change.said
    assert "style (global) 110" in change.said
    assert make(said("y" * 100, key="style"), Held(core=(big,))).done


def test_a_core_fact_does_not_count_beside_its_successor() -> None:
    old = stated(said("x" * 300, core=True), fact_id="f1")
    assert make(said("y" * 300), Held(fact=old, core=(old,))).done


def test_what_has_expired_takes_no_room() -> None:
    old = stated(said("x" * 300, key="layout", core=True, until=20.0), fact_id="f1")
    new = said("y" * 200, core=True)
    assert make(new, Held(core=(old,)), now=30.0).done


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"key": " "}, "key="),
        ({"key": "k" * 101}, "key has 101"),
        ({"key": "a\nb"}, "key="),
        ({"subject": "a\x1b[2J"}, "subject="),
        ({"evidence": "e" * 501}, "evidence has 501"),
        ({"scope": "everybody"}, "scope='everybody'"),
        ({"scope": "group:"}, "scope='group:'"),
        ({"until": float("nan")}, "until=nan"),
        ({"value": '"' + "v" * 999 + '"'}, "value has 1001"),
        ({"value": "{"}, "value is no JSON"),
    ],
)
def test_what_cannot_be_kept_is_named(wrong: dict[str, Any], named: str) -> None:
    # A102
    given = {"key": "db", "value": '"x"', **wrong}
    assert named in facts.why_not_said(Said(**given))
    assert facts.why_not_said(Said(key="db", value='"x"')) == ""


def test_a_task_knows_of_three_scopes_at_most() -> None:
    assert facts.scopes_of("t-1", "north") == ("global", "group:north", "task:t-1")
    assert facts.scopes_of("t-1", "") == ("global", "task:t-1")


class Knowing(RuleBasedStateMachine):
    """Any order of statements, confirmations and drops."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.number = 0
        self.current: dict[str, Fact] = {}
        self.past: list[Fact] = []
        self.ever: list[tuple[str, str, str, str]] = []  # accepted: place and value

    def held(self, what: Said) -> Held:
        def mine(status: str) -> Fact | None:
            return next(
                (
                    one
                    for one in self.current.values()
                    if (one.scope, one.subject, one.key, one.status)
                    == (what.scope, what.subject, what.key, status)
                ),
                None,
            )

        core = [one for one in self.current.values() if one.core]
        beside = ("global", what.scope)
        return Held(
            fact=mine("fact"),
            hypothesis=mine("hypothesis"),
            core=tuple(one for one in core if one.scope in beside),
        )

    def carry_out(self, change: Change) -> None:
        for one in change.ended:
            del self.current[one.id]
            self.past.append(one)
        if change.stated is not None:
            assert change.stated.id not in self.current
            self.current[change.stated.id] = change.stated

    def next_id(self) -> str:
        self.number += 1
        return f"f{self.number}"

    @rule(
        key=st.sampled_from(["db", "auth"]),
        value=st.sampled_from(["MySQL", "PostgreSQL", "x" * 150]),
        scope=st.sampled_from(["global", "group:a", "group:b"]),
        subject=st.sampled_from(["", "approver"]),
        core=st.sampled_from([None, True, False]),
        status=st.sampled_from(["fact", "hypothesis"]),
        lasts=st.sampled_from([None, 3.0]),
    )
    def state(
        self,
        key: str,
        value: str,
        scope: str,
        subject: str,
        core: bool | None,
        status: Literal["fact", "hypothesis"],
        lasts: float | None,
    ) -> None:
        self.now += 1.0
        what = said(
            value,
            key=key,
            scope=scope,
            subject=subject,
            core=core,
            until=None if lasts is None else self.now + lasts,
        )
        before = dict(self.current)
        change = make(
            what, self.held(what), status, now=self.now, fact_id=self.next_id()
        )
        self.carry_out(change)
        if not change.done:
            assert self.current == before
            return
        self.ever.append((scope, subject, key, what.value))
        known = [
            one
            for one in self.current.values()
            if (one.scope, one.subject, one.key) == (scope, subject, key)
            and facts.is_current(one, self.now)
        ]
        assert what.value in [one.value for one in known]
        if status == "fact":
            assert [one.value for one in known if one.status == "fact"] == [what.value]

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        guesses = [one for one in self.current.values() if one.status == "hypothesis"]
        if not guesses:
            return
        guess = data.draw(st.sampled_from(guesses))
        what = Said(
            key=guess.key, value=guess.value, scope=guess.scope, subject=guess.subject
        )
        change = facts.confirm(
            self.held(what),
            fact_id=self.next_id(),
            now=self.now,
            by="approver",
            cap=CAP,
        )
        self.carry_out(change)
        if change.done:
            assert guess.id not in self.current
            now_known = self.held(what).fact
            assert now_known is not None
            assert now_known.value == guess.value

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if self.current:
            fact = data.draw(st.sampled_from(sorted(self.current)))
            self.carry_out(facts.drop(self.current[fact], now=self.now, by="approver"))

    @invariant()
    def one_fact_and_one_hypothesis_at_most_is_current(self) -> None:
        places = [
            (one.scope, one.subject, one.key, one.status)
            for one in self.current.values()
        ]
        assert len(places) == len(set(places))

    @invariant()
    def no_value_is_lost(self) -> None:
        kept = {
            (one.scope, one.subject, one.key, one.value)
            for one in (*self.current.values(), *self.past)
        }
        assert set(self.ever) <= kept

    @invariant()
    def what_is_over_says_when_and_how(self) -> None:
        for one in self.past:
            assert one.ended is not None
            assert one.ended <= self.now
            assert one.how

    @invariant()
    def core_facts_of_a_scope_are_under_the_cap(self) -> None:
        for scope in ("global", "group:a", "group:b"):
            mine = [
                one
                for one in self.current.values()
                if one.core and one.scope == scope and facts.is_current(one, self.now)
            ]
            assert facts.over_cap(mine, CAP) == ""


TestKnowing = Knowing.TestCase
TestKnowing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
