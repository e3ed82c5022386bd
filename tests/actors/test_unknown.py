"""Effects whose outcome is not known: probed, repeated, or left to a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    Agent,
    CannotTell,
    DidNotHappen,
    Handle,
    Happened,
    ToolContext,
    tool,
)
from perdure.actors import names
from perdure.actors.events import (
    EffectProbed,
    EffectRecorded,
    EffectRegistered,
    Held,
    Settled,
)
from perdure.models import Scripted
from tests.actors.world import (
    House,
    Stuck,
    World,
    follow,
    outcomes,
    unbalanced,
)

SENDING = follow({"task": [[("send", {"text": "x"})]]})


def agent(*tools: Any, script: Any = SENDING) -> Agent:
    return Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(script),
        tools=tools,
        recovery="rules",
    )


class Mail:
    """A mail server, and a `once` tool that sends through it."""

    def __init__(self, stuck: Stuck | None = None) -> None:
        self.sent: list[str] = []
        self.asked: list[float] = []
        self.calls = 0
        self.stuck = stuck
        self.answer: Callable[[Any], Any] | None = None
        self.acts = True
        self.house: House

    def tool(self, **options: Any) -> Any:
        @tool(effect="once", name="send", **options)
        def send(text: str, *, request_id: str) -> str:
            self.calls += 1
            if self.stuck is not None:
                self.stuck.hang()
            if self.acts:
                self.sent.append(request_id)
            return "sent"

        return send

    def probed(self, effect: Any) -> Any:
        self.asked.append(self.house.sim.clock.time())
        if self.answer is not None:
            return self.answer(effect)
        if effect.request_id in self.sent:
            return Happened("sent, says the server")
        return DidNotHappen()

    def open(self, probe: bool = True, **options: Any) -> tuple[House, Handle]:
        made = self.tool(probe=self.probed if probe else None)
        self.house = House(agent(made), **options)
        return self.house, self.house.submit()

    def cut_after_the_act(self, probe: bool = True) -> tuple[House, Handle]:
        """Kill between effect and record, and open the store again."""
        house, task = self.open(probe)
        assert house.until(lambda: bool(self.sent))
        house.kill()
        house.reopen()
        return house, house.runtime.task(task.id)

    def cut_before_the_act(self, **options: Any) -> tuple[House, Handle]:
        """Kill between the flushed registration and the effect."""
        house, task = self.open(**options)
        assert house.until_hit("effect.registered", name="send")
        assert self.sent == []
        house.kill()
        house.reopen()
        return house, house.runtime.task(task.id)


def records(house: House, task: Handle) -> list[tuple[str, str]]:
    """Status and source of each record of the tool's effect."""
    stream = f"task/{task.id}/ledger"
    tools = {e.op for e in house.of(stream, EffectRegistered) if e.kind == "tool"}
    found = house.of(stream, EffectRecorded)
    return [(one.status, one.by) for one in found if one.op in tools]


@pytest.fixture
def mail() -> Mail:
    return Mail()


# ── a once effect ────────────────────────────────────────────────────────────────


def test_a_kill_between_effect_and_record_is_decided_by_the_probe(mail: Mail) -> None:
    # R1 K39 B34
    house, task = mail.cut_after_the_act()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert len(mail.sent) == 1
    assert records(house, task) == [("unknown", "recovery"), ("completed", "probe")]
    assert result.spent["tool_calls"] == {"send": 1}
    assert unbalanced(house.store) == []


def test_an_unknown_outcome_is_held_until_it_is_decided(mail: Mail) -> None:
    # K37 R14
    house, task = mail.cut_after_the_act()
    house.finish(task.id)
    account = f"task/{task.id}/account"
    (held,) = house.of(account, Held)
    settled = [one for one in house.of(account, Settled) if one.op == held.op]
    assert [(one.book, one.amounts["tool:send"]) for one in settled] == [("spent", 1)]


def test_an_absence_is_believed_only_after_the_settle_time(mail: Mail) -> None:
    # K39
    house, task = mail.cut_before_the_act()
    opened = house.sim.clock.time()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert len(mail.sent) == 1
    assert records(house, task) == [
        ("unknown", "recovery"),
        ("failed", "probe"),
        ("completed", "run"),
    ]
    assert mail.asked[0] < opened + 2.0 <= mail.asked[-1]
    (probed,) = house.of(f"task/{task.id}/ledger", EffectProbed)
    assert probed.answer == "did not happen, so far"


