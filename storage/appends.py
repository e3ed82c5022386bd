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
            if not _is_plain(draft):
                _refuse_types(draft)
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
                _check_row(draft, row, max_body)
                rows.append(row)
            for blob in draft.blobs:
                _check_bytes(draft, blob)
                if len(blob) > MAX_BLOB:
                    raise Rejected(
                        draft.stream,
                        f"a blob has {len(blob)} bytes, {MAX_BLOB} are allowed",
                    )
                blobs[blob_digest(blob)] = blob
    return rows, blobs


def _is_plain(draft: Draft) -> bool:
    # A struct does not check its fields, and what SQLite cannot bind would fail the
    # batch of everybody else.
    return (
        type(draft.stream) is str
        and type(draft.type) is str
        and type(draft.body) is bytes
        and type(draft.version) is int
        and type(draft.schema_version) is int
        and 0 < draft.version <= MAX_NUMBER
        and 0 < draft.schema_version <= MAX_NUMBER
        and draft.stream.isascii()
        and draft.type.isascii()
        and draft.stream != ""
        and draft.type != ""
    )


def _refuse_types(draft: Draft) -> None:
    _check_text(draft, draft.stream)
    _check_text(draft, draft.type)
    _check_bytes(draft, draft.body)
    for number in (draft.version, draft.schema_version):
        if type(number) is not int or not 0 < number <= MAX_NUMBER:
            raise Rejected(draft.stream, f"{number!r} is not a version")
    if not draft.type or not draft.stream:
        raise Rejected(draft.stream or draft.type, "its stream or type has no name")


def _check_row(draft: Draft, row: Row, max_body: int) -> None:
    _check_text(draft, row.space)
    _check_text(draft, row.key)
    if row.value is not None:
        _check_bytes(draft, row.value)
    if len(row.value or b"") + len(row.key) > max_body:
        raise Rejected(
            draft.stream,
            f"its row {row.space}/{row.key[:80]} has more than {max_body} bytes",
        )


def _check_bytes(draft: Draft, value: object) -> None:
    if type(value) is not bytes:
        raise Rejected(repr(draft.stream), f"{type(value).__name__} is not bytes")


def _check_text(draft: Draft, text: object) -> None:
    if not isinstance(text, str):
        raise Rejected(repr(draft.stream), f"{text!r} is not a str")
    if text.isascii():
        return
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
            records.append(_record(draft, draft.origin or lease, seq, at))
            seq += 1
        heads[state] = version
    for state, version in heads.items():
        state.version, state.seq, state.written = version, seq - 1, state.epoch
    return Entry(records=records, rows=rows, blobs=blobs)


def _record(draft: Draft, by: Lease | Origin, seq: int, at: float) -> Record:
    if type(by) is Origin:
        at = by.at
    return Record(
        seq=seq,
        stream=draft.stream,
        version=draft.version,
        type=draft.type,
        schema_version=draft.schema_version,
        codec=JSON_CODEC,
        at=at,
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
            at,
            by.epoch,
            by.incarnation,
            draft.body,
        ),
    )
