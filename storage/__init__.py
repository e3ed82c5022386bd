"""An event store: one ordered log of many streams, with snapshots and rows."""

from .codec import Codec
from .inbox import Inbox
from .journal import Health, Journal
from .memory import MemoryBackend, MemoryStore
from .reader import Reader, open_reader
from .records import Command, Draft, Lease, Loaded, Record, Row, Snapshot
from .sqlite import SqliteBackend

__all__ = [
    "Codec",
    "Command",
    "Draft",
    "Health",
    "Inbox",
    "Journal",
    "Lease",
    "Loaded",
    "MemoryBackend",
    "MemoryStore",
    "Reader",
    "Record",
    "Row",
    "Snapshot",
    "SqliteBackend",
    "open_reader",
]