def test_the_repeat_after_an_absence_is_a_new_attempt_of_the_same_effect(
    mail: Mail,
) -> None:
    house, task = mail.cut_before_the_act()
    house.finish(task.id)
    attempts = [
        (one.attempt, one.request_id)
        for one in house.of(f"task/{task.id}/ledger", EffectRegistered)
        if one.kind == "tool"
    ]
    assert [attempt for attempt, _ in attempts] == [1, 2]
    assert len({key for _, key in attempts}) == 1


def test_an_answer_of_a_probe_that_was_asked_too_early_is_not_believed(
    mail: Mail,
) -> None:
    def slow(effect: Any) -> Any:
        if len(mail.asked) == 1:  # looks at once, and answers after the settle time
            mail.house.sim.clock.advance(5.0)
        return Happened() if effect.request_id in mail.sent else DidNotHappen()

    mail.answer = slow
    house, task = mail.cut_before_the_act()
    assert house.finish(task.id).status == "completed"
    assert len(mail.asked) == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda effect: CannotTell("no line"), "cannot tell: no line"),
        (lambda effect: "yes", "answered str"),
        (lambda effect: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_probe_that_cannot_tell_is_asked_again_and_then_a_person(
    mail: Mail, answer: Callable[[Any], Any], why: str
) -> None:
    mail.answer = answer
    house, task = mail.cut_after_the_act()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "unknown_effect")
    assert (result.ends_with, mail.calls) == (f"resolve {task.id}:2", 1)
    assert len(mail.asked) == 5
    pauses = [
        later - one for one, later in zip(mail.asked, mail.asked[1:], strict=False)
    ]
    assert pauses == sorted(pauses)
    probed = house.of(f"task/{task.id}/ledger", EffectProbed)
    assert [one.answer for one in probed] == [why] * 4


def test_a_probe_is_first_asked_after_the_time_it_needs(mail: Mail) -> None:
    made = mail.tool(probe=mail.probed, probe_after=30.0)
    mail.house = house = House(agent(made))
    task = house.submit()
    assert house.until(lambda: bool(mail.sent))
    house.kill()
    house.reopen()
    opened = house.sim.clock.time()
    assert house.finish(task.id).status == "completed"
    (asked,) = mail.asked
    assert opened + 30.0 <= asked < opened + 31.0


def test_a_resumed_task_asks_its_probe_again(mail: Mail) -> None:
    mail.answer = lambda effect: CannotTell()
    house, task = mail.cut_after_the_act()
    assert house.finish(task.id).status == "paused"
    mail.answer = None
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert mail.calls == 1


def test_without_a_probe_a_person_is_asked_and_nothing_is_sent_twice(
    mail: Mail,
) -> None:
    # R1 K41
    house, task = mail.cut_after_the_act(probe=False)
    for _ in range(3):
        result = house.finish(task.id)
        assert (result.status, result.reason) == ("paused", "unknown_effect")
        assert "may have happened" in result.detail
        assert task.resume() is True
    house.sim.run_for(3600.0)
    assert mail.calls == 1


def test_a_probe_that_hangs_is_given_up_and_asked_again() -> None:
    stuck = Stuck("send")
    mail = Mail()

    def answer(effect: Any) -> Any:
        if len(mail.asked) == 1:
            stuck.hang()
        return Happened()

    mail.answer = answer
    house, task = mail.open(dispatcher=stuck)
    assert house.until(lambda: bool(mail.sent))
    house.kill()
    house.reopen()
    try:
        assert house.finish(task.id).status == "completed"
    finally:
        stuck.let_go()
    assert len(mail.asked) == 2
    (probed,) = house.of(f"task/{task.id}/ledger", EffectProbed)
    assert probed.answer == "no answer within 10 s"


@pytest.mark.parametrize("steps", range(20))
def test_a_probe_is_asked_again_by_whoever_recovers(steps: int) -> None:
    # R4: the kill falls between the questions.
    mail = Mail()
    house, task = mail.cut_before_the_act()
    house.until(lambda: bool(mail.asked))
    for _ in range(steps * 3):
        house.sim.step()
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert len(mail.sent) == 1


def test_an_error_of_no_known_kind_leaves_a_once_effect_in_doubt() -> None:
    mail = Mail()

    @tool(effect="once", name="send", probe=mail.probed)
    def send(text: str, *, request_id: str) -> str:
        mail.sent.append(request_id)
        raise ValueError("after the act")

    house = mail.house = House(agent(send))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert records(house, task) == [("unknown", "run"), ("completed", "probe")]
    assert len(mail.sent) == 1


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_a_tool_that_would_end_the_process_only_ends_its_call(
    error: BaseException,
) -> None:
    # P8
    @tool(effect="read", name="send")
    def send(text: str) -> str:
        raise error

    house = House(agent(send))
    assert house.run().status == "completed"
    assert house.log.crashes() == []


