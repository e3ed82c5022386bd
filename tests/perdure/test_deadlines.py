"""A task's deadline on real threads and a real event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from perdure import Agent, Runtime
from perdure.actors.model import ModelReply, ModelRequest
from tests.perdure.hosting import LONG

SOON = 0.2  # seconds


class Forever:
    """A model that never answers, and notes that nobody waits for it any more."""

    name = "forever"

    def __init__(self) -> None:
        self.given_up = threading.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        raise AssertionError


def test_a_model_that_never_answers_is_given_up_at_the_deadline_of_its_task(
    tmp_path: Path,
) -> None:
    # A82 A111: its own timeout is two minutes
    model = Forever()
    agent = Agent(name="agent", instructions="Do it.", model=model)
    with Runtime(tmp_path / "tasks.db", agents=[agent]) as runtime:
        task = runtime.submit("agent", "do it", deadline=time.time() + SOON)
        result = task.wait(timeout=LONG)
        assert (result.status, result.reason) == ("paused", "deadline")
        assert result.condition == "deadline"
        assert model.given_up.wait(LONG)
