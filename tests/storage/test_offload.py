"""Big snapshots in an object store: pointers, damage, trouble, kills and erasures."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure.storage import offload
from perdure.storage.erasure import Erasure, Redaction
from perdure.storage.errors import ObjectTrouble
from perdure.storage.memory import MemoryBackend, MemoryStore
from perdure.storage.objects import ObjectStore
from perdure.storage.offload import OffloadingBackend
from perdure.storage.pointer import place_of, pointer_of
from perdure.storage.records import Record
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract import Bench, JournalContract
from perdure.testing.journal_contract.bench import ByHand, draft, snapshot_of
from tests.storage.test_contract import SqliteWorld

BIG = 5000  # bytes: above what is worth an object


class AtOnce:
    """A background that does all there is to do while it is woken."""

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        self._step = step

    def wake(self) -> None:
        while self._step():
            pass

    def stop(self, timeout: float) -> None:
        self.wake()


class World:
    """One store and one folder of objects, opened again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = ObjectStore(f"file://{folder}/objects", monotonic=lambda: 0.0)
        self.threads: list[ByHand] = []
        self.timers: list[Callable[[], None]] = []
        self.warnings: list[tuple[str, Mapping[str, object]]] = []

    def open(self, *, by_hand: bool = False) -> Bench:
        def background(name: str, step: Callable[[], bool]) -> Any:
            if not by_hand:
                return AtOnce(name, step)
            self.threads.append(ByHand(name, step))
            return self.threads[-1]

        return Bench(
            OffloadingBackend(
                SqliteBackend(self.folder / "store.db"),
                self.objects,
                family="task",
                background=background,
                call_later=lambda _, callback: self.timers.append(callback),
                warn=lambda event, fields: self.warnings.append((event, fields)),
            )
        )

    def step(self) -> None:
        """What the thread of the object store does next."""
        assert self.threads[-1].step()

    def kept(self) -> list[tuple[str, int]]:
        """Streams and versions of the objects that are there."""
        return sorted(place_of(key) or ("?", 0) for key, _ in self.objects.keys(""))

    def file(self, version: int) -> Path:
        (found,) = (self.folder / "objects").rglob(f"{version:012d}-*")
        return found

    def break_off(self, what: str = "put") -> None:
        """Nothing answers any more."""

        def fail(*_: object) -> None:
            raise ObjectTrouble("file:///", what, "no answer")

        setattr(self.objects, what, fail)

    def mend(self, what: str = "put") -> None:
        delattr(self.objects, what)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def body(version: int) -> bytes:
    return b'{"version":%d,"padding":"%s"}' % (version, b"x" * BIG)


def write(bench: Bench, *versions: int, stream: str = "task/1") -> list[Record]:
    """Append records with a big snapshot after each; commit each."""
    lease = bench.lease(stream)
    records = []
    for version in versions:
        (record,) = bench.append(lease, version)
        records.append(record)
        bench.journal.snapshot(snapshot_of(record, body(version)))
        bench.commit()
        bench.commit()
    return records


def raw(bench: Bench, stream: str = "task/1") -> list[bytes]:
    found = bench.read(lambda reader: reader.snapshots(stream))
    return [one.body for one in found]


