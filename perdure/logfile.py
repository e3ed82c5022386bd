"""A log file of JSON lines that is continued after a kill, and rotated by size."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from .lines import encode, encode_record
from .storage.records import Record
from .supervision.dispatch import Dispatcher

__all__ = ["FileSink"]

LOGGER = logging.getLogger("perdure")
ROTATE_AT = 16 * 1024 * 1024  # bytes
KEPT = 5  # rotated files beside the current one
LINES_AT_ONCE = 256  # of one write
WAITING = 10_000  # lines held while the disk takes none
LATE = 0.02  # seconds that a line may come after its record
ROUTINE = frozenset(  # what every operation of a policy or of a model writes
    {
        "ActionObserved",
        "DecisionMade",
        "EffectRecorded",
        "EffectRegistered",
        "RequestBuilt",
        "Reserved",
        "Settled",
    }
)
BLOCK = 65_536  # bytes read at a time, from the end


class FileSink:
    """Appends one JSON object a line; the file is made with mode 0600.

    A line that the disk refuses waits, and goes first at the next write. When more
    than `WAITING` of them wait, the sink takes no more: a gap is never written over,
    so that the next start continues after the last `seq` in the file and no record
    lacks its line.

    With a dispatcher the lines of the records that every operation has are written
    together, `LATE` after the first of them at most, or before any other line.

    Args:
        path: The current file; older parts are `path.1` (newest) to `path.5`.
        rotate_at: Bytes after which a new file is begun.
        dispatcher: Tells when lines are late, and lends a moment to write them.

    Raises:
        OSError: The file cannot be opened for writing.
    """

    def __init__(
        self,
        path: Path,
        *,
        rotate_at: int = ROTATE_AT,
        dispatcher: Dispatcher | None = None,
    ) -> None:
        self._path = path
        self._rotate_at = rotate_at
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._stopped = False
        self._inside = False  # of a line that was written in part
        self._fd = self._open()
        end_torn_line(path, self._fd)
        self._size = os.fstat(self._fd).st_size
        self._dispatcher = dispatcher
        self._late: list[Record] = []
        self._timed = False  # whether a timer looks at them
        if dispatcher is not None:
            self._step = dispatcher.when_idle("log", self.catch_up)

    @staticmethod
    def parts(path: Path) -> list[Path]:
        """Return the files of the log at `path` that exist, oldest first."""
        older = [part_of(path, number) for number in range(KEPT, 0, -1)]
        return [part for part in [*older, path] if part.exists()]

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        line = encode(event, fields)
        with self._lock:
            self._add([*self._lines(), line])

    def write_records(self, records: Sequence[Record]) -> None:
        with self._lock:
            self._late.extend(records)
            if self._dispatcher is None or not self._may_wait(records):
                self._add(self._lines())
            elif not self._timed:
                self._timed = True
                self._dispatcher.call_later(LATE, self._ring)

    def catch_up(self) -> bool:
        """Write the lines that are late; nothing is left to do then."""
        with self._lock:
            self._add(self._lines())
        return False

    def _may_wait(self, records: Sequence[Record]) -> bool:
        if len(self._late) >= LINES_AT_ONCE:
            return False
        return ROUTINE.issuperset([record.type for record in records])

    def _ring(self) -> None:
        self._timed = False
        self._step.wake()

    def _lines(self) -> list[bytes]:
        late, self._late = self._late, []
        return [encode_record(record) for record in late]

    def last_seq(self) -> int:
        with self._lock:
            for part in reversed(self.parts(self._path)):
                for line in lines_backwards(part):
                    seq = seq_of(line)
                    if seq:
                        return seq
        return 0

    def close(self) -> None:
        with self._lock:
            if self._fd < 0:
                return
            if not self._stopped:
                self._waiting.extend(self._lines())
            with contextlib.suppress(OSError):
                self._drain()
            self._stopped = True
            os.close(self._fd)
            self._fd = -1

    def _add(self, lines: list[bytes]) -> None:
        if self._stopped:
            return
        if len(self._waiting) >= WAITING:
            self._stopped = True
            LOGGER.error("log.stopped %s", self._path)
            return
        self._waiting.extend(lines)
        with contextlib.suppress(OSError):
            self._drain()

    def _open(self) -> int:
        # O_CLOEXEC is Python's default: a spawned tool does not hold the log.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return os.open(self._path, flags, 0o600)

    def _drain(self) -> None:
        while self._waiting:
            first = len(self._waiting[0])
            full = self._size + first > self._rotate_at
            if full and self._size and not self._inside:
                self._rotate()
            lines, room = 1, self._rotate_at - self._size - first
            for line in islice(self._waiting, 1, LINES_AT_ONCE):
                room -= len(line)
                if room < 0:
                    break
                lines += 1
            written = os.write(self._fd, b"".join(islice(self._waiting, lines)))
            self._size += written
            while written and written >= len(self._waiting[0]):
                written -= len(self._waiting.popleft())
            self._inside = written > 0
            if self._inside:  # the rest goes first next time
                self._waiting[0] = self._waiting[0][written:]

    def _rotate(self) -> None:
        for number in range(KEPT, 0, -1):
            source = part_of(self._path, number - 1)
            if source.exists():
                source.replace(part_of(self._path, number))
        fresh = self._open()
        os.close(self._fd)
        self._fd = fresh
        self._size = 0


def part_of(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def end_torn_line(path: Path, fd: int) -> None:
    """End the last line when a kill or a full disk left it without its newline."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            os.write(fd, b"\n")


def lines_backwards(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file from its last to its first, in blocks from the end."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        head = b""
        while position > 0:
            size = min(BLOCK, position)
            position -= size
            file.seek(position)
            head, *lines = (file.read(size) + head).split(b"\n")
            yield from reversed(lines)
        yield head


def seq_of(line: bytes) -> int:
    """Return the `seq` of a line, 0 for a torn line or one without."""
    if b'"seq"' not in line:
        return 0
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError):  # the first is none in old msgspec
        return 0
    seq = entry.get("seq", 0) if isinstance(entry, dict) else 0
    return seq if isinstance(seq, int) else 0
