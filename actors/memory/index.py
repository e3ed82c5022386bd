"""The index of the record: a cache in an SQLite file of its own, beside the log.

It may be deleted at any time; it is made again from the log. What it holds of each
episode is its text, where it stands, and (FTS5) which words are in it. Where SQLite
has no FTS5, every text in question is split anew for each question.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from .episodes import Call, Episode
from .searching import Question
from .words import Wanted, holds, wanted, words

__all__ = ["FULL_TEXT", "Index", "IndexBroken", "Mark", "Place", "Row", "remove"]

FULL_TEXT: Final = "ENABLE_FTS5" in apsw.compile_options
APPLICATION_ID = 0x50455249  # "PERI", in the file's header
FORMAT = 1  # an index of another one is made anew: counted up with words and episodes
ENDS = ("", "-wal", "-shm", "-journal")
PRIVATE = 0o600

_SCHEMA = """
CREATE TABLE mark (seq INTEGER NOT NULL, checksum INTEGER NOT NULL, vectors TEXT);
INSERT INTO mark VALUES (0, 0, NULL);
CREATE TABLE calls (
    task TEXT NOT NULL, op INTEGER NOT NULL, call TEXT NOT NULL,
    PRIMARY KEY (task, op)
) WITHOUT ROWID;
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY,  -- the seq of the record that it rests on
    checksum INTEGER NOT NULL, task TEXT NOT NULL, op INTEGER NOT NULL,
    kind TEXT NOT NULL, step TEXT NOT NULL, tool TEXT NOT NULL,
    outcome TEXT NOT NULL, at REAL NOT NULL, text TEXT NOT NULL
);
CREATE INDEX episodes_of ON episodes (task, op);
CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL);
"""
_WORDS = """
CREATE VIRTUAL TABLE terms USING fts5 (words, content = '', tokenize = 'ascii');
INSERT INTO terms (terms, rank) VALUES ('secure-delete', 1);
"""
_COLUMNS = "e.id, e.checksum, e.task, e.op, e.kind, e.step, e.tool, e.outcome, e.at"


class IndexBroken(Exception):
    """The index cannot be used as it is; it is to be removed and made again."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The last record that was taken in: it names the log as well as the place."""

    seq: int
    checksum: int


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where in the log an episode stands."""

    seq: int
    checksum: int
    task: str
    at: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """An episode as the index has it."""

    place: Place
    episode: Episode


def remove(path: Path) -> None:
    """Delete an index and what SQLite keeps beside it; nothing where there is none."""
    for end in ENDS:
        path.with_name(path.name + end).unlink(missing_ok=True)


class Index:
    """One connection, used by one thread at a time.

    Args:
        path: the file, made with mode 0600 where there is none; None takes a
            temporary one that goes with the connection.
        full_text: whether to use FTS5.

    Every method raises `IndexBroken` where SQLite or the disk refuses.
    """

    def __init__(self, path: Path | None, *, full_text: bool = FULL_TEXT) -> None:
        self._full_text = full_text
        with _errors():
            if path is not None:
                path.touch(mode=PRIVATE)
            self._db = apsw.Connection("" if path is None else str(path))
            try:
                self._open(temporary=path is None)
            except BaseException:
                self._db.close(True)
                raise

    def _open(self, *, temporary: bool) -> None:
        self._db.set_busy_timeout(1000)
        self._db.pragma("journal_mode", "OFF" if temporary else "WAL")
        self._db.pragma("synchronous", "OFF" if temporary else "NORMAL")
        self._db.pragma("secure_delete", 1)
        found = self._db.pragma("application_id"), self._db.pragma("user_version")
        if found == (0, 0):
            with self._db:
                self._db.execute(_SCHEMA + (_WORDS if self._full_text else ""))
                self._db.pragma("application_id", APPLICATION_ID)
                self._db.pragma("user_version", FORMAT)
        elif found != (APPLICATION_ID, FORMAT) or self._full_text != self._has_words():
            raise IndexBroken(f"it has another format ({found[1]})")

    def _has_words(self) -> bool:
        sql = "SELECT count(*) FROM sqlite_master WHERE name = 'terms'"
        return bool(self._db.execute(sql).get)

    def close(self) -> None:
        """Let the file go."""
        self._db.close(True)

    # ── taking in ────────────────────────────────────────────────────────────────

    @property
    def mark(self) -> Mark:
        """How far the log has been taken in."""
        with _errors():
            seq, checksum = self._db.execute("SELECT seq, checksum FROM mark").get
        return Mark(seq=seq, checksum=checksum)

    @contextmanager
    def page(self, mark: Mark) -> Iterator[None]:
        """Take in some records as one, up to `mark`; all of them or none."""
        with _errors(), self._db:
            yield
            self._db.execute(
                "UPDATE mark SET seq = ?, checksum = ?", (mark.seq, mark.checksum)
            )

    def call(self, task: str, op: int) -> Call:
        """What is known of an operation that has no outcome yet."""
        sql = "SELECT call FROM calls WHERE task = ? AND op = ?"
        with _errors():
            found = self._db.execute(sql, (task, op)).get
        return Call() if found is None else msgspec.json.decode(found, type=Call)

    def keep_call(self, task: str, op: int, call: Call) -> None:
        """Keep what is known of an operation."""
        text = msgspec.json.encode(call).decode()
        with _errors():
            self._db.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (task, op, text)
            )

    def end_calls(self, task: str, op: int | None = None) -> None:
        """Forget what is known of an operation, or of all of a task."""
        with _errors():
            self._db.execute(
                "DELETE FROM calls WHERE task = ?1 AND (?2 IS NULL OR op = ?2)",
                (task, op),
            )

    def add(self, place: Place, episode: Episode) -> None:
        """Take one episode in; a call's takes the place of one that was unknown."""
        with _errors():
            if episode.kind == "call":
                doubtful = self._all(
                    "SELECT id FROM episodes WHERE task = ? AND op = ? "
                    "AND kind = 'call' AND outcome = 'unknown'",
                    place.task,
                    episode.op,
                )
                self._drop(id_ for (id_,) in doubtful)
            self._db.execute(
                "INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    place.seq,
                    place.checksum,
                    place.task,
                    episode.op,
                    episode.kind,
                    episode.step,
                    episode.tool,
                    episode.outcome,
                    place.at,
                    episode.text,
                ),
            )
            if self._full_text:
                self._db.execute(
                    "INSERT INTO terms (rowid, words) VALUES (?, ?)",
                    (place.seq, _words(episode.tool, episode.text)),
                )

    # ── searching ────────────────────────────────────────────────────────────────

    def search(self, asked: Question, limit: int) -> list[int]:
        """The ids of the best `limit` episodes, best first.

        Those that hold all words of the query; where none does, those that hold any.
        Of equally good ones the newest comes first; without a word in the query all
        are equally good.
        """
        query = wanted(asked.query)
        with _errors():
            if not query:
                return self._newest(asked, limit)
            for every in (True, False):
                if self._full_text:
                    found = self._matching(asked, query, limit, every=every)
                else:
                    found = self._scanned(asked, query, limit, every=every)
                if found:
                    return found
        return []

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """The episodes of these ids that there are, in this order."""
        found = {}
        with _errors():
            for id_ in ids:
                sql = f"SELECT {_COLUMNS}, e.text FROM episodes AS e WHERE e.id = ?"  # noqa: S608 - constants
                for row in self._all(sql, id_):
                    found[id_] = _row(row)
        return [found[id_] for id_ in ids if id_ in found]

    def _newest(self, asked: Question, limit: int) -> list[int]:
        where, values = _filters(asked)
        sql = f"SELECT id FROM episodes AS e WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 - as above
        return [id_ for (id_,) in self._all(sql, *values, limit)]

    def _matching(
        self, asked: Question, query: tuple[Wanted, ...], limit: int, *, every: bool
    ) -> list[int]:
        where, values = _filters(asked)
        sql = (
            "SELECT e.id FROM terms JOIN episodes AS e ON e.id = terms.rowid "  # noqa: S608 - as above
            f"WHERE terms MATCH ? AND {where} ORDER BY bm25(terms), e.id DESC LIMIT ?"
        )
        match = (" AND " if every else " OR ").join(map(_expression, query))
        return [id_ for (id_,) in self._all(sql, match, *values, limit)]

    def _scanned(
        self, asked: Question, query: tuple[Wanted, ...], limit: int, *, every: bool
    ) -> list[int]:
        """Without FTS5: the rank is how many of the words a text holds."""
        where, values = _filters(asked)
        sql = f"SELECT e.id, e.tool, e.text FROM episodes AS e WHERE {where}"  # noqa: S608 - as above
        found = []
        for id_, tool, text in self._db.execute(sql, values):
            held = set(_words(tool, text).split(" "))
            count = sum(holds(held, word) for word in query)
            if count == len(query) or (count and not every):
                found.append((-count, -id_))
        return [-id_ for _, id_ in sorted(found)[:limit]]

    # ── vectors ──────────────────────────────────────────────────────────────────

    def keep_vectors_of(self, name: str) -> None:
        """Drop all vectors that another model, or one of another name, made."""
        with _errors(), self._db:
            if self._db.execute("SELECT vectors FROM mark").get != name:
                self._db.execute("DELETE FROM vectors")
                self._db.execute("UPDATE mark SET vectors = ?", (name,))

    def without_vector(self, asked: Question, limit: int) -> list[tuple[int, str]]:
        """The newest episodes in question that have no vector, with their texts."""
        where, values = _filters(asked)
        sql = (
            f"SELECT e.id, e.text FROM episodes AS e WHERE {where} AND NOT EXISTS "  # noqa: S608 - as above
            "(SELECT 1 FROM vectors AS v WHERE v.id = e.id) ORDER BY e.id DESC LIMIT ?"
        )
        with _errors():
            return [(id_, text) for id_, text in self._all(sql, *values, limit)]

    def add_vectors(self, vectors: Iterable[tuple[int, array[float]]]) -> None:
        """Keep the vectors of some episodes."""
        with _errors(), self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)",
                ((id_, vector.tobytes()) for id_, vector in vectors),
            )

    def vectors(self, asked: Question) -> Iterator[tuple[int, array[float]]]:
        """The vectors of all episodes in question."""
        where, values = _filters(asked)
        sql = (
            "SELECT v.id, v.vector FROM vectors AS v "  # noqa: S608 - as above
            f"JOIN episodes AS e ON e.id = v.id WHERE {where}"
        )
        with _errors():
            for id_, body in self._db.execute(sql, values):
                vector = array("f")
                vector.frombytes(body)
                yield id_, vector

    # ── letting go ───────────────────────────────────────────────────────────────

    def tasks(self) -> list[str]:
        """The tasks that it holds anything of."""
        with _errors():
            found = self._all(
                "SELECT task FROM episodes UNION SELECT task FROM calls ORDER BY 1"
            )
        return [task for (task,) in found]

    def places(self, task: str) -> list[Place]:
        """Where the episodes of one task stand; not those of its sub-tasks."""
        sql = "SELECT id, checksum, at FROM episodes WHERE task = ?"
        with _errors():
            return [
                Place(seq=id_, checksum=checksum, task=task, at=at)
                for id_, checksum, at in self._all(sql, task)
            ]

    def drop(self, places: Iterable[Place]) -> None:
        """Drop episodes, and their bytes in the file."""
        with _errors():
            with self._db:
                self._drop(place.seq for place in places)
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def forget(self, task: str) -> None:
        """Drop all of one task (not of its sub-tasks), and its bytes in the file."""
        self.end_calls(task)
        self.drop(self.places(task))
        with _errors():  # what was moved within the file before left copies behind
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _all(self, sql: str, *values: apsw.SQLiteValue) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, values).fetchall()

    def _drop(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            if self._full_text:
                sql = "SELECT tool, text FROM episodes WHERE id = ?"
                for tool, text in self._all(sql, id_):  # FTS5 wants its words again
                    self._db.execute(
                        "INSERT INTO terms (terms, rowid, words) "
                        "VALUES ('delete', ?, ?)",
                        (id_, _words(tool, text)),
                    )
            self._db.execute("DELETE FROM vectors WHERE id = ?", (id_,))
            self._db.execute("DELETE FROM episodes WHERE id = ?", (id_,))


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, OSError) as error:
        raise IndexBroken(f"{type(error).__name__}: {error}") from error


