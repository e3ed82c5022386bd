"""The index: bounded, rebuilt from the log, and never in contradiction to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.events import (
    ApprovalAsked,
    ApprovalTaken,
    CallModel,
    CallTool,
    DecisionMade,
    EffectRecorded,
    EffectRegistered,
    Event,
    StepEnded,
    TaskClosed,
)
from perdure.actors.memory.episodes import TEXT, plain
from perdure.actors.memory.index import Index, IndexBroken, Mark, remove
from perdure.actors.memory.record import answer, belongs, take_page, take_task
from perdure.actors.memory.searching import Hit, Question
from perdure.actors.model import ModelReply
from perdure.storage.memory import MemoryReader, MemoryStore
from perdure.storage.records import Record, blob_digest, record_checksum
from tests.actors.world import CODEC, decode

NOTE = "今天讨论了部署方案 重跑gen-itgc后50条"
FULL = [True, False]  # with FTS5, and without


class Book:
    """A log written by hand, and its index."""

    def __init__(self, path: Path | None = None, *, full_text: bool = True) -> None:
        self.store = MemoryStore()
        self.index = Index(path, full_text=full_text)
        self.reader = MemoryReader(self.store, lambda *_: None)

    def write(self, stream: str, *events: Event) -> None:
        for event in events:
            kind, schema, body = CODEC.encode(event)
            seq = len(self.store.log) + 1
            version = len(self.store.streams.get(stream, [])) + 1
            fields = (seq, stream, version, kind, schema, "json", float(seq), 1, 1)
            record = Record(
                seq=seq,
                stream=stream,
                version=version,
                type=kind,
                schema_version=schema,
                codec="json",
                at=float(seq),
                epoch=1,
                incarnation=1,
                body=body,
                checksum=record_checksum(*fields, body),
            )
            self.store.log.append(record)
            self.store.streams.setdefault(stream, []).append(record)

    def call(
        self,
        op: int,
        result: str,
        *,
        task: str = "t",
        tool: str = "look",
        step: str = "find",
        status: str = "completed",
        error: str = "",
        blob: bytes = b"",
        attempt: int = 1,
        arguments: str = "{}",
    ) -> None:
        digest = ""
        if blob:
            digest = blob_digest(blob)
            self.store.blobs[digest] = blob
        self.write(
            f"task/{task}/ledger",
            registered(op, tool, step, arguments=arguments, attempt=attempt),
            recorded(
                op, result, status=status, error=error, blob=digest, attempt=attempt
            ),
        )

    def erase(self, task: str) -> None:
        """Take a task's records out of the log."""
        store = self.store
        mine = (f"task/{task}", f"task/{task}/ledger")
        store.log = [one for one in store.log if one.stream not in mine]
        for stream in mine:
            store.streams.pop(stream, None)

    def take(self) -> None:
        while take_page(self.index, self.reader, decode):
            pass

    def hits(self, query: str, **filters: object) -> list[Hit]:
        self.take()
        asked = msgspec.convert({"query": query, **filters}, Question)
        return answer(self.index, self.reader, asked)

    def ops(self, query: str, **filters: object) -> list[str]:
        return [hit.evidence for hit in self.hits(query, **filters)]


def registered(
    op: int,
    name: str,
    step: str = "find",
    *,
    kind: str = "tool",
    arguments: str = "{}",
    attempt: int = 1,
) -> EffectRegistered:
    fields = {
        "op": op,
        "attempt": attempt,
        "step": step,
        "kind": kind,
        "name": name,
        "effect": "read",
        "key": "k",
        "arguments": arguments,
        "not_after": 0.0,
    }
    return msgspec.convert(fields, EffectRegistered)


def recorded(op: int, result: str, **fields: object) -> EffectRecorded:
    base = {"op": op, "attempt": 1, "status": "completed", "by": "run"}
    return msgspec.convert({**base, "result": result, **fields}, EffectRecorded)


@pytest.fixture(params=FULL, ids=["fts5", "scan"])
def book(request: pytest.FixtureRequest) -> Iterator[Book]:
    made = Book(full_text=request.param)
    yield made
    made.index.close()


@pytest.mark.parametrize("query", ["部署", "itgc", "方案"])
def test_two_characters_and_parts_of_words_are_found(book: Book, query: str) -> None:
    book.call(3, NOTE)  # K52
    book.call(5, "nothing of that kind")
    assert book.ops(query) == ["op3"]


@pytest.mark.parametrize("query", ['a"b', "AND", "NEAR(", "words:x", "*", "-x OR ^y"])
def test_what_would_be_syntax_is_only_words(book: Book, query: str) -> None:  # K52
    book.call(3, NOTE)
    assert book.ops(query) in ([], ["op3"])
    assert book.ops(query) == ([] if any(map(str.isalnum, query)) else ["op3"])


@pytest.mark.parametrize("query", ["", '"', "…()"])
def test_a_query_without_a_word_finds_the_newest(book: Book, query: str) -> None:
    for op in (3, 5, 7):  # K52
        book.call(op, NOTE)
    assert book.ops(query, limit=2) == ["op7", "op5"]


