"""The scripted model's mind: what to do next, from the request and nothing else.

It plays a model that knows the report job by heart but remembers nothing: which step
is on, what was found so far and what the tools said stands in the request, or the job
fails. A tool's result counts the same whether it is seen as an exchange or, after a
recovery, as a recorded operation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..actors.context.measure import canonical
from ..actors.context.render import moving_data
from ..actors.model import Message, ModelReply, ModelRequest, ToolCall
from .job import PARTS, Call, Desk, Missing, Part

__all__ = ["reply"]

INPUTS = "## Inputs\n"
DECLARATION = ("done", "next", "uncertain")  # fields that a request for one names


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A finished call and its result, wherever in the request it was told."""

    tool: str
    arguments: dict[str, Any]
    result: dict[str, Any]

    def answers(self, call: Call) -> bool:
        """Whether this is `call`; a record may hold defaults that a call leaves out."""
        return self.tool == call.tool and all(
            name in self.arguments and self.arguments[name] == value
            for name, value in call.arguments.items()
        )


def reply(request: ModelRequest) -> ModelReply:
    """Answer a request: with the step's next calls, its result, or a declaration."""
    text = request.messages[-1]["content"]
    try:
        data = moving_data(text)
    except ValueError:
        return _says("I cannot go on: the request does not say where the task stands.")
    prose = text.rpartition("```json")[0]
    if all(f'"{field}"' in prose for field in DECLARATION):
        return _says(canonical(_declaration(data)))
    step = _current(data)
    if step not in PARTS:
        return _says(f"I cannot go on: I know no step {step!r}.")
    seen = [*_recorded(data["operations"]), *_exchanged(request.messages)]
    desk = Desk(
        inputs=data.get("inputs") or _inputs(request.messages),
        facts={fact["name"]: fact["value"] for fact in data["facts"]},
    )
    try:
        return _work(PARTS[step], desk, seen, _Ids(step, request.messages))
    except Missing as missing:
        return _says(f"I cannot go on: the request holds {missing}.")


class _Ids:
    """Ids for calls: the same for the same request, and none twice in one request."""

    def __init__(self, step: str, messages: Sequence[Message]) -> None:
        self._step = step
        self._taken = {
            call["id"]
            for message in messages
            for call in message.get("tool_calls") or ()
        }

    def of(self, call: Call) -> str:
        number = 1
        while (found := f"{self._step}-{call.label}-{number}") in self._taken:
            number += 1
        return found


def _work(part: Part, desk: Desk, seen: Sequence[Seen], ids: _Ids) -> ModelReply:
    for calls in part.rounds(desk):
        results = {
            call.label: one.result
            for call in calls
            for one in seen
            if one.answers(call)
        }
        missing = [call for call in calls if call.label not in results]
        if missing:
            return ModelReply(
                content=part.why,
                tool_calls=tuple(
                    ToolCall(
                        id=ids.of(call),
                        name=call.tool,
                        arguments=canonical(call.arguments),
                    )
                    for call in missing
                ),
                finish_reason="tool_calls",
            )
        desk = msgspec.structs.replace(desk, results=desk.results | results)
    return _says(canonical(part.conclude(desk)))


def _says(text: str) -> ModelReply:
    return ModelReply(content=text)


def _current(data: dict[str, Any]) -> str | None:
    step: str | None = (data["step"] or {}).get("id")
    return step


def _declaration(data: dict[str, Any]) -> dict[str, Any]:
    """What is done, what comes next, what is not certain: read off the record."""
    return {
        "done": [step for step, state in data["steps"].items() if state == "completed"],
        "next": _current(data) or _first_open(data["steps"]),
        "uncertain": data["uncertain"],
    }


def _first_open(steps: dict[str, str]) -> str | None:
    """The step to begin with where none runs; the data name steps out of order."""
    return next((step for step in PARTS if steps.get(step) != "completed"), None)


def _inputs(messages: Sequence[Message]) -> dict[str, Any]:
    for message in messages:
        if message["role"] in ("system", "developer", "user"):
            _, heading, rest = message["content"].rpartition(INPUTS)
            if heading:
                inputs: dict[str, Any] = json.loads(rest.split("\n", 1)[0])
                return inputs
    return {}


def _recorded(operations: Sequence[dict[str, Any]]) -> Iterator[Seen]:
    for done in operations:
        result = _object(done["result"])
        if done["outcome"] == "completed" and result is not None:
            yield Seen(tool=done["tool"], arguments=done["arguments"], result=result)


def _exchanged(messages: Sequence[Message]) -> Iterator[Seen]:
    calls: dict[str, dict[str, Any]] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            calls[call["id"]] = call["function"]
        if message["role"] != "tool":
            continue
        function = calls[message["tool_call_id"]]
        arguments = _object(function["arguments"])
        result = _object(message["content"])
        if arguments is not None and result is not None:
            yield Seen(tool=function["name"], arguments=arguments, result=result)


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is; None for an error, as text or as an object."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "error" not in value else None
