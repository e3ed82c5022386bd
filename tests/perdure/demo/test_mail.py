from __future__ import annotations

import smtplib
from email.message import EmailMessage
from pathlib import Path

import pytest

from perdure.demo import mail
from perdure.demo.mail import HOST, MailServer, find, kept, message_id


def send(port: int, request_id: str) -> None:
    message = EmailMessage()
    message["From"] = "a@example.org"
    message["To"] = "b@example.org"
    message["Message-ID"] = message_id(request_id)
    message.set_content("Ærø\n")
    with smtplib.SMTP(HOST, port, "localhost", 20) as client:
        client.send_message(message)


def test_an_accepted_message_is_kept(tmp_path: Path) -> None:
    with MailServer(tmp_path) as server:
        send(server.port, "one")
    (message,) = kept(tmp_path)
    assert message["Message-ID"] == message_id("one")
    assert message.get_content().strip() == "Ærø"


def test_a_message_sent_twice_is_two_files(tmp_path: Path) -> None:
    with MailServer(tmp_path) as server:
        for request_id in ("one", "two", "one"):
            send(server.port, request_id)
    assert len(find(tmp_path, message_id("one"))) == 2
    assert len(list(kept(tmp_path))) == 3


def test_a_server_started_again_keeps_what_was_there(tmp_path: Path) -> None:
    for request_id in ("one", "two"):
        with MailServer(tmp_path) as server:
            send(server.port, request_id)
    assert [message["Message-ID"] for message in kept(tmp_path)] == [
        message_id("one"),
        message_id("two"),
    ]


def test_a_client_that_stays_on_does_not_keep_the_server_from_ending(
    tmp_path: Path,
) -> None:
    with (
        smtplib.SMTP(local_hostname="localhost", timeout=20) as client,
        MailServer(tmp_path) as server,
    ):
        client.connect(HOST, server.port)
        assert client.noop()[0] == 250
    assert not server._thread.is_alive()


def test_what_cannot_be_kept_is_not_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, data: bytes, *, partial: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(mail, "write_whole", fail)
    with (
        MailServer(tmp_path) as server,
        pytest.raises(smtplib.SMTPDataError, match="disk full"),
    ):
        send(server.port, "one")
    assert list(kept(tmp_path)) == []


def test_a_half_written_message_is_none(tmp_path: Path) -> None:
    (tmp_path / ".000001.eml.partial").write_bytes(b"Message-ID: <x>\n")
    assert list(kept(tmp_path)) == []


def test_no_store_is_no_proof_of_absence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find(tmp_path / "elsewhere", message_id("one"))


def test_a_message_id_is_one_safe_word_whatever_the_request_id() -> None:
    ids = {message_id(text) for text in ("t/1:3", "t/1:4", "a>\r\nb ø")}
    assert len(ids) == 3
    assert all(text.isascii() and len(text.split()) == 1 for text in ids)
