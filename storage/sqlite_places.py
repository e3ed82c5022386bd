"""Where the versions of each stream stand: an index that follows the log by a little.

Kept by every flush it would cost each a page of the file for every stream in it, which
is most of what a small flush takes. So the newest records are found by looking through
them, and the places of `BEHIND` of them are noted together.
"""

from __future__ import annotations

import apsw

__all__ = [
    "BEHIND",
    "LAST_OF_STREAM",
    "MISPLACED",
    "OF_STREAM",
    "PART_OF_STREAM",
    "note",
    "note_anew",
]

BEHIND = 512  # records whose places are not noted, about; a reader looks through them

_OF = "stream_id = (SELECT id FROM streams WHERE name = ?1)"
_NEW = f"seq > (SELECT placed FROM owner) AND {_OF}"  # noqa: S608 - a constant

# Statements that give the seqs of records: of the stream ?1, behind its version ?2.
OF_STREAM = (
    f"SELECT seq FROM places WHERE {_OF} AND version > ?2 UNION ALL "  # noqa: S608
    f"SELECT seq FROM records WHERE {_NEW} AND version > ?2"
)
PART_OF_STREAM = (  # the first ?3 of them, and perhaps some more
    "SELECT seq FROM (SELECT seq FROM places "  # noqa: S608
    f"WHERE {_OF} AND version > ?2 ORDER BY version LIMIT ?3) UNION ALL "
    "SELECT seq FROM (SELECT seq FROM records "
    f"WHERE {_NEW} AND version > ?2 ORDER BY seq LIMIT ?3)"
)
LAST_OF_STREAM = (
    f"SELECT max(seq) FROM (SELECT max(seq) AS seq FROM records WHERE {_NEW} "  # noqa: S608
    f"UNION ALL SELECT seq FROM (SELECT seq FROM places WHERE {_OF} "
    "ORDER BY version DESC LIMIT 1))"
)
MISPLACED = """
SELECT r.seq FROM records AS r
LEFT JOIN places AS p ON p.stream_id = r.stream_id AND p.version = r.version
WHERE r.seq <= (SELECT placed FROM owner) AND p.seq IS NOT r.seq
UNION ALL
SELECT r.seq FROM places AS p JOIN records AS r ON r.seq = p.seq
WHERE r.stream_id IS NOT p.stream_id OR r.version IS NOT p.version
LIMIT 100
"""


def note(connection: apsw.Connection) -> None:
    """Note the places of the newest records, in the transaction that is open."""
    # Two records that claim one place are damage: the first keeps it, and it shows.
    connection.execute(
        "INSERT OR IGNORE INTO places SELECT stream_id, version, seq FROM records "
        "WHERE seq > (SELECT placed FROM owner) ORDER BY stream_id, version"
    )
    connection.execute(
        "UPDATE owner SET placed = (SELECT coalesce(max(seq), 0) FROM records)"
    )


def note_anew(connection: apsw.Connection) -> None:
    """Note the places of all records, in the transaction that is open."""
    connection.execute("DELETE FROM places")
    connection.execute("UPDATE owner SET placed = 0")
    note(connection)
