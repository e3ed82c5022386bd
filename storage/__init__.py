"""An event store: one ordered log of many streams, with snapshots and rows."""

from .codec import Codec
from .erasure import Erasure, Redaction
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
    "Erasure",
    "Health",
    "Inbox",
    "Journal",
    "Lease",
    "Loaded",
    "MemoryBackend",
    "MemoryStore",
    "Reader",
    "Record",
    "Redaction",
    "Row",
    "Snapshot",
    "SqliteBackend",
    "open_reader",
]
