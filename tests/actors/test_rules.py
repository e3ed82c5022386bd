from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Agent, Misuse, Rule, anchor, delegate, sleep, tool
from perdure.actors.builtin import recall
from perdure.actors.rules import refusal, said
from perdure.testing import in_turn

SAYS = "do not touch production"


@tool
def deploy(env: str, options: dict[str, Any] | None = None) -> str:
    """Deploy."""
    return env


@tool
def db_drop(env: str) -> str:
    """Drop a database."""
    return env


def refused(rule: Rule, *, name: Any = deploy, **values: Any) -> str:
    return refusal([rule], name, values)


PRODUCTION = Rule(says=SAYS, argument="env", forbid=("prod", "production"))


@pytest.mark.parametrize(
    "env",
    [
        "prod",
        "PROD",
        "Production",
        " prod\n",
        "eu-prod-1",
        "eu_prod",
        "https://prod.example.org",
        "\uff50\uff52\uff4f\uff44",  # full width
        "pr\u200bod",  # zero width
        "pr\u00adod",  # soft hyphen
        "p\u202erod",  # direction marks
        "pro\x00d",
        "pr\u00f3d",  # accents
        "p\u0336r\u0336o\u0336d\u0336",  # struck through
        "\U0001d429\U0001d42b\U0001d428\U0001d41d",  # mathematical bold
        "pr\ufe0fod",
    ],
)
def test_a_forbidden_word_is_found_however_it_is_written(env: str) -> None:
    assert refused(PRODUCTION, env=env) == (
        "the rule 'do not touch production' forbids this call: env has 'prod'"
    ) or "env has 'production'" in refused(PRODUCTION, env=env)


@pytest.mark.parametrize("env", ["staging", "product", "reproduce", "", "pro d"])
def test_other_words_pass(env: str) -> None:
    assert refused(PRODUCTION, env=env) == ""


def test_nested_values_and_their_names_are_looked_at() -> None:
    anywhere = Rule(says=SAYS, forbid=("prod",))
    for options in (
        {"targets": [{"env": "prod"}]},
        {"prod": 1},
        {"a": {"b": [["to prod"]]}},
    ):
        assert "an argument has 'prod'" in refused(anywhere, env="x", options=options)
    assert refused(anywhere, env="x", options={"targets": ["staging", 1, None]}) == ""


def test_the_names_of_a_tools_own_arguments_are_not() -> None:
    assert refused(Rule(says=SAYS, forbid=("env",)), env="x", options=None) == ""


def test_a_path_leads_through_lists_and_names_in_any_case() -> None:
    rule = Rule(says=SAYS, argument="options.targets.env", forbid=("prod",))
    targets = [{"env": "staging"}, {"ENV": "prod"}]
    assert refused(rule, env="prod", options={"targets": targets})
    assert refused(rule, env="prod", options={"targets": targets[:1]}) == ""
    assert refused(rule, env="prod", options=None) == ""


@pytest.mark.parametrize(
    ("entry", "text", "found"),
    [
        ("prod*", "production", True),
        ("prod*", "reprod", False),
        ("*prod", "reprod", True),
        ("*prod*", "reproduce", True),
        ("*", "anything", True),
        ("drop table", "x; DROP   TABLE y", True),
        ("drop table", "drop tables", False),
        ("5432", "5432", True),
        ("rm -rf", "rm -rf /", True),
        ("生产环境", "部署到生产环境去", True),
        ("生产", "部署", False),
        ("本番", "これは本番です", True),
    ],
)
def test_entries_are_words_and_stars_are_the_rest_of_one(
    entry: str, text: str, found: bool
) -> None:
    rule = Rule(says=SAYS, argument="env", forbid=(entry,))
    assert bool(refused(rule, env=text)) is found


@pytest.mark.parametrize(
    ("value", "found"), [(5432, True), (True, False), (5433, False), (None, False)]
)
def test_what_is_no_text_is_compared_as_json(value: Any, found: bool) -> None:
    rule = Rule(says=SAYS, argument="options.port", forbid=("5432",))
    assert bool(refused(rule, env="x", options={"port": value})) is found


