"""Finding by meaning: a host's embedding, beside the words and never in their way."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime, Vectors
from perdure.actors.memory.vectors import BATCH, nearest, unit_vectors
from perdure.errors import Misuse
from tests.actors.memory.test_index import Book
from tests.actors.memory.test_library import Searcher
from tests.actors.memory.test_recall import LOOK, asker
from tests.actors.world import House

SIZE = 64  # numbers of a vector


def trigrams(texts: Sequence[str]) -> list[list[float]]:
    """A small real embedding: how often each three letters stand in a text, hashed."""
    made = []
    for text in texts:
        vector = [0.0] * SIZE
        padded = f"  {text.casefold()} "
        for place in range(len(padded) - 2):
            digest = hashlib.sha256(padded[place : place + 3].encode()).digest()
            vector[digest[0] % SIZE] += 1.0 if digest[1] % 2 else -1.0
        made.append(vector)
    return made


class Embedding:
    """`trigrams`, with a count of what it was asked, or something in its place."""

    def __init__(self, instead: Callable[[list[str]], Any] | None = None) -> None:
        self.calls: list[int] = []
        self._instead = instead

    def __call__(self, texts: list[str]) -> Any:
        self.calls.append(len(texts))
        return trigrams(texts) if self._instead is None else self._instead(texts)


def test_a_word_that_is_only_alike_is_found() -> None:  # A91
    house = House(asker(LOOK), recall=Vectors(trigrams))
    book_of(house)
    found = house.runtime.recall("deployments", limit=1)
    assert [hit.snippet for hit in found] == ["the deployment plan"]
    plain = House(asker(LOOK))
    book_of(plain)
    assert plain.runtime.recall("deployments", limit=1) == []


def book_of(house: House) -> None:
    """Put some calls in the house's log by hand."""
    book = Book()
    for op, text in enumerate(["a zebra", "the deployment plan", "rain at noon"], 1):
        book.call(op, text)
    house.store.log[:] = book.store.log
    house.store.streams.update(book.store.streams)


def test_what_words_and_vectors_find_is_merged(tmp_path: Path) -> None:
    book = Book()
    book.call(1, "deployment of the plan in spring, with much else around it")
    book.call(2, "deploy plan")
    book.call(3, "unrelated words")
    searcher = Searcher(tmp_path / "i", book, vectors=Vectors(trigrams))
    assert searcher.ops("deploy plan")[:2] == ["op2", "op1"]  # both rankings, and one


def test_each_episode_is_embedded_once_and_again_under_another_name(
    tmp_path: Path,
) -> None:
    path, book = tmp_path / "i", Book()
    for op in range(1, 4):
        book.call(op, f"note {op}")
    first = Embedding()
    searcher = Searcher(path, book, vectors=Vectors(first))
    searcher.ops("note")
    searcher.ops("note")
    assert first.calls == [4, 1]  # three notes and the query, then the query alone
    searcher.library.close(1.0)
    second, third = Embedding(), Embedding()
    again = Searcher(path, book, vectors=Vectors(second))
    again.ops("note")
    again.library.close(1.0)
    assert second.calls == [1]
    other = Searcher(path, book, vectors=Vectors(third, name="other"))
    other.ops("note")
    assert third.calls == [4]


def test_many_episodes_are_embedded_in_calls_of_64(tmp_path: Path) -> None:
    book = Book()
    for op in range(1, 151):
        book.call(op, f"note{op}")
    embed = Embedding()
    searcher = Searcher(tmp_path / "i", book, vectors=Vectors(embed))
    assert searcher.ops("note7")[0] == "op7"
    assert embed.calls == [BATCH, BATCH, 150 - 2 * BATCH + 1]


def test_a_query_without_a_word_is_not_embedded(tmp_path: Path) -> None:
    book, embed = Book(), Embedding()
    book.call(1, "note")
    searcher = Searcher(tmp_path / "i", book, vectors=Vectors(embed))
    assert searcher.ops("") == ["op1"]
    assert embed.calls == []


