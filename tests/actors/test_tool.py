from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import Misuse, ToolContext, tool


class Place(msgspec.Struct):
    name: str
    floor: int = 0


def test_a_tool_that_says_nothing_may_not_be_repeated() -> None:
    @tool
    def send(text: str) -> None: ...

    assert send.effect == "once"


def test_a_read_is_a_query_and_all_else_goes_downstream() -> None:
    kinds = {
        effect: tool(effect=effect, name="idle")(lambda: None).kind
        for effect in ("read", "idempotent", "once")
    }
    assert kinds == {
        "read": "query",
        "idempotent": "downstream",
        "once": "downstream",
    }
    assert tool(kind="generate", name="idle")(lambda: None).kind == "generate"


def test_a_tool_stays_a_function() -> None:
    @tool(effect="read")
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    assert double(4) == 8
    assert (double.name, double.description) == ("double", "Twice a number.")
    assert double.__name__ == "double"


def test_the_schema_comes_from_the_type_hints() -> None:
    @tool(effect="read")
    def find(where: Place, what: str, most: int = 3) -> str:
        """Find things."""
        return ""

    schema = find.schema()
    assert schema["type"] == "function"
    function = schema["function"]
    assert (function["name"], function["description"]) == ("find", "Find things.")
    parameters = function["parameters"]
    assert sorted(parameters["required"]) == ["what", "where"]
    assert parameters["properties"]["most"] == {"type": "integer", "default": 3}
    assert "Place" in parameters["$defs"]


def test_what_the_runtime_gives_is_not_in_the_schema() -> None:
    @tool
    def send(text: str, ctx: ToolContext, *, request_id: str) -> str:
        return f"{text} {request_id} {ctx.fence}"

    assert list(send.schema()["function"]["parameters"]["properties"]) == ["text"]
    context = ToolContext(
        request_id="r", deadline=0.0, fence="t:1:2", log=print, anchors={}
    )
    assert send.invoke({"text": "hi"}, context) == "hi r t:1:2"


def test_an_anchor_is_kept_by_the_call() -> None:
    # B14
    context = ToolContext(request_id="r", deadline=0.0, fence="", log=print, anchors={})
    context.anchor("ticket", "E42")
    assert context.anchors == {"ticket": "E42"}


def test_one_anchor_and_one_character_too_many_are_seen_and_no_more() -> None:
    # R29: what comes from outside must fit the record of its call.
    context = ToolContext(request_id="r", deadline=0.0, fence="", log=print, anchors={})
    for number in range(100):
        context.anchor(f"{number}" * 100, "x" * 2_000_000)
    context.anchor("number", 7)  # type: ignore[arg-type]
    assert len(context.anchors) == 33
    assert max(map(len, context.anchors)) == 65
    assert set(map(len, context.anchors.values())) == {1_001}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"effect": "twice"}, "effect='twice'"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"settle": -1.0}, "settle=-1.0"),
        ({"settle": float("nan")}, "settle=nan"),
        ({"effect": "read", "probe": lambda effect: None}, "probe="),
        ({"effect": "read", "repeat": True}, "repeat=True"),
        ({"effect": "read", "settle": 1.0}, "drop settle=1.0"),
        ({"effect": "read", "key": lambda arguments: "k"}, "drop key="),
        ({"settle": 1.0}, "settle=1.0 is for what a probe finds; add probe="),
        ({"probe_after": 1.0}, "probe_after=1.0 has no probe to wait for; add probe="),
        ({"probe": print, "probe_after": -1}, "probe_after=-1 must be 0 or more"),
        ({"probe": print, "probe_after": float("inf")}, "would never ask"),
        ({"key": "order"}, "key='order' is no function"),
        ({"key": lambda arguments: "k", "repeat": True}, "drop one of the two"),
        ({"kind": "write"}, "kind='write' is not one of 'query'"),
        ({"max_result": 0}, "max_result=0 must be a whole number of characters"),
        ({"max_result": 16_385}, "from 1 to 16384"),
        ({"max_result": True}, "max_result=True"),
        ({"failed": ValueError}, "must be a tuple of Exception classes"),
        ({"unknown": (SystemExit,)}, "must be a tuple of Exception classes"),
        (
            {"failed": (OSError, KeyError), "unknown": (KeyError,)},
            "KeyError stands in failed= and in unknown=",
        ),
    ],
    ids=str,
)
def test_a_declaration_that_contradicts_itself_is_refused(
    options: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misuse) as caught:
        tool(name="idle", **options)(lambda: None)
    assert named in str(caught.value)


def test_every_parameter_needs_a_schema() -> None:
    def bare(x): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202

    def many(*things: int) -> None: ...

    def more(**things: int) -> None: ...

    def odd(x: complex) -> None: ...

    for function, named in ((bare, "'x'"), (many, "*things"), (more, "*things")):
        with pytest.raises(Misuse) as caught:
            tool(function)
        assert named in str(caught.value)
    with pytest.raises(Misuse, match="no schema"):
        tool(odd)


@tool(effect="read")
def look(what: str, most: int = 3, share: float = 1, extra: Any = None) -> str:
    return what


def test_arguments_are_parsed_with_defaults_filled_in() -> None:
    assert look.parse('{"what": "x"}') == {
        "what": "x",
        "most": 3,
        "share": 1.0,
        "extra": None,
    }


def test_a_default_is_what_a_model_would_have_written() -> None:
    # One effect, one key (K24): left out or spelled out makes no difference.
    left_out = look.parse('{"what": "x"}')["share"]
    spelled = look.parse('{"what": "x", "share": 1}')["share"]
    assert (type(left_out), left_out) == (type(spelled), spelled)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ('{"what": 1}', "$.what"),
        ('{"what": "x", "most": "many"}', "$.most"),
        ('{"what": "x", "most": 1.5}', "$.most"),
        ("{}", "what"),
        ("", "what"),
        ('{"what": "x", "unasked": 1}', "unasked"),
        ("[]", "object"),
        ("{", "not JSON"),
        ("nonsense", "not JSON"),
        ('{"what": "x", "extra": ' + "[" * 5000 + "]" * 5000 + "}", "not JSON"),
    ],
    ids=lambda text: text[:30],
)
def test_malformed_arguments_name_the_field(arguments: str, named: str) -> None:
    with pytest.raises(ValueError) as caught:
        look.parse(arguments)
    assert "look" in str(caught.value)
    assert named in str(caught.value)
