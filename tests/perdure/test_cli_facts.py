"""What is known, as people keep and read it from another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Runtime, remember
from tests.actors.world import World
from tests.perdure.hosting import opened, reporter
from tests.perdure.test_cli_ask import LONG, STORE, folder, here, perdure

__all__ = ["folder"]


def test_a_fact_is_kept_while_a_runtime_has_the_store_open() -> None:
    # A28
    with opened(Path(STORE), reporter(World())) as runtime:
        words = ("know", "db", "PostgreSQL", "--scope", "group:a", "--by", "approver")
        code, value, _ = perdure(*words)
        assert (code, value["said"], value["applied"]) == (0, "kept as f1", True)
        (fact,) = runtime.memory.facts()
        assert (fact.key, fact.value, fact.scope) == ("db", "PostgreSQL", "group:a")
        assert fact.evidence == "approver"
        code, listed, _ = perdure("facts")
        assert (code, [one["id"] for one in listed]) == (0, ["f1"])


def test_the_history_of_a_key_shows_what_was_replaced_and_by_whom(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # K53
    with Runtime(STORE) as runtime:
        runtime.memory.know("db", "MySQL", evidence="the wiki", by="boss")
        runtime.memory.know("db", "PostgreSQL", evidence="ticket 7", by="approver")
    _, told, _ = here(capsys, "facts", "--history", "db")
    lines = [line.split(None, 3) for line in told.splitlines()]
    assert [line[0] for line in lines] == ["FACT", "f1", "f2"]
    assert "MySQL" in told.splitlines()[1]
    assert "superseded  the wiki" in told.splitlines()[1]
    assert "fact        ticket 7" in told.splitlines()[2]
    _, told, _ = here(capsys, "facts")
    assert "MySQL" not in told


def test_a_command_without_an_owner_is_kept_and_applied_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Runtime(STORE).close()
    words = ("know", "limit", "5", "--core", "--timeout", "0", "--store", STORE)
    code, said, _ = here(capsys, *words)
    assert (code, "the command is kept" in said) == (3, True)
    for _ in range(2):
        with Runtime(STORE) as runtime:
            runtime.memory.know("other", 1)  # behind the command
            found = runtime.memory.history("limit")
    assert [(one.value, one.core) for one in found] == [(5, True)]


def test_confirm_makes_a_fact_and_drop_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = {"prepare": [[("remember", {"key": "db", "value": "MySQL"})]]}
    with opened(Path(STORE), reporter(World(), remember, script=script)) as runtime:
        task = runtime.submit("agent", "Remember.")
        assert task.wait(LONG).status == "completed"
        (guess,) = runtime.memory.facts()
        assert guess.status == "hypothesis"
        _, told, _ = here(capsys, "facts", "--scope", f"task:{task.id[:6]}")
        assert "hypothesis" in told
        code, value, _ = perdure("confirm", guess.id, "--by", "approver")
        assert code == 0
        (fact,) = runtime.memory.facts()
        assert value["said"] == f"{guess.id} is a fact now ({fact.id})"
        assert perdure("drop", fact.id)[0] == 0
        assert runtime.memory.facts() == []
        code, _, complaint = perdure("drop", fact.id)
        assert (code, "no current fact" in complaint) == (2, True)


def test_what_the_cap_refuses_is_said_with_the_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Runtime(STORE) as runtime:
        for number in range(4):
            runtime.memory.know(f"k{number}", "x" * 900, core=True)
        code, said, complaint = here(capsys, "know", "more", "y" * 500, "--core")
        assert (code, said) == (1, "")
        assert complaint.startswith("perdure: know: core facts may have 4000")
        assert "k0 (global) 914" in complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("know", "db", "x", "--scope", "all"), "scope='all'"),
        (("know", "db", "x", "--scope", "task:zz"), "zz"),
        (("know", "db", "x", "--until", "soon"), "no time"),
        (("know", " ", "x"), "is empty"),
        (("confirm", "f9"), "no current fact 'f9'"),
    ],
)
def test_misuse_is_one_sentence_and_changes_nothing(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Runtime(STORE).close()
    code, _, complaint = here(capsys, *words)
    assert (code, said in complaint, complaint.count("\n")) == (2, True, 1)


def test_a_value_is_json_or_else_text(capsys: pytest.CaptureFixture[str]) -> None:
    with Runtime(STORE) as runtime:
        for key, word in (("a", "5"), ("b", '"5"'), ("c", "five"), ("d", '["x"]')):
            assert perdure("know", key, word)[0] == 0
        assert [one.value for one in runtime.memory.facts()] == [5, "5", "five", ["x"]]


def test_a_fact_ends_at_the_time_that_is_given() -> None:
    with Runtime(STORE) as runtime:
        assert perdure("know", "db", "x", "--until", "2001-01-01T01:00+01:00")[0] == 0
        assert runtime.memory.facts() == []
        assert runtime.memory.history("db")[0].until == 978_307_200.0
