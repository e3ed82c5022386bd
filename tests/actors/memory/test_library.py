"""The searcher: a cache that may be behind, cut off, deleted or damaged at any time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from perdure.actors.executor.executor import Executor
from perdure.actors.memory.index import Index
from perdure.actors.memory.library import Library
from perdure.actors.memory.searching import Hit, Question
from perdure.actors.memory.vectors import Vectors
from perdure.storage.errors import StoreFailed
from perdure.storage.memory import MemoryReader
from perdure.storage.records import Record, record_checksum
from perdure.supervision import SimulatedDispatcher
from tests.actors.memory.test_index import Book
from tests.actors.world import Log, decode


class Searcher:
    """A library in the simulation, over a log written by hand."""

    def __init__(
        self,
        path: Path | None,
        book: Book,
        *,
        seed: int = 0,
        vectors: Vectors | None = None,
    ) -> None:
        self.book = book
        self.sim = SimulatedDispatcher(seed)
        self.log = Log()
        self.readers = 0
        self.library = Library(
            dispatcher=self.sim,
            executor=Executor(self.sim, threads=4, loop=None, log=self._log),
            open_reader=self.reader,
            decode=decode,
            path=path,
            vectors=vectors,
            log=self._log,
        )

    def reader(self) -> MemoryReader:
        self.readers += 1
        return MemoryReader(self.book.store, lambda *_: None)

    def _log(self, event: str, **fields: object) -> None:
        self.log.log(0, event, **fields)

    def said(self, query: str) -> list[Hit] | str:
        """Ask, and take steps until there is an answer."""
        answers: list[list[Hit] | str] = []
        self.library.ask(Question(query=query), answers.append)
        self.sim.run(lambda: bool(answers))
        return answers[0]

    def ops(self, query: str) -> list[str]:
        said = self.said(query)
        assert not isinstance(said, str), said
        return [hit.evidence for hit in said]


def filled(count: int = 3) -> Book:
    book = Book()
    for op in range(1, count + 1):
        book.call(op, f"alpha note{op}")
    return book


def test_nothing_is_made_before_somebody_asks(tmp_path: Path) -> None:
    path = tmp_path / "i"
    searcher = Searcher(path, filled())
    searcher.sim.run()
    assert not path.exists()
    assert not searcher.readers
    assert searcher.ops("note2") == ["op2"]
    assert path.exists()


def test_a_search_takes_in_what_came_since_the_last_one(tmp_path: Path) -> None:
    book = filled()
    searcher = Searcher(tmp_path / "i", book)
    assert searcher.ops("alpha") == ["op3", "op2", "op1"]
    book.call(9, "alpha")
    assert searcher.ops("alpha")[0] == "op9"


def test_a_long_log_is_taken_in_a_page_at_a_time(tmp_path: Path) -> None:
    searcher = Searcher(tmp_path / "i", filled(500))  # 1,000 records
    assert searcher.ops("note250") == ["op250"]
    steps = [one for one in searcher.sim.trace if "library" in one]
    assert len(steps) == 6  # five pages of 200, and the answer


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_process_that_dies_while_it_indexes_loses_nothing(
    tmp_path: Path, steps: int
) -> None:
    book = filled(500)
    first = Searcher(tmp_path / "i", book, seed=steps)
    first.library.ask(Question(query="alpha"), lambda _: None)
    for _ in range(steps):
        first.sim.step()
    first.sim.halt()
    second = Searcher(tmp_path / "i", book)
    assert second.ops("note499 note500") == ["op500", "op499"]
    assert second.ops("note1") == ["op1"]
    assert second.log.of("recall.rebuilt") == []


def deleted(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbled(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[4096:] = b"\xa5" * (len(body) - 4096)
    path.write_bytes(bytes(body))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def replaced(path: Path) -> None:
    path.write_bytes(b"something else altogether " * 99)


def of_another_log(path: Path) -> None:
    path.unlink()
    other = Searcher(path, filled(7))
    other.book.call(8, "beta")
    assert other.ops("beta") == ["op8"]
    other.library.close(1.0)


@pytest.mark.parametrize(
    "spoil", [deleted, cut, garbled, emptied, replaced, of_another_log]
)
def test_a_spoilt_index_is_made_again(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "i"
    book = filled(6)
    before = Searcher(path, book)
    assert before.ops("note2") == ["op2"]
    before.library.close(1.0)
    spoil(path)
    book.call(7, "alpha new")
    after = Searcher(path, book)
    assert after.ops("note2 new") == ["op7", "op2"]
    assert after.ops("beta") == []
    rebuilt = len(after.log.of("recall.rebuilt"))
    assert rebuilt == (spoil not in (deleted, emptied))


def test_an_index_that_is_spoilt_while_it_is_open_is_made_again(tmp_path: Path) -> None:
    book = filled(300)
    searcher = Searcher(tmp_path / "i", book)
    assert searcher.ops("note2") == ["op2"]
    searcher.library._index.close()  # type: ignore[union-attr]
    assert searcher.ops("note3") == ["op3"]
    assert len(searcher.log.of("recall.rebuilt")) == 1


def test_an_index_that_cannot_be_made_fails_the_search_and_no_other(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "away"
    searcher = Searcher(folder / "i", filled())
    said = searcher.said("alpha")
    assert isinstance(said, str)
    assert said.startswith("the record cannot be searched now")
    folder.mkdir()
    assert searcher.ops("note1") == ["op1"]


def test_a_store_that_fails_once_is_opened_again(tmp_path: Path) -> None:
    searcher = Searcher(tmp_path / "i", filled())
    good, calls = searcher.library._open_reader, []

    class Failing(MemoryReader):
        def _page(self, *_: object) -> list:  # type: ignore[override, type-arg]
            raise StoreFailed("s", "a read failed")

    def once() -> MemoryReader:
        calls.append(1)
        if len(calls) == 1:
            return Failing(searcher.book.store, lambda *_: None)
        return good()  # type: ignore[return-value]

    searcher.library._open_reader = once
    assert searcher.ops("note1") == ["op1"]
    assert searcher.log.of("recall.rebuilt") == []


def test_each_search_reads_the_store_that_is_there_then(tmp_path: Path) -> None:
    searcher = Searcher(tmp_path / "i", filled())
    assert searcher.ops("note1") == ["op1"]
    searcher.book = filled(1)  # another one was put in its place
    assert searcher.ops("alpha") == ["op1"]


def test_what_is_forgotten_is_not_found_again(tmp_path: Path) -> None:
    book = filled()
    book.call(1, "alpha", task="u")
    searcher = Searcher(tmp_path / "i", book)
    assert len(searcher.ops("alpha")) == 4
    done: list[object] = []
    searcher.library.forget(["t"], done.append)
    searcher.sim.run(lambda: bool(done))
    assert done == [[]]
    said = searcher.said("alpha")
    assert not isinstance(said, str)
    assert [hit.task for hit in said] == ["u"]


def test_an_erased_task_is_noticed_without_a_word(tmp_path: Path) -> None:
    book = filled()
    book.call(1, "alpha", task="u")
    path = tmp_path / "i"
    searcher = Searcher(path, book)
    searcher.ops("alpha")
    book.erase("u")  # the last records of the log: the index ends nowhere now
    book.erase("t")
    assert searcher.ops("alpha") == []
    book.call(4, "alpha", task="v")
    assert searcher.ops("alpha") == ["op4"]
    searcher.library.close(1.0)
    assert b"note1" not in path.read_bytes()


def test_a_closed_library_says_so_to_all_who_ask(tmp_path: Path) -> None:
    searcher = Searcher(tmp_path / "i", filled())
    answers: list[object] = []
    searcher.library.ask(Question(query="alpha"), answers.append)
    searcher.library.close(1.0)
    searcher.library.ask(Question(query="alpha"), answers.append)
    assert answers == ["the runtime was closed"] * 2


def test_an_index_without_a_file_leaves_none() -> None:
    searcher = Searcher(None, filled())
    assert searcher.ops("note1") == ["op1"]
    searcher.library.close(1.0)
    assert Index(None).mark.seq == 0


def written(record: Record, kind: str, body: bytes) -> Record:
    """The record as another one in its place."""
    new = msgspec.structs.replace(record, type=kind, body=body)
    fields = (new.seq, new.stream, new.version, kind, new.schema_version, new.codec)
    owner = (new.at, new.epoch, new.incarnation)
    checksum = record_checksum(*fields, *owner, body)
    return msgspec.structs.replace(new, checksum=checksum)


def test_a_redacted_task_is_no_more_shown_than_an_erased_one(tmp_path: Path) -> None:
    book = filled(300)
    path = tmp_path / "i"
    searcher = Searcher(path, book)
    assert searcher.ops("note7") == ["op7"]
    book.call(1, "alpha kept", task="u")
    searcher.ops("kept")
    for place, record in enumerate(book.store.log[:-1]):  # the first records stay
        book.store.log[place] = written(record, "TaskErased", b"{}")
    del book.store.log[10:-2]
    said = searcher.said("note7 kept")
    assert not isinstance(said, str)
    assert [hit.task for hit in said] == ["u"]
    searcher.library.close(1.0)
    assert b"note2" not in path.read_bytes()


def test_forgetting_makes_no_index_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "i"
    searcher = Searcher(path, filled())
    done: list[object] = []
    searcher.library.forget(["t"], done.append)
    searcher.sim.run(lambda: bool(done))
    assert done == [[]]
    assert not path.exists()
