"""Keep one task going for hundreds of rounds, and look at every request it sends.

    python bench/long.py --rounds 500 --json

Results of 1,000 characters a round under a limit of 64,000; then 4,000 under 16,000
(`tight`). The first round finds an id, the round before the last has to use it, 500
rounds later and long out of the history. The figures are counted from the requests that
the model was given:

    fits            requests within the limit, measured again
    goal_present    requests that hold the goal, word for word
    value_used      the id that was used is the one that was found
    prefix_changes  requests that do not begin as the one before them, last message
                    apart; a provider's cache misses there

It fails where a request is too long or lacks the goal, where another id is used, or, in
the first run, where more than one request in ten begins anew.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from common import finish, heading, options

from perdure import Agent, Baseline, Runtime, ToolContext, tool
from perdure.actors.context.render import moving_data
from perdure.actors.tool import Tool
from perdure.context import request_characters
from perdure.models import ModelReply, ModelRequest, Scripted, ToolCall

GOAL = "Look at page after page of 导出2023年5月, then book the table by its id."
ROUNDS = 500
SHORT_ROUNDS = 60
FIRST = (1_000, 64_000)  # characters of a result, and of a request
TIGHT = (4_000, 16_000)
ANEW = 10  # one request in so many may begin anew
WORDS = ("rows", "region", "price", "checked", "total", "open", "华东", "订单", "late")


class Watched:
    """A scripted model, and what its requests were like."""

    def __init__(self, rounds: int, limit: int) -> None:
        self.rounds = rounds
        self.limit = limit
        self.fits = 0
        self.goals = 0
        self.anew = 0
        self.longest = 0
        self._before: list[Any] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        self._look(request)
        done = _page(request)
        if done == 0:
            return _call("find", {})
        if done < self.rounds - 2:
            return _call("look", {"page": done + 1})
        if done == self.rounds - 2:
            anchors = {one["name"]: one["value"] for one in _facts(request)}
            return _call("book", {"table_id": anchors.get("table_id", "forgotten")})
        return ModelReply(content=json.dumps("done"))

    def _look(self, request: ModelRequest) -> None:
        messages = request.messages
        size = request_characters(messages, request.tools)
        self.longest = max(self.longest, size)
        self.fits += size <= self.limit
        told = [one["content"] or "" for one in messages if one["role"] == "user"]
        self.goals += any(GOAL in text for text in told)
        self.anew += messages[: len(self._before)] != self._before
        self._before = messages[:-1]


def _page(request: ModelRequest) -> int:
    """The newest page that the request shows; a pure function of it."""
    for message in reversed(request.messages):
        if message["role"] == "tool":
            found = re.match(r"page ([0-9]+)", message["content"])
            return int(found[1]) if found else 0
    return 0


def _facts(request: ModelRequest) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = moving_data(request.messages[-1]["content"])["facts"]
    return facts


def _call(name: str, arguments: dict[str, Any]) -> ModelReply:
    call = ToolCall(id="1", name=name, arguments=json.dumps(arguments))
    return ModelReply(tool_calls=(call,))


class Desk:
    """What the tools show, and the id that is to be remembered."""

    def __init__(self, rounds: int, size: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._size = size
        self._rounds = rounds
        self.table_id = f"T-{self._random.randrange(10**9):09d}"
        self.booked: list[str] = []

    def tools(self) -> list[Tool]:
        @tool(effect="read")
        def find(ctx: ToolContext) -> str:
            """Find the id of the table."""
            ctx.anchor("table_id", self.table_id)
            return self._text(1, f"table_id={self.table_id}")

        @tool(effect="read")
        def look(page: int) -> str:
            """Look at a page."""
            decoy = f"T-{self._random.randrange(10**9):09d}"
            return self._text(page, f"other_id={decoy}")

        @tool(effect="once")
        def book(table_id: str) -> str:
            """Book the table."""
            self.booked.append(table_id)
            return self._text(self._rounds - 1, "booked")

        return [find, look, book]

    def _text(self, page: int, said: str) -> str:
        words = [f"page {page} {said}"]
        while sum(map(len, words)) + len(words) < self._size:
            number = self._random.randrange(10_000)
            words.append(f"{self._random.choice(WORDS)} {number}")
        return " ".join(words)[: self._size]


def run(rounds: int, size: int, limit: int, seed: int) -> dict[str, Any]:
    """One task of so many rounds; the figures of its requests."""
    desk = Desk(rounds, size, seed)
    model = Watched(rounds, limit)
    agent = Agent(
        name="clerk",
        instructions="Go page by page.",
        tools=desk.tools(),
        model=Scripted(model),
        max_rounds=rounds,
    )
    rules = Baseline(id="long", request_limit=limit)
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        Runtime(Path(folder) / "tasks.db", agents=[agent], baseline=rules) as runtime,
    ):
        result = runtime.wait(runtime.submit("clerk", GOAL).id, timeout=3600.0)
    return {
        "fits": model.fits,
        "goal_present": model.goals,
        "value_used": desk.booked == [desk.table_id] and result.status == "completed",
        "prefix_changes": model.anew,
        "longest": model.longest,
        "seconds": round(time.monotonic() - begin, 1),
    }


def broken(figures: dict[str, Any], rounds: int) -> int:
    """How many of the first three figures are not as they must be."""
    return (
        (figures["fits"] != rounds)
        + (figures["goal_present"] != rounds)
        + (not figures["value_used"])
    )


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument(
        "--rounds", type=int, help=f"model calls, {ROUNDS} if not given"
    )
    arguments = parser.parse_args()
    rounds = arguments.rounds or (SHORT_ROUNDS if arguments.short else ROUNDS)
    if rounds < 4:
        parser.error(f"--rounds {rounds}: give at least 4")
    if not arguments.json:
        heading(arguments, "the model is a script that reads its request; no real one")
    first = run(rounds, *FIRST, arguments.seed)
    tight = run(rounds, *TIGHT, arguments.seed)
    failures = broken(first, rounds) + broken(tight, rounds)
    failures += first["prefix_changes"] > rounds / ANEW
    finish(arguments, {**first, "tight": tight, "failures": failures})


if __name__ == "__main__":
    main()
