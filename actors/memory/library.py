"""The searcher of one runtime: owns the index, on a thread of its own.

Nothing is indexed where nobody asks. A question first has what was flushed since the
last one taken in, a short page at a time, and is then answered; no actor waits for it
and no append costs more. An index that is damaged, cut off or of another log is thrown
away and made again, once for each question (A27, A91).
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from ...storage.errors import StorageError
from ...storage.reader import Reader
from ...supervision.dispatch import Background, Dispatcher
from ..executor.executor import Executor, Outcome, Work
from ..names import MEMORY
from .index import Index, IndexBroken, remove
from .record import (
    Decode,
    answer,
    belongs,
    forget_erased,
    take_anew,
    take_page,
)
from .searching import Hit, Question
from .vectors import BATCH, EMBEDDED, Vectors, nearest, unit_vectors
from .words import wanted

__all__ = ["INDEX", "Library"]

INDEX = "-recall"  # behind the name of the store's file
FAILED = "the record cannot be searched now"
CLOSED = "the runtime was closed"
INSTANT = 1e-6  # seconds that a clock's rounding may take


Reply = Callable[[list[Hit] | str], object]  # the hits, or why there are none


class _Job:
    """A question or an order at hand."""

    def __init__(
        self,
        asked: Question | None,
        forget: Sequence[str],
        reply: Reply,
        *,
        anew: bool = False,
    ) -> None:
        self.asked = asked
        self.forget = forget
        self.takes_anew = anew  # what is left of these tasks
        self.reply = reply
        self.begun = False  # the index was held against the log
        self.failures = 0
        self.aim: array[float] | None = None  # the vector of the query
        self.embedding = ""  # "": not yet; "asked", "over"
        self.texts: list[tuple[int, str]] = []
        self.until = 0.0
        self.call = 0  # the number of the embedding's call that it waits for
        self.outcome: Outcome | None = None

    def anew(self) -> None:
        """Begin again, with an index or a reader made anew."""
        self.begun, self.aim, self.embedding = False, None, ""
        self.call, self.outcome = 0, None
        self.failures += 1


class Library:
    """Answers questions to the record, one after another, in the order they came.

    Args:
        dispatcher: lends the thread; it starts with the first question.
        executor: where the host's embedding runs.
        open_reader: makes a reader of the store; it is used on that thread only.
        decode: turns a record into its event.
        path: the index's file; None keeps it in a temporary one.
        vectors: the host's embedding, if it gave one.
        log: told of an index that is made again, and of an embedding that failed.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        executor: Executor,
        open_reader: Callable[[], Reader],
        decode: Decode,
        path: Path | None,
        vectors: Vectors | None,
        log: Callable[..., None],
    ) -> None:
        self._dispatcher = dispatcher
        self._executor = executor
        self._open_reader = open_reader
        self._decode = decode
        self._path = path
        self._vectors = vectors
        self._log = log
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._background: Background | None = None
        self._closed = False
        self._reader: Reader | None = None
        self._index: Index | None = None
        self._calls = 0

    def ask(self, asked: Question, reply: Reply) -> None:
        """Have a question answered: `reply` is told, once, on any thread.

        It is given the hits, or why the record cannot be searched now.
        """
        self._add(_Job(asked, (), reply))

    def forget(self, tasks: Sequence[str], reply: Reply) -> None:
        """Drop all that the index holds of tasks that were erased; then tell `reply`.

        No byte of them is left in its file. Sub-tasks are named, too.
        """
        with self._lock:
            made = self._index is not None or self._on_disk()
            if not made and not self._jobs:
                tasks = ()
        if tasks:
            self._add(_Job(None, tasks, reply))
        else:
            reply([])

    def renew(self, tasks: Sequence[str]) -> None:
        """Hold of these tasks what is left of them since their scratch was let go."""
        with self._lock:
            made = self._index is not None or self._on_disk()
        if made:
            self._add(_Job(None, tasks, _nobody, anew=True))

    def _on_disk(self) -> bool:
        return self._path is not None and self._path.exists()

    def close(self, timeout: float) -> None:
        """Answer nothing more; what is open is told so."""
        with self._lock:
            self._closed = True
            jobs, self._jobs = self._jobs, deque()
            background = self._background
        if background is not None:
            background.stop(timeout)
        for job in jobs:
            job.reply(CLOSED)
        if self._busy.acquire(timeout=timeout):  # else its thread is stuck in it
            self._let_go()
            self._busy.release()

    def _add(self, job: _Job) -> None:
        with self._lock:
            if not self._closed:
                self._jobs.append(job)
                if self._background is None:
                    self._background = self._dispatcher.background(
                        "memory.library", self.step
                    )
                self._background.wake()
                return
        job.reply(CLOSED)

    def step(self) -> bool:
        """Take in one page, or answer one question; True while there is more to do."""
        with self._busy:
            with self._lock:
                job = self._jobs[0] if self._jobs and not self._closed else None
            if job is None:
                return False
            said: list[Hit] | str | None
            try:
                said = self._further(job)
            except (IndexBroken, StorageError) as error:
                said = self._broken(job, error)
            except Exception as error:  # a defect of ours ends a question, not the step
                said = f"{FAILED}: {type(error).__name__}: {error}"
            if said is None:
                return job.embedding != "asked"
            with self._lock:
                if not self._jobs or self._jobs[0] is not job:
                    return False  # it was closed meanwhile, and has told so
                self._jobs.popleft()
            self._let_reader_go()  # the path may name another file by the next one
        job.reply(said)
        return True

    def _further(self, job: _Job) -> list[Hit] | None:
        """Go one step on with it; None where it is not answered yet."""
        if self._reader is None:
            self._reader = self._open_reader()
        if self._index is None:
            self._index = Index(self._path)
            forget_erased(self._index, self._reader)
        index, reader = self._index, self._reader
        if not job.begun:
            if not belongs(index, reader):
                raise IndexBroken("it is not of this log, or of one that was cut")
            job.begun = True
        if job.asked is None:
            for task in job.forget:
                if job.takes_anew:
                    take_anew(index, reader, self._decode, task)
                else:
                    index.forget(task)
            return []
        if not job.embedding and take_page(index, reader, self._decode):
            return None
        vectors = self._vectors if wanted(job.asked.query) else None
        if vectors is not None and self._embeds(job, job.asked, vectors):
            return None
        ranking = None if job.aim is None else _by(job.aim)
        return answer(index, reader, job.asked, ranking)

    def _broken(self, job: _Job, error: Exception) -> str | None:
        """Make the index, or the reader, anew; once for each question."""
        self._let_go()
        job.anew()
        if job.failures > 1:
            return f"{FAILED}: {error}"
        if isinstance(error, IndexBroken):
            self._log("recall.rebuilt", reason=str(error))
            try:
                if self._path is not None:
                    remove(self._path)
            except OSError as refused:
                return f"{FAILED}: its index cannot be made anew: {refused}"
        return None

    def _let_go(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.close()
        self._let_reader_go()

    def _let_reader_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    # ── vectors ──────────────────────────────────────────────────────────────────

    def _embeds(self, job: _Job, asked: Question, vectors: Vectors) -> bool:
        """Have the host embed query and episodes; False where that is over."""
        assert self._index is not None
        now = self._dispatcher.clock.monotonic()
        if not job.embedding:
            self._index.keep_vectors_of(vectors.name)
            job.until = now + vectors.timeout
        elif job.embedding == "asked":
            late = now >= job.until - INSTANT
            if job.outcome is None and not late:
                return True  # it was woken by somebody else
            if not self._embedded(job):
                job.embedding = "over"
        if job.embedding == "over":
            return False
        left = job.until - now
        room = BATCH - (job.aim is None)
        job.texts = self._index.without_vector(asked, room) if left > INSTANT else []
        texts = [text[:EMBEDDED] for _, text in job.texts]
        if job.aim is None:
            texts.append(asked.query)
        if not texts:
            job.embedding = "over"
            return False
        job.embedding = "asked"
        self._run(job, vectors, texts, left)
        return True

    def _run(
        self, job: _Job, vectors: Vectors, texts: list[str], timeout: float
    ) -> None:
        self._calls += 1
        number = job.call = self._calls
        job.outcome = None

        def heard(outcome: Outcome) -> None:
            if job.call == number:
                job.outcome = outcome
            self._wake()

        self._dispatcher.call_later(timeout, self._wake)  # no thread may be free
        self._executor.run(
            Work(
                key=(MEMORY, f"embed/{number}"),
                name="embed",
                effect="read",
                call=lambda: unit_vectors(vectors.embed(list(texts)), len(texts)),
                timeout=timeout,
                not_after=self._dispatcher.clock.time() + timeout,
                deliver=heard,
            )
        )

    def _wake(self) -> None:
        with self._lock:
            background = None if self._closed else self._background
        if background is not None:
            background.wake()

    def _embedded(self, job: _Job) -> bool:
        """Keep what the host made; False, and logged, where it made nothing."""
        assert self._index is not None
        outcome, job.call = job.outcome, 0
        if outcome is None or outcome.status != "completed":
            error = "it took too long" if outcome is None else outcome.error
            self._log("recall.vectors_failed", error=error)
            return False
        made: list[array[float]] = list(outcome.value)
        if job.aim is None:
            job.aim = made[-1]
        ids = [id_ for id_, _ in job.texts]
        self._index.add_vectors(zip(ids, made, strict=False))
        return True


def _nobody(_: list[Hit] | str) -> None:
    """Nobody waits for this."""


def _by(aim: array[float]) -> Callable[[Index, Question, int], Sequence[int]]:
    def ranking(index: Index, asked: Question, limit: int) -> Sequence[int]:
        return nearest(aim, index.vectors(asked), limit)

    return ranking