# ── a worker that lives past its deadline ────────────────────────────────────────


@pytest.fixture
def stuck() -> Any:
    stuck = Stuck("send")
    yield stuck
    stuck.let_go()


def test_a_timed_out_effect_is_not_probed_while_its_worker_lives(stuck: Stuck) -> None:
    # K41
    mail = Mail(stuck)
    house, task = mail.open(dispatcher=stuck)
    assert house.until_hit("effect.recorded", status="unknown")
    house.sim.run_for(5.0)
    assert (mail.asked, mail.calls) == ([], 1)
    stuck.let_go()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert (len(mail.sent), mail.calls) == (1, 1)
    assert records(house, task) == [("unknown", "run"), ("completed", "probe")]
    (late,) = house.log.of("effect.late")
    assert (late["status"], late["detail"]) == ("completed", "sent")


def test_what_a_stale_owner_had_started_is_unknown_and_its_outcome_moves_nothing(
    stuck: Stuck,
) -> None:
    mail = Mail(stuck)
    old, task = mail.open(probe=False, dispatcher=stuck)
    assert old.until(lambda: mail.calls == 1)
    old.store.cut()  # another host takes over, and the old one does not know
    new = House(*old.agents, store=old.store)
    mail.house = new
    assert new.finish(task.id).reason == "unknown_effect"
    before = len(old.store.log)
    stuck.let_go()
    old.sim.run_for(30.0)
    assert (mail.calls, len(mail.sent)) == (1, 1)
    assert len(old.store.log) == before
    assert records(new, task) == [("unknown", "recovery")]
    old.kill()


def test_a_late_outcome_of_an_earlier_attempt_moves_nothing(stuck: Stuck) -> None:
    calls: list[str] = []

    @tool(effect="idempotent", name="send")
    def put(text: str, *, ctx: ToolContext) -> str:
        calls.append(ctx.fence)
        if len(calls) == 1:
            stuck.hang()
            return "the first"
        return "the second"

    house = House(agent(put), dispatcher=stuck)
    task = house.submit()
    assert house.until(lambda: len(calls) == 2)
    stuck.let_go()
    assert house.finish(task.id).status == "completed"
    assert [one.result for one in house.of(names.ledger(task.id), EffectRecorded)][
        1:3
    ] == ["", "the second"]
    (late,) = house.log.of("effect.late")
    assert late["detail"] == "the first"


def test_the_fencing_token_grows_with_each_owner(mail: Mail) -> None:
    fences: list[str] = []

    @tool(effect="idempotent", name="send")
    def put(text: str, *, ctx: ToolContext) -> str:
        fences.append(ctx.fence)
        return "put"

    house = House(agent(put))
    task = house.submit()
    assert house.until(lambda: bool(fences))
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    first, second = [tuple(one.split(":")) for one in fences]
    assert (first[0], first[2]) == (second[0], second[2]) == (task.id, "2")
    assert int(first[1]) < int(second[1])


def test_a_late_worker_starts_the_settle_time_anew(stuck: Stuck) -> None:
    mail = Mail(stuck)
    mail.acts = False
    house, _ = mail.open(dispatcher=stuck)
    assert house.until_hit("effect.recorded", status="unknown")
    house.sim.run_for(6.5)
    assert mail.asked == []
    stuck.let_go()
    ended = house.sim.clock.time()
    assert house.until_hit("effect.recorded", by="probe")
    assert mail.asked[-1] >= ended + 2.0


def test_an_effect_whose_worker_never_ends_is_left_to_a_person(stuck: Stuck) -> None:
    mail = Mail(stuck)
    house, task = mail.open(dispatcher=stuck)
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "unknown_effect")
    task.resume()
    assert house.finish(task.id).status == "paused"
    assert mail.calls == 1
    stuck.let_go()
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert (mail.calls, len(mail.sent)) == (1, 1)


@pytest.mark.parametrize(
    "actor", [names.task, names.ledger, names.account, names.family]
)
def test_a_running_effect_is_taken_over_by_whoever_recovers(
    stuck: Stuck, actor: Callable[[str], str]
) -> None:
    # design 4: what still runs here is running, not unknown.
    mail = Mail(stuck)
    house, task = mail.open(dispatcher=stuck)
    assert house.until(lambda: mail.calls == 1)
    house.sim.crash(actor(task.id))
    house.sim.run_for(20.0)
    stuck.let_go()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert (mail.calls, len(mail.sent), mail.asked) == (1, 1, [])
    assert records(house, task) == [("completed", "run")]
    assert result.spent["tool_calls"] == {"send": 1}
    assert unbalanced(house.store) == []