class TestOffloading(JournalContract):
    """The whole contract, with every snapshot in an object store."""

    @pytest.fixture
    def world(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(offload, "SMALLEST", 0)
        monkeypatch.setattr(offload, "in_family", lambda *_: True)
        store = SqliteWorld(tmp_path / "store.db")
        inner, objects = store.backend, ObjectStore(f"file://{tmp_path}/objects")
        store.backend = lambda: OffloadingBackend(
            inner(),
            objects,
            family="task",
            background=AtOnce,
            call_later=lambda *_: None,
            warn=lambda *said: store.benches[-1].warnings.append(said),
        )
        return store


def test_a_big_snapshot_lies_in_the_object_store(world: World) -> None:  # B28
    bench = world.open()
    write(bench, 1)
    (pointing,) = bench.read(lambda reader: reader.snapshots("task/1"))
    pointer = pointer_of(pointing)
    assert pointer is not None
    assert (pointer.size, len(pointing.body) < 300) == (len(body(1)), True)
    assert world.file(1).read_bytes() == body(1)
    loaded = bench.load("task/1")
    assert loaded.snapshot is not None
    assert (loaded.snapshot.body, loaded.records) == (body(1), ())


def test_small_snapshots_and_other_streams_stay_in_the_store(world: World) -> None:
    bench = world.open()
    write(bench, 1, stream="pool")
    (record,) = bench.append(bench.lease("task/1"), 1)
    bench.journal.snapshot(snapshot_of(record, b'{"n":1}'))
    bench.commit()
    assert raw(bench, "pool") == [body(1)]
    assert raw(bench) == [b'{"n":1}']
    assert world.kept() == []


def test_no_flush_waits_for_an_object(world: World) -> None:
    bench = world.open(by_hand=True)
    write(bench, 1, 2)
    assert bench.flushed == [1, 2]
    assert (raw(bench), world.kept()) == ([], [])
    world.step()
    assert world.kept() == [("task/1", 2)]
    assert len(raw(bench)) == 1


def test_an_object_goes_with_the_last_pointer_to_it(world: World) -> None:
    bench = world.open()
    write(bench, 1, 2, 3, 4)
    write(bench, 1, stream="task/1/ledger")
    assert world.kept() == [("task/1", 3), ("task/1", 4), ("task/1/ledger", 1)]


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda file: file.unlink(), "its object is missing"),
        (lambda file: file.write_bytes(b"{}"), "bytes do not match its digest"),
        (
            lambda file: file.write_bytes(file.read_bytes().replace(b"x", b"y", 1)),
            "bytes do not match its digest",
        ),
    ],
)
def test_a_damaged_object_is_a_bad_snapshot(
    world: World, harm: Callable[[Path], None], reason: str
) -> None:
    bench = world.open()
    write(bench, 1, 2, 3)
    harm(world.file(3))
    loaded = bench.load("task/1")
    assert loaded.snapshot is not None
    assert (loaded.snapshot.version, len(loaded.records)) == (2, 1)
    harm(world.file(2))
    loaded = bench.load("task/1")
    assert (loaded.snapshot, len(loaded.records)) == (None, 3)
    assert [version for version, _ in bench.skipped()] == [3, 3, 2]
    assert all(reason in str(said) for _, said in bench.skipped())


def test_an_object_store_that_is_away_costs_a_replay(world: World) -> None:
    bench = world.open()
    write(bench, 1, 2)
    world.break_off("get")
    loaded = bench.load("task/1")
    assert (loaded.snapshot, len(loaded.records)) == (None, 2)
    world.mend("get")
    assert bench.load("task/1").snapshot is not None


def test_what_cannot_be_put_is_kept_in_the_store(world: World) -> None:
    bench = world.open()
    write(bench, 1)
    world.break_off()
    write(bench, 2)
    assert raw(bench)[0] == body(2)
    ((event, fields),) = world.warnings
    assert (event, fields["version"]) == ("objects.trouble", 2)
    world.mend()
    write(bench, 3)
    assert world.kept() == [("task/1", 3)]
    loaded = bench.load("task/1")
    assert loaded.snapshot is not None
    assert loaded.snapshot.body == body(3)


def test_objects_that_may_not_be_listed_are_told_of(world: World) -> None:
    bench = world.open()
    world.break_off("keys")
    write(bench, 1, 2, 3)
    assert {event for event, _ in world.warnings} == {"objects.not_removed"}
    assert len(world.warnings) == 3
    world.mend("keys")
    write(bench, 4)
    assert world.kept() == [("task/1", 3), ("task/1", 4)]


