"""Words: whatever stands in a text is found by a piece of it, and no query raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.memory.searching import SNIPPET, Question, merged, snippet
from perdure.actors.memory.words import holds, wanted, words

NOTE = "今天讨论了部署方案 重跑gen-itgc后50条"
CJK = st.text(
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
    | st.characters(min_codepoint=0x3041, max_codepoint=0x3096)
    | st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)
    | st.characters(min_codepoint=0x20000, max_codepoint=0x2A6DF),
    min_size=2,
)


def found(query: str, text: str) -> bool:
    query_words = wanted(query)
    held = set(words(text))
    return bool(query_words) and all(holds(held, word) for word in query_words)


@pytest.mark.parametrize(
    "query", ["部署", "方案", "itgc", "gen-itgc", "GEN", "50", "今"]
)
def test_a_piece_of_a_text_finds_it(query: str) -> None:  # K52
    assert found(query, NOTE)


@pytest.mark.parametrize("query", ['a"b', "AND", "NEAR(", "署方法", "tgc"])
def test_what_a_text_does_not_say_does_not_find_it(query: str) -> None:
    assert not found(query, NOTE)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("order_id", "the order-id is 7"),
        ("orderId", "SELECT orderid FROM t"),
        ("id", "orderId=4"),
        ("server", "HTTPServer started"),
        ("1234.5", "total \uff11\uff12\uff13\uff14.5"),
        ("ガス", "ｶﾞｽ"),
        ("STRASSE", "Hauptstraße"[5:]),
        ("v1.2", "released v1.2 today"),
    ],
)
def test_case_width_and_joints_do_not_matter(query: str, text: str) -> None:
    assert found(query, text)


@given(CJK)
def test_every_two_characters_in_a_row_are_found(text: str) -> None:  # K52
    for place in range(len(text) - 1):
        assert found(text[place : place + 2], text)


@given(st.text(), st.data())
def test_every_word_of_a_text_is_found(text: str, data: st.DataObject) -> None:
    parts = [part for part in text.split() if wanted(part)]
    if parts:
        assert found(data.draw(st.sampled_from(parts)), text)


@given(st.text(st.characters()))
def test_no_text_is_too_strange(text: str) -> None:
    asked = wanted(text)
    terms = [term for word in asked for term in (*word.terms, *words(text))]
    assert all(term == "" or not set(term) & set("\"'()* \n") for term in terms)
    assert len(snippet(text, asked)) <= SNIPPET + 2


def test_a_query_is_bounded() -> None:
    assert len(wanted(" ".join(f"w{n}" for n in range(5_000)))) == 32
    assert max(map(len, words("x" * 100_000))) == 64


def test_a_snippet_shows_where_most_of_the_words_stand() -> None:
    filler = "filler " * 100
    text = f"alpha {filler} alpha and omega {filler} omega {filler}"
    shown = snippet(text, wanted("alpha omega"))
    assert "alpha and omega" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= SNIPPET + 2


def test_a_snippet_of_chinese_is_found_in_a_long_text() -> None:
    assert "部署方案" in snippet(
        "无" * 900 + "部署方案" + "无" * 900, wanted("部署方案")
    )


def test_two_rankings_are_merged_by_reciprocal_rank() -> None:
    assert merged([1, 2, 3], [3, 1]) == [1, 3, 2]
    assert merged([4], [7]) == [7, 4]  # equally good: the newer one


def test_a_question_has_ten_hits_unless_it_says_otherwise() -> None:
    assert Question(query="x").limit == 10
