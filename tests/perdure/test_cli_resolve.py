"""Effects in doubt: listed and resolved from another process, open store or at rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Runtime, UseAsync, cli, tool
from tests.actors.world import World
from tests.perdure.hosting import LONG, calls, opened, reporter
from tests.perdure.test_cli_ask import here, perdure

STORE = "tasks.db"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return tmp_path


def losing(world: World) -> Any:
    @tool(effect="once")
    def pay(what: str) -> str:
        """Pay for something; the answer gets lost."""
        world.sent.append(("", what))
        raise ConnectionResetError("cut off")

    return pay


@pytest.fixture
def agent(world: World) -> Agent:
    return reporter(world, losing(world), script=calls("pay"))


def doubted(runtime: Runtime) -> tuple[str, str]:
    """A task that waits for somebody's word, and the effect that it is about."""
    task = runtime.submit("agent", "Pay.")
    result = task.wait(LONG)
    assert result.reason == "unknown_effect"
    return task.id, result.ends_with.removeprefix("resolve ")


def test_an_effect_in_doubt_is_listed_and_resolved_while_its_owner_lives(
    agent: Agent, world: World
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task, effect = doubted(runtime)
        code, (line,), _ = perdure("effects", "--unknown")
        assert code == 0
        assert (line["id"], line["tool"], line["class"]) == (effect, "pay", "once")
        assert (line["status"], line["attempt"]) == ("unknown", 1)
        assert line["arguments"] == '{"what":"x"}'
        assert line["since"] == line["history"][-1]["at"]
        assert perdure("effects", task[:8], "--unknown")[1] == [line]
        code, value, _ = perdure(
            "resolve", effect, "--happened", "--result", '{"id": 7}', "--by", "approver"
        )
        assert (code, value["done"], value["said"]) == (0, True, "it happened")
        while (result := runtime.task(task).wait(LONG)).status == "paused":
            assert result.reason == "unknown_effect"
        assert result.status == "completed"
        assert perdure("effects", "--unknown")[1] == []
        lines = [one for one in perdure("effects", task)[1] if one["tool"] == "pay"]
        assert [(one["status"], one["result"]) for one in lines] == [
            ("completed", '{"id":7}')
        ]
    assert world.sent == [("", "x")]


def test_a_word_to_a_store_at_rest_is_kept_and_taken_at_the_next_opening(
    agent: Agent, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task, effect = doubted(runtime)
    words = ("resolve", effect, "--did-not-happen", "--timeout", "0")
    code, out, err = here(capsys, *words)
    assert (code, err) == (3, "")
    assert "the command is kept" in out
    with opened(Path(STORE), agent) as runtime:
        while (result := runtime.task(task).wait(LONG)).status == "paused":
            assert result.reason == "unknown_effect"
        assert result.status == "completed"
        assert runtime.unknown() == []
    assert world.sent == [("", "x")]


def test_the_same_word_again_is_done_and_the_opposite_is_not(agent: Agent) -> None:
    with opened(Path(STORE), agent) as runtime:
        _, effect = doubted(runtime)
        assert perdure("resolve", effect, "--happened", "--by", "approver")[0] == 0
        code, value, _ = perdure("resolve", effect, "--happened")
        assert (code, value["said"]) == (0, "approver said so before")
        code, value, _ = perdure("resolve", effect, "--did-not-happen")
        assert (code, value["done"]) == (1, False)
        assert "approver said before that it happened" in value["said"]


def test_the_text_names_the_effect_as_resolve_takes_it(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), agent) as runtime:
        _, effect = doubted(runtime)
    code, out, _ = here(capsys, "effects", "--unknown")
    head, line = out.splitlines()
    assert code == 0
    assert head.split()[:6] == ["EFFECT", "ATTEMPT", "STEP", "TOOL", "CLASS", "SINCE"]
    assert line.split()[:5] == [effect, "1", "only", "pay", "once"]
    assert here(capsys, "effects")[1].count(effect) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--happened"], "is no effect's id, such as t-1:7"),
        (["{effect}"], "one of the arguments --happened --did-not-happen is required"),
        (["{effect}", "--happened", "--did-not-happen"], "not allowed with"),
        (["{effect}", "--happened", "--result", "{{"], "is not JSON"),
        (["{effect}", "--did-not-happen", "--result", "1"], "--result says what came"),
        (["{task}:99", "--happened"], "has no effect"),
        (["{task}:1", "--happened"], "is a read"),
        (["t-none:1", "--happened"], "no task 't-none'"),
    ],
)
def test_a_word_that_cannot_be_taken_is_misuse(
    agent: Agent,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task, effect = doubted(runtime)
    given = [word.format(effect=effect, task=task) for word in words]
    if given[0].startswith("--"):
        given.insert(0, "7")
    code, out, err = here(capsys, "resolve", *given)
    assert (code, out) == (2, "")
    assert said in err


def test_what_has_been_decided_takes_no_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(Path(STORE), reporter(World())) as runtime:
        task = runtime.submit("agent", "Do it.")
        assert task.wait(LONG).status == "completed"
        sent = [one for one in perdure("effects", task.id)[1] if one["tool"] == "send"]
    assert cli.main(["resolve", sent[0]["id"], "--happened"]) == 2
    assert "(send) is completed, by run; nobody need" in capsys.readouterr().err


def test_a_task_that_has_ended_keeps_its_doubts(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Path(STORE), agent) as runtime:
        task, effect = doubted(runtime)
        assert runtime.task(task).cancel().status == "cancelled"
    code, _, err = here(capsys, "resolve", effect, "--happened")
    assert (code, "has ended (cancelled)" in err) == (2, True)


def test_a_loop_resolves_with_the_twin(agent: Agent) -> None:
    async def main() -> None:
        async with opened(Path(STORE), agent) as runtime:
            task = await runtime.asubmit("agent", "Pay.")
            effect = (await task).ends_with.removeprefix("resolve ")
            with pytest.raises(UseAsync, match="aresolve"):
                runtime.resolve(effect, happened=True)
            assert await runtime.aresolve(effect, happened=True, by="approver") is True
            while (result := await task).status == "paused":
                assert result.reason == "unknown_effect"
            assert result.status == "completed"

    asyncio.run(main())