_strange = Book()
_strange.call(3, NOTE)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_no_query_raises(query: str) -> None:  # K52
    assert len(_strange.ops(query)) <= 1


def test_all_words_beat_any_and_the_newest_comes_first_on_ties(book: Book) -> None:
    book.call(1, "alpha beta")
    book.call(2, "alpha gamma")
    book.call(3, "alpha beta")
    assert book.ops("beta alpha") == ["op3", "op1"]
    assert set(book.ops("beta delta")) == {"op3", "op1"}  # none has both


def test_rare_words_weigh_more_than_common_ones() -> None:
    book = Book()
    book.call(41, "the zebra")  # the oldest: it is not its age that lifts it
    for op in range(1, 40):
        book.call(op, "report of the day")
    book.call(40, "report report report")
    assert book.ops("zebra report")[0] == "op41"


@pytest.mark.parametrize(
    ("filters", "ops"),
    [
        ({"tool": "send"}, ["op2"]),
        ({"step": "write"}, ["op2"]),
        ({"outcome": "failed"}, ["op3"]),
        ({"task": "t"}, ["op5", "op3", "op2"]),
        ({"task": "u"}, ["op1"]),
        ({"since": 2.0, "until": 4.0}, ["op3", "op2"]),
        ({"limit": 1}, ["op1"]),
    ],
)
def test_each_filter_narrows_a_search(
    book: Book, filters: dict[str, object], ops: list[str]
) -> None:  # A91
    book.call(2, "word", tool="send", step="write")
    book.call(3, "", error="word", status="failed")
    book.call(5, "word", task="t.4")  # a sub-task's
    book.call(1, "word", task="u")
    assert book.ops("word", **filters) == ops


def test_the_scan_finds_what_the_full_text_index_finds() -> None:
    texts = ["部署方案 a", "order_id 7 a", "b orderId", "a b", "ｶﾞｽ 50条", "方案 部署"]
    queries = [
        "a",
        "a b",
        "部署",
        "方案",
        "order id",
        "ガス",
        "50 条",
        "none",
        "",
        "b 7",
    ]
    found = []
    for full_text in FULL:
        book = Book(full_text=full_text)
        for op, text in enumerate(texts, 1):
            book.call(op, text)
        found.append([set(book.ops(query)) for query in queries])
    assert found[0] == found[1]
    assert any(found[0])


def test_a_hit_says_where_it_stands_and_what_was_around_it(book: Book) -> None:
    book.call(3, "x " * 400 + "the deploy failed " + "y " * 400, tool="shell")
    (hit,) = book.hits("deploy")
    assert hit.evidence == "op3"
    assert (hit.task, hit.step, hit.tool) == ("t", "find", "shell")
    assert (hit.kind, hit.outcome, hit.at, hit.seq) == ("call", "completed", 2.0, 2)
    assert "deploy failed" in hit.snippet
    assert len(hit.snippet) <= 242


def test_what_a_task_decided_said_and_was_told_is_found(book: Book) -> None:  # A26
    call = CallTool(tool="look", arguments="{}", call_id="c", parent=1, index=0)
    reply = ModelReply(content="I will consult the almanac")
    book.write(
        "task/t",
        DecisionMade(
            op=1, step="find", action=CallModel(purpose="work"), why="", learned=""
        ),
        DecisionMade(op=2, step="find", action=call, why="almanac first", learned=""),
        ApprovalAsked(approval="p", op=3, tool="send", arguments='{"to": "x"}'),
        ApprovalTaken(
            approval="p", op=3, approved=False, by="an operator", why="not on a Sunday"
        ),
        StepEnded(
            step="find",
            status="completed",
            reason="accepted",
            result='{"page": "almanac 7"}',
            evidence=(),
            op=4,
        ),
    )
    book.write(
        "task/t/ledger",
        registered(1, "m", kind="model"),
        recorded(1, msgspec.json.encode(reply).decode()),
        registered(2, "look"),
        recorded(2, "page 7"),
    )
    assert sorted(hit.kind for hit in book.hits("almanac")) == ["call", "said", "step"]
    (told,) = book.hits("Sunday")
    assert (told.kind, told.tool, told.outcome) == ("person", "send", "rejected")


def test_a_declaration_and_a_search_are_no_episodes(book: Book) -> None:
    declare = CallModel(purpose="declare")
    book.write(
        "task/t", DecisionMade(op=1, step="", action=declare, why="", learned="")
    )
    book.write(
        "task/t/ledger",
        registered(1, "m", kind="model"),
        recorded(1, '{"content": "echo"}'),
        registered(2, "recall", arguments='{"query": "echo"}'),
        recorded(2, "echo"),
    )
    assert book.ops("echo") == []


