"""Where an archive lies: a file, or an object under an address.

s3://BUCKET/PREFIX/NAME and the like name an object of that store; it is put once, and
never written over. ``file:///PATH`` is a file as any other.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .errors import Misuse
from .storage.errors import CannotOpen, ObjectExists, ObjectMissing, ObjectTrouble
from .storage.objects import ObjectStore, is_object_address

__all__ = ["Place", "fetched", "put_after"]

Place = str | os.PathLike[str]

TIMEOUT = 600.0  # seconds for one request: an archive may be long


@contextmanager
def put_after(place: Place) -> Iterator[Path]:
    """The file to write an archive into; it is put in its place when the block ends.

    Raises:
        Misuse: the address names no object.
        ObjectExists: there is one, and it was left as it is.
        ObjectTrouble: the object store cannot be reached, or has other bytes now.
    """
    found = _where(place)
    if isinstance(found, Path):
        yield found
        return
    store, name = found
    with _private(name) as path:
        yield path
        body = path.read_bytes()
        try:
            store.put(name, body)
        except ObjectExists:  # perhaps by us, and the answer was lost
            if store.get(name) != body:
                raise
        if store.get(name) != body:
            raise ObjectTrouble(store.address, "put", f"{name} came back otherwise")


@contextmanager
def fetched(place: Place) -> Iterator[Path]:
    """A file with what lies there.

    Raises Misuse where there is none, and ObjectTrouble where that cannot be told.
    """
    found = _where(place)
    if isinstance(found, Path):
        yield found
        return
    store, name = found
    with _private(name) as path:
        try:
            path.write_bytes(store.get(name))
        except ObjectMissing as error:
            raise Misuse(str(error)) from None
        try:
            yield path
        except Misuse as error:  # it tells of the address, not of our copy
            raise Misuse(str(error).replace(str(path), os.fspath(place))) from None


@contextmanager
def _private(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        yield Path(folder) / name


def _where(place: Place) -> Path | tuple[ObjectStore, str]:
    address = os.fspath(place)
    if not is_object_address(address):
        return Path(place)
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    prefix, _, name = address.rpartition("/")
    if parts.scheme == "memory" or not name or not urlsplit(prefix).netloc:
        raise Misuse(f"{address} names no object; give one like s3://BUCKET/t-1.gz")
    try:
        return ObjectStore(prefix, create=False, timeout=TIMEOUT), name
    except CannotOpen as error:
        raise Misuse(str(error)) from None
