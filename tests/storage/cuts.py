"""One power cut, whole: work until it comes, what is left, and what is promised."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import apsw
import msgspec

from perdure.storage.errors import CannotOpen, StorageError
from perdure.storage.reader import open_reader
from tests.storage.power import Damage, Disk, Fault
from tests.storage.promises import Broken, Load

__all__ = ["Cut", "cut"]

WAL_PAGES = 12  # a checkpoint is due above; small, so that cuts fall into some
SYNCS = 90  # the power goes at one of so many
RECOVERY_SYNCS = 12  # a second cut, if there is one, goes for one of these
ROUNDS = 30
FAULTY = 0.2  # of all openings a sync fails in
STEPS = 8  # batches between two openings, at most


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What a cut did to the disk, and how the store failed: "" if it did not."""

    damage: Damage
    wrong: str


def cut(seed: int, *, trace: Callable[[str], object] | None = None) -> Cut:
    """Cut the power at a sync that `seed` picks, in one of three again soon after."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="perdure-power-") as name:
        folder = Path(name).resolve()
        load = Load(folder / "tasks.db", rng)
        disk = Disk(folder, rng, cut_at=rng.randint(1, SYNCS), trace=trace)
        pages = mock.patch("perdure.storage.sqlite_tidy.WAL_PAGES", WAL_PAGES)
        damage = Damage()
        wrong = ""
        with disk.plugged_in(), pages:
            try:
                _run(load, disk, rng)
                again = rng.randint(1, RECOVERY_SYNCS) if rng.random() < 1 / 3 else 0
                damage = disk.reboot(cut_at=again)
                if again:
                    _run(load, disk, rng)
                    damage = damage.plus(disk.reboot())
                _recover(load, rng)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
    return Cut(damage=damage, wrong=wrong)


def _run(load: Load, disk: Disk, rng: random.Random) -> None:
    """Open, work and end in one way or another until the power goes."""
    for _ in range(ROUNDS):
        bench = None
        hit = disk.faults_hit
        if rng.random() < FAULTY:
            disk.fail(_sync_fault(rng))
        try:
            if load.path.exists() and rng.random() < 0.3:
                _look_unowned(load)
            bench = load.open()
            _look(load)
            load.work(bench, rng.randint(1, STEPS))
            if rng.random() < 0.4:
                bench.pass_time()
            if rng.random() < 0.5:
                bench.journal.close()
        except StorageError:
            if not disk.dead and disk.faults_hit == hit:
                raise
        finally:
            disk.heal()
            if bench is not None:
                bench.backend.abandon()
        if disk.dead:
            return
    disk.die()


def _sync_fault(rng: random.Random) -> Fault:
    return Fault(
        operation="sync",
        code=apsw.SQLITE_IOERR_FSYNC,
        nth=rng.randint(1, 10),
        but=rng.choice(("not done", "done", "lost")),
    )


def _look(load: Load) -> None:
    with open_reader(load.path) as reader:
        load.check(reader)


def _look_unowned(load: Load) -> None:
    """Read what is there before an owner opens it, as the command line may."""
    try:
        reader = open_reader(load.path)
    except CannotOpen as error:
        if "open it once" not in error.fix:
            raise
        return
    with reader:
        load.check(reader, owned=False)


def _recover(load: Load, rng: random.Random) -> None:
    """Open what the cut left, check it, go on working, and close it."""
    if load.path.exists() and rng.random() < 0.5:
        _look_unowned(load)
    bench = load.open()
    try:
        _look(load)
        load.work(bench, 2)
        if not bench.journal.close():
            raise Broken(f"it does not go on: {bench.journal.health().detail}")
    finally:
        bench.backend.abandon()
    _look(load)
