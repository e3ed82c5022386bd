"""What can go wrong with a store; every message names the thing and the fix."""

from __future__ import annotations

__all__ = [
    "CannotOpen",
    "Fenced",
    "NewerLayout",
    "NewerSchema",
    "NoUpgradePath",
    "NotAStore",
    "ObjectExists",
    "ObjectMissing",
    "ObjectTrouble",
    "Rejected",
    "StorageError",
    "StoreFailed",
    "StoreLocked",
    "StoreTrouble",
    "Undecodable",
    "UnknownType",
]


class StorageError(Exception):
    """Anything that the storage room raises on purpose."""


class CannotOpen(StorageError):
    """The store cannot be opened where it is; nothing on disk was changed."""

    def __init__(self, path: str, reason: str, fix: str) -> None:
        super().__init__(f"cannot open the store {path}: {reason}; {fix}")
        self.path = path
        self.reason = reason
        self.fix = fix


class NotAStore(StorageError):
    """The file is something else than a perdure store; it was left untouched."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not a perdure store and was left untouched; "
            "name a store, or a path that does not exist yet"
        )
        self.path = path


class NewerLayout(StorageError):
    """The store was written by a newer perdure; it was left untouched."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has store layout {found}, this perdure knows up to {known}, "
            "and it was left untouched; upgrade perdure"
        )
        self.path = path
        self.found = found
        self.known = known


class StoreLocked(StorageError):
    """Another runtime owns the store."""

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(
            f"the store {path} is owned by {owner}; "
            "close that runtime first, or use another store"
        )
        self.path = path
        self.owner = owner


class Rejected(StorageError):
    """Surely not written: an append was refused before it took a place in the log."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"nothing was written for {subject}: {reason}")
        self.subject = subject
        self.reason = reason


class Fenced(StorageError):
    """A stale owner tried to write; a newer epoch or incarnation took its place."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(
            f"{subject} is fenced: {reason}; this writer is stale and must stop"
        )
        self.subject = subject
        self.reason = reason


class StoreTrouble(StorageError):
    """The store cannot be used just now, nothing was written; it is worth a retry.

    `kind` is ``full``, ``busy`` or ``readonly``.
    """

    def __init__(self, path: str, kind: str, detail: str) -> None:
        fix = {
            "full": "free some space",
            "busy": "end the program that holds its lock",
            "readonly": "make it writable",
        }[kind]
        super().__init__(f"the store {path} is {kind} ({detail}); {fix}")
        self.path = path
        self.kind = kind


class StoreFailed(StorageError):
    """Unknown: what was last written may or may not be there; reopen and read it."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(
            f"the store {path} failed ({detail}); "
            "reopen it, and go on from what it then says"
        )
        self.path = path
        self.detail = detail


class ObjectTrouble(StorageError):
    """An object store cannot be reached, or refuses; it is unknown what came of it."""

    def __init__(self, address: str, what: str, detail: str) -> None:
        super().__init__(
            f"cannot {what} in the object store {address}: {detail}; see that it can "
            "be reached, and that the environment's credentials allow it"
        )
        self.address = address
        self.detail = detail


class ObjectMissing(StorageError):
    """There is no object of this name."""

    def __init__(self, address: str, key: str) -> None:
        super().__init__(f"there is no object {key} in {address}; name one that is")
        self.key = key


class ObjectExists(StorageError):
    """An object of this name is there, and was left as it is."""

    def __init__(self, address: str, key: str) -> None:
        super().__init__(
            f"there is an object {key} in {address}, and it was left as it is; "
            "give another name"
        )
        self.key = key


class Undecodable(StorageError):
    """A stored record cannot be read back as what it says it is."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(
            f"{subject} cannot be read: {reason}; "
            "restore the store from a backup, or register what reads it"
        )
        self.subject = subject
        self.reason = reason


class UnknownType(Undecodable):
    """A record is of an event type that this code does not have."""

    def __init__(self, subject: str, type_name: str) -> None:
        super().__init__(subject, f"the event type {type_name!r} is not known")


class NewerSchema(Undecodable):
    """A record was written by a newer version of its event type."""

    def __init__(self, type_name: str, found: int, known: int) -> None:
        StorageError.__init__(
            self,
            f"{type_name} has schema version {found}, this code knows up to {known}; "
            "start the newer code again",
        )
        self.subject = type_name
        self.reason = f"newer version {found}"
        self.found = found
        self.known = known


class NoUpgradePath(Undecodable):
    """A record is old and no upgrader takes it one version further."""

    def __init__(self, type_name: str, version: int) -> None:
        self.subject = type_name
        self.reason = f"no path {version}->{version + 1}"
        StorageError.__init__(
            self,
            f"{type_name} cannot be upgraded: {self.reason}; "
            f"register an upgrader for ({type_name!r}, {version})",
        )
        self.version = version