def test_an_object_store_that_was_away_just_now_is_left_alone(world: World) -> None:
    bench = world.open()
    world.objects._away = (30.0, "no answer")
    write(bench, 1)
    assert (raw(bench), world.warnings) == ([body(1)], [])
    world.objects._away = (0.0, "no answer")
    write(bench, 2)
    assert world.kept() == [("task/1", 2)]


def test_a_kill_between_put_and_pointer_leaves_the_older_snapshot(
    world: World,
) -> None:
    bench = world.open(by_hand=True)
    write(bench, 1)
    world.step()
    bench.commit()
    write(bench, 2)
    world.step()
    assert world.kept() == [("task/1", 1), ("task/1", 2)]
    bench.backend.abandon()
    bench = world.open()
    loaded = bench.load("task/1")
    assert loaded.snapshot is not None
    assert (loaded.snapshot.version, len(loaded.records)) == (1, 1)
    write(bench, 3)
    assert world.kept() == [("task/1", 1), ("task/1", 3)]  # and not the orphan


def test_the_same_object_is_put_again_without_harm(world: World) -> None:
    bench = world.open(by_hand=True)
    (record,) = write(bench, 1)
    world.step()
    bench.backend.abandon()
    bench = world.open()
    bench.journal.snapshot(snapshot_of(record, body(1)))
    bench.commit()
    bench.commit()
    assert (world.warnings, len(raw(bench)[0]) < 300) == ([], True)


def test_other_bytes_under_the_same_name_are_left_alone(world: World) -> None:
    bench = world.open(by_hand=True)
    (record,) = write(bench, 1)
    world.step()
    bench.backend.abandon()
    world.file(1).write_bytes(b"theirs")
    bench = world.open(by_hand=True)
    bench.journal.snapshot(snapshot_of(record, body(1)))
    bench.commit()
    world.step()
    bench.commit()
    assert raw(bench) == [body(1)]
    assert world.file(1).read_bytes() == b"theirs"
    assert [event for event, _ in world.warnings] == ["objects.trouble"]


def test_a_newer_small_snapshot_is_not_undone_by_an_older_object(world: World) -> None:
    bench = world.open(by_hand=True)
    lease = bench.lease("task/1")
    for version, state in ((1, body(1)), (2, b'{"n":2}')):
        (record,) = bench.append(lease, version)
        bench.journal.snapshot(snapshot_of(record, state))
        bench.commit()
        if version == 1:
            world.step()  # its object is there, its pointer is not yet
    bench.commit()
    assert raw(bench) == [b'{"n":2}']
    world.step()
    assert world.kept() == []


def erase(bench: Bench, version: int) -> None:
    """Erase task 1, as a record of the pool says."""
    changes = [(bench.lease("pool"), [draft("pool", version)])]
    bench.journal.append(changes, Erasure(families=("task/1",)))
    bench.commit()


def test_an_erasure_removes_the_objects_of_the_family(world: World) -> None:
    bench = world.open()
    write(bench, 1, 2)
    write(bench, 1, stream="task/1/ledger")
    write(bench, 1, stream="task/10")
    erase(bench, 1)
    assert world.kept() == [("task/10", 1)]
    bench.append(bench.lease("pool"), 2)
    bench.commit()
    rows = bench.read(lambda reader: reader.rows(offload.OBJECT_ROWS))
    assert [row.key for row in rows] == [offload.USED]


@pytest.mark.parametrize("how", ["gone", "redactions"])
def test_what_is_taken_out_of_a_stream_leaves_its_objects(
    world: World, how: str
) -> None:
    bench = world.open()
    first, _ = write(bench, 1, 2)
    if how == "gone":
        erasure = Erasure(gone={"task/1": (first.seq,)}, scrub=False)
    else:
        redaction = Redaction(stream="task/1", seq=1, type="Noted", body=b"{}")
        erasure = Erasure(redactions=(redaction,))
    bench.journal.append([(bench.lease("pool"), [draft("pool", 1)])], erasure)
    bench.commit()
    assert (raw(bench), world.kept()) == ([], [])


