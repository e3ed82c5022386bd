"""Objects over a real server, and in a folder: put once, read whole, told plainly."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.storage.errors import (
    CannotOpen,
    ObjectExists,
    ObjectMissing,
    ObjectTrouble,
)
from perdure.storage.objects import AWAY, ObjectStore
from tests.object_server import BUCKET, SECRET, ObjectServer

KEY = "task/t-1/snapshots/000000000001-ab"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.stop()


@pytest.fixture
def environment(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["s3", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "s3":
        request.getfixturevalue("environment")
        return ObjectStore(f"s3://{BUCKET}/{tmp_path.name}")
    return ObjectStore(
        f"file://{tmp_path}/objects" if request.param == "file" else "memory://"
    )


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(key for key, _ in store.keys(prefix))


def test_an_object_is_put_once_and_read_whole(store: ObjectStore) -> None:
    store.put(KEY, b"first")
    with pytest.raises(ObjectExists):
        store.put(KEY, b"second")
    assert store.get(KEY) == b"first"


def test_a_long_object_is_put_once_too(store: ObjectStore) -> None:
    body = os.urandom(12_000_000)  # where clients begin to send parts
    store.put(KEY, body)
    with pytest.raises(ObjectExists):
        store.put(KEY, b"second")
    assert store.get(KEY) == body


def test_keys_are_listed_by_whole_segments_as_they_were_given(
    store: ObjectStore,
) -> None:
    for key in ("task/t-1/a=20b", "task/t-10/x", "pool/y"):
        store.put(key, b"1")
    assert keys(store, "task/t-1") == ["task/t-1/a=20b"]
    assert keys(store, "task") == ["task/t-1/a=20b", "task/t-10/x"]
    assert keys(store) == ["pool/y", "task/t-1/a=20b", "task/t-10/x"]


def test_an_object_that_is_removed_is_missing(store: ObjectStore) -> None:
    store.put(KEY, b"1")
    store.delete(KEY)
    store.delete(KEY)
    with pytest.raises(ObjectMissing):
        store.get(KEY)
    assert keys(store) == []


def test_a_folder_is_made_for_this_user_only(tmp_path: Path) -> None:
    store = ObjectStore(f"file://{tmp_path}/new folder")
    store.put("a/b", b"1")
    assert stat.S_IMODE((tmp_path / "new folder").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new folder" / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "address",
    ["tasks.db", "ftp://x/y", "http://x/y", "s3://", "s3:/bucket", "s3://b//x", ""],
)
def test_what_is_no_object_store_is_refused(address: str) -> None:
    with pytest.raises(CannotOpen, match=r"s3://BUCKET/PREFIX"):
        ObjectStore(address)


@pytest.mark.parametrize(
    "address",
    [
        f"s3://key:{SECRET}@bucket/x",
        f"s3://{SECRET}@bucket/x",
        f"az://container/x?sig={SECRET}",
        f"s3://bucket/x#{SECRET}",
        f"abfss://c:{SECRET}@account.dfs.core.windows.net/x",
    ],
)
def test_an_address_with_a_secret_is_refused_without_telling_it(address: str) -> None:
    with pytest.raises(CannotOpen, match="AWS_ACCESS_KEY_ID") as caught:
        ObjectStore(address)
    assert SECRET not in str(caught.value)


def test_without_its_extra_it_is_refused_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "obstore.py").write_text("raise ImportError")
    code = (
        "from perdure.storage.objects import ObjectStore\n"
        "try: ObjectStore('s3://bucket/x')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CannotOpen" in done.stdout
    assert "install perdure[objects]" in done.stdout


def test_a_bucket_that_is_not_there_is_trouble_and_no_missing_object(
    environment: None,
) -> None:
    store = ObjectStore("s3://nobody/x")
    with pytest.raises(ObjectTrouble, match="NoSuchBucket") as caught:
        store.get(KEY)
    assert "404 Not Found" in str(caught.value)
    assert not store.is_away  # it answers


@pytest.fixture
def mortal() -> Iterator[ObjectServer]:
    """A server that the test may stop."""
    server = ObjectServer()
    yield server
    server.stop()


def test_a_server_that_is_away_is_asked_again_after_a_while_only(
    mortal: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, server = 0.0, mortal
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(f"s3://{BUCKET}/x", timeout=0.5, monotonic=lambda: now)
    store.put("a", b"1")
    server.stop()
    with pytest.raises(ObjectTrouble, match="no connection") as caught:
        store.get("a")
    assert SECRET not in str(caught.value)
    server.start()
    with pytest.raises(ObjectTrouble, match="no connection"):
        store.put("b", b"1")
    now = AWAY
    store.put("b", b"1")
    assert keys(store) == ["b"]
    server.hang()
    with pytest.raises(ObjectTrouble, match="no answer in time"):
        store.put("c", b"1")