def test_a_call_that_was_answered_from_the_record_is_no_second_episode(
    book: Book,
) -> None:
    book.call(3, "alpha")
    book.write(
        "task/t/ledger", registered(4, "look"), recorded(4, "alpha", by="record")
    )
    assert book.ops("alpha") == ["op3"]


def test_an_outcome_that_was_unknown_is_replaced_when_it_is_known(book: Book) -> None:
    book.call(3, "", status="unknown", error="parcel lost")
    assert book.ops("parcel", outcome="unknown") == ["op3"]
    book.write("task/t/ledger", recorded(3, "parcel there", by="probe"))
    (hit,) = book.hits("parcel")
    assert hit.outcome == "completed"


def test_a_call_is_found_by_the_name_of_its_tool(book: Book) -> None:
    book.call(3, "x", tool="send_mail")
    book.call(4, "x", tool="look")
    assert book.ops("mail") == ["op3"]


def test_json_is_read_as_words(book: Book) -> None:
    book.call(3, '{"note": "first\\nsecond", "\\u90e8\\u7f72": [1, true]}')
    assert book.ops("second") == ["op3"]
    assert book.ops("部署") == ["op3"]
    assert plain('{"a": {"b": ["c", 1]}}') == "a: b: c, 1"
    assert plain('{"a": "cut \\u90e8 h\\nere') == '{"a": "cut 部 h ere'


def test_a_big_result_is_found_by_its_beginning(book: Book) -> None:
    blob = ("head " + "x" * 2 * TEXT + " tail").encode()
    book.call(3, "head", blob=blob)
    assert book.ops("head") == ["op3"]
    assert book.ops("tail") == []  # bounded: read_evidence shows it


def test_what_is_known_of_open_calls_is_bounded(book: Book) -> None:
    for op in range(1, 50):
        book.call(op, "", status="failed", error="no")
    book.write("task/t", TaskClosed(status="failed"))
    book.take()
    assert book.index.call("t", 7).tool == ""


def test_an_index_is_private_and_goes_on_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "i"
    book = Book(path)
    book.call(3, NOTE)
    book.take()
    mark = book.index.mark
    book.index.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    book.index = Index(path)
    assert book.index.mark == mark
    assert belongs(book.index, book.reader)
    book.call(5, NOTE)
    assert book.ops("itgc") == ["op5", "op3"]
    remove(path)
    remove(path)
    assert not list(tmp_path.iterdir())


def test_an_index_that_is_none_or_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.write_bytes(b"not a database at all, but longer than its header" * 4)
    with pytest.raises(IndexBroken):
        Index(path)
    remove(path)
    Index(path, full_text=False).close()
    with pytest.raises(IndexBroken):
        Index(path)
    with pytest.raises(IndexBroken):
        Index(tmp_path / "no" / "i")


def test_an_index_of_another_log_is_noticed(book: Book) -> None:
    book.call(3, NOTE)
    book.take()
    other = Book()
    other.call(3, "other")
    assert not belongs(book.index, other.reader)
    assert not belongs(book.index, Book().reader)
    with book.index.page(Mark(seq=0, checksum=0)):
        pass
    assert belongs(book.index, other.reader)


def test_an_erased_task_is_never_shown_and_its_words_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "i"
    book = Book(path)
    for op in range(1, 9):
        book.call(op, f"secretive{op} word", task="gone")
    book.call(1, "word", task="kept")
    assert len(book.ops("word")) == 9
    book.erase("gone")
    assert book.ops("word", limit=1) == ["op1"]  # not told: the log says so
    assert [hit.task for hit in book.hits("word")] == ["kept"]
    book.index.close()
    assert b"secretive" not in path.read_bytes()


def test_what_is_forgotten_leaves_no_bytes_behind(tmp_path: Path) -> None:
    path = tmp_path / "i"
    book = Book(path)
    for op in range(1, 300):
        book.call(op, f"secretive{op} word", task="gone")
        book.call(op, f"other{op} word", task="kept")
    book.take()
    book.index.forget("gone")
    wal = path.with_name("i-wal")
    assert b"secretive" not in path.read_bytes() + wal.read_bytes()
    assert {hit.task for hit in book.hits("word", limit=50)} == {"kept"}
    book.index.close()


def test_a_damaged_record_hides_no_other(book: Book) -> None:
    book.call(1, "alpha")
    book.call(2, "alpha")
    book.call(3, "alpha")
    damaged = msgspec.structs.replace(book.store.log[3], body=b"{}")
    book.store.log[3] = damaged
    assert book.ops("alpha") == ["op3", "op1"]
    later = msgspec.structs.replace(book.store.log[5], body=b"{}")
    book.store.log[5] = later
    assert book.ops("alpha") == ["op1"]  # damaged after it was taken in


def test_one_task_alone_can_be_taken_in(book: Book) -> None:
    book.call(1, "alpha", task="a")
    book.call(1, "alpha", task="b")
    take_task(book.index, book.reader, decode, "b")
    asked = Question(query="alpha")
    assert [hit.task for hit in answer(book.index, book.reader, asked)] == ["b"]
