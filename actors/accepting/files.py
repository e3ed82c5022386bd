"""Ready-made acceptance of what was written: files, and how many rows they have."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ..acceptance import Verdict, View
from ..errors import Misuse
from .checks import Check, at, check_field, missing

__all__ = ["file", "rows"]

CHUNK = 1 << 20  # bytes that are read at once
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
CSV, LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")


class _Refused(Exception):
    """Why a file is not taken, in words for the model."""


def file(
    path: str | None = None,
    *,
    root: str | os.PathLike[str],
    field: str | None = None,
    digest: str | None = None,
    digest_field: str | None = None,
) -> Check:
    """Accept a result whose file exists, with the digest that is given or stated.

    The file must lie inside `root`, symlinks followed and ``..`` resolved, and be a
    regular one. Evidence: its path, size and SHA-256.

    Args:
        path: the file, relative to `root`.
        root: the folder that it must lie in.
        field: instead of `path`, the field of the result that names the file.
        digest: the SHA-256 that it must have, in hexadecimal.
        digest_field: instead of `digest`, the field of the result that states it.

    Raises Misuse where not exactly one of `path` and `field` is given, for both
    digests, and for what is none.
    """
    _check_source("file", path, field)
    folder = _root("file", root)
    check_field("file", digest_field, "digest_field")
    if digest is not None and digest_field is not None:
        raise Misuse("file: digest= and digest_field= are both given; leave one out")
    if digest is not None and not (
        isinstance(digest, str) and SHA256.fullmatch(digest)
    ):
        raise Misuse(
            f"file: digest={digest!r} must be a SHA-256, 64 hexadecimal digits"
        )

    def call(result: Any, view: View) -> Verdict:
        found, named = (True, path) if field is None else at(result, field)
        if not found:
            return missing(field)
        wanted: Any = digest
        if digest_field is not None:
            found, wanted = at(result, digest_field)
            if not found:
                return missing(digest_field)
        try:
            with _opened(folder, named) as opened:
                size, has = _digest(opened)
        except _Refused as error:
            return Verdict(
                ok=False, why=str(error), evidence={"path": str(named)[:200]}
            )
        evidence = {"path": named, "size": size, "sha256": has}
        if wanted is not None and str(wanted).lower() != has:
            why = f"file {named!r} has SHA-256 {has}, not {str(wanted)[:64]}"
            return Verdict(ok=False, why=why, evidence=evidence)
        return Verdict(ok=True, evidence=evidence)

    return Check(f"file({_named(path, field)})", call)


def rows(
    source: str | Callable[[Any, View], int] | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    field: str | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    stated: str | None = None,
) -> Check:
    """Accept a result whose file, or whatever is counted, has so many rows.

    A ``.csv`` or ``.tsv`` file has a header that is no row; empty lines are none. Each
    line of a ``.jsonl`` or ``.ndjson`` file must be JSON. Evidence: the count.

    Args:
        source: the file, relative to `root`, or a function of result and view that
            counts (rows of a table, say); it runs where acceptance does.
        root: the folder that the file must lie in, as for `file`.
        field: instead of `source`, the field of the result that names the file.
        at_least: the fewest rows that pass.
        at_most: the most that pass.
        exactly: the number that passes.
        stated: the field of the result that must state the number.

    Raises Misuse where nothing is asked of the count, or the source is unclear.
    """
    counts = callable(source)
    if counts:
        if root is not None or field is not None:
            raise Misuse("rows: root= and field= are of a file; a function counts here")
        folder = Path()
    else:
        _check_source("rows", source, field)
        folder = _root("rows", root)
        if isinstance(source, str):
            _kind("rows", source)
    check_field("rows", stated, "stated")
    limits = {"at_least": at_least, "at_most": at_most, "exactly": exactly}
    for name, limit in limits.items():
        if limit is not None and (type(limit) is not int or limit < 0):
            raise Misuse(f"rows: {name}={limit!r} must be a whole number, 0 or more")
    asked = {name: limit for name, limit in limits.items() if limit is not None}
    if not asked and stated is None:
        raise Misuse("rows: give at_least=, at_most=, exactly= or stated=")

    def call(result: Any, view: View) -> Verdict:
        evidence: dict[str, Any] = {}
        if callable(source):
            has: Any = source(result, view)
            if type(has) is not int:
                why = f"what counts the rows answered {type(has).__name__}, no number"
                raise TypeError(why)
        else:
            found, named = (True, source) if field is None else at(result, field)
            if not found:
                return missing(field)
            evidence["path"] = str(named)[:200]
            try:
                has = _count(folder, named)
            except _Refused as error:
                return Verdict(ok=False, why=str(error), evidence=evidence)
        evidence["rows"] = has
        wanted: Any = None
        if stated is not None:
            found, wanted = at(result, stated)
            if not found:
                return missing(stated)
        return Verdict(
            ok=not (why := _off(has, asked, stated, wanted)), why=why, evidence=evidence
        )

    named = "function" if counts else _named(source, field)  # type: ignore[arg-type]
    said = [named, *(f"{name}={limit}" for name, limit in asked.items())]
    if stated is not None:
        said.append(f"stated={stated!r}")
    return Check(f"rows({', '.join(said)})", call)


def _off(has: int, asked: dict[str, int], stated: str | None, wanted: Any) -> str:
    """What is wrong with a count, or nothing."""
    if "exactly" in asked and has != asked["exactly"]:
        return f"there are {has} rows, not {asked['exactly']}"
    if has < asked.get("at_least", 0):
        return f"there are {has} rows, fewer than {asked['at_least']}"
    if has > asked.get("at_most", has):
        return f"there are {has} rows, more than {asked['at_most']}"
    if stated is not None and (type(wanted) is not int or wanted != has):
        return f"there are {has} rows, but {stated!r} says {str(wanted)[:100]}"
    return ""


def _count(folder: Path, named: Any) -> int:
    try:
        kind = _kind("rows", named)
    except Misuse as error:
        raise _Refused(str(error)) from error
    with _opened(folder, named) as opened:
        if kind in LINES:
            return _lines(opened, named)
        text = io.TextIOWrapper(opened, encoding="utf-8-sig", newline="")
        delimiter = "\t" if kind == ".tsv" else ","
        try:
            found = sum(any(row) for row in csv.reader(text, delimiter=delimiter))
        except (csv.Error, UnicodeDecodeError) as error:
            raise _Refused(f"file {named!r} cannot be read as rows: {error}") from error
    return max(found - 1, 0)


def _lines(opened: BinaryIO, named: str) -> int:
    found = 0
    for number, line in enumerate(opened, 1):
        if not line.strip():
            continue
        try:
            msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _Refused(
                f"line {number} of file {named!r} is no JSON: {error}"
            ) from error
        found += 1
    return found


def _opened(folder: Path, named: Any) -> BinaryIO:
    """Open a regular file inside the folder, wherever its links lead."""
    if not isinstance(named, str) or not named or "\0" in named:
        raise _Refused(f"{str(named)[:100]!r} names no file")
    try:
        real = Path(os.path.realpath(folder / named))
        named.encode()
    except (OSError, UnicodeEncodeError) as error:
        raise _Refused(f"file {named!a} cannot be looked at: {error}") from error
    if not real.is_relative_to(folder):
        raise _Refused(f"file {named!r} lies outside the folder that it belongs in")
    try:
        # A pipe that nobody writes to must not hold us up before it is refused.
        number = os.open(
            real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except FileNotFoundError as error:
        raise _Refused(f"there is no file {named!r}") from error
    except OSError as error:
        raise _Refused(f"file {named!r} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _Refused(f"{named!r} is no regular file")
    return os.fdopen(number, "rb")


def _digest(opened: BinaryIO) -> tuple[int, str]:
    found, size = hashlib.sha256(), 0
    while chunk := opened.read(CHUNK):
        found.update(chunk)
        size += len(chunk)
    return size, found.hexdigest()


def _root(where: str, root: Any) -> Path:
    if not isinstance(root, str | os.PathLike) or not str(root):
        raise Misuse(f"{where}: root={root!r} must be the folder that the file lies in")
    return Path(os.path.realpath(root))


def _check_source(where: str, path: Any, field: str | None) -> None:
    check_field(where, field)
    if (path is None) == (field is None):
        raise Misuse(
            f"{where}: give the file's path, or field=, the field of the result that "
            "names it; one of them"
        )
    if path is not None and (not isinstance(path, str) or not path):
        raise Misuse(f"{where}: path={path!r} must be text, relative to root")


def _kind(where: str, named: Any) -> str:
    kind = Path(str(named)).suffix.lower()
    if kind not in (*CSV, *LINES):
        raise Misuse(
            f"{where}: rows of {str(named)[:100]!r} cannot be counted; its name must "
            f"end with {', '.join((*CSV, *LINES))}"
        )
    return kind


def _named(path: str | None, field: str | None) -> str:
    return repr(path) if field is None else f"field={field!r}"
