"""Log sinks: events reach the file whole, in order, and none is lost over a kill."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from perdure import logfile
from perdure.actors import events
from perdure.errors import Misuse
from perdure.logfile import FileSink
from perdure.logs import (
    CATALOGUE,
    COMMON,
    ERRORS,
    WARNINGS,
    check,
    open_sink,
    read_log,
)
from perdure.storage.records import Record
from perdure.supervision.events import EVENTS
from perdure.supervision.simulation import SimulatedDispatcher


def write(sink: FileSink, *seqs: int) -> None:
    for seq in seqs:
        sink.write("step.ended", {"seq": seq, "at": 1.5, "step": "load"})


def record_of(event: events.Event) -> Record:
    return Record(
        seq=1,
        stream="admission",
        version=1,
        type=type(event).__name__,
        schema_version=1,
        codec="json",
        at=1.5,
        epoch=1,
        incarnation=1,
        body=msgspec.json.encode(event),
        checksum=0,
    )


def seqs(path: Path) -> list[int]:
    return [event["seq"] for event in read_log(path)]


def test_an_event_is_one_line_of_json(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "run.log")
    sink.write("step.ended", {"seq": 3, "step": "数据"})
    sink.close()
    text = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert text == '{"event":"step.ended","seq":3,"step":"数据"}\n'


def test_the_file_is_private(tmp_path: Path) -> None:
    open_sink(tmp_path / "run.log").close()
    assert (tmp_path / "run.log").stat().st_mode & 0o777 == 0o600


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "value",
    ["\ud800", b"\xff", float("nan"), Mute(), {("a", 1): 2}, {1: 2}, 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_any_value_still_makes_a_line(tmp_path: Path, value: object) -> None:
    path = tmp_path / "run.log"
    sink = open_sink(path)
    sink.write("step.ended", {"seq": 1, "step": value})
    sink.close()
    assert seqs(path) == [1]


def test_a_huge_text_is_cut_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    sink = open_sink(path)
    sink.write("actor.crashed", {"error": "x" * 1_000_000})
    sink.close()
    (event,) = read_log(path)
    assert len(event["error"]) < 10_000
    assert event["error"].endswith("(1000000 characters)")


def test_a_log_is_continued_after_its_last_record(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    write(sink, 1, 2)
    sink.write("actor.started", {"name": "journal"})
    sink.close()
    again = FileSink(path)
    assert again.last_seq() == 2
    write(again, 3)
    again.close()
    assert [event.get("seq") for event in read_log(path)] == [1, 2, None, 3]


@pytest.mark.parametrize("kept", range(1, 45))
def test_a_line_torn_anywhere_is_ended_and_written_again(
    tmp_path: Path, kept: int
) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    write(sink, 1)
    first = path.read_bytes()
    write(sink, 2)
    sink.close()
    path.write_bytes(path.read_bytes()[: len(first) + kept])
    again = FileSink(path)
    assert again.last_seq() == 1
    write(again, 2)
    again.close()
    assert seqs(path) == [1, 2]
    assert path.read_bytes().endswith(b"\n")


def test_a_last_line_that_lacks_only_its_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    write(sink, 1, 2)
    sink.close()
    path.write_bytes(path.read_bytes()[:-1])
    again = FileSink(path)
    assert again.last_seq() == 2
    write(again, 3)
    again.close()
    assert seqs(path) == [1, 2, 3]


def test_the_last_seq_is_found_behind_many_lines_without_one(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    write(sink, 41)
    for _ in range(3):
        sink.write("actor.started", {"name": "x" * 8_000, "more": ["y"] * 20_000})
    assert sink.last_seq() == 41
    sink.close()


def test_an_empty_log_knows_no_seq(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "run.log")
    assert sink.last_seq() == 0
    sink.close()


def test_a_log_is_rotated_by_size_and_loses_only_its_oldest_part(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path, rotate_at=200)
    write(sink, *range(1, 101))
    sink.close()
    parts = FileSink.parts(path)
    assert len(parts) == logfile.KEPT + 1
    assert max(part.stat().st_size for part in parts) <= 200
    kept = seqs(path)
    assert kept == list(range(kept[0], 101))


def test_the_last_seq_is_found_in_a_rotated_part(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    write(sink, 9)
    sink.close()
    path.rename(tmp_path / "run.log.1")  # killed between the two halves of a rotation
    again = FileSink(path)
    assert again.last_seq() == 9
    again.close()


def test_lines_that_a_full_disk_refused_go_first_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    real = os.write
    room = [10]  # the disk takes part of a line, then nothing

    def short(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken, room[0] = min(room[0], len(data)), 0
        return real(fd, data[:taken])

    monkeypatch.setattr(logfile.os, "write", short)
    write(sink, 1, 2)
    monkeypatch.setattr(logfile.os, "write", real)
    write(sink, 3)
    sink.close()
    assert seqs(path) == [1, 2, 3]


def test_a_log_that_fell_too_far_behind_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    write(sink, 1)
    real = os.write

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logfile, "WAITING", 2)
    monkeypatch.setattr(logfile.os, "write", full)
    write(sink, 2, 3, 4)
    monkeypatch.setattr(logfile.os, "write", real)
    write(sink, 5)
    sink.close()
    assert seqs(path) == [1, 2, 3]
    assert [record.message for record in caplog.records] == [f"log.stopped {path}"]
    again = FileSink(path)
    assert again.last_seq() == 3
    again.close()


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    script = (
        "import os, signal, sys; from perdure.logs import open_sink\n"
        "open_sink(sys.argv[1]).write('step.ended', {'seq': 1})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], check=False)
    assert done.returncode == -9
    assert seqs(path) == [1]


def test_a_write_after_the_end_is_ignored(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "run.log")
    sink.close()
    sink.close()
    write(sink, 1)
    assert seqs(tmp_path / "run.log") == []


def test_a_path_below_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misuse, match="cannot be written: give a file in a folder"):
        open_sink(tmp_path / "file" / "run.log")


@pytest.mark.parametrize("log", [7, b"run.log", print, {"path": "run.log"}])
def test_something_that_is_no_log_is_refused_by_name(log: object) -> None:
    with pytest.raises(Misuse, match="is no log: give a path"):
        open_sink(log)


def test_the_default_is_the_stdlib_logger_perdure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="perdure")
    open_sink().write("actor.crashed", {"name": "journal"})
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("perdure", "ERROR")
    assert record.getMessage() == 'actor.crashed {"name": "journal"}'
    assert vars(record)["perdure"] == {"event": "actor.crashed", "name": "journal"}


def test_a_command_that_was_not_done_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="perdure")
    said = {"command": "c-1", "kind": "retry", "task": "t-1", "said": "no such step"}
    open_sink().write("inbox.applied", {**said, "done": False})
    open_sink().write("inbox.applied", {**said, "done": True})
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]


def test_records_reach_the_stdlib_logger_at_the_levels_that_it_hears(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lifted = events.PauseLifted(task="t-1", by="an operator")
    refused = events.CommandApplied(
        command="c-1", kind="retry", task="t-1", done=False, said="no such step"
    )
    sink = open_sink()
    for heard in (logging.WARNING, logging.INFO):
        caplog.set_level(heard, logger="perdure")
        sink.write_records([record_of(lifted), record_of(refused)])
    assert [one.args[0] for one in caplog.records if one.args] == [
        "inbox.applied",
        "queue.pause_lifted",
        "inbox.applied",
    ]


def test_a_structlog_logger_gets_the_event_with_its_fields() -> None:
    capture = structlog.testing.LogCapture()
    logger = structlog.wrap_logger(None, processors=[capture])
    open_sink(logger).write("actor.crashed", {"name": "journal"})
    assert capture.entries == [
        {"event": "actor.crashed", "name": "journal", "log_level": "error"}
    ]


def test_a_hosts_handler_that_raises_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bad(*args: Any, **fields: Any) -> None:
        raise RuntimeError("the host's handler is broken")

    monkeypatch.setattr(logging.getLogger("perdure"), "handle", bad)
    open_sink().write("actor.crashed", {"name": "journal"})


def test_a_log_never_reaches_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    open_sink().write("actor.crashed", {"name": "journal"})
    assert capsys.readouterr().out == ""


def test_the_catalogue_holds_names_that_sinks_can_take() -> None:
    for event, fields in CATALOGUE.items():
        assert "." in event
        assert event == event.lower()
        assert "event" not in fields  # structlog's own argument
        assert len(set(fields)) == len(fields)


def test_the_catalogue_holds_the_events_of_supervision() -> None:
    assert EVENTS.items() <= CATALOGUE.items()


def test_every_event_with_a_level_of_its_own_is_in_the_catalogue() -> None:
    assert set(CATALOGUE) >= ERRORS | WARNINGS
    assert set() == ERRORS & WARNINGS


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("log.gone", {"path": "x"}),
        ("log.stopped", {}),
        ("log.stopped", {"path": "x", "why": "y"}),
    ],
)
def test_an_event_outside_the_catalogue_is_found(
    event: str, fields: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="log"):
        check(event, fields)


def test_an_event_of_the_catalogue_may_carry_its_time_and_seq() -> None:
    check("log.stopped", {"path": "x"})
    check("log.stopped", {"path": "x"} | dict.fromkeys(COMMON, 1))


def test_a_line_holds_no_line_break(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path)
    sink.write("actor.crashed", {"error": "one\ntwo\r\u2028three"})
    sink.close()
    assert path.read_bytes().count(b"\n") == 1
    assert json.loads(path.read_bytes())["error"] == "one\ntwo\r\u2028three"


def at(seq: int, event: events.Event) -> Record:
    return msgspec.structs.replace(record_of(event), seq=seq)


ROUTINE = events.Reserved(op=1, book="spent", amounts={})
STOP = events.TaskPaused(reason="budget", detail="", ends_with="extend", epoch=1)


@pytest.fixture
def clock() -> SimulatedDispatcher:
    return SimulatedDispatcher(seed=1)


def test_lines_of_operations_are_written_together_a_little_later(
    tmp_path: Path, clock: SimulatedDispatcher
) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path, dispatcher=clock)
    sink.write_records([at(1, ROUTINE)])
    sink.write_records([at(2, ROUTINE), at(3, ROUTINE)])
    assert seqs(path) == []
    clock.run_for(1.0)
    assert seqs(path) == [1, 2, 3]
    sink.write_records([at(4, ROUTINE)])
    clock.run_for(1.0)
    assert seqs(path) == [1, 2, 3, 4]


@pytest.mark.parametrize("other", ["record", "event", "close"])
def test_no_line_overtakes_those_that_wait(
    tmp_path: Path, clock: SimulatedDispatcher, other: str
) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path, dispatcher=clock)
    sink.write_records([at(1, ROUTINE)])
    if other == "record":
        sink.write_records([at(2, STOP)])
    elif other == "event":
        sink.write("actor.crashed", {"seq": 2})
    else:
        sink.close()
    assert seqs(path) == [1, 2][: len(seqs(path))]
    assert len(seqs(path)) == (1 if other == "close" else 2)


def test_many_lines_do_not_wait(tmp_path: Path, clock: SimulatedDispatcher) -> None:
    path = tmp_path / "run.log"
    sink = FileSink(path, dispatcher=clock)
    many = range(1, logfile.LINES_AT_ONCE + 1)
    for seq in many:
        sink.write_records([at(seq, ROUTINE)])
    assert seqs(path) == list(many)
