"""What every store must do when it is read, killed and closed; see `contract`."""

from __future__ import annotations

from typing import Any

from ...storage.errors import StoreFailed, Undecodable
from .appending import World, error_of
from .bench import row, snapshot_of
from .capabilities import needs

__all__ = ["ReadContract"]


class ReadContract:
    """What reading promises: the queue's order, snapshots, the end."""

    # -- reading -----------------------------------------------------------------

    def test_a_read_runs_behind_the_appends_made_before_it(self, world: World) -> None:
        bench = world.open()
        answers: list[object] = []
        bench.append(bench.lease("a"), 1)
        bench.journal.read(lambda reader: reader.head("a"), answers.append)
        assert not bench.journal.serve_reads()
        bench.commit()
        bench.journal.serve_reads()
        assert answers == [1]

    def test_a_read_that_raises_answers_with_its_error(self, world: World) -> None:
        bench = world.open()
        answers: list[object] = []
        bench.journal.read(lambda _: 1 // 0, answers.append)
        bench.journal.serve_reads()
        assert isinstance(answers[0], ZeroDivisionError)
        assert bench.load("a").head == 0

    def test_the_log_is_paged_by_seq_and_family(self, world: World) -> None:
        bench = world.open()
        for name in ("task/1", "task/10", "task/1/ledger", "pool"):
            bench.append(bench.lease(name), 1, 2)
        bench.commit()

        def seqs(*args: Any, **kwargs: Any) -> list[int]:
            return [
                record.seq
                for record in bench.read(lambda r: r.records(*args, **kwargs))
            ]

        assert seqs(limit=3) == [1, 2, 3]
        assert seqs(3, limit=3) == [4, 5, 6]
        assert seqs(8) == []
        assert seqs(prefix="task/1") == [1, 2, 5, 6]
        assert seqs(prefix="task/1/") == [5, 6]
        assert seqs(2, limit=2, prefix="task") == [3, 4]
        assert [r.seq for r in bench.read(lambda r: r.fetch([7, 2, 99]))] == [2, 7]
        assert bench.read(lambda r: r.streams("task/1")) == ["task/1", "task/1/ledger"]
        assert bench.read(lambda r: r.streams("task/")) == [
            "task/1",
            "task/1/ledger",
            "task/10",
        ]
        assert bench.read(lambda r: r.durable_seq) == 8

    @needs("spoil")
    def test_a_stretch_of_one_stream_is_read_from_any_version(
        self, world: World
    ) -> None:
        bench = world.open()
        for name in ("task/1", "task/1/ledger"):
            bench.append(bench.lease(name), 1, 2, 3)
        bench.commit()

        def found(stream: str, after: int, limit: int) -> list[tuple[int, int]]:
            records = bench.read(lambda r: r.stretch(stream, after, limit))
            return [(record.seq, record.version) for record in records]

        assert found("task/1/ledger", 0, 2) == [(4, 1), (5, 2)]
        assert found("task/1/ledger", 2, 2) == [(6, 3)]
        assert found("task/1", 3, 2) == found("task/2", 0, 2) == []
        world.spoil_record(2)
        assert found("task/1", 2, 9) == [(3, 3)]
        error = error_of(
            Undecodable, lambda: bench.read(lambda r: r.stretch("task/1", 0, 9))
        )
        assert error.subject == "record 2 of task/1"

    @needs("spoil")
    def test_a_spoilt_record_is_refused_and_the_rest_is_read(
        self, world: World
    ) -> None:
        bench = world.open()
        bench.append(bench.lease("a"), 1, 2)
        bench.append(bench.lease("b"), 1)
        bench.commit()
        world.spoil_record(2)
        error = error_of(Undecodable, lambda: bench.load("a"))
        assert error.subject == "record 2 of a"
        assert bench.load("b").head == 1
        assert bench.journal.health().state == "ok"

    # -- snapshots ---------------------------------------------------------------

    @needs("snapshots")
    def test_a_load_is_the_newest_snapshot_and_its_tail(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        records = bench.append(lease, 1, 2, 3)
        bench.journal.snapshot(snapshot_of(records[1]))
        loaded = bench.load("a")
        assert loaded.snapshot is not None
        assert (loaded.snapshot.version, loaded.snapshot.at) == (2, bench.now)
        assert [record.version for record in loaded.records] == [3]
        assert (loaded.head, loaded.seq) == (3, 3)

    @needs("snapshots")
    def test_the_newest_two_snapshots_are_kept(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        for version in (1, 2, 3):
            (record,) = bench.append(lease, version)
            bench.journal.snapshot(snapshot_of(record))
            bench.commit()
        kept = bench.read(lambda r: r.snapshots("a"))
        assert [snapshot.version for snapshot in kept] == [3, 2]

    @needs("snapshots")
    def test_a_snapshot_waits_for_the_records_it_covers(self, world: World) -> None:
        points: list[str] = []
        bench = world.open(hit=lambda point, _: points.append(point))
        (record,) = bench.append(bench.lease("a"), 1)
        bench.journal.snapshot(snapshot_of(record))
        points.clear()
        bench.commit()
        assert points.index("journal.flush.after") < points.index(
            "snapshot.write.before"
        )
        assert points[-1] == "snapshot.write.after"

    @needs("snapshots", "spoil")
    def test_a_spoilt_snapshot_gives_way_to_the_older_one(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        for version in (1, 2, 3):
            (record,) = bench.append(lease, version)
            bench.journal.snapshot(snapshot_of(record))
            bench.commit()
        world.spoil_snapshot("a", 3)
        loaded = bench.load("a")
        assert loaded.snapshot is not None
        assert loaded.snapshot.version == 2
        assert bench.skipped() == [(3, "bad checksum")]

    @needs("snapshots")
    def test_without_a_usable_snapshot_everything_is_replayed(
        self, world: World
    ) -> None:
        bench = world.open()
        (first, second) = bench.append(bench.lease("a"), 1, 2)
        bench.journal.snapshot(snapshot_of(first))
        bench.commit()
        bench.journal.snapshot(snapshot_of(second))
        bench.commit()

        def usable(snapshot: Any) -> bool:
            if snapshot.version == 2:
                raise ValueError("no such field")
            return False

        loaded = bench.load("a", usable=usable)
        assert loaded.snapshot is None
        assert [record.version for record in loaded.records] == [1, 2]
        assert bench.skipped() == [
            (2, "ValueError: no such field"),
            (1, "not usable by this code"),
        ]

    @needs("snapshots", "spoil")
    def test_a_snapshot_ahead_of_its_stream_is_discarded(self, world: World) -> None:
        bench = world.open()
        (record,) = bench.append(bench.lease("a"), 1)
        bench.journal.snapshot(snapshot_of(record))
        bench.commit()
        world.advance_snapshot("a", 1, ahead=5)
        loaded = bench.load("a")
        assert loaded.snapshot is None
        assert [r.version for r in loaded.records] == [1]
        assert bench.skipped() == [(5, "ahead of its stream")]

    @needs("snapshots")
    def test_a_snapshot_of_records_that_were_left_out_is_not_written(
        self, world: World
    ) -> None:
        bench = world.open()
        (lost,) = bench.append(bench.lease("task/1"), 1)
        bench.journal.snapshot(snapshot_of(lost))
        bench.journal.raise_epoch("task/1", 2)
        bench.append(bench.lease("task/1", epoch=2), 1)
        bench.commit()
        assert bench.read(lambda r: r.snapshots("task/1")) == []
        assert [event for event, _ in bench.warnings] == ["snapshot.not_written"]

    # -- the end -----------------------------------------------------------------

    def test_a_kill_loses_only_what_was_not_flushed(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        bench.append(lease, 1, rows=(row("k", b"1"),))
        bench.commit()
        bench.append(lease, 2, rows=(row("k", b"2"),))
        world.kill(bench)
        again = world.open()
        assert again.load("a").head == 1
        assert again.read(lambda r: r.row("tasks", "k")) == b"1"
        (record,) = again.append(again.lease("a"), 2)
        assert record.seq == 2

    def test_closing_flushes_what_is_queued(self, world: World) -> None:
        bench = world.open()
        bench.append(bench.lease("a"), 1)
        assert bench.journal.close()
        assert bench.flushed == [1]
        assert bench.journal.health().state == "closed"
        assert world.open().load("a").head == 1

    def test_a_closed_journal_refuses_and_answers_its_reads(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        bench.journal.close()
        for call in (
            lambda: bench.append(lease, 1),
            lambda: bench.lease("a"),
            lambda: bench.journal.read(lambda r: r.head("a"), print),
        ):
            assert "closed" in str(error_of(StoreFailed, call))
        assert bench.journal.close()

    def test_an_error_in_the_middle_of_a_flush_is_unknown(self, world: World) -> None:
        def hit(point: str, subject: str) -> None:
            if point == "journal.flush.after":
                raise OSError("the answer was lost")

        bench = world.open(hit=hit)
        lease = bench.lease("a")
        failures: list[Exception] = []
        heard: list[object] = []
        bench.journal.on_failed(failures.append)
        bench.append(lease, 1)
        bench.journal.when_durable(1, lambda: heard.append("acknowledged"))
        bench.journal.read(lambda r: r.head("a"), heard.append)
        bench.commit()
        assert [type(error) for error in failures] == [StoreFailed]
        assert [type(answer) for answer in heard] == [StoreFailed]
        error = error_of(StoreFailed, lambda: bench.append(lease, 2))
        assert "the answer was lost" in str(error)
        late: list[Exception] = []
        bench.journal.on_failed(late.append)
        assert late == failures
        assert not bench.journal.close()
        # It had been written all the same: the next owner reads it, and does not guess.
        assert world.open().load("a").head == 1