def test_a_load_is_of_one_moment_though_records_go_meanwhile(world: World) -> None:
    bench = world.open()
    first, *_ = write(bench, 1, 2, 3)
    other = bench.backend.reader(lambda *_: None)
    done = []

    def get(key: str) -> bytes:
        """While its body comes from far away, the stream closes up and goes on."""
        if not done:
            done.append(key)
            erasure = Erasure(gone={"task/1": (first.seq,)}, scrub=False)
            bench.journal.append([(bench.lease("pool"), [draft("pool", 1)])], erasure)
            bench.commit()
            bench.append(bench.lease("task/1"), 3)
            bench.commit()
        return body(3)

    setattr(world.objects, "get", get)  # noqa: B010 - a method is replaced
    loaded = other.load("task/1")
    assert (loaded.snapshot, loaded.head) == (None, 3)
    assert [one.version for one in loaded.records] == [1, 2, 3]


@pytest.mark.parametrize("put", [False, True])
def test_a_snapshot_on_its_way_is_erased_too(world: World, put: bool) -> None:
    bench = world.open(by_hand=True)
    write(bench, 1)
    if put:
        world.step()
    erase(bench, 1)
    while world.threads[-1].step():
        pass
    bench.commit()
    assert (raw(bench), world.kept()) == ([], [])


def test_a_kill_after_an_erasure_does_not_keep_its_objects(world: World) -> None:
    bench = world.open(by_hand=True)
    write(bench, 1)
    world.step()
    bench.commit()
    erase(bench, 1)
    bench.backend.abandon()
    assert world.kept() == [("task/1", 1)]
    world.open(by_hand=True)
    assert world.threads[-1].woken == 1
    world.step()
    assert world.kept() == []


def test_an_erasure_waits_for_an_object_store_that_is_away(world: World) -> None:
    bench = world.open()
    write(bench, 1)
    world.break_off("keys")
    erase(bench, 1)
    assert bench.flushed[-1] == 2  # it is done all the same
    assert [event for event, _ in world.warnings] == ["objects.erasure_waits"]
    world.mend("keys")
    (again,) = world.timers
    again()
    assert world.kept() == []


def test_closing_keeps_what_was_not_put(world: World) -> None:
    bench = world.open(by_hand=True)
    write(bench, 1)
    assert bench.journal.close()
    bench = world.open()
    loaded = bench.load("task/1")
    assert loaded.snapshot is not None
    assert loaded.snapshot.body == body(1)


def test_only_so_many_snapshots_wait_to_be_put(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload, "MOST", 2)
    bench = world.open(by_hand=True)
    for number in range(3):
        write(bench, 1, stream=f"task/{number}")
    assert [len(raw(bench, f"task/{number}")) for number in range(3)] == [0, 0, 1]


@pytest.mark.parametrize("what", ["erased", "superseded"])
def test_what_was_put_meanwhile_in_vain_goes(world: World, what: str) -> None:
    bench = world.open(by_hand=True)
    write(bench, 1)
    put = world.objects.put

    def slowly(key: str, state: bytes) -> None:
        put(key, state)
        if what == "erased":
            erase(bench, 1)
        else:
            (record,) = bench.append(bench.lease("task/1"), 2)
            bench.journal.snapshot(snapshot_of(record, b"small"))
            bench.commit()

    setattr(world.objects, "put", slowly)  # noqa: B010 - a method is replaced
    world.step()
    bench.commit()
    while world.threads[-1].step():
        pass
    assert raw(bench) == ([] if what == "erased" else [b"small"])
    assert world.kept() == []


def test_of_two_pointers_at_once_the_older_object_goes(world: World) -> None:
    bench = world.open(by_hand=True)
    records = [bench.append(bench.lease("task/1"), version)[0] for version in (1, 2)]
    bench.commit()
    for record in records:
        snapshot = snapshot_of(record, body(record.version))
        assert bench.backend.write_snapshots([snapshot]) == []
        world.step()
    bench.backend.tidy(idle=False)
    while world.threads[-1].step():
        pass
    assert world.kept() == [("task/1", 2)]


