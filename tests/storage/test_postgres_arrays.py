"""Arrays as PostgreSQL's own bytes, held against those that the driver builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.numeric import Int8

from perdure.storage.postgres_arrays import bigint, bigints, byteas, doubles, texts

NUMBERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def driver(values: Sequence[Any]) -> bytes:
    dumper = Transformer().get_dumper(list(values), PyFormat.BINARY)
    return bytes(dumper.dump(list(values)) or b"")


@given(st.lists(NUMBERS, min_size=1))
def test_numbers_are_what_the_driver_makes_of_them(values: list[int]) -> None:
    assert bigints(values) == driver([Int8(value) for value in values])


@given(NUMBERS)
def test_a_number_is_what_the_driver_makes_of_it(value: int) -> None:
    dumper = Transformer().get_dumper(Int8(value), PyFormat.BINARY)
    assert bigint(value) == dumper.dump(Int8(value))


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_floats_are_what_the_driver_makes_of_them(values: list[float]) -> None:
    assert doubles(values) == driver(values)


@given(st.lists(TEXTS, min_size=1))
def test_texts_are_what_the_driver_makes_of_them(values: list[str]) -> None:
    assert texts(values) == driver(values)


@given(st.lists(st.binary(), min_size=1))
def test_bytes_are_what_the_driver_makes_of_them(values: list[bytes]) -> None:
    assert byteas(values) == driver(values)


def test_an_empty_array_has_no_dimensions() -> None:
    assert bigints([])[:4] == texts([])[:4] == b"\0\0\0\0"
    assert len(bigints([])) == len(byteas([])) == len(doubles([])) == 12
