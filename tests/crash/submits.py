"""Kill a process right behind `submit`, many times, and look for every task later."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

from perdure import Agent, Runtime
from perdure.actors.context.measure import canonical
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall

from .children import was_killed
from .workload import make_tools, sent_from

__all__ = ["submitted_and_killed"]

AFTER = 0.001  # seconds between the return of `submit` and the kill
TIMEOUT = 120.0  # seconds that a start, or the last task, may take
ALL = 1_000  # tasks active at once, so that each one may begin before its kill


def submitted_and_killed(times: int) -> tuple[int, list[str]]:
    """Submit one task in each of so many killed processes, then run them all.

    Returns how many were begun when the last kill came, and what was wrong: an id that
    is not found or not completed, a mail that went out twice or not at all.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-submit-") as folder:
        place = Path(folder)
        wrong = [
            f"submit {n} was not killed"
            for n in range(times)
            if not was_killed(submit_and_die, str(place))
        ]
        ids = (place / "ids").read_text().split()
        begun = len(set(sent_from(place)))
        if was_killed(finish, str(place)):
            return begun, [*wrong, "the last process was killed"]
        status = json.loads((place / "status").read_text())
        wrong += [f"{task}: {status[task]}" for task in ids if status[task] != "done"]
        sent = Counter(sent_from(place))
        wrong += [f"{mail}: sent {n} times" for mail, n in sent.items() if n > 1]
        if len(set(ids)) != times or len(sent) != times:
            wrong.append(f"{times} submits, {len(set(ids))} ids, {len(sent)} mails")
    return begun, wrong


def reply(request: ModelRequest) -> ModelReply:
    """Have one mail sent, then answer."""
    if any(message["role"] == "tool" for message in request.messages):
        return ModelReply(content='"done"')
    if '"outcome":"completed"' in request.messages[-1]["content"]:
        return ModelReply(content='"done"')
    call = ToolCall(id="1", name="send", arguments=canonical({"what": "it"}))
    return ModelReply(tool_calls=(call,))


def opened(place: Path, *, resume: bool) -> Runtime:
    """The store, in a process that may die under it."""
    mailer = Agent(
        name="mailer",
        instructions="Send it.",
        model=Scripted(reply),
        tools=[one for one in make_tools(place) if one.name == "send"],
        recovery="rules",
    )
    return Runtime(
        place / "tasks.db",
        agents=[mailer],
        active=ALL,
        log=place / "log.jsonl",
        resume=resume,
    )


def submit_and_die(folder: str) -> None:
    """Submit one task and be killed; those of earlier processes are left alone."""
    place = Path(folder)
    runtime = opened(place, resume=False)
    task = runtime.submit("mailer", "Send it").id
    with (place / "ids").open("a") as ids:
        ids.write(f"{task}\n")
    time.sleep(AFTER)
    os.kill(os.getpid(), signal.SIGKILL)


def finish(folder: str) -> None:
    """Run every task to its end and write down what became of it."""
    place = Path(folder)
    status = {}
    with opened(place, resume=True) as runtime:
        for task in (place / "ids").read_text().split():
            result = runtime.task(task).wait(TIMEOUT)
            done = (result.status, result.output) == ("completed", "done")
            status[task] = "done" if done else f"{result.status}, {result.reason}"
    (place / "status").write_text(json.dumps(status))
