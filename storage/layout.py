"""How a store lies on disk as an SQLite file; changing anything here is a new layout.

`events` is the view for people and other tools: stream and type by name, the body as
text. Bodies, rows and blobs are stored once; everything else about a record is small
integers, since a long task writes many; the codec that nearly all have is none.
`places` says where each version of a stream stands, up to the record `owner.placed`.
"""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "EVENT_COLUMNS", "LAYOUT", "SCHEMA"]

APPLICATION_ID = 0x50455244  # "PERD", in the file's header
LAYOUT = 1  # the header's user_version

EVENT_COLUMNS = (
    # A damaged body may have turned into text: its checksum shall say so.
    "r.seq, s.name, r.version, t.name, r.schema_version, coalesce(r.codec, 'json'),"
    " r.at, r.epoch,"
    " r.incarnation, CAST(r.body AS BLOB), r.checksum"
)

SCHEMA = """
CREATE TABLE owner (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,
    placed INTEGER NOT NULL
);
INSERT INTO owner (id, epoch, placed) VALUES (1, 0, 0);

CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE types (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    stream_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    type_id INTEGER NOT NULL,
    schema_version INTEGER NOT NULL,
    codec TEXT,
    at REAL NOT NULL,
    epoch INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE places (
    stream_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (stream_id, version)
) WITHOUT ROWID;

CREATE TABLE rows (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;

CREATE TABLE blobs (
    digest TEXT PRIMARY KEY,
    body BLOB NOT NULL
);

CREATE TABLE inbox (
    place INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    body BLOB NOT NULL
);

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY,
    stream_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    covers INTEGER NOT NULL,
    state_schema INTEGER NOT NULL,
    at REAL NOT NULL,
    reason TEXT NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (stream_id, version)
);

CREATE VIEW events AS
SELECT
    r.seq AS seq,
    s.name AS stream,
    r.version AS version,
    t.name AS type,
    r.schema_version AS schema_version,
    coalesce(r.codec, 'json') AS codec,
    r.at AS at,
    r.epoch AS epoch,
    r.incarnation AS incarnation,
    CAST(r.body AS TEXT) AS body
FROM records AS r
JOIN streams AS s ON s.id = r.stream_id
JOIN types AS t ON t.id = r.type_id;
"""
