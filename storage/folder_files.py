"""The files of a store in a folder: how each is written, and read back."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from .backend import Batch
from .errors import StoreFailed, StoreTrouble
from .memory import MemoryStore
from .posix import PRIVATE, sync_folder
from .records import Command, Record, Row, Snapshot

__all__ = [
    "LAYOUT",
    "Mark",
    "Whole",
    "errors_of",
    "inbox_file",
    "names_of",
    "read_batch",
    "read_command",
    "read_mark",
    "read_snapshots",
    "remove",
    "snapshot_file",
    "write_base",
    "write_batch",
    "write_command",
    "write_mark",
    "write_snapshots",
]

LAYOUT = 1
MARK = "store.json"
MARGIN = 400  # levels of nesting, of the interpreter's thousand
FULL = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a folder a store: its layout, and the epoch of the newest runtime."""

    perdure: int
    epoch: int


class Bytes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value of bytes: as it is where it is JSON, else in base64."""

    json: msgspec.Raw = msgspec.Raw()
    base64: str = ""

    def unpacked(self) -> bytes:
        """The bytes."""
        raw = bytes(self.json)
        return raw or base64.b64decode(self.base64)


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    stream: str
    version: int
    type: str
    schema_version: int
    codec: str
    at: float
    epoch: int
    incarnation: int
    checksum: int
    body: Bytes


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    space: str
    key: str
    value: Bytes | None


class _Command(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    subject: str
    at: float
    place: int
    body: Bytes


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    stream: str
    version: int
    covers: int
    state_schema: int
    reason: str
    at: float
    checksum: int
    body: Bytes


class _Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    records: list[_Record]
    rows: list[_Row] = []
    blobs: dict[str, Bytes] = {}
    inbox: list[_Command] | None = None


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """What one file of the log or the base holds; only a base says of the inbox."""

    batch: Batch
    inbox: list[Command] | None


def read_mark(path: Path) -> Mark | None:
    """What the folder says that it is, None where it says nothing.

    Raises ValueError where that is no store's.
    """
    try:
        body = (path / MARK).read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(body, type=Mark)


def write_mark(path: Path, mark: Mark) -> None:
    """Say what the folder is; durable when this returns."""
    _write(path / MARK, msgspec.json.encode(mark) + b"\n")


def names_of(folder: Path) -> list[str]:
    """The complete files of a folder, in order.

    One that is away was empty, unless it is the log's: archives leave those out.
    """
    try:
        names = [one.name for one in folder.iterdir()]
    except FileNotFoundError:
        if folder.name == "log" or not (folder.parent / MARK).exists():
            raise
        return []
    return sorted(one for one in names if one.endswith(".json") and one[0] != ".")


def write_batch(path: Path, batch: Batch) -> None:
    """Write a batch; durable when this returns."""
    whole = _Batch(
        records=[_record(one) for one in batch.records],
        rows=[
            _Row(
                space=one.space,
                key=one.key,
                value=None if one.value is None else _packed(one.value),
            )
            for one in batch.rows
        ],
        blobs={name: _packed(body) for name, body in batch.blobs.items()},
    )
    _write(path / "log" / _name(batch.upto), _lines(whole))


def write_base(path: Path, upto: int, store: MemoryStore) -> None:
    """Write all of a store as one file, in place of every file of the log up to it."""
    whole = _Batch(
        records=[_record(one) for one in store.log],
        rows=[
            _Row(space=space, key=key, value=_packed(value))
            for space, rows in store.rows.items()
            for key, value in rows.items()
        ],
        blobs={name: _packed(body) for name, body in store.blobs.items()},
        inbox=[_command(one) for one in store.inbox],
    )
    _write(path / "base" / _name(upto), _lines(whole))


def read_batch(file: Path) -> Whole:
    """Read a file of the log or the base back.

    Raises StoreFailed where it is not what was written.
    """
    with _damage_of(file):
        whole = msgspec.json.decode(file.read_bytes(), type=_Batch)
        return _whole(whole, int(file.stem))


def _whole(whole: _Batch, upto: int) -> Whole:
    fields = _Record.__struct_fields__
    batch = Batch(
        records=[
            Record(
                **{name: getattr(one, name) for name in fields if name != "body"},
                body=one.body.unpacked(),
            )
            for one in whole.records
        ],
        rows=[
            Row(
                space=one.space,
                key=one.key,
                value=None if one.value is None else one.value.unpacked(),
            )
            for one in whole.rows
        ],
        blobs={name: body.unpacked() for name, body in whole.blobs.items()},
        upto=upto,
    )
    if whole.inbox is None:
        return Whole(batch=batch, inbox=None)
    return Whole(batch=batch, inbox=[_plain(one) for one in whole.inbox])


def inbox_file(path: Path, command: Command) -> Path:
    """The file of a command, by its place and a digest of its id."""
    return path / "inbox" / f"{command.place:012}-{_short(command.id)}.json"


def write_command(path: Path, command: Command) -> None:
    """Write a command; durable when this returns."""
    _write(inbox_file(path, command), msgspec.json.encode(_command(command)) + b"\n")


def read_command(file: Path) -> Command:
    """Read a command back; raises StoreFailed where it is not what was written."""
    with _damage_of(file):
        return _plain(msgspec.json.decode(file.read_bytes(), type=_Command))


def snapshot_file(path: Path, stream: str) -> Path:
    """The file that holds the snapshots of a stream."""
    return path / "snapshots" / f"{_short(stream)}.json"


def write_snapshots(path: Path, kept: Sequence[tuple[Snapshot, int]]) -> None:
    """Write a stream's snapshots; not synced, since they are a cache."""
    if kept:
        stream = kept[0][0].stream
        body = msgspec.json.encode([_snapshot(*one) for one in kept]) + b"\n"
        _write(snapshot_file(path, stream), body, sync=False)


