"""A harness for one test, and the pytest fixture that makes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, DidNotHappen, Happened, Runtime, sleep, tool
from perdure.actors import names
from perdure.actors.task import actor
from perdure.errors import Misuse
from perdure.testing import Harness, in_turn


def sleeper() -> Agent:
    calls = in_turn(("sleep", {"seconds": 3600}), answer="rested")
    return Agent(name="a", instructions="Sleep.", tools=[sleep], model=calls)


def test_virtual_time_comes_only_when_asked_for() -> None:
    harness = Harness()
    task = harness.open(sleeper()).submit("a", goal="sleep")
    harness.advance(3000)
    assert task.result() is None
    since = harness.clock.monotonic()
    assert harness.finish(task).output == "rested"
    assert 500 < harness.clock.monotonic() - since < 700
    harness.close()


def test_a_killed_runtime_is_opened_again_with_its_agents_and_clock() -> None:
    sent: list[str] = []

    def seen(effect: Any) -> Any:
        return Happened("ok") if effect.request_id in sent else DidNotHappen()

    @tool(effect="once", probe=seen)
    def send(text: str, *, request_id: str) -> str:
        """Send."""
        sent.append(request_id)
        return "ok"

    harness = Harness()
    calls = in_turn(("send", {"text": "x"}), answer="sent")
    agent = Agent(name="a", instructions="Send.", tools=[send], model=calls)
    task = harness.open(agent).submit("a", goal="send")
    assert harness.until(lambda: bool(sent))  # and nobody has recorded it
    harness.kill()
    harness.open()
    assert harness.finish(task).output == "sent"
    assert len(sent) == 1
    assert "recovery.began" in {event for event, _ in harness.lines}
    harness.close()


@pytest.fixture
def crashed(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A harness whose task went on after a crash that no test ordered."""
    failing = iter([True])
    true_decide = actor.decide

    def decide_badly(*args: Any, **options: Any) -> Any:
        if next(failing, False):
            raise ZeroDivisionError("a bug of ours")
        return true_decide(*args, **options)

    monkeypatch.setattr(actor, "decide", decide_badly)
    harness = Harness()
    task = harness.open(sleeper()).submit("a", goal="sleep")
    assert harness.finish(task).status == "completed"
    return harness


def test_a_crash_that_nobody_asked_about_fails_the_test(crashed: Harness) -> None:
    with pytest.raises(AssertionError, match="a bug of ours"):
        crashed.close()


def test_a_crash_that_the_test_asked_about_does_not(crashed: Harness) -> None:
    assert "a bug of ours" in crashed.crashes()[0]
    crashed.close()


def test_a_crash_that_the_test_ordered_is_not_unnoticed() -> None:
    harness = Harness()
    task = harness.open(sleeper()).submit("a", goal="sleep")
    harness.until(lambda: harness.dispatcher.crash(names.task(task.id)))
    assert harness.finish(task).output == "rested"
    harness.close()


def test_a_harness_has_one_runtime_at_a_time() -> None:
    harness = Harness()
    with pytest.raises(Misuse, match="open"):
        harness.finish("t-1")
    with pytest.raises(Misuse, match="open"):
        harness.kill()
    harness.open(sleeper())
    with pytest.raises(Misuse, match="kill"):
        harness.open()
    harness.close()
    assert isinstance(harness.open(), Runtime)
    harness.close()


TESTS = """
from perdure import Agent
from perdure.testing import in_turn

def test_it_opens_runs_and_dies(perdure_runtime):
    agent = Agent(name="a", instructions="Answer.", model=in_turn(answer=1))
    task = perdure_runtime.open(agent).submit("a", goal="go")
    perdure_runtime.kill()
    perdure_runtime.open()
    assert perdure_runtime.finish(task).output == 1

def test_a_crash_goes_unnoticed(perdure_runtime):
    perdure_runtime._crashes.append("task/t-1: boom")

def test_everything_was_closed():
    from perdure.testing import Harness
    import gc
    assert all(one._runtime is None for one in gc.get_objects() if type(one) is Harness)
"""


def test_the_fixture_gives_a_harness_and_closes_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        'pytest_plugins = ["perdure.testing.fixtures"]\n'
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed, 1 error" in done.stdout, done.stdout
    assert "task/t-1: boom" in done.stdout
