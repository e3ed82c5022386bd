"""Gathering the room that records left behind inside the pages of an SQLite store.

The records of many tasks stand in the order of the log: where some go, their pages stay
half empty, and SQLite joins pages only where hardly anything is left of them. So those
around are taken out and put back, a few hundred at a time, which fills the pages again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import apsw

__all__ = ["is_loose", "note_loose", "pack"]

LOOSE = "loose"  # the space of rows that say where room was left: by stretch, how often
STRETCH = 1024  # places of the log
ENOUGH = 128  # records that went, or were shortened, that make a stretch worth it
TOGETHER = 4  # stretches of one transaction

_DUE = (
    "SELECT key FROM rows WHERE space = ? AND CAST(value AS INTEGER) >= ? "
    "ORDER BY key LIMIT ?"
)


def note_loose(connection: apsw.Connection, seqs: Iterable[int]) -> None:
    """Remember where records went, or were shortened, in the open transaction."""
    for stretch, count in Counter(seq // STRETCH for seq in seqs).items():
        key = (LOOSE, f"{stretch:012d}")
        before = connection.execute(
            "SELECT CAST(value AS INTEGER) FROM rows WHERE space = ? AND key = ?", key
        ).get
        connection.execute(
            "REPLACE INTO rows (space, key, value) VALUES (?, ?, ?)",
            (*key, b"%d" % ((before or 0) + count)),
        )


def is_loose(connection: apsw.Connection) -> bool:
    """Whether some stretch of the log is worth being packed."""
    return connection.execute(_DUE, (LOOSE, ENOUGH, 1)).get is not None


def pack(connection: apsw.Connection) -> None:
    """Put the records of some stretches back closer, in the open transaction."""
    due = connection.execute(_DUE, (LOOSE, ENOUGH, TOGETHER)).fetchall()
    for (key,) in due:
        first = int(str(key)) * STRETCH
        bounds = (first, first + STRETCH - 1)
        records = connection.execute(
            "SELECT * FROM records WHERE seq BETWEEN ? AND ? ORDER BY seq", bounds
        ).fetchall()
        connection.execute("DELETE FROM records WHERE seq BETWEEN ? AND ?", bounds)
        if records:
            marks = ",".join("?" * len(records[0]))
            put = f"INSERT INTO records VALUES ({marks})"  # noqa: S608 - question marks
            connection.executemany(put, records)
        connection.execute("DELETE FROM rows WHERE space = ? AND key = ?", (LOOSE, key))
