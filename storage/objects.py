"""An object store beside a journal: objects are put once, and read back whole.

s3://BUCKET/PREFIX            Amazon S3, and what speaks like it
gs://BUCKET/PREFIX            Google Cloud Storage
az://CONTAINER/PREFIX         Azure Blob Storage
file:///FOLDER                a folder, of a network file system say
memory://                     this process only, for tests

Credentials and endpoints come from the environment, as the clients of each service
have them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, …), never from an address: that
stands in logs and messages.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urlsplit

from .errors import CannotOpen, ObjectExists, ObjectMissing, ObjectTrouble

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

__all__ = ["ObjectStore", "is_object_address"]

AWAY = 30.0  # seconds that nothing is asked of a store that could not be reached
TIMEOUT = 5.0  # seconds for one request; as many again for its retries
RETRIES = 2
SCHEMES = (
    "s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "file", "memory",
)  # fmt: skip
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d")  # it answers, and says no
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_SYSTEM = re.compile(r"\(os error \d+\)")

Listed: TypeAlias = tuple[str, datetime]  # a key, and when it was put


def is_object_address(address: str) -> bool:
    """Tell whether this names an object, or a store of them, and no file's path."""
    return address.partition("://")[0] in SCHEMES and "://" in address


class ObjectStore:
    """Objects by key under one address; on any thread.

    While it cannot be reached, it is asked again every 30 s only: whoever comes in
    between is refused at once, and does not wait for a time-out each. One that answers
    and refuses is asked each time.

    Args:
        address: where it is; see above.
        create: make a folder that is not there.
        timeout: seconds for one request.
        monotonic: the clock of those 30 s.

    Raises:
        CannotOpen: the address is none, or the extra ``objects`` is not installed.

    Every method raises `ObjectTrouble` where the store cannot be reached or refuses.
    """

    def __init__(
        self,
        address: str,
        *,
        create: bool = True,
        timeout: float = TIMEOUT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = _checked(address)
        self._monotonic = monotonic
        self._away: tuple[float, str] | None = None  # until when, and why
        self._folder: Path | None = None
        self._client = self._connect(timeout, create=create)

    @property
    def is_away(self) -> bool:
        """Whether it is not asked just now."""
        return self._away is not None and self._monotonic() < self._away[0]

    def put(self, key: str, body: bytes) -> None:
        """Keep an object under a key that has none.

        Raises ObjectExists, with nothing changed.
        """
        import obstore

        if self._folder is not None:  # only its owner reads what lies in there
            place = (self._folder / key).parent
            with self._errors("put", key):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._errors("put", key):
            obstore.put(self._client, key, body, mode="create", use_multipart=False)

    def get(self, key: str) -> bytes:
        """Return an object's bytes; raises ObjectMissing where there is none."""
        import obstore

        with self._errors("get", key):
            return bytes(obstore.get(self._client, key).bytes())

    def keys(self, prefix: str) -> Iterator[Listed]:
        """Go through the keys under a prefix of whole segments, and their times."""
        import obstore

        with self._errors("list", prefix):
            for page in obstore.list(self._client, prefix):
                for found in page:
                    yield found["path"], found["last_modified"]

    def delete(self, key: str) -> None:
        """Take an object away, where there is one."""
        import obstore

        with suppress(ObjectMissing), self._errors("delete", key):
            obstore.delete(self._client, key)

    def _connect(self, timeout: float, *, create: bool) -> Client:
        try:
            from obstore.store import LocalStore, from_url
        except ImportError:
            raise CannotOpen(
                self.address,
                "the client of object stores is not installed",
                "install perdure[objects]",
            ) from None
        parts = urlsplit(self.address)
        try:
            if parts.scheme == "file":
                self._folder = Path(unquote(parts.path))
                if create:
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                return LocalStore(self._folder, automatic_cleanup=True)
            options: dict[str, Any] = {}
            if parts.scheme != "memory":
                options["client_options"] = {
                    "timeout": timedelta(seconds=timeout),
                    # Options that are given take the place of the environment's.
                    "allow_http": _is_set("AWS_ALLOW_HTTP"),
                }
                options["retry_config"] = {
                    "max_retries": RETRIES,
                    "retry_timeout": timedelta(seconds=timeout),
                }
            return from_url(self.address, **options)
        except Exception as error:
            first = str(error).partition("\n")[0]
            raise CannotOpen(
                self.address, first, "name one like s3://BUCKET/PREFIX"
            ) from None

    @contextmanager
    def _errors(self, what: str, key: str) -> Iterator[None]:
        """Turn the client's errors into ours, which hold no more than is known of them.

        Their texts repeat requests and answers, and so might tell a secret.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        if self._away is not None and self.is_away:
            raise ObjectTrouble(self.address, what, self._away[1])
        try:
            yield
        except AlreadyExistsError:
            raise ObjectExists(self.address, key) from None
        except (BaseError, OSError, ValueError) as error:
            said = str(error)
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in said:
                raise ObjectMissing(self.address, key) from None
            detail = _detail(error, said)
            if not _REFUSED.search(said):
                self._away = (self._monotonic() + AWAY, detail)
            raise ObjectTrouble(self.address, what, detail) from None
        self._away = None


def _detail(error: Exception, said: str) -> str:
    """What is safe to say of a client's error: its kind, a status, a code."""
    found = [
        *(type(error).__name__,),
        *_STATUS.findall(said)[:1],
        *_CODE.findall(said)[:1],
        *_SYSTEM.findall(said)[:1],
    ]
    if len(found) == 1 and "error sending request" in said:
        found.append("no connection, or no answer in time")
    return ", ".join(one.strip() for one in found)


def _checked(address: str) -> str:
    """The address, if it is one and tells no secret; raises CannotOpen."""
    plain = address.partition("?")[0]
    parts = urlsplit(plain)
    if not is_object_address(address):
        raise CannotOpen(
            plain, "it is no object store", "name one like s3://BUCKET/PREFIX"
        )
    named = parts.username is not None and not parts.scheme.startswith("abfs")
    if "?" in address or "#" in address or parts.password is not None or named:
        raise CannotOpen(
            f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}",
            "its address holds more than a place",
            "give credentials in the environment, like AWS_ACCESS_KEY_ID",
        )
    return address


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true")
