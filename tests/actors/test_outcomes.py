from __future__ import annotations

import asyncio
import smtplib
import socket
from typing import Literal

import pytest

from perdure.actors.outcomes import (
    NotSent,
    ServiceTrouble,
    classify,
    declared,
    surely_not_sent,
)

EFFECTS: tuple[Literal["read", "idempotent", "once"], ...] = (
    "read",
    "idempotent",
    "once",
)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(
    "error",
    [
        NotSent("no"),
        ConnectionRefusedError(),
        socket.gaierror(),
        ServiceTrouble("slow down", status=429),
    ],
    ids=repr,
)
def test_proof_that_nothing_happened_is_a_failure(
    error: Exception, effect: Literal["read", "idempotent", "once"]
) -> None:
    assert classify(error, effect) == "failed"


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        asyncio.CancelledError(),
        SystemExit(),
    ],
    ids=repr,
)
def test_a_call_cut_off_on_the_way_is_in_doubt(
    error: BaseException, effect: Literal["read", "idempotent", "once"]
) -> None:
    assert classify(error, effect) == "unknown"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        ServiceTrouble("broken", status=500),
        smtplib.SMTPServerDisconnected("gone"),
    ],
    ids=repr,
)
def test_any_other_error_fails_what_bears_repeating_but_not_a_once_effect(
    error: Exception,
) -> None:
    assert [classify(error, effect) for effect in EFFECTS] == [
        "failed",
        "failed",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("error", "sure"),
    [
        (NotSent("no"), True),
        (ConnectionRefusedError(), True),
        (socket.gaierror(), True),
        (ServiceTrouble("slow down", status=429), False),
        (ConnectionResetError(), False),
        (ValueError("bad"), False),
    ],
    ids=repr,
)
def test_what_did_not_leave_the_process_costs_nothing(
    error: Exception, sure: bool
) -> None:
    assert surely_not_sent(error) is sure


class Full(Exception):
    """A user's own, for the test below."""


class FullToday(Full): ...


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Full(), "failed"),
        (FullToday(), "unknown"),
        (ConnectionResetError(), "failed"),
        (BrokenPipeError(), "unknown"),
        (ValueError(), None),
        (SystemExit(), None),
    ],
    ids=repr,
)
def test_the_nearest_class_that_a_tool_declares_decides(
    error: BaseException, said: str | None
) -> None:
    own = declared((Full, ConnectionError), (FullToday, BrokenPipeError))
    assert own.of(error) == said
