"""Short names for messages, and random histories made of them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from perdure.actors.context.units import units


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": "q", "arguments": arguments},
            }
            for call_id in ids
        ],
    }


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "q", "parameters": {"type": "object", "properties": {}}},
}

_texts = st.one_of(
    st.text(max_size=20),
    st.builds(lambda word, n: word * n, st.sampled_from("x资😀"), st.integers(1, 300)),
)


@st.composite
def _exchange(draw: st.DrawFn) -> list[dict[str, Any]]:
    ids = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    order = draw(st.permutations(ids))
    arguments = draw(_texts)
    content = draw(st.none() | _texts)
    return [
        {**calls(*ids, arguments=arguments), "content": content},
        *(result(call_id, draw(_texts)) for call_id in order),
    ]


_units = st.one_of(
    _exchange(),
    _exchange(),
    st.builds(lambda text: [user(text)], _texts),
    st.builds(lambda text: [says(text)], st.none() | _texts),
    st.builds(
        lambda message, none: [{**message, "tool_calls": none}],
        st.sampled_from((says("x"), says(None), user("u"), system("s"))),
        st.sampled_from((None, [])),
    ),
    st.builds(
        lambda role, text: [{"role": role, "content": text}],
        st.sampled_from(("system", "developer")),
        _texts,
    ),
)


def _flat(units: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [message for unit in units for message in unit]


well_formed = st.lists(_units, min_size=1, max_size=12).map(_flat)


@st.composite
def damaged(draw: st.DrawFn) -> list[Any]:
    """A history in which one message is lost, doubled, moved or replaced."""
    history: list[Any] = draw(well_formed)
    place = draw(st.integers(0, len(history) - 1))
    match draw(st.sampled_from(("lose", "double", "move", "replace", "field"))):
        case "lose" if len(history) > 1:
            del history[place]
        case "double":
            history.insert(place, history[place])
        case "move":
            history.append(history.pop(place))
        case "field":
            field = draw(st.sampled_from(("role", "content", "tool_calls")))
            value = draw(
                st.sampled_from(
                    (None, "", [], {}, (), 0, False, "user", "tool", [{}], ["x"])
                )
            )
            history[place] = {**history[place], field: value}
        case _:
            history[place] = draw(st.sampled_from((None, "text", [], {}, 1.5)))
    return history


long_histories = st.lists(_exchange(), min_size=4, max_size=40).map(
    lambda exchanges: [system("rules"), user("task"), *_flat(exchanges)]
)


def numbered(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number call ids over the whole request, and let every assistant say something.

    As the stricter profiles want them.
    """
    strict = copy.deepcopy(history)
    for exchange, unit in enumerate(units(strict)):
        for message in strict[unit.first : unit.end]:
            for call in message.get("tool_calls") or ():
                call["id"] += str(exchange)
            if "tool_call_id" in message:
                message["tool_call_id"] += str(exchange)
            elif message["role"] == "assistant":
                message["content"] = message["content"] or "said"
    return strict
