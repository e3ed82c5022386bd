"""simulate finds what a seeded crash does to an agent's tools, and replays it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Budget, CannotTell, DidNotHappen, Happened, tool
from perdure.errors import Misuse
from perdure.models import ModelReply, Scripted
from perdure.testing import SimulationReport, in_turn, simulate
from tests.actors.world import standing

SEEDS = range(40)


def agent(*tools: Any, **options: Any) -> Agent:
    calls = [(one.name, {"what": "x"}) for one in tools]
    options.setdefault("model", in_turn(*calls))
    return Agent(name="a", instructions="Act.", tools=tools, **options)


class Sent:
    """A mail server that knows request ids, and its tools of every kind."""

    def __init__(self) -> None:
        self.mails: list[str] = []

    def send(self, what: str, *, request_id: str) -> str:
        """Send a mail."""
        self.mails.append(request_id)
        return "sent"

    def seen(self, effect: Any) -> Any:
        known = effect.request_id in self.mails
        return Happened("sent") if known else DidNotHappen()

    def simulate(self, probe: Any, **options: Any) -> SimulationReport:
        mail = tool(effect="once", probe=probe)(self.send)
        return simulate(
            agent(mail), "act", reset=self.mails.clear, seeds=SEEDS, **options
        )


def tools_said(report: SimulationReport, text: str) -> set[str]:
    return {one.tool for one in report.findings if text in one.what}


def test_a_tool_that_keeps_its_word_minds_no_crash() -> None:
    sent = Sent()
    report = sent.simulate(sent.seen, world=lambda: len(sent.mails))
    assert report.safe, str(report)
    assert report.runs == 40
    assert report.crashes > 10
    assert report.kills > 10
    assert "as if nothing had happened" in str(report)


def test_a_probe_that_overlooks_the_effect_is_named_with_a_seed_that_shows_it() -> None:
    sent = Sent()
    report = sent.simulate(lambda effect: DidNotHappen())
    assert tools_said(report, "ran 2 times") == {"send"}
    (first,) = [one for one in report.findings if "ran 2 times" in one.what]

    sent.mails.clear()
    mail = tool(effect="once", probe=lambda effect: DidNotHappen())(sent.send)
    again = simulate(agent(mail), "act", seeds=[first.seed], trace=True)
    assert tools_said(again, "ran 2 times") == {"send"}
    assert again.trace[0] == f"seed {first.seed}"
    assert "job send" in again.trace


def test_a_probe_that_claims_too_much_loses_an_effect() -> None:
    report = Sent().simulate(lambda effect: Happened("sent"))
    assert tools_said(report, "never happened") == {"send"}
    assert tools_said(report, "lost: send(what='x')") == {"send"}


def test_a_once_tool_that_nobody_can_ask_is_told_to_get_a_probe() -> None:
    assert tools_said(Sent().simulate(None), "give it a probe") == {"send"}
    report = Sent().simulate(lambda effect: CannotTell("no"))
    assert tools_said(report, "give it a probe") == {"send"}


def test_a_tool_that_only_says_it_is_idempotent_changes_the_world_twice() -> None:
    lines: list[str] = []

    @tool(effect="idempotent")
    def append(what: str) -> str:
        """Append a line, and one more each time."""
        lines.append(what)
        return "ok"

    report = simulate(
        agent(append), "act", reset=lines.clear, world=lambda: len(lines), seeds=SEEDS
    )
    assert tools_said(report, "not safe") == {"append"}


def test_a_model_that_forgets_after_a_crash_has_another_output() -> None:
    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return what

    calls = in_turn(("look", {"what": "x"}))

    def forgetful(request: Any) -> ModelReply:
        data = standing(request)
        if data["operations"] and data["kind"] != "recovery":
            return ModelReply(content='"where was I?"')
        return calls._fn(request)

    report = simulate(agent(look, model=Scripted(forgetful)), "act", seeds=SEEDS)
    assert "another one" in str(report)
    assert "seeds=[" in str(report)


def test_a_budget_too_small_for_a_recovery_is_told() -> None:
    sent = Sent()
    calm_needs = Budget(model_calls=2)
    report = sent.simulate(sent.seen, budget=calm_needs)
    assert tools_said(report, "the task stood at paused: budget") == {""}
    assert tools_said(report, "over its limit") == set()


def test_the_same_seed_is_the_same_run() -> None:
    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return what

    runs = [simulate(agent(look), "act", seeds=[5], trace=True) for _ in range(2)]
    assert runs[0].trace == runs[1].trace
    assert len(runs[0].trace) > 50


def test_what_cannot_be_compared_is_refused() -> None:
    @tool(effect="read")
    def look(what: str) -> str:
        """Look."""
        return what

    with pytest.raises(Misuse, match="seeds="):
        simulate(agent(look), "act", seeds=[])
    with pytest.raises(AssertionError, match="without a crash"):
        simulate(agent(look, accept=lambda result, view: "never"), "act")
