"""The estimate of tokens stays above real vocabularies, and is a function of the text.

`samples.json` holds texts and what bpe-openai counts of each as one user message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.context.estimate import estimated_tokens
from perdure.actors.context.measures import named
from perdure.context import canonical

from .histories import user

SAMPLES = json.loads(Path(__file__).with_name("samples.json").read_text("utf-8"))
ENCODINGS = ("o200k_base", "cl100k_base")
FARTHEST = 6  # times the smaller of both counts, for scripts that one of them spells
texts = st.text(st.characters(codec="utf-8"), max_size=200) | st.text(
    'aAbkZ09 \n\t.,{}"\\资カ한я😀', max_size=60
)


def by_kind(sample: dict[str, Any]) -> str:
    return str(sample["kind"])


@pytest.mark.parametrize("sample", SAMPLES, ids=by_kind)
def test_no_sample_takes_more_tokens_than_estimated(sample: dict[str, Any]) -> None:
    # A45
    estimate = estimated_tokens(canonical(user(sample["text"])))
    counts = [sample[encoding] for encoding in ENCODINGS]
    assert max(counts) <= estimate <= FARTHEST * min(counts)


@pytest.mark.parametrize("sample", SAMPLES, ids=by_kind)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_exact_tokens_are_those_of_another_tokenizer(
    encoding: str, sample: dict[str, Any]
) -> None:
    measure = named(f"tokens:{encoding}")
    assert measure.part(user(sample["text"])) == sample[encoding]


def test_text_without_spaces_counts_by_its_characters() -> None:  # A45
    sentence = "请导出销售数据并按区域生成汇总表"
    assert estimated_tokens(sentence * 10) > 9 * estimated_tokens(sentence)
    assert estimated_tokens(sentence) >= len(sentence)


@given(texts)
def test_only_an_empty_text_takes_nothing(text: str) -> None:
    assert (estimated_tokens(text) == 0) == (text == "")


@given(texts, texts)
def test_more_text_never_takes_less(text: str, more: str) -> None:
    whole = estimated_tokens(text + more)
    assert whole >= max(estimated_tokens(text), estimated_tokens(more))


@given(st.text(max_size=50))
def test_no_text_takes_more_than_four_tokens_a_character(text: str) -> None:
    assert estimated_tokens(text) <= 4 * len(text)
