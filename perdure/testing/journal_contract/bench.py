"""What the storage tests share: journals driven by hand, and small drafts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ...storage.backend import Backend
from ...storage.journal import Journal
from ...storage.records import Draft, Lease, Loaded, Record, Row, Snapshot

__all__ = ["Bench", "ByHand", "OnThread", "draft", "row", "snapshot_of"]


class ByHand:
    """A background whose step the test runs itself."""

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        self.name = name
        self.step = step
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def stop(self, timeout: float) -> None:
        return


class OnThread:
    """A background on a real thread."""

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        self._step = step
        self._wanted = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wanted.set()

    def stop(self, timeout: float) -> None:
        self._ending = True
        self._wanted.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while self._step():
                pass
            if self._ending:
                return


class Bench:
    """One journal driven by hand, with everything it reports."""

    def __init__(self, backend: Backend, **options: Any) -> None:
        self.backend = backend
        self.now = 1_700_000_000.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.warnings: list[tuple[str, Mapping[str, object]]] = []
        self.flushed: list[int] = []
        options.setdefault("background", ByHand)
        self.journal = Journal(
            backend,
            time=lambda: self.now,
            call_later=lambda delay, callback: self.timers.append((delay, callback)),
            **options,
        )
        self.journal.on_warning(
            lambda event, fields: self.warnings.append((event, fields))
        )
        self.journal.on_flushed(
            lambda records: self.flushed.extend(record.seq for record in records)
        )

    def lease(self, stream: str, epoch: int = 1) -> Lease:
        return self.journal.acquire(stream, epoch)

    def append(self, lease: Lease, *versions: int, **fields: Any) -> list[Record]:
        drafts = [draft(lease.stream, version, **fields) for version in versions]
        return self.journal.append([(lease, drafts)])

    def commit(self) -> None:
        while self.journal.commit_batch():
            pass

    def pass_time(self) -> None:
        """Let every timer go off that is set now."""
        timers, self.timers = self.timers, []
        for _, callback in timers:
            callback()
        self.commit()

    def read(self, run: Callable[[Any], Any]) -> Any:
        answers: list[Any] = []
        self.journal.read(run, answers.append)
        self.commit()
        while self.journal.serve_reads():
            pass
        (answer,) = answers
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def load(self, stream: str, **options: Any) -> Loaded:
        loaded = self.read(lambda reader: reader.load(stream, **options))
        assert isinstance(loaded, Loaded)
        return loaded

    def skipped(self) -> list[tuple[object, object]]:
        return [
            (fields["version"], fields["reason"])
            for event, fields in self.warnings
            if event == "snapshot.skipped"
        ]


def draft(stream: str, version: int, **fields: Any) -> Draft:
    fields.setdefault("type", "Noted")
    fields.setdefault("body", b'{"n":%d}' % version)
    return Draft(stream=stream, version=version, **fields)


def snapshot_of(record: Record, body: bytes = b'{"state":1}') -> Snapshot:
    return Snapshot(
        stream=record.stream,
        version=record.version,
        covers=record.seq,
        state_schema=1,
        body=body,
        reason="events",
    )


def row(key: str, value: bytes | None, space: str = "tasks") -> Row:
    return Row(space=space, key=key, value=value)
