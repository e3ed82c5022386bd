"""A store in PostgreSQL: its server stopped, its connections cut, its disk full."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from perdure.storage.address import open_inbox
from perdure.storage.erasure import Erasure
from perdure.storage.errors import (
    CannotOpen,
    NewerLayout,
    NotAStore,
    StoreLocked,
    StoreTrouble,
)
from perdure.storage.postgres import PostgresBackend
from perdure.storage.reader import open_reader
from perdure.testing.journal_contract.bench import Bench, row
from perdure.testing.journal_contract.erasing import erase
from tests.servers import Server

SMALL = 64 * 1024 * 1024  # bytes of the disk that gets full
FILL = 200_000  # bytes of a record
BENCHES: list[Bench] = []


@pytest.fixture
def server() -> Iterator[Server]:
    # Not tmp_path: another user has to get there.
    with tempfile.TemporaryDirectory(prefix="perdure-pg-") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


@pytest.fixture(autouse=True)
def given_up() -> Iterator[None]:
    """Let go of whatever a test left open."""
    yield
    while BENCHES:
        BENCHES.pop().backend.abandon()


def opened(url: str, **options: Any) -> Bench:
    bench = Bench(PostgresBackend(url), **options)
    BENCHES.append(bench)
    return bench


def cut(url: str) -> None:
    """Have the server end every other connection."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'perdure'"
        )


def heads(url: str) -> dict[str, int]:
    """What is there, read from outside, and checked for gaps and for its row."""
    with open_reader(url) as reader:
        log = reader.records(limit=100_000)
        found = {}
        for stream in reader.streams():
            versions = [one.version for one in log if one.stream == stream]
            assert versions == list(range(1, len(versions) + 1))
            assert reader.row("tasks", stream) == b"%d" % len(versions)
            found[stream] = len(versions)
    return found


def write(bench: Bench, first: int, last: int, told: list[int]) -> None:
    """Append versions one flush each; `told` gets those that were acknowledged."""
    lease = bench.lease("task/1")
    for version in range(first, last + 1):
        value = row("task/1", b"%d" % version)
        (record,) = bench.append(lease, version, rows=(value,))
        bench.journal.when_durable(record.seq, lambda v=version: told.append(v))
        bench.commit()
        if bench.journal.health().state == "failed":
            return


@pytest.mark.proof("postgres")
@pytest.mark.timeout(120)
def test_what_was_acknowledged_outlives_the_server(server: Server) -> None:  # P1
    told: list[int] = []
    bench = opened(server.url)
    write(bench, 1, 20, told)
    server.stop()
    write(bench, 21, 21, told)
    assert bench.journal.health().state == "failed"
    assert told == list(range(1, 21))
    bench.backend.abandon()
    with pytest.raises(CannotOpen, match="start the server"):
        opened(server.url)
    server.start()
    assert heads(server.url) == {"task/1": 20}
    write(opened(server.url), 21, 22, told)
    assert heads(server.url) == {"task/1": 22}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("at", ["append", "flush.before", "flush.after", "snapshot"])
def test_a_cut_connection_loses_nothing_and_doubles_nothing(
    postgres: str, at: str
) -> None:  # P1
    def hit(point: str, _: str) -> None:
        if point == f"journal.{at}" and armed:
            armed.clear()
            cut(postgres)

    armed: list[bool] = []
    told: list[int] = []
    bench = opened(postgres, hit=hit)
    write(bench, 1, 5, told)
    armed.append(True)
    if at in ("append", "snapshot"):
        cut(postgres)
    write(bench, 6, 8, told)
    assert bench.journal.health().state == "failed"
    assert isinstance(bench.journal.health().detail, str)
    bench.backend.abandon()
    found = heads(postgres)["task/1"]
    assert found >= max(told)
    again = opened(postgres)
    write(again, found + 1, found + 2, told)
    assert heads(postgres) == {"task/1": found + 2}


def test_a_second_runtime_is_refused_while_the_first_is_there(postgres: str) -> None:
    bench = opened(postgres)
    with pytest.raises(StoreLocked, match="server process"):
        opened(postgres)
    cut(postgres)  # as when its process dies
    again = opened(postgres)
    assert again.journal.runtime_epoch == bench.journal.runtime_epoch + 1


def test_the_owner_that_was_cut_off_writes_nothing_more(postgres: str) -> None:  # P9
    told: list[int] = []
    old = opened(postgres)
    write(old, 1, 1, told)
    cut(postgres)
    new = opened(postgres)
    write(new, 2, 2, told)
    write(old, 2, 2, told)
    assert old.journal.health().state == "failed"
    assert told == [1, 2]
    assert heads(postgres) == {"task/1": 2}


def test_big_values_are_compressed_by_lz4_where_the_server_has_it(
    postgres: str,
) -> None:
    bench = opened(postgres)
    bench.append(bench.lease("task/1"), 1, body=b'"%s"' % (b"again " * 2_000))
    bench.commit()
    with psycopg.connect(postgres, autocommit=True) as connection:
        (has,) = connection.execute(
            "SELECT 'lz4' = ANY (enumvals) FROM pg_settings "
            "WHERE name = 'default_toast_compression'"
        ).fetchone() or (False,)
        found = connection.execute(
            "SELECT pg_column_compression(body) FROM perdure_records"
        ).fetchall()
    assert found == [("lz4" if has else "pglz",)]


