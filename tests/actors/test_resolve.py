"""What a person says of an effect in doubt: once, over every crash, and told on."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Handle, Misuse, tool
from perdure.actors import names
from perdure.actors.events import (
    ActionObserved,
    EffectProbed,
    EffectRecorded,
    EffectResolved,
    Settled,
    TaskPaused,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.runs import SERVICES, actors_of, sound
from tests.actors.test_inbox import answer, answered, applied, send
from tests.actors.test_unknown import Mail, agent, records
from tests.actors.world import Calls, House, Stuck, follow, outcomes, unbalanced

QUEUE = "services/admission"
ONE: list[Calls] = [[("post", {"text": "x"})]]


class Post:
    """A service whose answers get lost: each call of `post` is in doubt."""

    def __init__(self, calls: list[Calls] | None = None, acts: bool = True) -> None:
        self.posted: list[str] = []
        self.lost = True
        self.told: list[list[str]] = []
        script = follow({"task": calls or ONE})

        def reply(request: ModelRequest) -> ModelReply:
            self.told.append(outcomes(request))
            return script(request)

        @tool(effect="once")
        def post(text: str) -> str:
            """Post something."""
            self.posted.append(text)
            if self.lost:
                raise ConnectionResetError("the answer got lost")
            return f"posted {text}"

        self.agent = Agent(
            name="agent",
            instructions="Do it.",
            model=Scripted(reply),
            tools=[post],
            recovery="rules",
        )

    def doubted(self, **options: Any) -> tuple[House, Handle, str]:
        """A task that waits for somebody's word on the first call."""
        house = House(self.agent, **options)
        task = house.submit()
        assert house.finish(task.id).reason == "unknown_effect"
        return house, task, house.runtime.unknown()[0].id


def person(house: House, task: Handle) -> EffectRecorded:
    """The one record that is a person's word."""
    found: list[EffectRecorded] = [
        one
        for one in house.of(names.ledger(task.id), EffectRecorded)
        if one.by == "person"
    ]
    (one,) = found
    return one


def test_an_effect_that_happened_by_a_persons_word_is_complete() -> None:
    # R1
    post = Post()
    house, task, effect = post.doubted()
    assert effect == f"{task.id}:2"
    assert house.finish(task.id).ends_with == f"resolve {effect}"
    assert house.runtime.resolve(effect, happened=True, result={"id": 7}, by="approver")
    result = house.finish(task.id)
    assert (result.status, post.posted) == ("completed", ["x"])
    said = person(house, task)
    assert (said.who, said.status, said.result) == ("approver", "completed", '{"id":7}')
    assert result.spent["tool_calls"] == {"post": 1}
    assert house.runtime.unknown() == []
    sound(house)


def test_the_model_is_told_that_a_person_says_so() -> None:
    post = Post()
    house, task, effect = post.doubted()
    house.runtime.resolve(effect, happened=True, result="number 7")
    house.finish(task.id)
    assert post.told[-1] == ["(a person says that this happened)\nnumber 7"]


def test_an_effect_that_did_not_happen_costs_nothing_and_the_model_is_told() -> None:
    post = Post()
    house, task, effect = post.doubted()
    assert house.runtime.resolve(effect, happened=False, by="approver")
    result = house.finish(task.id)
    assert (result.status, post.posted) == ("completed", ["x"])
    assert post.told[-1] == ["error: surely not done: approver says so"]
    assert result.spent["tool_calls"] == {}
    (settled,) = [
        one for one in house.of(names.account(task.id), Settled) if one.op == 2
    ]
    assert (settled.book, settled.amounts) == ("none", {})
    sound(house)


def test_a_call_that_did_not_happen_may_be_made_again() -> None:
    post = Post([[("post", {"text": "x"})], [("post", {"text": "x"})]])
    house, task, effect = post.doubted()
    post.lost = False
    house.runtime.resolve(effect, happened=False)
    assert house.finish(task.id).status == "completed"
    assert post.told[-1][-1] == "posted x"
    assert post.posted == ["x", "x"]


def test_a_call_that_happened_is_answered_from_the_record_when_made_again() -> None:
    # K40
    post = Post([[("post", {"text": "x"})], [("post", {"text": "x"})]])
    house, task, effect = post.doubted()
    house.runtime.resolve(effect, happened=True, result="number 7")
    assert house.finish(task.id).status == "completed"
    assert post.posted == ["x"]
    assert post.told[-1][-1].endswith("was made before)\nnumber 7")


