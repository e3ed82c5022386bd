"""How a store lies in a PostgreSQL database; changing anything here is a new layout.

Its tables stand in the first schema of the connection's search path, so that several
stores can share a database. Names compare by their bytes, as they do everywhere else.
"""

from __future__ import annotations

__all__ = ["LAYOUT", "RECORD_COLUMNS", "SCHEMA"]

LAYOUT = 1

RECORD_COLUMNS = (
    "seq, stream, version, type, schema_version, codec, at, epoch, incarnation, body,"
    " checksum"
)

SCHEMA = """
CREATE TABLE perdure_owner (
    id integer PRIMARY KEY CHECK (id = 1),
    layout integer NOT NULL,
    epoch bigint NOT NULL
);

CREATE TABLE perdure_streams (
    name text COLLATE "C" PRIMARY KEY
);

CREATE TABLE perdure_records (
    seq bigint PRIMARY KEY,
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    type text NOT NULL,
    schema_version bigint NOT NULL,
    codec text NOT NULL,
    at double precision NOT NULL,
    epoch bigint NOT NULL,
    incarnation bigint NOT NULL,
    body bytea NOT NULL,
    checksum bigint NOT NULL,
    UNIQUE (stream, version)
);

CREATE TABLE perdure_rows (
    space text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, key)
);

CREATE TABLE perdure_blobs (
    digest text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL
);

CREATE TABLE perdure_inbox (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    at double precision NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    body bytea NOT NULL
);

CREATE TABLE perdure_snapshots (
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    covers bigint NOT NULL,
    state_schema bigint NOT NULL,
    at double precision NOT NULL,
    reason text NOT NULL,
    body bytea NOT NULL,
    checksum bigint NOT NULL,
    PRIMARY KEY (stream, version)
);

CREATE VIEW perdure_events AS
SELECT seq, stream, version, type, schema_version, codec, at, epoch, incarnation,
    convert_from(body, 'UTF8') AS body
FROM perdure_records;

CREATE FUNCTION perdure_append(
    ours bigint,
    seqs bigint[], streams text[], versions bigint[], types text[],
    schema_versions bigint[], codecs text[], ats double precision[], epochs bigint[],
    incarnations bigint[], bodies bytea[], checksums bigint[],
    fresh text[],
    kept_spaces text[], kept_keys bytea[], kept_values bytea[],
    gone_spaces text[], gone_keys bytea[],
    digests text[], blobs bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    current bigint;
BEGIN
    SELECT epoch INTO current FROM perdure_owner;
    IF current IS DISTINCT FROM ours THEN
        RAISE EXCEPTION 'it was opened again (runtime epoch %, ours %)', current, ours
            USING ERRCODE = 'PD001';
    END IF;
    INSERT INTO perdure_records SELECT * FROM unnest(
        seqs, streams, versions, types, schema_versions, codecs, ats, epochs,
        incarnations, bodies, checksums);
    IF cardinality(fresh) > 0 THEN
        INSERT INTO perdure_streams SELECT * FROM unnest(fresh) ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(kept_spaces) > 0 THEN
        INSERT INTO perdure_rows
            SELECT * FROM unnest(kept_spaces, kept_keys, kept_values)
            ON CONFLICT (space, key) DO UPDATE SET value = EXCLUDED.value;
    END IF;
    IF cardinality(gone_spaces) > 0 THEN
        DELETE FROM perdure_rows WHERE (space, key) IN
            (SELECT * FROM unnest(gone_spaces, gone_keys));
    END IF;
    IF cardinality(digests) > 0 THEN
        INSERT INTO perdure_blobs SELECT * FROM unnest(digests, blobs)
            ON CONFLICT DO NOTHING;
    END IF;
END $$;

CREATE FUNCTION perdure_keep_snapshots(
    streams text[], versions bigint[], covers bigint[], state_schemas bigint[],
    ats double precision[], reasons text[], bodies bytea[], checksums bigint[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    kept text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- the next flush covers it
    WITH written AS (
        INSERT INTO perdure_snapshots SELECT s.* FROM unnest(
                streams, versions, covers, state_schemas, ats, reasons, bodies,
                checksums
            ) AS s(stream, version, seq, state_schema, at, reason, body, checksum)
            WHERE EXISTS (SELECT 1 FROM perdure_records AS r
                WHERE r.seq = s.seq AND r.stream = s.stream AND r.version = s.version)
        ON CONFLICT (stream, version) DO UPDATE SET covers = EXCLUDED.covers,
            state_schema = EXCLUDED.state_schema, at = EXCLUDED.at,
            reason = EXCLUDED.reason, body = EXCLUDED.body,
            checksum = EXCLUDED.checksum
        RETURNING stream
    ) SELECT coalesce(array_agg(stream), '{}') INTO kept FROM written;
    DELETE FROM perdure_snapshots AS old
        USING unnest(streams, versions) AS new(stream, version)
        WHERE old.stream = new.stream AND new.stream = ANY(kept)
        AND old.version NOT IN (
            SELECT s.version FROM perdure_snapshots AS s
            WHERE s.stream = new.stream AND s.version <= new.version
            ORDER BY s.version DESC LIMIT 2);
    RETURN coalesce((SELECT string_agg(place::text, ' ') -- those not written, from 1
        FROM unnest(streams) WITH ORDINALITY AS s(stream, place)
        WHERE NOT stream = ANY(kept)), '');
END $$;
"""
