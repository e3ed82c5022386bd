"""What a model says while it writes: in bounded pieces, until its outcome."""

from __future__ import annotations

from typing import Any

from perdure.actors.speech import PIECE_LIMIT, SPEECH_LIMIT, Piece, Speech


def speech() -> tuple[Speech, list[Piece]]:
    heard: list[Piece] = []
    return Speech("t-1", 7, 2, lambda: 5.0, heard.append), heard


def test_each_piece_says_whose_it_is_and_which() -> None:
    speaks, heard = speech()
    speaks.say("so ")
    speaks.say("it is")
    assert heard == [
        Piece(task="t-1", op=7, attempt=2, at=5.0, index=0, text="so "),
        Piece(task="t-1", op=7, attempt=2, at=5.0, index=1, text="it is"),
    ]


def test_a_long_text_comes_in_several_pieces() -> None:
    speaks, heard = speech()
    speaks.say("x" * PIECE_LIMIT + "y")
    assert [(one.index, len(one.text)) for one in heard] == [(0, PIECE_LIMIT), (1, 1)]


def test_an_attempt_without_end_is_not_heard_without_end() -> None:
    speaks, heard = speech()
    for _ in range(3):
        speaks.say("x" * (SPEECH_LIMIT // 2 + 1))
    assert sum(len(one.text) for one in heard) == SPEECH_LIMIT


def test_what_is_no_text_or_comes_too_late_is_ignored() -> None:
    speaks, heard = speech()
    nothing: list[Any] = [None, 4, b"x", ""]
    for one in nothing:
        speaks.say(one)
    speaks.end()
    speaks.say("too late")
    assert heard == []


def test_what_could_not_be_written_is_replaced() -> None:
    speaks, heard = speech()
    speaks.say("a\ud800b")
    assert heard[0].text == "a?b"