def read_snapshots(file: Path) -> list[tuple[Snapshot, int]]:
    """Read snapshots back; none where the file is damaged."""
    fields = [name for name in Snapshot.__struct_fields__ if name != "body"]
    try:
        with _damage_of(file):
            found = msgspec.json.decode(file.read_bytes(), type=list[_Snapshot])
            return [
                (
                    Snapshot(
                        **{name: getattr(one, name) for name in fields},
                        body=one.body.unpacked(),
                    ),
                    one.checksum,
                )
                for one in found
            ]
    except (OSError, StoreFailed):
        return []


def remove(file: Path) -> None:
    """Remove a file, where there is one."""
    with suppress(FileNotFoundError):
        file.unlink()


@contextmanager
def _damage_of(file: Path) -> Iterator[None]:
    """Turn what decoding raises into StoreFailed; base 64 raises ValueError."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StoreFailed(str(file), f"it is damaged: {error}") from error


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Turn the system's errors into `StoreTrouble` (retry) or `StoreFailed`."""
    try:
        yield
    except OSError as error:
        detail = error.strerror or str(error)
        if error.errno in FULL:
            raise StoreTrouble(path, "full", detail) from error
        if error.errno in READ_ONLY:
            raise StoreTrouble(path, "readonly", detail) from error
        raise StoreFailed(path, detail) from error


def _write(place: Path, body: bytes, *, sync: bool = True) -> None:
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, PRIVATE), "wb") as file:
            file.write(body)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        beside.rename(place)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    if sync:
        try:
            sync_folder(place.parent)
        except OSError as error:  # it is there, and may be gone after a power cut
            raise StoreFailed(str(place), str(error)) from error


def _lines(whole: _Batch) -> bytes:
    """One record a line, so that people and `diff` can read it."""
    fields: Mapping[str, object] = msgspec.structs.asdict(whole)
    parts = []
    for name, value in fields.items():
        if isinstance(value, list) and value:
            lines = b",\n  ".join(map(msgspec.json.encode, value))
            parts.append(b'"%s": [\n  %s\n]' % (name.encode(), lines))
        elif value:
            parts.append(b'"%s": %s' % (name.encode(), msgspec.json.encode(value)))
        elif name == "records" or value == []:
            parts.append(b'"%s": []' % name.encode())
    return b"{" + b",\n".join(parts) + b"}\n"


def _packed(body: bytes) -> Bytes:
    # What is nested almost too deeply for us is too deep inside a file, and for who
    # reads it from further down his own stack: that would close the store for good.
    deep = body.count(b"[") + body.count(b"{") > MARGIN
    try:
        msgspec.json.decode(b"[" * MARGIN + body + b"]" * MARGIN if deep else body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Bytes(base64=base64.b64encode(body).decode())
    if body != body.strip() or b"\n" in body:
        return Bytes(base64=base64.b64encode(body).decode())
    return Bytes(json=msgspec.Raw(body))


def _record(record: Record) -> _Record:
    fields = msgspec.structs.asdict(record)
    return _Record(**{**fields, "body": _packed(record.body)})


def _command(command: Command) -> _Command:
    fields = msgspec.structs.asdict(command)
    return _Command(**{**fields, "body": _packed(command.body)})


def _plain(command: _Command) -> Command:
    fields = msgspec.structs.asdict(command)
    return Command(**{**fields, "body": command.body.unpacked()})


def _snapshot(snapshot: Snapshot, checksum: int) -> _Snapshot:
    fields = msgspec.structs.asdict(snapshot)
    return _Snapshot(**{**fields, "body": _packed(snapshot.body)}, checksum=checksum)


def _name(upto: int) -> str:
    return f"{upto:016}.json"


def _short(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()[:32]