class Played:
    """Appends, snapshots, uploads, kills and erasures in any order; one model beside.

    The model is the streams' heads only: a snapshot's body tells what it is of.
    """

    STREAMS = ("task/1", "task/1/ledger", "task/2")

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = MemoryStore()
        self.objects = ObjectStore("memory://", monotonic=lambda: 0.0)
        self.open()

    def open(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.threads: list[ByHand] = []

        def background(name: str, step: Callable[[], bool]) -> ByHand:
            self.threads.append(ByHand(name, step))
            return self.threads[-1]

        self.bench = Bench(
            OffloadingBackend(
                MemoryBackend(self.store),
                self.objects,
                family="task",
                background=background,
                call_later=lambda _, callback: self.timers.append(callback),
                warn=lambda *_: None,
            )
        )

    def append(self) -> None:
        stream = self.rng.choice(self.STREAMS)
        head = len(self.store.streams.get(stream, []))
        (record,) = self.bench.append(self.bench.lease(stream), head + 1)
        if self.rng.random() < 0.7:
            padding = b"x" * self.rng.choice((0, BIG))
            state = b"%s@%d %s" % (stream.encode(), record.seq, padding)
            self.bench.journal.snapshot(snapshot_of(record, state))
        self.bench.commit()

    def upload(self) -> None:
        self.threads[-1].step()

    def turn(self) -> None:
        self.bench.commit()

    def kill(self) -> None:
        self.store.cut()
        self.bench.backend.abandon()
        self.open()

    def close(self) -> None:
        assert self.bench.journal.close()
        self.open()

    def erase(self) -> None:
        head = len(self.store.streams.get("pool", []))
        changes = [(self.bench.lease("pool"), [draft("pool", head + 1)])]
        self.bench.journal.append(changes, Erasure(families=("task/1",)))
        self.bench.commit()

    def break_off(self) -> None:
        self.objects._away = (1.0, "no answer")

    def mend(self) -> None:
        self.objects._away = None
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()

    def settle(self) -> None:
        """Nothing is under way any more, and the object store is there."""
        self.mend()
        for _ in range(3):
            while self.threads[-1].step():
                pass
            self.bench.commit()

    def check(self) -> None:
        for stream in self.STREAMS:
            loaded = self.bench.load(stream)
            if loaded.snapshot is not None:
                words = loaded.snapshot.body.split()
                said = b"%s@%d" % (stream.encode(), loaded.snapshot.covers)
                assert words[0] == said
        assert "missing" not in str(self.bench.skipped())


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_pointers_and_objects_agree_in_the_end(seed: int) -> None:
    played = Played(seed)
    moves = [played.append] * 5 + [played.upload] * 4 + [played.turn] * 2
    moves += [played.kill, played.close, played.erase, played.break_off, played.mend]
    for _ in range(80):
        played.rng.choice(moves)()
        if played.rng.random() < 0.1:
            played.check()
    played.settle()
    played.check()
    for stream in played.STREAMS:  # the next snapshot of each takes what kills left
        head = len(played.store.streams.get(stream, []))
        (record,) = played.bench.append(played.bench.lease(stream), head + 1)
        state = b"%s@%d %s" % (stream.encode(), record.seq, b"x" * BIG)
        played.bench.journal.snapshot(snapshot_of(record, state))
        played.bench.commit()
    played.settle()
    named = [
        pointer.object
        for kept in played.store.snapshots.values()
        for snapshot, _ in kept
        if (pointer := pointer_of(snapshot)) is not None
    ]
    assert sorted(key for key, _ in played.objects.keys("")) == sorted(named)
    assert [key for key in played.store.rows[offload.OBJECT_ROWS] if "due" in key] == []