def fails(_: list[str]) -> Any:
    raise OSError("no route")


@pytest.mark.parametrize(
    ("instead", "error"),
    [
        (fails, "no route"),
        (lambda texts: None, "TypeError"),
        (lambda texts: [[1.0]], "1 vectors for 3 texts"),
        (lambda texts: [[1.0] * (n + 1) for n in range(3)], "2 numbers"),
        (lambda texts: [[math.nan]] * 3, "not finite"),
        (lambda texts: [[1e300, 1e300]] * 3, "not finite"),
        (lambda texts: [[]] * 3, "0 numbers"),
        (lambda texts: [["a"]] * 3, "ValueError"),
    ],
)
def test_an_embedding_that_fails_leaves_the_words(
    tmp_path: Path, instead: Callable[[list[str]], Any], error: str
) -> None:
    book = Book()
    book.call(1, "alpha")
    book.call(2, "beta")
    embed = Embedding(instead)
    searcher = Searcher(tmp_path / "i", book, vectors=Vectors(embed))
    assert searcher.ops("alpha") == ["op1"]
    (logged,) = searcher.log.of("recall.vectors_failed")
    assert error in logged["error"]
    assert searcher.log.strangers == []
    assert searcher.ops("beta") == ["op2"]  # and it is asked again
    assert len(embed.calls) == 2


def test_an_embedding_that_never_answers_leaves_the_words(tmp_path: Path) -> None:
    book = Book()
    book.call(1, "alpha")
    searcher = Searcher(tmp_path / "i", book, vectors=Vectors(trigrams, timeout=7.0))
    searcher.library._executor.run = lambda work: None  # type: ignore[method-assign]
    began = searcher.sim.clock.monotonic()
    assert searcher.ops("alpha") == ["op1"]
    assert searcher.sim.clock.monotonic() - began == pytest.approx(7.0)
    (logged,) = searcher.log.of("recall.vectors_failed")
    assert logged["error"] == "it took too long"


def test_vectors_survive_in_no_index_that_was_spoilt(tmp_path: Path) -> None:
    path, book, embed = tmp_path / "i", Book(), Embedding()
    book.call(1, "alpha")
    first = Searcher(path, book, vectors=Vectors(embed))
    first.ops("alpha")
    first.library.close(1.0)
    path.write_bytes(b"spoilt" * 999)
    second = Searcher(path, book, vectors=Vectors(embed))
    assert second.ops("alpha") == ["op1"]
    assert embed.calls == [2, 2]


def test_an_index_that_breaks_under_an_embedding_is_made_again(tmp_path: Path) -> None:
    book = Book()
    for op in range(1, 4):
        book.call(op, f"note{op}")
    calls: list[int] = []

    def breaking(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        if len(calls) == 1:
            searcher.library._index.close()  # type: ignore[union-attr]
        return trigrams(texts)

    searcher = Searcher(tmp_path / "i", book, vectors=Vectors(breaking))
    assert searcher.ops("note3")[0] == "op3"
    assert calls == [4, 4]


def test_the_nearest_come_first_and_the_newest_on_ties() -> None:
    one, other, far = unit_vectors([[1, 0], [1, 1], [-1, 0]], 3)
    vectors = [(1, one), (2, far), (3, other), (4, one), (5, array("f", [1.0]))]
    assert nearest(one, vectors, 10) == [4, 1, 3]
    assert nearest(one, vectors, 1) == [4]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Vectors(None),  # type: ignore[arg-type]
        lambda: Vectors(trigrams, name=""),
        lambda: Vectors(trigrams, timeout=0),
        lambda: Vectors(trigrams, timeout=math.inf),
        lambda: Runtime("never.db", recall=trigrams),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_embedding_is_refused_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(Misuse, match=r"give|name"):
        make()
    assert not Path("never.db").exists()
