"""What is taken out of the log for good, against its rule that it only grows.

An erasure is queued like an append and stands in the order of the log with the records
that tell of it: all of it is done, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from .records import Record, in_family, record_checksum

__all__ = [
    "ERASED",
    "SCRUB",
    "Erasure",
    "Redaction",
    "digests_in",
    "moved",
    "redacted",
]

ERASED = "erased"  # the kind of a command whose words are gone
SCRUB = "scrub"  # the space of the row that stands while erased bytes may be left

_DIGEST = re.compile(rb"[0-9a-f]{64}")


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """Another type and body for a record that keeps its place in the log."""

    stream: str
    seq: int
    type: str
    body: bytes
    schema_version: int = 1


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """What to take out, in one transaction.

    Args:
        families: their records go, with snapshots and stream names; of each stream
            the redacted records stay, which must be its first ones.
        redactions: of any stream; the snapshots of that stream go.
        blobs: digests that go, unless a record after `searched` mentions one.
        searched: the seq up to which no record that stays mentions them.
        subjects: commands of the inbox about these lose their words, and so do their
            answers, which become `answer`; their ids stay taken.
        but: the id of a command that stays as it is.
        commands: ids of further commands that lose their words.
        gone: seqs of records that go, by stream; the stream closes up, so that its
            versions go on without a gap. Its snapshots go, even where no record does.
        scrub: see that no byte is left in any file; without, the room is only free.
    """

    families: tuple[str, ...] = ()
    redactions: tuple[Redaction, ...] = ()
    blobs: tuple[str, ...] = ()
    searched: int = 0
    subjects: tuple[str, ...] = ()
    answer: bytes = b"{}"
    but: str = ""
    commands: tuple[str, ...] = ()
    gone: Mapping[str, tuple[int, ...]] = {}
    scrub: bool = True

    @property
    def fenced(self) -> tuple[str, ...]:
        """Families and streams that nobody may write until it is done."""
        return (*self.families, *self.gone)

    def covers(self, stream: str) -> bool:
        """Tell whether a stream is of a family that goes."""
        return any(in_family(stream, family) for family in self.families)

    def touches(self, stream: str) -> bool:
        """Tell whether a snapshot of the stream may hold what goes."""
        streams = {one.stream for one in self.redactions}
        return stream in streams or stream in self.gone or self.covers(stream)


def redacted(record: Record, by: Redaction) -> Record:
    """The record as it stands from now on, with its checksum."""
    return _summed(
        msgspec.structs.replace(
            record, type=by.type, body=by.body, schema_version=by.schema_version
        )
    )


def moved(record: Record, version: int) -> Record:
    """The record at another place of its stream, since some before it went."""
    return _summed(msgspec.structs.replace(record, version=version))


def _summed(new: Record) -> Record:
    checksum = record_checksum(
        new.seq,
        new.stream,
        new.version,
        new.type,
        new.schema_version,
        new.codec,
        new.at,
        new.epoch,
        new.incarnation,
        new.body,
    )
    return msgspec.structs.replace(new, checksum=checksum)


def digests_in(bodies: Iterable[bytes]) -> set[str]:
    """The names of blobs that these may mention."""
    return {one.decode() for body in bodies for one in _DIGEST.findall(body)}
