"""Every command that only reads works where nothing may be written, the others say so.

The store is one that was killed, and copied with its WAL: it cannot be opened in place.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Budget
from perdure.archive import archive_task
from perdure.cli import COMMANDS
from perdure.storage import sqlite_aside
from perdure.storage.reader import open_reader
from tests.actors.test_erasing import secretive
from tests.actors.world import World
from tests.perdure.hosting import LONG, opened
from tests.perdure.planting import bytes_of
from tests.perdure.test_cli_ask import here
from tests.readonly import Place, place

STORE = "tasks.db"

READS: dict[str, list[str]] = {
    "ps": [],
    "show": ["ID"],
    "effects": ["ID"],
    "log": ["ID"],
    "watch": ["ID"],
    "request": ["ID", "--why"],
    "spend": ["--by", "tool"],
    "why": ["ID"],
    "checkpoint": ["ID"],
    "recall": ["write"],
    "facts": [],
    "export": ["ID"],
    "doctor": [],
    "archive": ["ID", "ARCHIVE"],
    "backup": ["FILE"],
}
WRITES: dict[str, list[str]] = {
    "cancel": ["WAITS"],
    "pause": ["WAITS"],
    "resume": ["WAITS"],
    "extend": ["WAITS", "--tokens", "5"],
    "limit": ["WAITS", "--tokens", "5"],
    "fork": ["ID"],
    "steer": ["WAITS", "be brief"],
    "know": ["speed", "fast"],
    "erase": ["ID", "--by", "an operator", "--yes"],
    "import": ["ARCHIVE"],
    "upgrade": [],
    "run": ["tests.perdure.jobs:reporter", "--goal", "Report."],
}
OWNS = ("import", "run", "upgrade")
# They need somebody who waits for them, and go the way of the others.
LIKE_THEM = {
    "adopt",
    "approve",
    "reject",
    "answer",
    "resolve",
    "retry",
    "confirm",
    "drop",
}

EACH = """
import contextlib, io, json, sys
from perdure.cli import main
said = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    said.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A store and its WAL as a kill leaves them: a task that ended, one that waits."""
    folder = tmp_path_factory.mktemp("killed")
    with opened(folder / STORE, secretive(World())) as runtime:
        done = runtime.submit("agent", "Write.", budget=Budget(tokens=99_999))
        assert done.wait(LONG).status == "completed"
        waits = runtime.submit("agent", "Write later.", not_before=4e9)
        copy = tmp_path_factory.mktemp("copy")
        for end in ("", "-wal"):
            shutil.copy(folder / (STORE + end), copy / (STORE + end))
    archive = copy.with_name("task.archive")
    with open_reader(copy / STORE) as reader:
        archive_task(reader, done.id, archive)
    archive.chmod(0o644)
    return copy / STORE, done.id, waits.id


@pytest.fixture(params=["mount", "stranger"])
def where(
    request: pytest.FixtureRequest, killed: tuple[Path, str, str]
) -> Iterator[Place]:
    with place(request.param) as made:
        for end in ("", "-wal"):
            shutil.copy(f"{killed[0]}{end}", made.folder)
        made.show()
        yield made


def filled_in(
    commands: dict[str, list[str]], killed: tuple[Path, str, str], file: str
) -> list[list[str]]:
    names = {"ID": killed[1], "WAITS": killed[2], "FILE": file}
    names["ARCHIVE"] = f"{file}.archive"
    return [
        [name, *(names.get(word, word) for word in words)]
        for name, words in commands.items()
    ]


def test_every_command_reads_writes_or_is_the_demo() -> None:
    assert {*READS, *WRITES, *LIKE_THEM, "demo"} == set(COMMANDS)


@pytest.mark.timeout(180)
def test_commands_that_read_say_the_same_and_leave_nothing(
    where: Place,
    killed: tuple[Path, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = bytes_of(where.folder)
    copy = where.temporary / "backup.db"
    words = filled_in(READS, killed, str(copy))
    store = str(where.seen / STORE)
    asked = json.dumps([[*one, "--store", store] for one in words])
    done = where.run("-c", EACH, asked)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    assert bytes_of(where.folder) == before
    assert where.left() == ["backup.db", "backup.db.archive"]
    (tmp_path / "here").mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{killed[0]}{end}", tmp_path / "here")
    here_store = str(tmp_path / "here" / STORE)
    for command, (code, out, err) in zip(words, theirs, strict=True):
        ours = here(
            capsys,
            *[w.replace(str(copy), f"{copy}.2") for w in command],
            "--store",
            here_store,
        )
        assert (code, err) == (0, ""), command
        assert out
        assert plain(out, store) == plain(ours[1], here_store), command
    with open_reader(copy) as reader:
        assert reader.durable_seq > 0


def plain(out: str, store: str) -> str:
    """What a command said, but for where the store is, and when it was asked."""
    out = re.sub(r"\d+ bytes, sha256 \w+", "SIZE", out)  # of an archive, with its time
    said = out.replace(store, "STORE").replace("backup.db.2", "backup.db")
    return re.sub(r"\d+(\.\d+)? ?(s|min|seconds) ago", "AGO", said)


@pytest.mark.timeout(180)
def test_commands_that_write_say_that_it_cannot_be_written(
    where: Place, killed: tuple[Path, str, str]
) -> None:
    before = bytes_of(where.folder)
    file = where.temporary / "x"
    shutil.copy(killed[0].parent.with_name("task.archive"), f"{file}.archive")
    words = filled_in(WRITES, killed, str(file))
    asked = json.dumps([[*one, "--store", str(where.seen / STORE)] for one in words])
    began = time.monotonic()
    done = where.run("-c", EACH, asked)
    assert done.returncode == 0, done.stderr
    for command, (code, out, err) in zip(words, json.loads(done.stdout), strict=True):
        assert (code, out) == (2, ""), (command, err)
        said = "read-only" if where.way == "mount" else "permission was denied"
        if command[0] not in OWNS:
            said = "this user may not write it here"
        assert said in err, command
        assert str(where.seen / STORE) in err
        assert err.count("\n") == 1
    assert time.monotonic() - began < 5 * len(words)  # none waited for an answer
    assert (bytes_of(where.folder), where.left()) == (before, ["x.archive"])


def test_to_watch_a_copy_says_that_it_is_one(
    killed: tuple[Path, str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite_aside, "_stands_in_place", lambda path: False)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    code, out, err = here(capsys, "watch", killed[2], "--store", str(killed[0]))
    assert (code, pauses) == (130, [5.0, 5.0, 5.0])
    assert "task.submitted" in out
    assert err == (
        "perdure: the store cannot be read where it stands: a copy of it is looked at "
        "every 5 s\n"
    )
    assert here(capsys, "watch", killed[1], "--store", str(killed[0]))[2] == ""