def test_a_cancelled_task_waits_for_the_effect_that_runs(stuck: Stuck) -> None:
    # P3: what ran is paid for, whoever crashed in between.
    mail = Mail(stuck)
    house, task = mail.open(dispatcher=stuck)
    assert house.until(lambda: mail.calls == 1)
    house.runtime.ask_cancel(task.id, "me")
    house.sim.run_for(1.0)
    house.sim.crash(names.task(task.id))
    house.sim.run_for(20.0)
    assert task.status not in ("cancelled", "completed")
    stuck.let_go()
    result = house.runtime.wait(task.id, 3600.0, until="ended")
    assert result.status == "cancelled"
    assert result.spent["tool_calls"] == {"send": 1}
    assert records(house, task) == [("completed", "run")]


def test_an_effect_that_lost_its_owner_before_it_began_is_begun_by_the_next(
    mail: Mail,
) -> None:
    # It surely did not run, and that is no news for the model.
    for seed in range(12):
        mail = Mail()
        house, task = mail.open(seed=seed)
        assert house.until_hit("effect.registered", name="send")
        house.sim.crash(names.family(task.id))
        result = house.finish(task.id)
        assert result.status == "completed"
        assert len(mail.sent) == 1
        assert result.spent["tool_calls"] == {"send": 1}


def test_a_call_that_is_in_doubt_is_not_made_again_under_another_number(
    stuck: Stuck,
) -> None:
    # K40: the model re-issues the same send in one reply.
    mail = Mail(stuck)
    both = [("send", {"text": "x"}), ("send", {"text": "x"})]
    mail.house = house = House(
        agent(mail.tool(probe=mail.probed), script=follow({"task": [both]})),
        dispatcher=stuck,
    )
    task = house.submit()
    assert house.until_hit("action.observed", status="failed")
    stuck.let_go()
    assert house.finish(task.id).status == "completed"
    assert mail.calls == 1
    refused = [
        one
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
        if one.by == "door"
    ]
    assert "is running; it is not made twice" in refused[0].error


# ── idempotent effects and reads ─────────────────────────────────────────────────


def test_an_idempotent_effect_is_sent_again_with_its_key() -> None:
    # K41 B38
    world = World()
    sent: list[str] = []

    @tool(effect="idempotent")
    def put(text: str, *, request_id: str) -> str:
        sent.append(request_id)
        return "put"

    house = House(agent(put, script=follow({"task": [[("put", {"text": "x"})]]})))
    task = house.submit()
    assert house.until(lambda: bool(sent))
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert len(sent) == 2
    assert len(set(sent)) == 1
    assert result.spent["tool_calls"] == {"put": 1}
    assert result.spent_unknown["tool_calls"] == {"put": 1}
    assert unbalanced(house.store) == []
    assert world.sent == []


def test_an_idempotent_effect_that_stays_in_doubt_is_left_to_a_person() -> None:
    keys: list[str] = []

    @tool(effect="idempotent", name="send")
    def send(text: str, *, request_id: str) -> str:
        keys.append(request_id)
        raise TimeoutError

    house = House(agent(send))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "unknown_effect")
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_a_read_in_doubt_comes_back_as_such_and_is_not_waited_for() -> None:
    @tool(effect="read")
    def look() -> str:
        raise TimeoutError("slow")

    def script(request: Any) -> Any:
        found = outcomes(request)
        if found:
            return follow({})(request)
        return follow({"task": [[("look", {})]]})(request)

    house = House(agent(look, script=script))
    task = house.submit()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert result.spent_unknown["tool_calls"] == {"look": 1}


@pytest.mark.parametrize("seed", range(8))
def test_a_read_in_doubt_survives_a_crash_of_its_exchange(seed: int) -> None:
    stuck = Stuck("send")
    mail = Mail(stuck)

    @tool(effect="read")
    def look() -> str:
        raise TimeoutError("slow")

    told: list[list[str]] = []
    both = [("look", {}), ("send", {"text": "x"})]

    def script(request: Any) -> Any:
        told.append(outcomes(request))
        return follow({"task": [both]})(request)

    house = mail.house = House(
        agent(look, mail.tool(), script=script), dispatcher=stuck, seed=seed
    )
    task = house.submit()
    assert house.until(lambda: mail.calls == 1)
    house.sim.run_for(3.0)
    house.sim.crash(names.task(task.id))
    house.sim.run_for(10.0)
    stuck.let_go()
    assert house.finish(task.id).status == "completed"
    assert house.log.crashes() == []
    assert told[-1] == [
        "error: TimeoutError: slow (the outcome is not known: it may have run)",
        "sent",
    ]
