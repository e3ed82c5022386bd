"""What every store must do with records that go while their stream stays."""

from __future__ import annotations

from ...storage.erasure import Erasure
from ...storage.errors import Fenced, Rejected
from ...storage.records import Record, blob_digest
from .appending import World, error_of, fenced
from .bench import Bench, draft, snapshot_of
from .capabilities import all_need, needs
from .erasing import redaction

__all__ = ["TrimContract"]

BIG = b"a big value that one record names"


@all_need("erase")
class TrimContract:
    """The stream closes up behind what went, and nothing else moves."""

    def test_the_stream_closes_up_behind_records_that_went(self, world: World) -> None:
        bench, records = grown(world)
        trim(bench, records[1], records[3])
        left = bench.load("task/1").records
        assert [one.version for one in left] == [1, 2, 3]
        kept = [records[0], records[2], records[4]]
        assert [(one.seq, one.at, one.body, one.epoch) for one in left] == [
            (one.seq, one.at, one.body, one.epoch) for one in kept
        ]
        world.kill(bench)
        again = world.open()
        assert again.load("task/1").records == left
        (record,) = again.append(again.lease("task/1"), 4)
        again.commit()
        assert again.load("task/1").head == 4
        assert record.seq > left[-1].seq

    def test_the_last_records_may_go(self, world: World) -> None:
        bench, records = grown(world)
        trim(bench, *records[3:])
        assert bench.load("task/1").head == 3
        error = error_of(Rejected, lambda: bench.append(bench.lease("task/1"), 6))
        assert error.reason == "version 6 was given, 4 is the next"

    def test_other_streams_keep_their_records(self, world: World) -> None:
        bench, records = grown(world)
        others = bench.append(bench.lease("task/1/ledger"), 1, 2, 3)
        bench.commit()
        trim(bench, records[1])
        assert bench.load("task/1/ledger").records == tuple(others)
        stray = Erasure(gone={"task/1": (others[0].seq,)}, scrub=False)
        bench.journal.append([(bench.lease("pool"), [draft("pool", 2)])], stray)
        bench.commit()
        assert bench.load("task/1/ledger").records == tuple(others)

    def test_a_record_is_redacted_as_the_stream_closes_up(self, world: World) -> None:
        bench, records = grown(world)
        gone = {"task/1": (records[1].seq, records[2].seq)}
        erasure = Erasure(gone=gone, redactions=(redaction(records[3]),), scrub=False)
        bench.journal.append([(bench.lease("pool"), [draft("pool", 1)])], erasure)
        bench.commit()
        found = [(one.version, one.type) for one in bench.load("task/1").records]
        assert found == [(1, "Noted"), (2, "Gone"), (3, "Noted")]

    def test_what_has_gone_may_go_again(self, world: World) -> None:
        bench, records = grown(world)
        trim(bench, records[1], records[2])
        trim(bench, records[2], records[3], version=2)
        assert [one.seq for one in bench.load("task/1").records] == [
            records[0].seq,
            records[4].seq,
        ]

    def test_a_blob_goes_with_the_record_that_named_it(self, world: World) -> None:
        bench, records = grown(world)
        digest = blob_digest(BIG)
        (naming,) = bench.append(
            bench.lease("task/1"), 6, body=b'{"b":"%s"}' % digest.encode(), blobs=(BIG,)
        )
        bench.commit()
        erasure = Erasure(
            gone={"task/1": (naming.seq,)},
            blobs=(digest,),
            searched=naming.seq,
            scrub=False,
        )
        bench.journal.append([(bench.lease("pool"), [draft("pool", 1)])], erasure)
        bench.commit()
        assert bench.read(lambda reader: reader.blob(digest)) is None
        assert bench.load("task/1").head == len(records)

    @needs("snapshots")
    def test_snapshots_of_the_stream_go(self, world: World) -> None:
        bench, records = grown(world)
        bench.journal.snapshot(snapshot_of(records[4]))
        bench.commit()
        trim(bench, records[1])
        assert bench.read(lambda reader: reader.snapshots("task/1")) == []

    @needs("snapshots")
    def test_snapshots_go_where_no_record_does(self, world: World) -> None:
        bench, records = grown(world)
        bench.journal.snapshot(snapshot_of(records[4]))
        bench.commit()
        bench.journal.append(
            [(bench.lease("pool"), [draft("pool", 1)])],
            Erasure(gone={"task/1": ()}, scrub=False),
        )
        bench.commit()
        assert bench.read(lambda reader: reader.snapshots("task/1")) == []
        assert bench.load("task/1").records == tuple(records)

    def test_whoever_wrote_the_stream_is_fenced(self, world: World) -> None:
        bench, records = grown(world)
        lease = bench.lease("task/1")
        pool = bench.lease("pool")
        gone = {"task/1": (records[1].seq,)}
        bench.journal.append(
            [(pool, [draft("pool", 1)])], Erasure(gone=gone, scrub=False)
        )
        fenced(bench, lease, 6)
        assert error_of(Fenced, lambda: bench.lease("task/1")).reason == (
            "it is being erased"
        )
        bench.commit()
        fenced(bench, lease, 6)
        bench.append(bench.lease("task/1"), 5)


def grown(world: World) -> tuple[Bench, list[Record]]:
    """A stream of five records; flushed."""
    bench = world.open()
    records = bench.append(bench.lease("task/1"), 1, 2, 3, 4, 5)
    bench.commit()
    return bench, records


def trim(bench: Bench, *records: Record, version: int = 1) -> None:
    """Let records of one stream go, with a record of the pool that tells of it."""
    gone = {records[0].stream: tuple(one.seq for one in records)}
    lease = bench.lease("pool")
    bench.journal.append(
        [(lease, [draft("pool", version)])], Erasure(gone=gone, scrub=False)
    )
    bench.commit()
    assert bench.journal.health().state == "ok"