def _words(tool: Any, text: Any) -> str:
    """What an episode is found by: its tool's name, and its text."""
    return " ".join((*words(tool), *words(text)))


def _filters(asked: Question) -> tuple[str, list[Any]]:
    """The conditions of a question but its words, and their values."""
    parts: list[str] = ["1"]
    values: list[Any] = []
    if asked.task:
        # "." joins a sub-task's id to its parent's, and "/" is the sign behind it.
        whose = ["e.task = ?", "(e.task > ? AND e.task < ?)"]
        whose += ["(e.task = ? AND e.op < ?)"] * len(asked.sources)
        parts.append(f"({' OR '.join(whose)})")
        values += [asked.task, f"{asked.task}.", f"{asked.task}/"]
        values += [value for source in asked.sources for value in source]
    for column in ("step", "tool", "outcome"):
        if value := getattr(asked, column):
            parts.append(f"e.{column} = ?")
            values.append(value)
    for condition, moment in (("e.at >= ?", asked.since), ("e.at <= ?", asked.until)):
        if moment is not None:
            parts.append(condition)
            values.append(float(moment))
    return " AND ".join(parts), values


def _expression(word: Wanted) -> str:
    """A word of a query as FTS5 has it: strings of letters and digits in quotes."""
    parts = " AND ".join(f'"{part}"' for part in word.parts)
    if not word.whole or (word.whole,) == word.parts:
        return f"({parts})"
    return f'("{word.whole}" OR ({parts}))'


def _row(row: tuple[Any, ...]) -> Row:
    seq, checksum, task, op, kind, step, tool, outcome, at, text = row
    return Row(
        place=Place(seq=seq, checksum=checksum, task=task, at=at),
        episode=Episode(
            op=op, kind=kind, step=step, tool=tool, outcome=outcome, text=text
        ),
    )