@pytest.mark.parametrize(
    ("env", "passes"),
    [
        ("staging", True),
        ("Staging", False),
        ("staging ", False),
        ("\uff53taging", False),
        ("stagin\u0261", False),
        ("prod", False),
        (None, False),
        ("/srv/out/a.txt", True),
        ("/srv/out/../../etc/passwd", False),
        ("/srv/out/a\n/etc/passwd", False),
        ("/srv/out", False),
        ("a.test", True),
        ("a.tested", False),
    ],
)
def test_what_is_allowed_is_exact(env: Any, passes: bool) -> None:
    allow = ("staging", "/srv/out/*", "*.test")
    rule = Rule(says=SAYS, argument="env", allow=allow)
    assert (refused(rule, env=env) == "") is passes


def test_what_a_rule_says_is_said_once() -> None:
    rules = [PRODUCTION, Rule(says="be kind", forbid=("x",))]
    assert said(["only today", SAYS], rules) == ("only today", SAYS, "be kind")


def test_each_item_of_a_list_must_be_allowed() -> None:
    rule = Rule(says=SAYS, argument="options.to", allow=("a", "b"))
    assert refused(rule, env="x", options={"to": ["a", "b"]}) == ""
    assert refused(rule, env="x", options={"to": ["a", "c"]})
    assert refused(rule, env="x", options={"to": {"a": "c"}})
    assert refused(rule, env="x", options={"to": {}})
    assert refused(rule, env="x", options={"to": []}) == ""
    assert refused(rule, env="x", options={}) == "", "no such argument: not meant"


def test_a_rule_means_the_tools_that_it_names() -> None:
    rule = Rule(says=SAYS, tools=("db_*", "other"), forbid=("prod",))
    assert refused(rule, name=db_drop, env="prod")
    assert refused(rule, name=deploy, env="prod") == ""


@pytest.mark.parametrize("name", [delegate, sleep, recall, anchor])
def test_tools_that_do_nothing_outside_are_meant_by_name_only(name: Any) -> None:
    values = {"goal": "report on production", "query": "production"}
    everything = Rule(says=SAYS, forbid=("production",))
    assert refusal([everything], name, values) == ""
    named = Rule(says=SAYS, tools=(name.name,), forbid=("production",))
    assert refusal([named], name, values)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"says": ""}, "says=''"),
        ({"says": "x" * 501}, "says="),
        ({}, "give one of the two"),
        ({"forbid": ("a",), "allow": ("b",), "argument": "x"}, "give one of the two"),
        ({"allow": ("b",)}, "add argument="),
        ({"forbid": "prod"}, "forbid='prod' must be a list"),
        ({"forbid": ("",)}, "empty"),
        ({"forbid": ("\u200b",)}, "nothing can be seen"),
        ({"forbid": ("a*b",)}, "a star stands at an end only"),
        ({"forbid": (7,)}, "holds 7"),
        ({"forbid": ("x" * 201,)}, "no text of 200"),
        ({"forbid": tuple(map(str, range(33)))}, "33 entries"),
        ({"forbid": ("a",), "tools": "deploy"}, "tools='deploy' must be a list"),
        ({"forbid": ("a",), "argument": "a..b"}, "empty name"),
        ({"forbid": ("a",), "argument": 7}, "argument=7"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_where_it_is_made(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misuse, match=named):
        Rule(**{"says": SAYS, **fields})


@pytest.mark.parametrize("rules", [PRODUCTION, "x", 7, [7], {"says": SAYS}])
def test_what_is_no_list_of_rules_is_refused(rules: Any) -> None:
    with pytest.raises(Misuse, match="rules="):
        Agent(name="a", instructions="", model=in_turn(), rules=rules)


def test_a_rule_is_plain_data() -> None:
    rule = Rule(says=SAYS, tools=["deploy"], argument="env", forbid=["prod"])  # type: ignore[arg-type]
    body = msgspec.json.encode(rule)
    assert msgspec.json.decode(body, type=Rule) == rule
    assert rule.forbid == ("prod",)


def test_a_long_argument_is_compared_in_little_time() -> None:
    # As long as a reply may be, against as many entries as a rule may have.
    rule = Rule(
        says=SAYS,
        argument="env",
        forbid=tuple("a" * length + "b" for length in range(150, 182)),
    )
    before = time.process_time()
    assert refused(rule, env="a" * 250_000) == ""
    assert time.process_time() - before < 2.0


@given(st.text(max_size=60), st.text(min_size=1, max_size=12))
def test_whatever_is_written_a_rule_answers(text: str, entry: str) -> None:
    try:
        rule = Rule(says=SAYS, argument="env", forbid=(entry,))
    except Misuse:
        return
    assert isinstance(refused(rule, env=text), str)
    assert refused(rule, env=f"{text} {entry.strip('*')} {text}")