def test_a_call_that_a_kill_cut_off_is_made_again_without_the_model() -> None:
    mail = Mail()
    house, task = mail.cut_before_the_act(probe=False)
    assert house.finish(task.id).reason == "unknown_effect"
    house.runtime.resolve(f"{task.id}:2", happened=False)
    assert house.finish(task.id).status == "completed"
    assert (len(mail.sent), mail.calls) == (1, 1)
    assert records(house, task) == [
        ("unknown", "recovery"),
        ("failed", "person"),
        ("completed", "run"),
    ]
    assert unbalanced(house.store) == []


def test_the_same_word_again_changes_nothing_and_the_opposite_is_refused() -> None:
    house, task, effect = Post().doubted()
    assert house.runtime.resolve(effect, happened=True, by="approver") is True
    for _ in range(2):
        assert house.runtime.resolve(effect, happened=True, by="boss") is False
        with pytest.raises(Misuse, match="approver said before that it happened"):
            house.runtime.resolve(effect, happened=False)
        house.finish(task.id)
    assert len(house.of(QUEUE, EffectResolved)) == 1
    assert person(house, task).who == "approver"
    sound(house)


def test_a_word_is_remembered_by_the_next_process() -> None:
    house, task, effect = Post().doubted()
    house.runtime.resolve(effect, happened=True, by="approver")
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 60.0)
    house.runtime.close()
    house.reopen()
    assert house.runtime.resolve(effect, happened=True) is False
    with pytest.raises(Misuse, match="approver said before that it happened"):
        house.runtime.resolve(effect, happened=False)


def test_a_task_that_still_runs_another_call_need_not_pause_for_the_word() -> None:
    stuck = Stuck("send")
    mail = Mail(stuck)
    post = Post([[("post", {"text": "a"}), ("send", {"text": "b"})]])
    tools = [*post.agent.tools.values(), mail.tool()]
    model = post.agent.model
    both = Agent(name="agent", instructions="Do it.", model=model, tools=tools)
    house = House(both, dispatcher=stuck)
    task = house.submit()
    assert house.until(lambda: bool(mail.calls and house.runtime.unknown()), 30.0)
    (one,) = house.runtime.unknown()
    house.runtime.resolve(one.id, happened=True, result="a is out")
    assert house.until(lambda: house.runtime.unknown() == [], 10.0)
    stuck.let_go()
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 10.0)
    assert house.of(f"task/{task.id}", TaskPaused) == []


def test_two_words_at_once_are_one() -> None:
    house, task, effect = Post().doubted()
    subject, op = effect.split(":")
    for number in range(3):
        body = {"op": int(op), "attempt": 1, "happened": number != 1}
        send(house, f"r{number}", "resolve", subject, **body)
    assert answered(house, "r2").said == "approver said so before"
    assert applied(house) == [("r0", True), ("r1", False), ("r2", True)]
    assert house.finish(task.id).status == "completed"
    assert len(house.of(QUEUE, EffectResolved)) == 1


def test_what_is_not_unknown_needs_no_word() -> None:
    post = Post()
    post.lost = False
    house = House(post.agent)
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    resolve = house.runtime.resolve
    with pytest.raises(Misuse, match=r":2 \(post\) is completed, by run; nobody need"):
        resolve(f"{task.id}:2", happened=True)
    with pytest.raises(Misuse, match=r":1 \(model\) is a read"):
        resolve(f"{task.id}:1", happened=True)
    with pytest.raises(Misuse, match="has no effect"):
        resolve(f"{task.id}:99", happened=True)
    with pytest.raises(Misuse, match="is no effect's id"):
        resolve(task.id, happened=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"happened": "yes"}, "happened='yes' must be True or False"),
        ({"happened": False, "result": 1}, "result= is of an effect that happened"),
        ({"happened": True, "result": {1, object()}}, "result: no JSON value"),
        ({"happened": True, "result": "x" * 16_385}, "result has 16385 bytes"),
        ({"happened": True, "by": 3}, "by must be text"),
    ],
)
def test_a_word_that_says_nothing_is_refused(
    options: dict[str, Any], said: str
) -> None:
    house, _, effect = Post().doubted()
    with pytest.raises(Misuse, match=said):
        house.runtime.resolve(effect, **options)
    assert house.of(QUEUE, EffectResolved) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"op": 2, "attempt": 1}, "say whether it happened"),
        ({"op": 2, "attempt": 2, "happened": True}, "is not unknown"),
        ({"op": 1, "attempt": 1, "happened": True}, "is not unknown"),
    ],
)
def test_a_command_about_another_attempt_is_refused(
    body: dict[str, Any], said: str
) -> None:
    house, task, _ = Post().doubted()
    send(house, "r1", "resolve", task.id, **body)
    found = answered(house, "r1")
    assert (found.done, said in found.said) == (False, True)
    assert len(house.runtime.unknown()) == 1


