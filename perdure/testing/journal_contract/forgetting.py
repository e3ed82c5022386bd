"""What every store must do with the leases of a family that was forgotten."""

from __future__ import annotations

from ...storage.errors import Fenced
from ...storage.records import Lease
from .appending import World, error_of, fenced
from .bench import Bench

__all__ = ["ForgetContract"]


class ForgetContract:
    """What forgetting promises: nothing stale comes back, nothing queued is lost."""

    def test_a_lease_of_a_forgotten_stream_is_stale(self, world: World) -> None:
        bench, lease = written(world, "task/1")
        bench.journal.forget("task/1")
        assert not bench.journal.holds(lease)
        fenced(bench, lease, 2)
        new = bench.lease("task/1")
        assert new.incarnation == lease.incarnation + 1
        fenced(bench, lease, 2)
        bench.append(new, 2)

    def test_a_lease_that_wrote_nothing_is_stale_under_the_same_number(
        self, world: World
    ) -> None:
        bench, _ = written(world, "task/1")
        silent = bench.lease("task/1")
        bench.journal.forget("task/1")
        new = bench.lease("task/1")
        assert new == silent
        assert (bench.journal.holds(silent), bench.journal.holds(new)) == (False, True)
        fenced(bench, silent, 2)
        bench.append(new, 2)

    def test_the_familys_own_stream_tells_its_epoch(self, world: World) -> None:
        bench, _ = written(world, "task/1/ledger", epoch=1)
        bench.journal.raise_epoch("task/1", 2)
        bench.append(bench.lease("task/1", epoch=2), 1)
        bench.commit()
        bench.journal.forget("task/1")
        for stale in (
            lambda: bench.lease("task/1/ledger", epoch=1),
            lambda: bench.lease("task/1/account", epoch=1),
            lambda: bench.lease("task/1", epoch=1),
            lambda: bench.journal.raise_epoch("task/1", 1),
        ):
            error = error_of(Fenced, stale)
            assert error.reason == "epoch 1 was asked for, 2 is current"
        bench.append(bench.lease("task/1/ledger", epoch=2), 2)

    def test_an_epoch_that_nothing_was_written_with_stays(self, world: World) -> None:
        bench, _ = written(world, "task/1", epoch=2)
        bench.journal.raise_epoch("task/1", 3)
        bench.journal.forget("task/1")
        error = error_of(Fenced, lambda: bench.lease("task/1", epoch=2))
        assert error.reason == "epoch 2 was asked for, 3 is current"

    def test_a_leases_epoch_that_nothing_was_written_with_stays(
        self, world: World
    ) -> None:
        bench, _ = written(world, "task/1", epoch=2)
        bench.lease("task/1/ledger", epoch=4)
        bench.journal.forget("task/1")
        error = error_of(Fenced, lambda: bench.lease("task/1/ledger", epoch=3))
        assert error.reason == "epoch 3 was asked for, 4 is current"

    def test_a_stream_with_queued_records_is_not_forgotten(self, world: World) -> None:
        bench, lease = written(world, "task/1")
        bench.append(lease, 2)
        bench.journal.forget("task/1")
        bench.append(lease, 3)
        assert bench.load("task/1").head == 3

    def test_other_families_are_not_forgotten(self, world: World) -> None:
        bench = world.open()
        leases = [bench.lease(name) for name in ("task/10", "task", "pool")]
        inside = bench.lease("task/1/ledger")
        for lease in (*leases, inside):
            bench.append(lease, 1)
        bench.commit()
        bench.journal.forget("task/1")
        fenced(bench, inside, 2)
        for lease in leases:
            bench.append(lease, 2)


def written(world: World, stream: str, epoch: int = 1) -> tuple[Bench, Lease]:
    """A journal with one flushed record, and the lease that it was written under."""
    bench = world.open()
    lease = bench.lease(stream, epoch)
    bench.append(lease, 1)
    bench.commit()
    return bench, lease
