from __future__ import annotations

import csv
import json
import shutil
import smtplib
import socket
from pathlib import Path
from typing import Any

import airportsdata
import msgspec
import pytest

from perdure.actors.outcomes import NotSent, classify
from perdure.actors.tool import CannotTell, DidNotHappen, Effect, Happened, Tool
from perdure.demo.mail import find, kept, message_id
from perdure.demo.tools import make_probe, make_tools
from perdure.demo.workplace import Workplace

Tools = dict[str, Tool]
NORWAY = {"country": "NO"}


@pytest.fixture
def called(place: Workplace) -> Tools:
    return {tool.name: tool for tool in make_tools(place)}


def effect(request_id: str) -> Effect:
    return Effect(
        task="t", op=1, attempt=1, tool="send_mail", arguments={}, request_id=request_id
    )


def write_both(called: Tools) -> None:
    called["write_report"](
        "report.csv",
        table="airports",
        columns=["icao", "name"],
        where=NORWAY,
        request_id="csv",
    )
    called["write_report"]("report.md", text="# Ærø\n", request_id="md")


def send(called: Tools, request_id: str = "mail", **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "to": "operator@example.org",
        "subject": "Lufthavner i Møre",
        "body": "See report.csv.\n",
        "attachments": ["report.csv", "report.md"],
    }
    return called["send_mail"](**fields | changes, request_id=request_id)


def test_each_tool_declares_its_effect(called: Tools) -> None:
    assert {name: tool.effect for name, tool in called.items()} == {
        "list_tables": "read",
        "query_rows": "read",
        "write_report": "idempotent",
        "send_mail": "once",
    }
    assert called["send_mail"].probe is not None


def test_the_request_id_is_not_the_models_to_give(called: Tools) -> None:
    for tool in called.values():
        assert "request_id" not in json.dumps(tool.schema())


def test_tables_are_listed(called: Tools) -> None:
    (table,) = called["list_tables"]()["tables"]
    assert (table["name"], table["rows"]) == ("airports", len(airportsdata.load()))


def test_rows_over_the_limit_are_said_to_be_missing(called: Tools) -> None:
    answer = called["query_rows"]("airports", ["country"], NORWAY, limit=2)
    assert answer == {"columns": ["country"], "rows": [["NO"], ["NO"]], "more": True}


def test_a_limit_that_is_just_enough_misses_nothing(called: Tools) -> None:
    answer = called["query_rows"]("airports", ["icao"], {"icao": "ENGM"}, limit=1)
    assert answer == {"columns": ["icao"], "rows": [["ENGM"]], "more": False}


