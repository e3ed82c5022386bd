"""Tools in a process of their own: whatever they do is an outcome."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Misuse, Tool, ToolContext, tool
from perdure.actors.context.measure import canonical
from perdure.actors.executor.executor import Outcome
from perdure.actors.executor.isolated import LINE_LIMIT, LOG_LINES
from perdure.actors.ledger.work import RESULT_LIMIT, tool_work
from tests.actors.executor import hostile
from tests.actors.executor.test_executor import Bench

LONG = 30.0  # seconds; only a failing test waits so long
ROOT = str(Path(__file__).parents[3])


class Desk:
    """Runs isolated tools on an executor whose timers the test rings."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def start(self, one: Tool, **arguments: Any) -> None:
        context = ToolContext(
            request_id="r1",
            deadline=self.bench.hands.clock.time() + 60.0,
            fence="t:1:1",
            log=lambda message, **fields: self.lines.append((message, fields)),
            anchors={},
        )
        work = tool_work(
            one,
            arguments,
            context,
            arguments=canonical(arguments),
            key=("t", "1#1"),
            timeout=5.0,
            forbidden=lambda: "",
            deliver=self.bench.told.append,
        )
        self.bench.executor.run(work)

    def run(self, one: Tool, **arguments: Any) -> Outcome:
        self.start(one, **arguments)
        self.bench.hands.run()
        return self.bench.told[-1]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def gone(pid: int) -> bool:
    """Wait for a process that is not our child to be gone, or a zombie of init's."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def named(name: str, module: str) -> Callable[..., Any]:
    """A function that says that it is `name` of `module`."""

    def function(a: int) -> int:
        return a

    function.__qualname__ = name
    function.__module__ = module
    return function


def text(outcome: Outcome) -> str:
    assert outcome.status == "completed", outcome
    found: str = outcome.value.text
    return found


def test_a_call_has_its_arguments_and_defaults_and_gives_its_result(desk: Desk) -> None:
    assert text(desk.run(hostile.add, a=1)) == "3"


def test_an_async_tool_and_a_function_of_another_name_run_there_too() -> None:
    assert text(Desk().run(hostile.add_later, a=1, b=4)) == "5"
    assert text(Desk().run(hostile.renamed, a=1)) == "2"


def test_it_runs_in_another_process_and_is_given_what_it_asks_for(desk: Desk) -> None:
    outcome = desk.run(hostile.whoami)
    pid = outcome.value.anchors["pid"]
    assert int(pid) != os.getpid()
    assert text(outcome) == f'{{"fence":"t:1:1","pid":{pid},"request":"r1"}}'
    assert desk.lines == [("hello", {"number": 1})]
    assert gone(int(pid))


def test_what_a_tool_declares_of_its_exceptions_holds_there_too() -> None:
    no = Desk().run(hostile.declares, declines=True)
    assert (no.status, no.started, no.error) == ("failed", False, "Declined: no")
    lost = Desk().run(hostile.declares, declines=False)
    assert (lost.status, lost.started) == ("unknown", True)


def test_what_it_logs_is_bounded_and_costs_no_answer(desk: Desk) -> None:
    assert text(desk.run(hostile.talks)) == "talked"
    assert len(desk.lines) == LOG_LINES
    odd, *rest = desk.lines
    assert odd[0] == "'odd'"
    assert odd[1]["what"].startswith("<object object")
    assert all(len(message) < LINE_LIMIT for message, _ in rest)


@pytest.mark.parametrize(
    ("one", "arguments", "told"),
    [
        (hostile.leaves, {"code": 3}, "exit code 3"),
        (hostile.leaves, {"code": 0}, "exit code 0"),
        (hostile.segfaults, {}, "SIGSEGV"),
        (hostile.kills_itself, {}, "SIGKILL"),
        (hostile.closes_all, {}, "exit code 1"),
    ],
    ids=["exit", "exit well", "segfault", "killed", "closes all"],
)
def test_a_process_that_ends_without_an_answer_leaves_it_in_doubt(
    desk: Desk, one: Tool, arguments: dict[str, Any], told: str
) -> None:
    # P2 P8
    outcome = desk.run(one, **arguments)
    assert (outcome.status, outcome.started) == ("unknown", True)
    assert (
        outcome.error
        == f"ConnectionError: its process ended without an answer ({told})"
    )
    assert not desk.bench.executor.worker_lives(("t", "1#1"))


@pytest.mark.parametrize(
    ("one", "status", "started", "error"),
    [
        (hostile.refuses, "failed", False, "NotSent: the desk is closed"),
        (hostile.exits, "unknown", True, "SystemExit: 3"),
        (hostile.raises, "failed", True, "ValueError: why"),
    ],
    ids=["not sent", "exit", "error"],
)
def test_what_it_raises_is_classified_as_if_it_had_run_here(
    desk: Desk, one: Tool, status: str, started: bool, error: str
) -> None:
    arguments = {"text": "why"} if one is hostile.raises else {}
    outcome = desk.run(one, **arguments)
    assert (outcome.status, outcome.started, outcome.error) == (status, started, error)


def test_a_tool_that_cannot_be_found_there_was_surely_not_called(desk: Desk) -> None:
    outcome = desk.run(tool(isolate="process")(named("gone", hostile.__name__)), a=1)
    assert (outcome.status, outcome.started) == ("failed", False)
    assert "hostile.gone cannot be called" in outcome.error


def test_fifty_megabytes_are_cut_where_they_are(desk: Desk) -> None:
    told = text(desk.run(hostile.huge))
    assert len(told) < RESULT_LIMIT + 100
    assert told.endswith("(cut: the result had 50000000 characters)")


def test_a_result_that_is_no_json_says_so(desk: Desk) -> None:
    assert text(desk.run(hostile.odd)).startswith("(done; the result cannot be shown")


def test_what_it_prints_and_closes_does_not_disturb_its_answer(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert text(Desk().run(hostile.prints)) == "printed"
    said = capfd.readouterr()
    assert len(said.out.strip()) == 200_000
    assert said.err == "and on stderr\n"
    assert text(Desk().run(hostile.closes_stdout)) == "closed"


@pytest.mark.parametrize("one", [hostile.garbles, hostile.floods], ids=["some", "much"])
def test_garbage_on_its_pipe_is_no_answer(desk: Desk, one: Tool) -> None:
    outcome = desk.run(one)
    assert outcome.status == "unknown"
    assert outcome.error == "ConnectionError: its process answered garbage"


@pytest.mark.skipif(sys.platform == "darwin", reason="no limit of address space there")
def test_over_its_memory_limit_it_fails_and_nobody_else(desk: Desk) -> None:
    outcome = desk.run(hostile.hoards)
    assert (outcome.status, outcome.error) == ("failed", "MemoryError: ")


def test_threads_that_it_leaks_end_with_it(desk: Desk) -> None:
    before = threading.active_count()
    assert text(desk.run(hostile.leaks_threads, count=20)) == "leaked"
    assert threading.active_count() == before


def at_work(desk: Desk, file: Path) -> tuple[threading.Thread, list[int]]:
    """Start a tool that hangs; return the thread that waits for it, and its pids."""
    desk.start(hostile.hangs, file=str(file))
    thread = threading.Thread(target=desk.bench.hands.run)
    thread.start()
    end = time.monotonic() + LONG
    while not (file.exists() and len(file.read_text().split()) == 2):
        assert time.monotonic() < end
        time.sleep(0.01)
    return thread, [int(pid) for pid in file.read_text().split()]


def test_at_its_deadline_it_is_killed_with_all_it_started(
    desk: Desk, tmp_path: Path
) -> None:
    # design 4: killed means that the worker has ended; then its class decides.
    thread, pids = at_work(desk, tmp_path / "pids")
    assert desk.bench.told == []
    desk.bench.hands.timers[0].callback()  # type: ignore[misc]
    thread.join(LONG)
    (outcome,) = desk.bench.told
    assert outcome.status == "unknown"
    assert outcome.error == "TimeoutError: its process was killed at the deadline"
    assert not desk.bench.executor.worker_lives(("t", "1#1"))
    assert all(gone(pid) for pid in pids)
    desk.bench.hands.ring()
    assert desk.bench.told == [outcome]
    assert desk.bench.lines == []


def test_one_that_cannot_be_killed_is_given_up_after_a_grace(desk: Desk) -> None:
    def deaf() -> None:
        desk.bench.hands.ring()  # its deadline
        assert desk.bench.told == []
        desk.bench.hands.ring()  # its grace
        assert desk.bench.executor.worker_lives(("t", "w"))

    outcome = desk.bench.run(deaf, kill=lambda: None)
    assert (outcome.status, outcome.error) == ("unknown", "no answer within 5 s")


def test_a_process_that_outlives_its_tool_is_not_waited_for(
    desk: Desk, tmp_path: Path
) -> None:
    assert gone(int(text(desk.run(hostile.leaves_a_process))))
    desk = Desk()
    outcome = desk.run(hostile.dies_leaving_a_process, file=str(tmp_path / "pid"))
    assert "exit code 4" in outcome.error
    assert gone(int((tmp_path / "pid").read_text()))


DIES = """
import os, sys, threading
sys.path.insert(0, {root!r})
from pathlib import Path
from perdure.actors.executor import child
from tests.actors.executor import hostile
from tests.actors.executor.test_isolated import Desk, at_work
at_work(Desk(), Path({file!r}))
print("at work", flush=True)
threading.Event().wait()
"""


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    body = DIES.format(root=ROOT, file=str(file))
    parent = subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline() == b"at work\n"
        own, started = (int(pid) for pid in file.read_text().split())
        parent.send_signal(signal.SIGKILL)
        assert gone(own)
        os.kill(started, signal.SIGKILL)  # what a tool starts itself is its own matter
    finally:
        parent.kill()
        parent.communicate()


def test_where_there_is_no_signal_for_that_a_pipe_that_closes_does_it() -> None:
    body = (
        "import os, sys, time\n"
        "from perdure.actors.executor import child\n"
        "child._death_signal = lambda: False\n"
        "sys.stdin.buffer.readline()\n"
        "child.die_with(os.getppid())\n"
        "print('up', flush=True)\n"
        "time.sleep(3600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"call\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"up\n"
    process.stdin.close()
    assert process.wait(LONG) == -signal.SIGKILL
    process.stdout.close()


def test_no_descriptor_and_no_child_is_left(desk: Desk) -> None:
    # P12
    if not Path("/proc/self/fd").exists():
        pytest.skip("descriptors are counted in /proc")

    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    Desk().run(hostile.add, a=1)
    before = count()
    for one in (hostile.add, hostile.leaves, hostile.garbles):
        Desk().run(one, **({"a": 1} if one is hostile.add else {"code": 1}))
    assert count() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# ── declared ─────────────────────────────────────────────────────────────────────


class Made:
    __name__ = "made"

    def __call__(self, a: int) -> int:
        return a


@pytest.mark.parametrize(
    "function",
    [named("test.<locals>.inner", __name__), lambda: None, Made()],
    ids=["nested", "lambda", "object"],
)
def test_what_has_no_name_to_be_found_by_is_refused(function: Any) -> None:
    with pytest.raises(Misuse, match="top of a module"):
        tool(isolate="process")(function)


def test_a_function_of_the_main_script_is_refused() -> None:
    with pytest.raises(Misuse, match="__main__ cannot be imported"):
        tool(isolate="process")(named("function", "__main__"))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"isolate": "thread"}, "is not 'process'"),
        ({"memory": 2**30}, "add isolate='process'"),
        ({"isolate": "process", "memory": 1024}, "whole number of bytes"),
        ({"isolate": "process", "memory": True}, "whole number of bytes"),
    ],
)
def test_options_that_contradict_themselves_are_refused(
    options: dict[str, Any], match: str
) -> None:
    with pytest.raises(Misuse, match=match):
        tool(**options)(hostile.bare)
