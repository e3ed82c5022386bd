"""A runtime whose snapshots lie in an object store: killed, cut off, erased."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perdure import Baseline, Misuse, Result, Runtime
from perdure.actors.events import RecoveryLoaded
from perdure.actors.memory.forgetting import _may_hold
from perdure.doctor import examine
from perdure.objects import open_objects
from perdure.storage import offload
from perdure.storage.memory import MemoryBackend, MemoryStore
from perdure.storage.objects import ObjectStore
from perdure.storage.pointer import key_of, pointer_of, pointer_to, whole
from perdure.storage.reader import open_reader
from perdure.storage.records import Snapshot, snapshot_checksum
from perdure.storage.sqlite_reader import SqliteReader
from tests.actors.memory.test_forgetting import WHO, leaks, stated
from tests.actors.runs import sound
from tests.actors.world import House, World, job
from tests.object_server import BUCKET, SECRET, ObjectServer
from tests.perdure.test_other_stores import CALLS, cli, counted, worker

ROOT = Path(__file__).parents[2]
LONG = 60.0  # seconds
OFTEN = Baseline(id="often", snapshot_events=8)
SMALL = 300  # bytes: below, no snapshot of these tests is

CHILD = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from perdure import Runtime
from perdure.storage import offload
from tests.perdure.test_objects import OFTEN, SMALL
from tests.perdure.test_other_stores import worker
offload.SMALLEST = SMALL
store, objects, ran, dies = sys.argv[1:]
put_once, left = offload.OffloadingBackend._put_once, int(dies)

def put(self, key, body):
    global left
    put_once(self, key, body)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

offload.OffloadingBackend._put_once = put
agent = worker(Path(ran), pause=0.05)
with Runtime(store, agents=[agent], objects=objects, baseline=OFTEN) as runtime:
    print(runtime.submit("worker", "count", key="one").wait(60).status)
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "SMALLEST", SMALL)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    server = ObjectServer()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


def keys(address: str) -> list[str]:
    return sorted(key for key, _ in ObjectStore(address).keys(""))


def pointed(store: Path) -> list[str]:
    """The objects that the snapshots of a store name."""
    with open_reader(store) as reader:
        snapshots = [
            one for stream in reader.streams() for one in reader.snapshots(stream)
        ]
    found = [pointer_of(one) for one in snapshots]
    return sorted(one.object for one in found if one is not None)


def until(condition: Any) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_killed_task_comes_back_from_its_object(tmp_path: Path) -> None:  # B28
    objects = f"file://{tmp_path}/objects"
    house = House(job(World()), objects=objects, baseline=OFTEN)
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    house.until(lambda: pointer_in(house, f"task/{task}"))
    with house.runtime._open_reader() as reader:  # what its calls read with
        assert reader.load(f"task/{task}").snapshot is not None
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    (loaded,) = house.of(f"task/{task}", RecoveryLoaded)
    assert loaded.snapshot > 0
    assert house.log.of("snapshot.skipped") == []
    assert house.log.strangers == []
    whole_and_sound(house)


def whole_and_sound(house: House) -> None:
    """Each snapshot is what its stream comes to (P5), wherever its body lies."""
    house.runtime.close()
    source = house.runtime._objects
    for stream, kept in house.store.snapshots.items():
        house.store.snapshots[stream] = [(whole(one, source), of) for one, of in kept]
    sound(house)


def pointer_in(house: House, stream: str) -> bool:
    kept = house.store.snapshots.get(stream, [])
    return any(pointer_of(one) is not None for one, _ in kept)


def test_without_its_objects_a_task_comes_back_all_the_same(tmp_path: Path) -> None:
    objects = f"file://{tmp_path}/objects"
    house = House(job(World()), objects=objects, baseline=OFTEN)
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    house.until(lambda: pointer_in(house, f"task/{task}"))
    house.kill()
    house.reopen(objects=f"file://{tmp_path}/elsewhere")
    assert house.finish(task).status == "completed"
    reasons = {one["reason"] for one in house.log.of("snapshot.skipped")}
    assert reasons == {"its object is missing"}
    whole_and_sound(house)


def test_a_runtime_that_is_given_no_object_store_says_so(tmp_path: Path) -> None:
    house = House(job(World()), objects=f"file://{tmp_path}/o", baseline=OFTEN)
    task = house.submit().id
    house.until(lambda: pointer_in(house, f"task/{task}"))
    house.until_hit("step.ended", step="find")
    house.kill()
    assert house.log.of("objects.unnamed") == []
    house.reopen(objects=None)
    assert house.finish(task).status == "completed"
    assert len(house.log.of("objects.unnamed")) == 1
    assert house.log.strangers == []


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    objects = f"file://{tmp_path}/objects"
    house = House(job(World()), objects=objects, baseline=OFTEN, seed=seed)
    task = house.submit().id
    for _ in range(3):
        house.until(lambda: rng.random() < 0.02)
        house.kill()
        house.reopen()
    assert house.finish(task).status in ("completed", "paused")
    house.runtime.close()
    assert house.log.of("snapshot.skipped") == []
    whole_and_sound(house)


def test_a_subject_is_erased_from_snapshots_too(tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    house = House(job(World()), objects=f"file://{objects}", baseline=OFTEN)
    stated(house)
    house.run()
    house.until(lambda: False, seconds=1.0)
    assert holding(objects, WHO)
    assert house.runtime.erase(subject=WHO, by="an operator") is True
    house.until(lambda: False, seconds=1.0)
    assert holding(objects, WHO) == []
    assert leaks(house.store, WHO) == []
    whole_and_sound(house)


@pytest.mark.parametrize(
    ("harm", "held"),
    [
        (lambda file: None, True),
        (lambda file: file.unlink(), False),  # nobody can read it any more
        (lambda file: file.write_bytes(b"other"), True),  # nobody can tell
    ],
)
def test_a_subject_is_looked_for_where_the_body_lies(
    harm: Callable[[Path], object], held: bool, tmp_path: Path
) -> None:
    source = ObjectStore(f"file://{tmp_path}/objects")
    store = MemoryStore()
    snapshot = Snapshot(
        stream="task/1",
        version=1,
        covers=1,
        state_schema=1,
        body=b'{"subject":"customer 7"}',
        reason="events",
    )
    pointer = pointer_to(snapshot)
    source.put(key_of(snapshot), snapshot.body)
    with MemoryBackend(store).reader(lambda *_: None) as reader:
        reader.objects = source
        assert not _may_hold(reader, pointer, b"customer 8")
        harm(files(tmp_path / "objects")[0])
        assert _may_hold(reader, pointer, b"customer 7") == held


def holding(folder: Path, word: str) -> list[str]:
    found = [one for one in folder.rglob("*") if one.is_file()]
    return [one.name for one in found if word.encode() in one.read_bytes()]


@pytest.mark.parametrize("objects", ["tasks", "ftp://x", f"s3://a:{SECRET}@b/c", 3])
def test_a_bad_address_is_refused_when_the_runtime_is_built(objects: Any) -> None:
    with pytest.raises(Misuse, match="objects") as caught:
        Runtime("tasks.db", objects=objects)
    assert SECRET not in str(caught.value)
    assert not Path("tasks.db").exists()


@pytest.mark.proof("objects")
@pytest.mark.timeout(120)
def test_killed_between_an_object_and_its_pointer_a_task_goes_on(
    server: ObjectServer, tmp_path: Path
) -> None:
    store, ran = tmp_path / "tasks.db", tmp_path / "ran"
    objects = f"s3://{BUCKET}/store"
    for dies, code in ((2, -signal.SIGKILL), (0, 0)):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, store, objects, ran, str(dies)],
            env={**os.environ, **server.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG,
        )
        assert done.returncode == code, done.stderr
        if dies:
            assert set(keys(objects)) - set(pointed(store))  # an orphan
    assert done.stdout.strip() == "completed"
    assert sorted(set(counted(ran))) == list(range(1, CALLS + 1))
    assert len(counted(ran)) <= CALLS + 1
    assert keys(objects) == pointed(store)


@pytest.mark.proof("objects")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["gone", "hung"])
def test_a_server_that_is_away_holds_nothing_up(
    server: ObjectServer, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.storage.objects.AWAY", 0.0)
    store, ran, log = tmp_path / "tasks.db", tmp_path / "ran", tmp_path / "log"
    objects = f"s3://{BUCKET}/store"
    found: list[Result] = []
    agent = worker(ran, pause=0.1)
    with Runtime(
        store, agents=[agent], objects=objects, baseline=OFTEN, log=log
    ) as runtime:
        task = runtime.submit("worker", "count")
        waiter = threading.Thread(target=lambda: found.append(task.wait(LONG)))
        waiter.start()
        until(lambda: keys(objects))
        if how == "gone":
            server.stop()
        else:
            server.hang()
        waiter.join(LONG)
        if how == "gone":
            server.start()
        else:
            server.go_on()
        assert [one.status for one in found] == ["completed"]
        again = runtime.submit("worker", "count again")
        assert again.wait(LONG).status == "completed"
        until(lambda: any(again.id in key for key in keys(objects)))
    assert counted(ran) == [*range(1, CALLS + 1)] * 2
    said = log.read_text()
    assert ("objects.trouble" in said) == (how == "gone")
    assert SECRET not in said


@pytest.mark.proof("objects")
@pytest.mark.timeout(120)
def test_an_erased_task_leaves_nothing_on_the_server(
    server: ObjectServer, tmp_path: Path
) -> None:
    objects = f"s3://{BUCKET}/store"
    agent = worker(tmp_path / "ran")
    with Runtime(
        tmp_path / "tasks.db", agents=[agent], objects=objects, baseline=OFTEN
    ) as runtime:
        task, other = (runtime.submit("worker", f"count {n}") for n in "12")
        assert {task.wait(LONG).status, other.wait(LONG).status} == {"completed"}
        until(lambda: any(task.id in key for key in keys(objects)))
        runtime.erase(task=task.id, by="an operator")
        until(lambda: not any(task.id in key for key in keys(objects)))
        assert any(other.id in key for key in keys(objects))


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, Path]:
    """A store with an ended task, and the folder of its objects, an hour old."""
    objects = tmp_path / "objects"
    with Runtime(
        tmp_path / "tasks.db",
        agents=[worker(tmp_path / "ran")],
        objects=f"file://{objects}",
        baseline=OFTEN,
    ) as runtime:
        task = runtime.submit("worker", "count")
        assert task.wait(LONG).status == "completed"
        until(lambda: len(files(objects)) > 2)
    for file in files(objects):
        os.utime(file, (time.time() - 3600,) * 2)
    return tmp_path / "tasks.db", objects


def files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if one.is_file())


def contents(folder: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in files(folder)}


def doctor(store: Path, objects: Path) -> dict[str, int]:
    """What it finds, by kind; it changes nothing."""
    before = contents(objects)
    report = examine(store, objects=open_objects(f"file://{objects}", create=False))
    assert contents(objects) == before
    return report.counts


def test_a_doctor_finds_nothing_where_all_is_well(store: tuple[Path, Path]) -> None:
    assert doctor(*store) == {}
    assert examine(store[0]).healthy


def test_a_doctor_names_objects_that_are_missing_damaged_or_nobodys(
    store: tuple[Path, Path],
) -> None:
    path, objects = store
    first, second, *_ = files(objects)
    orphan = first.with_name(f"{7:012d}-{'0' * 64}")
    orphan.write_bytes(b"left behind")
    assert doctor(path, objects) == {}  # its pointer may be on its way
    os.utime(orphan, (time.time() - 3600,) * 2)
    first.unlink()
    second.write_bytes(b"other")
    found = {"object_missing": 1, "object_bytes": 1, "object_orphaned": 1}
    assert doctor(path, objects) == found


def test_a_doctor_compares_what_lies_in_objects(store: tuple[Path, Path]) -> None:
    path, objects = store
    with SqliteReader(path, lambda *_: None) as reader:
        stream = next(one for one in reader.streams() if reader.snapshots(one))
        snapshot = reader.snapshots(stream)[0]
    lie = pointer_to(msgspec.structs.replace(snapshot, body=b'{"version":1}'))
    ObjectStore(f"file://{objects}").put(object_of(lie), b'{"version":1}')
    connection = apsw.Connection(str(path))
    connection.execute(
        "UPDATE snapshots SET body = ?, checksum = ? WHERE version = ? AND stream_id "
        "= (SELECT id FROM streams WHERE name = ?)",
        (lie.body, snapshot_checksum(lie), lie.version, stream),
    )
    connection.close()
    assert doctor(path, objects)["snapshot_differs"] == 1


def object_of(snapshot: Snapshot) -> str:
    pointer = pointer_of(snapshot)
    assert pointer is not None
    return pointer.object


def test_the_command_takes_the_address(store: tuple[Path, Path]) -> None:
    path, objects = store
    files(objects)[0].unlink()
    for address, code in ((f"file://{objects}", 1), (f"file://{objects}/no", 2)):
        done = cli(str(path), "doctor", "--objects", address)
        assert done.returncode == code, done.stderr
    assert not (objects / "no").exists()
    assert cli(str(path), "doctor").returncode == 0
