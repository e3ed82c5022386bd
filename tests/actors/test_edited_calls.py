"""Calls that people change, and calls that models repeat after a no."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Misuse, Plan, Step, tool
from perdure.actors.events import ApprovalAsked, EffectRegistered
from perdure.models import ModelReply, Scripted, ToolCall
from tests.actors.runs import sound
from tests.actors.test_approval_terms import completes
from tests.actors.test_approvals import BOTH, deleted, deleter, paused
from tests.actors.test_inbox import answered, send
from tests.actors.world import Calls, House, Stuck, World, follow, outcomes

DATA: list[Calls] = [[("delete", {"path": "data/x"})]]


def operator(world: World, heard: list[str], shell_approval: Any = True) -> Agent:
    """One that deletes and has a shell, each with rules of its own."""

    @tool(effect="once", approval=True)
    def delete(path: str) -> str:
        """Delete something."""
        world.sent.append(("", f"delete {path}"))
        return f"deleted {path}"

    @tool(effect="once", approval=shell_approval)
    def shell(cmd: str) -> str:
        """Run a command."""
        world.sent.append(("", cmd))
        return f"ran {cmd}"

    def model(request: Any) -> Any:
        heard[:] = outcomes(request)
        return follow({"task": DATA})(request)

    return Agent(
        name="agent",
        instructions="Tidy up.",
        model=Scripted(model),
        tools=[delete, shell],
        recovery="rules",
    )


def test_a_call_edited_to_another_tool_is_judged_by_the_rules_of_that_tool() -> None:
    # K45
    world, heard = World(), list[str]()
    house = House(operator(world, heard))
    task = house.submit()
    (first,) = paused(house, task.id)
    assert task.approve(
        first, by="approver", arguments={"cmd": "rm data/x"}, tool="shell"
    )
    (second,) = paused(house, task.id)
    (listed,) = house.runtime.approvals()
    assert (listed.tool, listed.arguments) == ("shell", {"cmd": "rm data/x"})
    assert second != first
    assert deleted(world) == []
    assert task.approve(first) is False
    house.kill()
    house.reopen()
    assert house.runtime.task(task.id).approve(second, by="boss")
    assert completes(house, task.id)
    assert deleted(world) == ["rm data/x"]
    (call,) = house.of(f"task/{task.id}/ledger", EffectRegistered)[1:2]
    assert (call.name, call.approval) == ("shell", second)
    said = 'approver changed this call to shell {"cmd":"rm data/x"}'
    assert heard == [f"({said})\nran rm data/x"]
    sound(house)


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (False, False),
        (lambda arguments: "rm" in arguments["cmd"], False),
        (lambda arguments: "ls" in arguments["cmd"], True),
    ],
)
def test_an_edited_call_is_asked_for_where_its_own_tool_says_so(
    rule: Any, asked: bool
) -> None:
    world = World()
    house = House(operator(world, [], rule))
    task = house.submit()
    (first,) = paused(house, task.id)
    task.approve(first, arguments={"cmd": "ls"}, tool="shell")
    if asked:
        paused(house, task.id)
        assert deleted(world) == []
    else:
        assert completes(house, task.id)
        assert deleted(world) == ["ls"]


def test_edited_arguments_of_the_same_tool_are_a_call_of_their_own() -> None:
    # K45
    world = World()
    house = House(deleter(world, DATA))
    task = house.submit()
    (first,) = paused(house, task.id)
    assert task.approve(first, arguments={"path": "data/y"})
    (second,) = paused(house, task.id)
    assert second != first
    assert deleted(world) == []
    assert task.reject(first) is False
    assert task.approve(second)
    assert completes(house, task.id)
    assert deleted(world) == ["data/y"]
    sound(house)


def test_a_model_that_changes_the_arguments_after_an_approval_is_asked_about() -> None:
    # K45
    world = World()
    calls: list[Calls] = [*DATA, [("delete", {"path": "data/y"})]]
    house = House(deleter(world, calls))
    task = house.submit()
    (first,) = paused(house, task.id)
    task.approve(first)
    (second,) = paused(house, task.id)
    assert second != first
    assert deleted(world) == ["data/x"]


@pytest.mark.parametrize(
    ("edit", "wrong"),
    [
        ({"arguments": {"paths": "y"}}, "arguments of delete"),
        ({"arguments": {"path": 1}}, "arguments of delete"),
        ({"arguments": {"cmd": "ls"}, "tool": "shel"}, "no tool 'shel'"),
        ({"arguments": "y"}, "must be an object"),
        ({"arguments": {"path": object()}}, "no JSON object"),
        ({"arguments": {"path": "x" * 20_000}}, "at most 16384"),
        ({"tool": "shell"}, "with arguments="),
    ],
)
def test_a_wrong_edit_is_refused_and_leaves_the_call_as_it_was(
    edit: Any, wrong: str
) -> None:
    world = World()
    house = House(operator(world, []))
    task = house.submit()
    (one,) = paused(house, task.id)
    with pytest.raises(Misuse, match=wrong):
        task.approve(one, **edit)
    assert [open_.approval for open_ in house.runtime.approvals()] == [one]
    assert task.approve(one)
    assert completes(house, task.id)
    assert deleted(world) == ["delete data/x"]


def test_a_call_is_edited_from_another_process() -> None:
    world = World()
    house = House(operator(world, [], shell_approval=False))
    task = house.submit()
    (one,) = paused(house, task.id)
    send(house, "c1", "approve", one, arguments='{"cmd": 1}', tool="shell")
    send(house, "c2", "approve", one, arguments='{"cmd": "ls"}', tool="shell")
    assert completes(house, task.id)
    first, second = answered(house, "c1"), answered(house, "c2")
    assert (first.done, "arguments of shell" in first.said) == (False, True)
    assert second.done
    assert second.said == "changed: shell is judged as a call of its own"
    assert deleted(world) == ["ls"]


# ── repeated after a no ──────────────────────────────────────────────────────────


def insisting(request: Any) -> ModelReply:
    """Makes the same call three times in each step, written in another way."""
    texts = ['{"path":"x","why":"a"}', '{"why": "a", "path": "x"}', '{"path": "x"}']
    made = len(outcomes(request))
    if made == len(texts):
        return ModelReply(content='"done"')
    call = ToolCall(id=f"c{made}", name="delete", arguments=texts[made])
    return ModelReply(tool_calls=(call,))


def insistent(world: World, heard: list[str]) -> Agent:
    @tool(effect="once", approval=True)
    def delete(path: str, why: str = "a") -> str:
        """Delete something."""
        world.sent.append(("", path))
        return f"deleted {path}"

    def model(request: Any) -> ModelReply:
        heard[:] = outcomes(request)
        return insisting(request)

    return Agent(
        name="agent",
        instructions="Tidy up.",
        model=Scripted(model),
        tools=[delete],
        recovery="rules",
        plan=Plan(steps=(Step(id="one", goal="1"), Step(id="two", goal="2"))),
    )


def test_a_rejected_call_is_rejected_again_in_its_step_and_asked_for_in_the_next() -> (
    None
):
    world, heard = World(), list[str]()
    house = House(insistent(world, heard))
    task = house.submit()
    (one,) = paused(house, task.id)
    task.reject(one, by="approver", why="it is needed")
    (two,) = paused(house, task.id)
    asked = house.of(f"task/{task.id}", ApprovalAsked)
    assert [ask.approval for ask in asked] == [one, two]
    task.reject(two, by="boss")
    assert completes(house, task.id)
    assert len(house.of(f"task/{task.id}", ApprovalAsked)) == 2
    assert heard == ["error: boss rejected it"] * 3
    assert deleted(world) == []
    sound(house)


def test_a_rejection_is_remembered_over_a_restart() -> None:
    world, heard = World(), list[str]()
    house = House(insistent(world, heard))
    task = house.submit()
    (one,) = paused(house, task.id)
    task.reject(one, by="approver")
    taken = "approval.taken"
    assert house.until_hit(taken)
    house.kill()
    house.reopen()
    (two,) = paused(house, task.id)
    assert two != one
    assert len(house.of(f"task/{task.id}", ApprovalAsked)) == 2


def test_a_rejection_is_of_one_call_only() -> None:
    world = World()
    house = House(deleter(world, [*BOTH, *BOTH]))
    task = house.submit()
    q1, q2 = paused(house, task.id)
    task.reject(q1)
    task.approve(q2)
    (again,) = paused(house, task.id)
    (listed,) = house.runtime.approvals()
    assert listed.arguments == {"path": "q2"}
    task.approve(again)
    assert completes(house, task.id)
    assert deleted(world) == ["q2"]


# ── rules that do not answer ─────────────────────────────────────────────────────


def test_a_function_that_hangs_opens_nothing() -> None:
    stuck = Stuck("approval")
    world = World()

    def rule(arguments: dict[str, Any]) -> bool:
        stuck.hang()
        return False

    house = House(deleter(world, DATA, approval=rule), dispatcher=stuck)
    task = house.submit()
    assert len(paused(house, task.id)) == 1
    stuck.let_go()
    house.sim.run_for(60.0)
    assert deleted(world) == []
    assert len(house.runtime.approvals()) == 1