def test_an_effect_of_a_task_that_has_ended_stays_as_it_is() -> None:
    house, task, effect = Post().doubted()
    task.cancel()
    with pytest.raises(Misuse, match=r"has ended \(cancelled\)"):
        house.runtime.resolve(effect, happened=True)
    (left,) = house.runtime.unknown()
    assert (left.id, left.status) == (effect, "unknown")


def test_a_word_to_a_store_at_rest_is_taken_at_the_next_opening() -> None:
    post = Post()
    house, task, _ = post.doubted()
    house.runtime.close()
    send(house, "r1", "resolve", task.id, op=2, attempt=1, happened=True)
    assert answer(house, "r1") is None
    house.reopen()
    assert answered(house, "r1").done
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 60.0)
    assert post.posted == ["x"]
    sound(house)


def test_each_of_two_effects_in_doubt_takes_a_word_of_its_own() -> None:
    post = Post([[("post", {"text": "a"}), ("post", {"text": "b"})]])
    house, task, _ = post.doubted()
    first, second = sorted(one.id for one in house.runtime.unknown())
    house.runtime.resolve(second, happened=True, result="b is out")
    assert house.until(lambda: [o.id for o in house.runtime.unknown()] == [first], 60.0)
    assert house.finish(task.id).reason == "unknown_effect"
    house.runtime.resolve(first, happened=True, result="a is out")
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 60.0)
    assert [text.partition("\n")[2] for text in post.told[-1]] == [
        "a is out",
        "b is out",
    ]
    assert sorted(post.posted) == ["a", "b"]
    sound(house)


def test_a_word_that_meets_a_probe_under_way_decides_at_once() -> None:
    mail = Mail()
    mail.answer = lambda effect: None  # says nothing that decides
    house, task = mail.cut_after_the_act()
    assert house.until(lambda: bool(house.of(names.ledger(task.id), EffectProbed)))
    house.runtime.resolve(f"{task.id}:2", happened=True)
    asked = len(mail.asked)
    result = house.finish(task.id)
    assert (result.status, len(mail.asked)) == ("completed", asked)
    assert records(house, task)[-1] == ("completed", "person")
    sound(house)


@pytest.mark.parametrize("seed", range(30))
def test_a_word_is_not_lost_wherever_it_meets_the_task(seed: int) -> None:
    post = Post()
    house = House(post.agent, seed=seed)
    task = house.submit()
    assert house.until(lambda: bool(house.runtime.unknown()), 60.0)
    for _ in range(seed):
        house.sim.step()
    assert house.runtime.resolve(f"{task.id}:2", happened=True)
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 60.0)
    assert post.posted == ["x"]


@pytest.mark.parametrize("steps", range(0, 60, 2))
def test_a_kill_after_the_word_loses_it_not(steps: int) -> None:
    # R4
    post = Post()
    house, task, effect = post.doubted()
    subject, op = effect.split(":")
    send(house, "r1", "resolve", subject, op=int(op), attempt=1, happened=True)
    for _ in range(steps):
        house.sim.step()
    house.kill()
    house.reopen()
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 60.0)
    assert len(house.of(QUEUE, EffectResolved)) == 1
    assert post.posted == ["x"]
    assert person(house, task).result == ""
    sound(house)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("service", [*SERVICES, "own"])