def test_readers_need_no_ownership_and_change_nothing(postgres: str) -> None:
    with pytest.raises(CannotOpen, match="there is no store"):
        open_reader(postgres)
    bench = opened(postgres)
    write(bench, 1, 3, [])
    with (
        open_reader(postgres) as reader,
        pytest.raises(StoreTrouble, match="read-only"),
    ):
        reader._all("DELETE FROM perdure_records RETURNING 1")  # type: ignore[attr-defined]
    assert heads(postgres) == {"task/1": 3}


@pytest.mark.timeout(120)
def test_a_reader_in_the_way_of_a_scrub_stops_nothing(postgres: str) -> None:
    bench = opened(postgres)
    write(bench, 1, 2, [])
    with psycopg.connect(postgres) as other:
        other.execute("SELECT * FROM perdure_records")  # and stays in its transaction
        erase(bench, Erasure(families=("task/1",)), version=1)
        bench.pass_time()
        bench.pass_time()
        assert bench.journal.health().state == "ok"
        bench.backend.abandon()
        again = opened(postgres)
    assert again.backend.tidy(idle=True) is False
    assert again.read(lambda reader: reader.streams()) == ["pool"]


def test_something_else_is_left_untouched(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE perdure_owner (name text)")
        with pytest.raises(NotAStore):
            opened(postgres)
        connection.execute("DROP TABLE perdure_owner")
        opened(postgres).backend.abandon()
        connection.execute("UPDATE perdure_owner SET layout = 9")
    with pytest.raises(NewerLayout, match="layout 9"):
        opened(postgres)


def test_a_role_that_may_only_select_reads_and_sends_nothing(postgres: str) -> None:
    bench = opened(postgres)
    bench.append(bench.lease("task/1"), 1)
    bench.commit()
    role = f"r{secrets.token_hex(8)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        found = connection.execute("SELECT current_schema()").fetchone()
        assert found is not None
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        connection.execute(f"GRANT USAGE ON SCHEMA {found[0]} TO {role}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {found[0]} TO {role}")
        server = urlsplit(postgres)
        place = server.netloc.rpartition("@")[2]
        url = urlunsplit(server._replace(netloc=f"{role}:x@{place}"))
        try:
            with open_reader(url) as reader:
                assert reader.load("task/1").head == 1
            with pytest.raises(CannotOpen, match="may not write it here"):
                open_inbox(url)
        finally:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
    assert bench.journal.close()


def test_an_address_that_is_none_is_named_without_its_password() -> None:
    with pytest.raises(CannotOpen) as caught:
        opened("postgresql://u:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)
    assert "postgresql://127.0.0.1:1/x" in str(caught.value)


@pytest.mark.timeout(120)
def test_a_server_that_does_not_sync_is_refused(server: Server) -> None:
    server.stop()
    server.start("fsync=off")
    with pytest.raises(CannotOpen, match="fsync=off"):
        opened(server.url)


@pytest.fixture
def small() -> Iterator[Path]:
    """A disk of a few megabytes."""
    with tempfile.TemporaryDirectory(prefix="perdure-small-") as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", folder],
            check=False,
            capture_output=True,
        )
        if mounted.returncode:
            pytest.skip("this user may not mount a small disk")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=False)


@pytest.mark.timeout(180)
def test_a_full_disk_keeps_the_batch_until_there_is_room(small: Path) -> None:  # R10
    server = Server(small)
    try:
        told: list[int] = []
        bench = opened(server.url)
        ballast = fill(bench, told)
        health = bench.journal.health()
        assert (health.state, "free some space" in health.detail) == ("trouble", True)
        acknowledged = len(told)
        bench.pass_time()
        assert len(told) == acknowledged
        ballast.unlink()
        bench.pass_time()
        assert bench.journal.health().state == "ok"
        assert told == list(range(1, acknowledged + 2))
        assert bench.load("task/1").head == len(told)
    finally:
        server.stop()


def fill(bench: Bench, told: list[int]) -> Path:
    """Fill the disk but for little, then write until the store says that it is full."""
    folder = Path(bench.read(data_folder))
    ballast = folder.parent / "ballast"
    room = os.statvfs(folder)
    with ballast.open("wb") as file:
        file.write(b"x" * max(0, room.f_bavail * room.f_frsize - 2_000_000))
    lease = bench.lease("task/1")
    for version in range(1, 200):
        body = b'{"n":"%s"}' % os.urandom(FILL // 2).hex().encode()
        (record,) = bench.append(lease, version, body=body)
        bench.journal.when_durable(record.seq, lambda v=version: told.append(v))
        bench.commit()
        if bench.journal.health().state != "ok":
            break
    return ballast


def data_folder(reader: Any) -> str:
    (line,) = reader._all("SHOW data_directory")
    return str(line[0])