def test_an_answer_is_bounded_in_characters(called: Tools) -> None:
    answer = called["query_rows"](
        "airports", ["icao", "name", "city", "region", "tz"], {}, limit=200
    )
    size = len(json.dumps(answer["rows"], ensure_ascii=False))
    assert (size <= 6_000, answer["more"]) == (True, True)
    assert len(answer["rows"]) > 20


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_limit_out_of_bounds_is_refused(called: Tools, limit: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 200"):
        called["query_rows"]("airports", ["icao"], limit=limit)


def test_a_csv_report_holds_all_rows_of_its_query(
    called: Tools, place: Workplace
) -> None:
    answer = called["write_report"](
        "report.csv",
        table="airports",
        columns=["icao", "region"],
        where=NORWAY,
        order_by=["region"],
        request_id="r",
    )
    with place.report("report.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["icao", "region"]
    assert rows[1:] == sorted(rows[1:], key=lambda row: (row[1], row[0]))
    airports = [one for one in airportsdata.load().values() if one["country"] == "NO"]
    assert len(rows) == answer["rows"] + 1 == len(airports) + 1


def test_a_report_written_again_is_the_same_and_alone(
    called: Tools, place: Workplace
) -> None:
    answers = [
        called["write_report"]("report.md", text="# One\n", request_id="r")
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert [path.name for path in Path(place.folder).iterdir()] == ["report.md"]


def test_a_repetition_clears_away_what_a_killed_write_left(
    called: Tools, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(SystemExit):
            called["write_report"]("report.md", text="# One\n", request_id="r")
    assert not place.report("report.md").exists()
    called["write_report"]("report.md", text="# One\n", request_id="r")
    assert [path.name for path in Path(place.folder).iterdir()] == ["report.md"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "report.csv", "text": "a,b\n"},
        {"name": "report.csv", "table": "airports"},
        {"name": "report.csv", "table": "nothing", "columns": ["icao"]},
        {"name": "report.md"},
        {"name": "report.md", "text": "x", "table": "airports"},
        {"name": "report.md", "text": "x" * 100_001},
    ],
    ids=lambda arguments: str(arguments)[:60],
)
def test_a_report_that_is_refused_is_surely_not_written(
    called: Tools, place: Workplace, arguments: dict[str, Any]
) -> None:
    with pytest.raises(NotSent):
        called["write_report"](**arguments, request_id="r")
    assert list(Path(place.folder).iterdir()) == []


def test_no_name_leads_out_of_the_folder(called: Tools) -> None:
    with pytest.raises(ValueError, match="name"):
        called["write_report"].parse('{"name": "../report.md", "text": "x"}')


def test_a_mail_carries_the_reports_as_they_are(
    called: Tools, place: Workplace
) -> None:
    write_both(called)
    answer = send(called)
    (message,) = kept(place.mail_store)
    assert message["Message-ID"] == message_id("mail")
    assert message["Subject"] == "Lufthavner i Møre"
    assert {
        part.get_filename(): part.get_payload(decode=True)
        for part in message.iter_attachments()
    } == {name: place.report(name).read_bytes() for name in ("report.csv", "report.md")}
    assert [part["file"] for part in answer["attachments"]] == [
        "report.csv",
        "report.md",
    ]


def test_results_hold_no_time_and_no_id(called: Tools) -> None:
    write_both(called)
    assert send(called, "one") == send(called, "two")


def test_the_probe_says_what_the_call_said(called: Tools, place: Workplace) -> None:
    write_both(called)
    answer = send(called)
    assert make_probe(place)(effect("mail")) == Happened(result=answer)


def test_the_probe_does_not_take_another_mail_for_it(
    called: Tools, place: Workplace
) -> None:
    send(called, "another", attachments=[])
    assert make_probe(place)(effect("mail")) == DidNotHappen()


def test_the_probe_cannot_tell_without_the_store(place: Workplace) -> None:
    shutil.rmtree(place.mail_store)
    assert isinstance(make_probe(place)(effect("mail")), CannotTell)


@pytest.mark.parametrize(
    "changes",
    [
        {"attachments": ["report.csv"]},
        {"attachments": ["../airports.db"]},
        {"subject": "two\nlines", "attachments": []},
        {"to": "", "attachments": []},
        {"to": "a@example.org, b@example.org", "attachments": []},
    ],
    ids=repr,
)
def test_a_mail_that_is_refused_is_surely_not_sent(
    called: Tools, place: Workplace, changes: dict[str, Any]
) -> None:
    with pytest.raises(NotSent):
        send(called, **changes)
    assert list(kept(place.mail_store)) == []


def test_only_the_reports_can_be_attached(called: Tools, place: Workplace) -> None:
    (Path(place.folder) / "secret").write_text("x")
    with pytest.raises(NotSent, match="no report 'secret'"):
        send(called, attachments=["secret"])


@pytest.mark.parametrize("command", ["mail", "rcpt", "data"])
def test_a_mail_that_the_server_turns_away_is_surely_not_sent(
    called: Tools, place: Workplace, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def refused(*_: Any) -> tuple[int, bytes]:
        return 550, b"no such mailbox"

    monkeypatch.setattr(smtplib.SMTP, command, refused)
    with pytest.raises(NotSent, match="no such mailbox"):
        send(called, attachments=[])
    assert list(kept(place.mail_store)) == []


def test_a_server_that_is_not_there_was_sent_nothing(place: Workplace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    gone = msgspec.structs.replace(place, smtp_port=port)
    called = {tool.name: tool for tool in make_tools(gone)}
    with pytest.raises(NotSent, match="cannot be reached"):
        send(called, attachments=[])


def test_a_connection_lost_after_the_mail_leaves_it_in_doubt(
    called: Tools, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = smtplib.SMTP.data

    def data(client: smtplib.SMTP, message: Any) -> Any:
        real(client, message)
        raise smtplib.SMTPServerDisconnected("gone")

    monkeypatch.setattr(smtplib.SMTP, "data", data)
    with pytest.raises(smtplib.SMTPServerDisconnected) as caught:
        send(called, attachments=[])
    assert classify(caught.value, "once") == "unknown"
    assert len(find(place.mail_store, message_id("mail"))) == 1


def test_a_farewell_that_fails_does_not_unsend_the_mail(
    called: Tools, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quits(client: smtplib.SMTP) -> Any:
        raise smtplib.SMTPServerDisconnected("gone")

    monkeypatch.setattr(smtplib.SMTP, "quit", quits)
    assert send(called, attachments=[])["to"] == "operator@example.org"


def test_results_are_plain_json(called: Tools) -> None:
    write_both(called)
    for answer in (called["list_tables"](), send(called)):
        assert json.loads(json.dumps(answer)) == answer