def test_a_crash_of_any_actor_loses_no_word(service: str, place: int) -> None:
    post = Post()
    house, task, effect = post.doubted(seed=place)
    subject, op = effect.split(":")
    send(house, "r1", "resolve", subject, op=int(op), attempt=1, happened=True)
    for _ in range(4 + 6 * place):
        house.sim.step()
    targets = actors_of(task.id) if service == "own" else [service]
    crashed = [house.sim.crash(name) for name in targets]
    assert any(crashed) or service == "own"  # the task may have ended, or rest
    assert house.until(lambda: house.runtime.status(task.id) == "completed", 600.0)
    assert post.posted == ["x"]
    assert len(house.of(QUEUE, EffectResolved)) == 1


def test_no_absence_is_believed_while_the_worker_lives() -> None:
    stuck = Stuck("send")
    mail = Mail(stuck)
    mail.acts = False
    house, task = mail.open(probe=False, dispatcher=stuck)
    assert house.finish(task.id).reason == "unknown_effect"
    house.runtime.resolve(f"{task.id}:2", happened=False, by="approver")
    ledger = names.ledger(task.id)
    assert house.until(lambda: len(house.of(ledger, EffectProbed)) == 3)
    assert records(house, task) == [("unknown", "run")]
    assert "its worker still runs" in house.of(ledger, EffectProbed)[0].answer
    stuck.let_go()
    house.until(lambda: house.runtime.status(task.id) == "completed", 600.0)
    assert records(house, task) == [("unknown", "run"), ("failed", "person")]
    assert house.finish(task.id).status == "completed"


def test_a_cancelled_task_keeps_an_effect_in_doubt_as_unknown() -> None:
    house, task, _ = Post().doubted()
    assert task.cancel().status == "cancelled"
    observed = [
        one for one in house.of(f"task/{task.id}", ActionObserved) if one.op == 2
    ]
    assert [(one.status, "may have run" in one.reason) for one in observed] == [
        ("unknown", True)
    ]
    sound(house)


def test_a_call_cancelled_between_two_attempts_may_have_run() -> None:
    seen: set[tuple[int, str]] = set()
    for steps in range(40):
        calls: list[str] = []

        @tool(effect="idempotent", name="send")
        def put(text: str) -> str:
            calls.append(text)  # noqa: B023 - called within this turn of the loop
            raise ConnectionResetError

        house = House(agent(put))
        task = house.submit()
        assert house.until(lambda calls=calls: bool(calls))  # type: ignore[misc]
        for _ in range(steps):
            house.sim.step()
        task.cancel()
        stream = f"task/{task.id}"
        *_, last = [o for o in house.of(stream, ActionObserved) if o.op == 2]
        seen.add((len(calls), last.status))
    assert {status for _, status in seen} == {"unknown"}
    assert (1, "unknown") in seen


def test_a_call_cancelled_before_it_started_has_failed() -> None:
    mail = Mail()
    made = mail.tool(approval=True)
    house = House(agent(made))
    task = house.submit()
    assert house.finish(task.id).reason == "approval"
    assert task.cancel().status == "cancelled"
    observed = [
        one for one in house.of(f"task/{task.id}", ActionObserved) if one.op == 2
    ]
    assert [(one.status, one.reason) for one in observed] == [
        ("failed", "cancelled before it was started (not_started)")
    ]
    assert mail.calls == 0


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_word_that_meets_a_task_on_its_way_to_sleep_is_booked_once(
    happened: bool, cancelled: bool
) -> None:
    # P3: whatever the task does when the verdict is recorded
    for steps in range(0, 90, 3):
        post = Post()
        house, task, effect = post.doubted(seed=steps)
        send(house, "c1", "resume", task.id)
        for _ in range(steps):
            house.sim.step()
        assert house.runtime.resolve(effect, happened=happened)
        post.lost = False
        if cancelled:
            for _ in range(steps % 13):
                house.sim.step()
            house.runtime.ask_cancel(task.id, "operator")
        house.sim.run_for(600.0)  # it may pause once more on its way
        result = house.finish(task.id)
        assert result.status in ("completed", "cancelled")
        charged = result.spent["tool_calls"].get("post", 0)
        unknown = result.spent_unknown["tool_calls"].get("post", 0)
        if result.status == "completed":
            assert (charged, unknown) == (happened + len(post.posted) - 1, 0)
        assert charged + unknown <= len(post.posted)
        assert unbalanced(house.store) == []
        keys = [(one.op, one.attempt) for one in _settled(house, task)]
        assert len(keys) == len(set(keys))


def _settled(house: House, task: Handle) -> list[Settled]:
    return house.of(names.account(task.id), Settled)
