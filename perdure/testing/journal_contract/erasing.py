"""What every store must do with what is taken out of its log; see `contract`."""

from __future__ import annotations

from ...storage.base_reader import Reader
from ...storage.erasure import ERASED, Erasure, Redaction
from ...storage.errors import Fenced, Rejected
from ...storage.inbox import answer_row
from ...storage.records import Lease, Record, blob_digest
from .appending import World, error_of, fenced
from .bench import Bench, draft, row, snapshot_of
from .capabilities import all_need, needs
from .inbox import command

__all__ = ["EraseContract"]

BIG = b"a big value of task 1"


@all_need("erase")
class EraseContract:
    """All of it goes, or nothing; whatever else is there does not move."""

    def test_the_streams_of_a_family_go_and_no_other(self, world: World) -> None:
        bench, _ = worked(world)
        erase(bench, Erasure(families=("task/1",)))
        assert bench.read(lambda r: r.streams()) == ["pool", "task/10", "task/2"]
        for stream in ("task/1", "task/1/ledger"):
            loaded = bench.load(stream)
            assert (loaded.head, loaded.records, loaded.snapshot) == (0, (), None)
        for stream in ("task/10", "task/2"):
            assert bench.load(stream).head == 1

    def test_the_order_keeps_its_gaps_and_goes_on_after_them(
        self, world: World
    ) -> None:
        bench, records = worked(world)
        before = [r.seq for r in records if not r.stream.startswith("task/1")]
        last = records[-1].seq
        erase(bench, Erasure(families=("task/1", "task/10")))
        pages = [0]

        def following(reader: Reader) -> list[Record]:
            return reader.records(pages[-1], limit=1)

        while page := bench.read(following):
            pages += [one.seq for one in page]
        assert pages == [0, *before, last + 1]
        world.kill(bench)
        again = world.open()
        (record,) = again.append(again.lease("task/2"), 2)
        assert record.seq == last + 2

    def test_a_redacted_record_stays_where_it_was(self, world: World) -> None:
        bench, records = worked(world)
        second = next(r for r in records if (r.stream, r.version) == ("task/1", 2))
        erase(bench, Erasure(redactions=(redaction(second),)))
        loaded = bench.load("task/1")
        assert [one.version for one in loaded.records] == [1, 2, 3]
        changed = loaded.records[1]
        assert (changed.type, changed.body) == ("Gone", b'{"by":"o"}')
        assert (changed.seq, changed.at) == (second.seq, second.at)

    def test_of_a_family_its_redacted_first_record_stays(self, world: World) -> None:
        bench, records = worked(world)
        first = next(r for r in records if r.stream == "task/1")
        erase(bench, Erasure(families=("task/1",), redactions=(redaction(first),)))
        (left,) = bench.load("task/1").records
        assert (left.seq, left.version, left.type) == (first.seq, 1, "Gone")
        lease = bench.lease("task/1")
        assert error_of(Rejected, lambda: bench.append(lease, 1)).reason == (
            "version 1 was given, 2 is the next"
        )

    @needs("snapshots")
    def test_snapshots_that_may_hold_it_go(self, world: World) -> None:
        bench, records = worked(world)
        for record in records:
            if record.stream in ("task/1", "task/2", "pool"):
                bench.journal.snapshot(snapshot_of(record))
        bench.commit()
        other = next(r for r in records if r.stream == "task/2")
        late = bench.append(bench.lease("task/1/ledger"), 3)[0]
        bench.journal.snapshot(snapshot_of(late))  # not written before it goes
        erase(bench, Erasure(families=("task/1",), redactions=(redaction(other),)))
        streams = ("task/1", "task/1/ledger", "task/2", "pool")

        def snapshots(reader: Reader) -> dict[str, int]:
            return {stream: len(reader.snapshots(stream)) for stream in streams}

        left = bench.read(snapshots)
        assert left == {"task/1": 0, "task/1/ledger": 0, "task/2": 0, "pool": 1}

    def test_whoever_wrote_the_family_is_fenced(self, world: World) -> None:
        bench, _ = worked(world)
        lease = bench.lease("task/1")
        bench.journal.append(
            [(bench.lease("pool"), [draft("pool", 2)])], Erasure(families=("task/1",))
        )
        fenced(bench, lease, 4)  # before it is flushed: the disk tells of it still
        error = error_of(Fenced, lambda: bench.lease("task/1/ledger"))
        assert error.reason == "it is being erased"
        error_of(Fenced, lambda: bench.journal.raise_epoch("task/1", 9))
        bench.commit()
        fenced(bench, lease, 4)
        bench.append(bench.lease("task/1"), 1)  # the name is free
        assert bench.load("task/1").head == 1

    def test_what_was_queued_before_goes_and_what_comes_after_stays(
        self, world: World
    ) -> None:
        bench, _ = worked(world)
        bench.append(bench.lease("task/1"), 4, rows=(row("1", b"before"),))
        pool = bench.lease("pool")
        bench.journal.append(
            [(pool, [draft("pool", 2, rows=(row("1", b"gone"),))])],
            Erasure(families=("task/1",)),
        )
        bench.append(pool, 3, rows=(row("2", b"after"),))
        bench.commit()
        assert bench.load("task/1").head == 0
        assert bench.load("pool").head == 3
        assert bench.read(lambda r: (r.row("tasks", "1"), r.row("tasks", "2"))) == (
            b"gone",
            b"after",
        )

    def test_nothing_is_erased_before_the_flush(self, world: World) -> None:
        bench, _ = worked(world)
        heard: list[int] = []
        (record,) = bench.journal.append(
            [(bench.lease("pool"), [draft("pool", 2)])], Erasure(families=("task/1",))
        )
        bench.journal.when_durable(record.seq, lambda: heard.append(1))
        world.kill(bench)
        again = world.open()
        assert (heard, again.load("task/1").head, again.load("pool").head) == ([], 3, 1)

    def test_an_erasure_of_an_older_owner_is_refused(self, world: World) -> None:
        bench, _ = worked(world)
        world.usurp()
        bench.journal.append(
            [(bench.lease("pool"), [draft("pool", 2)])], Erasure(families=("task/1",))
        )
        bench.commit()
        assert bench.journal.health().state == "failed"
        world.kill(bench)
        assert world.open().load("task/1").head == 3

    def test_a_blob_goes_unless_a_later_record_mentions_it(self, world: World) -> None:
        bench, records = worked(world)
        mine, shared = blob_digest(BIG), blob_digest(b"shared")
        searched = records[-1].seq
        body = b'{"blob":"%s"}' % shared.encode()
        bench.append(bench.lease("task/2"), 2, body=body, blobs=(b"shared",))
        erase(
            bench,
            Erasure(families=("task/1",), blobs=(mine, shared), searched=searched),
        )
        assert bench.read(lambda r: (r.blob(mine), r.blob(shared))) == (None, b"shared")

    def test_commands_lose_their_words_and_keep_their_ids(self, world: World) -> None:
        bench, _ = worked(world)
        for name, subject in (("c1", "t-1"), ("c2", "t-2"), ("c3", "t-1")):
            world.send(command(name, subject=subject, body=b'{"why":"a secret"}'))
        pool = bench.lease("pool")
        bench.append(pool, 2, rows=(answer_row("c1", b"told"), answer_row("c2", b"x")))
        erase(bench, Erasure(subjects=("t-1", "t-9"), answer=b'"gone"'), 3)
        (left,) = bench.read(lambda r: r.commands())
        assert (left.id, left.kind, left.subject, left.body) == (
            "c3",
            ERASED,
            "",
            b"{}",
        )
        answers = bench.read(lambda r: (r.row("answer", "c1"), r.row("answer", "c2")))
        assert answers == (b'"gone"', b"x")
        error_of(Rejected, lambda: world.send(command("c1")))
        world.send(command("c4"))
        assert bench.read(lambda r: [c.id for c in r.commands(left.place)]) == ["c4"]

    def test_the_command_that_asks_for_it_stays(self, world: World) -> None:
        bench, _ = worked(world)
        world.send(command("c1", kind="erase", subject="t-1"))
        erase(bench, Erasure(subjects=("t-1",), but="c1"))
        (left,) = bench.read(lambda r: r.commands())
        assert (left.kind, left.subject) == ("erase", "t-1")


def worked(world: World) -> tuple[Bench, list[Record]]:
    """Task 1 with two streams and a blob, two other tasks, and a pool; flushed."""
    bench = world.open()
    digest = blob_digest(BIG).encode()
    records = [
        *bench.append(bench.lease("task/1"), 1, 2, 3),
        *bench.append(
            bench.lease("task/1/ledger"), 1, body=b'{"b":"%s"}' % digest, blobs=(BIG,)
        ),
        *bench.append(bench.lease("task/2"), 1),
        *bench.append(bench.lease("task/10"), 1),
        *bench.append(bench.lease("pool"), 1),
        *bench.append(bench.lease("task/1/ledger"), 2),
    ]
    bench.commit()
    return bench, records


def erase(bench: Bench, erasure: Erasure, version: int = 2) -> None:
    """Erase with a record of the pool that tells of it."""
    lease: Lease = bench.lease("pool")
    bench.journal.append([(lease, [draft("pool", version)])], erasure)
    bench.commit()
    assert bench.journal.health().state == "ok"


def redaction(record: Record) -> Redaction:
    """What a record becomes."""
    return Redaction(
        stream=record.stream, seq=record.seq, type="Gone", body=b'{"by":"o"}'
    )
