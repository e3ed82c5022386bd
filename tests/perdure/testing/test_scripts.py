"""The scripted model that a host's tests are given."""

from __future__ import annotations

import asyncio

from perdure.actors.context.summary import Subject, summary_request
from perdure.models import ModelRequest
from perdure.testing import in_turn


def test_a_script_that_is_asked_for_a_summary_makes_none() -> None:
    # A41
    subject = Subject(goal="g", constraints=(), anchors={}, before="", blocks=())
    asked = {"role": "user", "content": summary_request(subject, limit=1_000)}
    request = ModelRequest(
        messages=[asked], tools=[], max_output_tokens=256, timeout=1.0
    )
    reply = asyncio.run(in_turn(("send", {})).complete(request))
    assert reply.content is not None
    assert reply.tool_calls == ()
