"""The file of an archive: one JSON value a line, compressed, with its own checksum.

`gzip -cd FILE` shows it to anything that reads JSON. The first line says what it holds,
the last one how many lines are before it and their SHA-256:

    archive   format, task, its sub-tasks with it, when it was made
    record    of one of their streams: every field as the store had it, body as text
    service   likewise, of a stream shared by all tasks, about one of them
    value     a big value, by its SHA-256, in base 64
    row       space, key and value of what is looked up
    command   what was asked of them from outside, and the answer
    end       lines, sha256

Records are in the order of the log. A file is whole or it is refused.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .errors import Misuse
from .storage.posix import PRIVATE, sync_folder
from .storage.records import JSON_CODEC, Record, blob_digest, record_checksum

__all__ = ["FORMAT", "bytes_of", "read", "record_of", "shown", "told", "write"]

FORMAT = 1
LONGEST = 64 * 1024 * 1024  # bytes of a line
_FIELDS = Record.__struct_fields__


def write(path: Path, lines: Iterable[dict[str, Any]]) -> str:
    """Write a new file, whole or not at all, and durable; its SHA-256.

    Raises Misuse where the file is there, or cannot be made.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    except OSError as error:
        raise _cannot(path, error) from None
    digest, count = hashlib.sha256(), 0
    try:
        with os.fdopen(handle, "wb") as raw:
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
                for line in lines:
                    text = json.dumps(line).encode() + b"\n"
                    digest.update(text)
                    out.write(text)
                    count += 1
                end = {"is": "end", "lines": count, "sha256": digest.hexdigest()}
                out.write(json.dumps(end).encode() + b"\n")
            raw.flush()
            os.fsync(raw.fileno())
        for _ in read(part):
            pass  # what was written is what a reader finds
        try:
            os.link(part, path)
        except OSError as error:
            raise _cannot(path, error) from None
        sync_folder(path.absolute().parent)
    finally:
        part.unlink(missing_ok=True)
    return digest.hexdigest()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of an archive but for the last, which is held against them.

    Raises Misuse where it is none, of a newer format, or damaged: perhaps only after
    its last line, so do nothing before that.
    """
    digest, count, versions = hashlib.sha256(), 0, dict[str, int]()
    try:
        with gzip.open(path, "rb") as file:
            while text := file.readline(LONGEST):
                line = _line(path, text, count)
                if line["is"] == "end":
                    _check_end(path, line, count, digest.hexdigest())
                    if file.read(1):
                        raise _damaged(path, "something follows its end")
                    return
                digest.update(text)
                count += 1
                _check(path, line, versions)
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        if not count:
            raise Misuse(f"{path} is no archive of perdure") from None
        raise _damaged(path, str(error)) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Misuse(f"{path}: {why}; name an archive") from None
    raise _damaged(path, "it is cut off") if count else _no_archive(path)


def told(record: Record, what: str) -> dict[str, Any]:
    """The line of a record."""
    fields = {name: getattr(record, name) for name in _FIELDS}
    return {"is": what, **fields, "body": record.body.decode()}


def record_of(line: dict[str, Any]) -> Record:
    """The record that a line is of, as it stood in the store that it is from."""
    fields = {name: line[name] for name in _FIELDS}
    return Record(**{**fields, "body": line["body"].encode()})


def shown(value: bytes) -> dict[str, str]:
    """Bytes in a line: as text where they are some."""
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def bytes_of(line: dict[str, Any]) -> bytes:
    """The bytes that a line of a row or a value holds."""
    if "text" in line:
        return str(line["text"]).encode()
    return base64.b64decode(line["base64"], validate=True)


def _line(path: Path, text: bytes, count: int) -> dict[str, Any]:
    try:
        line = json.loads(text)
        kind = line["is"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise (
            _damaged(path, "a line is torn") if count else _no_archive(path)
        ) from None
    if count == 0:
        if kind != "archive" or not isinstance(line.get("format"), int):
            raise _no_archive(path)
        if line["format"] > FORMAT:
            raise Misuse(
                f"{path} has archive format {line['format']}, this perdure knows up to "
                f"{FORMAT}; use a newer one"
            )
    assert isinstance(line, dict)
    return line


def _check(path: Path, line: dict[str, Any], versions: dict[str, int]) -> None:
    """Hold a record against its checksum and its stream, a value against its name."""
    try:
        if line["is"] == "value" and blob_digest(bytes_of(line)) != line["digest"]:
            raise _damaged(path, f"value {line['digest'][:16]} is another one")
        if line["is"] not in ("record", "service"):
            return
        record = record_of(line)
        sum_ = record_checksum(*(getattr(record, name) for name in _FIELDS[:-1]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _damaged(path, "a line lacks what it should have") from None
    where = f"record {record.seq} of {record.stream}"
    if sum_ != record.checksum or record.codec != JSON_CODEC:
        raise _damaged(path, f"{where} does not match its checksum")
    if line["is"] == "record":
        next_ = versions.get(record.stream, 0) + 1
        if record.version != next_:
            raise _damaged(path, f"record {next_} of {record.stream} is missing")
        versions[record.stream] = next_


def _check_end(path: Path, line: dict[str, Any], count: int, digest: str) -> None:
    if line.get("lines") != count or line.get("sha256") != digest:
        raise _damaged(path, "its lines do not match its end")


def _damaged(path: Path, what: str) -> Misuse:
    return Misuse(f"{path} is damaged: {what}; take another copy of it")


def _no_archive(path: Path) -> Misuse:
    return Misuse(f"{path} is no archive of perdure")


def _cannot(path: Path, error: OSError) -> Misuse:
    why = (error.strerror or str(error)).lower()
    return Misuse(f"{path}: {why}; name a new file")
