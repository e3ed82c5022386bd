"""`perdure spend`: its sums are the books to the unit, whatever they are grouped by."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import Runtime, views_text
from perdure.actors import events
from perdure.actors.budget.account import AccountState, Books, add, apply, shown
from perdure.actors.events import Amounts
from perdure.actors.model import Usage
from perdure.cli import main
from perdure.models import ServiceTrouble
from perdure.views_spend import By, Spend, SpendLine, charges, spend
from tests.perdure.test_money import Asked, priced
from tests.perdure.test_views import Store

BYS: tuple[By, ...] = get_args(By)
SPENT = ("reported", "estimated")
DIMENSIONS = (
    "tokens",
    "input_tokens",
    "output_tokens",
    "cost",
    "model_calls",
    "tool_calls",
    "tool:look",
    "milliseconds",
)

amounts = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 10**15))
attempts = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("model", "tool")),
        "step": st.sampled_from(("look", "send")),
        "name": st.sampled_from(("a", "b")),
        "source": st.sampled_from(("reported", "estimated", "unknown")),
        "retry": st.booleans(),
        "aside": amounts,
        "used": amounts,
        "end": st.sampled_from(
            ("spent", "unknown", "recovery", "none", "held", "open")
        ),
        "beside": st.dictionaries(st.sampled_from(("unknown", "recovery")), amounts),
    }
)


class Ledgers(Store):
    """A store with the ledger and the account of tasks."""

    def attempt(self, task: str, op: int, one: dict[str, Any]) -> None:
        number = 2 if one["retry"] else 1
        reserved = events.Reserved(
            op=op, attempt=number, book="spent", amounts=one["aside"]
        )
        self.write(f"task/{task}/account", reserved)
        tool = one["kind"] == "tool"
        registered = events.EffectRegistered(
            op=op,
            attempt=number,
            step=one["step"],
            kind=one["kind"],
            name=one["name"] if tool else "model",
            effect="read",
            key="k",
            arguments="",
            not_after=0.0,
            model="" if tool else one["name"],
        )
        recorded = events.EffectRecorded(
            op=op, attempt=number, status="completed", by="run", source=one["source"]
        )
        self.write(f"task/{task}/ledger", registered, recorded)
        if one["end"] == "held":
            held = events.Held(op=op, attempt=number)
            self.write(f"task/{task}/account", held)
        elif one["end"] != "open":
            settled = events.Settled(
                op=op,
                attempt=number,
                book=one["end"],
                amounts={} if one["end"] == "none" else one["used"],
                beside={} if one["end"] == "none" else _others(one),
            )
            self.write(f"task/{task}/account", settled)

    def books(self, task: str) -> Books:
        state = AccountState()
        for record in self.bench.backend.store.streams.get(f"task/{task}/account", []):
            state = apply(state, self.codec.decode(record))  # type: ignore[arg-type]
        return state.books


def _others(one: dict[str, Any]) -> dict[str, Amounts]:
    return {book: n for book, n in one["beside"].items() if book != one["end"]}


def summed(lines: tuple[SpendLine, ...], *books: str) -> dict[str, Any]:
    """What the lines of these books hold, as whole numbers."""
    total: Amounts = {}
    for line in lines:
        if line.book in books:
            total = add(total, _raw(line.used))
    return {name: n for name, n in total.items() if n}


def _raw(used: dict[str, Any]) -> Amounts:
    raw: Amounts = {}
    for name, value in used.items():
        if name == "cost":
            whole, _, rest = value.partition(".")
            raw["cost"] = int(whole + f"{rest:0<12}")
        elif name == "seconds":
            raw["milliseconds"] = round(value * 1000)
        elif name == "tool_calls":
            raw |= {f"tool:{tool}": calls for tool, calls in value.items()}
        else:
            raw[name] = value
    return raw


def _plain(book: Amounts) -> Amounts:
    raw = _raw(shown(book))
    return {name: n for name, n in raw.items() if n}


@settings(max_examples=60, deadline=None)
@given(st.lists(attempts, max_size=8))
def test_the_lines_add_up_to_the_books_of_the_account(
    workload: list[dict[str, Any]],
) -> None:
    store = Ledgers()
    store.submit("t-1")
    for op, one in enumerate(workload, 1):
        store.attempt("t-1", op, one)
    books = store.books("t-1")
    total: dict[str, Amounts] = {}
    for charge in charges(store.reader, "t-1"):
        book = "spent" if charge.book in SPENT else charge.book
        total[book] = add(total.get(book, {}), charge.amounts)
    total.pop("held", None)
    assert {name: _nonzero(n) for name, n in total.items() if _nonzero(n)} == {
        name: _nonzero(getattr(books, name))
        for name in ("spent", "unknown", "recovery")
        if _nonzero(getattr(books, name))
    }
    for by in BYS:
        found = spend(store.reader, "t-1", by)
        for lines in (found.lines, found.total):
            assert summed(lines, *SPENT) == _plain(books.spent)
            assert summed(lines, "unknown") == _plain(books.unknown)
            assert summed(lines, "recovery") == _plain(books.recovery)


def _nonzero(amounts: Amounts) -> Amounts:
    return {name: n for name, n in amounts.items() if n}


def attempt(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "kind": "model",
        "step": "look",
        "name": "m-1",
        "source": "reported",
        "retry": False,
        "aside": {},
        "used": {"model_calls": 1},
        "end": "spent",
        "beside": {},
    }
    return plain | changes


def lines_of(found: Spend) -> list[tuple[str, str, int, int, int]]:
    return [
        (one.name, one.book, one.attempts, one.retries, one.unpriced)
        for one in found.lines
    ]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("tool", [("model", "reported", 1, 0, 1), ("look", "unknown", 1, 1, 0)]),
        ("model", [("m-1", "reported", 1, 0, 1), ("(tools)", "unknown", 1, 1, 0)]),
        ("step", [("look", "reported", 1, 0, 1), ("send", "unknown", 1, 1, 0)]),
        ("task", [("t-1", "reported", 1, 0, 1), ("t-1", "unknown", 1, 1, 0)]),
    ],
)
def test_attempts_are_counted_by_name_and_book(by: By, expected: Any) -> None:
    store = Ledgers()
    store.submit("t-1")
    store.attempt("t-1", 1, attempt())
    tool = attempt(kind="tool", name="look", step="send", retry=True, end="unknown")
    store.attempt("t-1", 2, tool | {"used": {"tool_calls": 1}})
    assert lines_of(spend(store.reader, "t-1", by)) == expected


def test_days_are_those_of_utc() -> None:
    store = Ledgers()
    store.submit("t-1")
    store.bench.now = 86_400.0 - 5.0  # the first is settled in its last second
    store.attempt("t-1", 1, attempt())
    store.attempt("t-1", 2, attempt())
    days = [one.name for one in spend(store.reader, "t-1", "day").lines]
    assert days == ["1970-01-01", "1970-01-02"]


def test_what_is_reported_estimated_and_held_stands_apart() -> None:
    store = Ledgers()
    store.submit("t-1")
    for op, changes in enumerate(
        (
            {},
            {"source": "estimated"},
            {"source": "unknown"},
            {"end": "held", "aside": {"tokens": 7}},
            {"end": "none"},
            {"end": "open", "aside": {"tokens": 9}},
        ),
        1,
    ):
        store.attempt("t-1", op, attempt(**changes))
    found = spend(store.reader, "t-1", "task")
    assert lines_of(found) == [
        ("t-1", "reported", 1, 0, 1),
        ("t-1", "estimated", 2, 0, 2),
        ("t-1", "held", 1, 0, 0),
    ]
    assert found.total[-1].used == {"tokens": 7, "tool_calls": {}}


def test_what_was_held_is_held_no_more_once_it_is_decided() -> None:
    store = Ledgers()
    store.submit("t-1")
    store.attempt("t-1", 1, attempt(end="held", aside={"tokens": 7}))
    decided = events.Settled(op=1, attempt=1, book="spent", amounts={"tokens": 5})
    store.write("task/t-1/account", decided)
    (line,) = spend(store.reader, "t-1", "task").lines
    assert (line.book, line.used) == ("reported", {"tokens": 5, "tool_calls": {}})


def test_all_tasks_are_listed_and_a_subtask_is_summed_with_its_parent() -> None:
    store = Ledgers()
    for task in ("t-1", "t-2"):
        store.submit(task)
        store.attempt(task, 1, attempt())
    given_ = events.Granted(grant="t-2/first", task="t-2", amounts={}, parent="t-1")
    store.write("services/pool", given_)
    found = spend(store.reader, None, "task")
    assert [one.name for one in found.lines] == ["t-1", "t-2"]
    assert [one.attempts for one in found.total] == [1]


def test_a_cost_that_nobody_knows_is_shown_as_such() -> None:
    store = Ledgers()
    store.submit("t-1")
    store.attempt("t-1", 1, attempt(name="free"))
    store.attempt("t-1", 2, attempt(used={"model_calls": 1, "cost": 10**11}))
    text = list(views_text.spend_text(spend(store.reader, "t-1", "model")))
    assert [line.split()[0] for line in text] == ["MODEL", "free", "m-1", "total"]
    assert [re.split("  +", line)[-2] for line in text] == [
        "COST",
        "?",
        "0.1",
        "0.1 + ?",
    ]


def test_a_store_without_spending_says_so() -> None:
    found = spend(Ledgers().reader, None, "task")
    assert list(views_text.spend_text(found)) == ["nothing was spent"]


# ── what was learned ─────────────────────────────────────────────────────────────


def learned() -> Ledgers:
    store = Ledgers()
    for task, name in (("t-1", "look"), ("t-2", "send")):
        store.submit(task)
        store.attempt(task, 1, attempt(kind="tool", name=name))
        store.attempt(task, 2, attempt(name="small"))
    samples = {
        "tool:look": (1_500, 900, 800),
        "tool:send": (5, 7),
        "tool:gone": (1, 1, 1),
        "model:small": (2_000,) * 3,
        "input:model:small": (800,) * 3,
    }
    event = events.EstimatesLearned(task="t-1", samples=samples)
    store.write("services/pool", event)
    return store


def test_what_calls_usually_take_is_shown_of_what_was_called() -> None:
    found = spend(learned().reader, None, "tool").estimates
    assert [msgspec.structs.astuple(one) for one in found] == [
        ("model:small", 3, 2.0, 0.8),
        ("tool:look", 3, 1.5, None),
        ("tool:send", 2, None, None),
    ]


def test_of_one_task_only_its_own_tools_and_models_are_shown() -> None:
    found = spend(learned().reader, "t-2", "tool")
    assert [one.name for one in found.estimates] == ["model:small", "tool:send"]
    shown_ = [line.split() for line in views_text.spend_text(found)][-4:]
    assert shown_ == [
        [],
        ["USUALLY", "SAMPLES", "SECONDS", "INPUT"],
        ["model:small", "3", "2", "x", "0.8"],
        ["tool:send", "2", "?"],
    ]


# ── the command ──────────────────────────────────────────────────────────────────


class Named(Asked):
    name = "small"


def test_the_command_says_what_a_task_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.db")
    model = Named(
        ServiceTrouble("slow down", status=429),
        Usage(input_tokens=100, output_tokens=10),
    )
    with Runtime(path, agents=[priced(model)]) as runtime:
        result = runtime.submit("agent", "go").wait(timeout=30.0)
        task = result.task
        running = main(["spend", task, "--by", "model", "--store", path, "--json"])
        assert running == 0
    before = json.loads(capsys.readouterr().out)
    assert main(["spend", task[:6], "--by", "model", "--store", path, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    (estimate,) = value.pop("estimates")
    assert (estimate["name"], estimate["samples"]) == ("model:small", 1)
    before.pop("estimates")  # learned once the task's account ends
    assert value == before
    (line,) = value["total"]
    assert (line["attempts"], line["retries"]) == (2, 1)
    assert line["used"] == result.spent
    assert value["lines"][0]["name"] == "small"
    assert main(["spend", "--store", path]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == [task, "reported"]


def test_a_wrong_word_is_misuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Runtime(tmp_path / "t.db"):
        pass
    for words in (["--by", "colour"], ["t-none"]):
        assert main(["spend", *words, "--store", str(tmp_path / "t.db")]) == 2
        assert capsys.readouterr().err.startswith("perdure: ")
