"""An append before it is queued: measured, checked, and given its places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from .errors import Rejected
from .leases import Leases, StreamState
from .pending import Entry
from .records import (
    JSON_CODEC,
    Draft,
    Lease,
    Origin,
    Record,
    Row,
    blob_digest,
    record_checksum,
)

__all__ = ["Changes", "admit", "measure"]

MAX_BLOB = 64 * 1024 * 1024  # bytes
MAX_NUMBER = 2**63 - 1  # what SQLite stores

Changes: TypeAlias = Sequence[tuple[Lease, Sequence[Draft]]]


def measure(changes: Changes, max_body: int) -> tuple[list[Row], dict[str, bytes]]:
    """Check every size and return the rows and, by digest, the blobs.

    Args:
        changes: the drafts of each stream, under its lease.
        max_body: bytes allowed for one record, and for one row.

    Raises:
        Rejected: something is too big, or a draft names another stream than its lease.
    """
    rows: list[Row] = []
    blobs: dict[str, bytes] = {}
    for lease, drafts in changes:
        for draft in drafts:
            _check_types(draft)
            if draft.stream != lease.stream:
                raise Rejected(
                    draft.stream, f"it came under the lease of {lease.stream}"
                )
            if len(draft.body) > max_body:
                raise Rejected(
                    draft.stream,
                    f"{draft.type} has {len(draft.body)} bytes, "
                    f"{max_body} are allowed; store the value as a blob",
                )
            for row in draft.rows:
                if len(row.value or b"") + len(row.key) > max_body:
                    raise Rejected(
                        draft.stream,
                        f"its row {row.space}/{row.key[:80]} has more than "
                        f"{max_body} bytes",
                    )
                rows.append(row)
            for blob in draft.blobs:
                if len(blob) > MAX_BLOB:
                    raise Rejected(
                        draft.stream,
                        f"a blob has {len(blob)} bytes, {MAX_BLOB} are allowed",
                    )
                blobs[blob_digest(blob)] = blob
    return rows, blobs


def _check_types(draft: Draft) -> None:
    # A struct does not check its fields, and what SQLite cannot bind would fail the
    # batch of everybody else.
    texts = [draft.stream, draft.type]
    bodies: list[object] = [draft.body, *draft.blobs]
    for row in draft.rows:
        texts += (row.space, row.key)
        if row.value is not None:
            bodies.append(row.value)
    for text in texts:
        if type(text) is not str or not text.isascii():
            _check_text(draft, text)
    for body in bodies:
        if type(body) is not bytes:
            raise Rejected(repr(draft.stream), f"{type(body).__name__} is not bytes")
    for number in (draft.version, draft.schema_version):
        if type(number) is not int or not 0 < number <= MAX_NUMBER:
            raise Rejected(draft.stream, f"{number!r} is not a version")
    if not draft.type or not draft.stream:
        raise Rejected(draft.stream or draft.type, "its stream or type has no name")


def _check_text(draft: Draft, text: object) -> None:
    if not isinstance(text, str):
        raise Rejected(repr(draft.stream), f"{text!r} is not a str")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Rejected(repr(draft.stream), f"{text!r} holds a lone surrogate") from None


def admit(
    changes: Changes,
    leases: Leases,
    first_seq: int,
    at: float,
    rows: Sequence[Row],
    blobs: dict[str, bytes],
) -> Entry:
    """Check leases and versions, give out the places, and move the streams' heads.

    Args:
        changes: the measured drafts.
        leases: the current leases; changed only if every draft is in order.
        first_seq: the place of the first record.
        at: seconds since the epoch.
        rows: what `measure` returned.
        blobs: what `measure` returned.

    Raises:
        Fenced: a lease is stale.
        Rejected: a version is not its stream's next one.
    """
    records: list[Record] = []
    heads: dict[StreamState, int] = {}
    seq = first_seq
    for lease, drafts in changes:
        state = leases.check(lease)
        version = heads.get(state, state.version)
        for draft in drafts:
            version += 1
            if draft.version != version:
                raise Rejected(
                    draft.stream,
                    f"version {draft.version} was given, {version} is the next",
                )
            records.append(_record(draft, lease, seq, at))
            seq += 1
        heads[state] = version
    for state, version in heads.items():
        state.version, state.seq, state.written = version, seq - 1, state.epoch
    return Entry(records=records, rows=rows, blobs=blobs)


def _record(draft: Draft, lease: Lease, seq: int, at: float) -> Record:
    by = draft.origin or Origin(at=at, epoch=lease.epoch, incarnation=lease.incarnation)
    return Record(
        seq=seq,
        stream=draft.stream,
        version=draft.version,
        type=draft.type,
        schema_version=draft.schema_version,
        codec=JSON_CODEC,
        at=by.at,
        epoch=by.epoch,
        incarnation=by.incarnation,
        body=draft.body,
        checksum=record_checksum(
            seq,
            draft.stream,
            draft.version,
            draft.type,
            draft.schema_version,
            JSON_CODEC,
            by.at,
            by.epoch,
            by.incarnation,
            draft.body,
        ),
    )
