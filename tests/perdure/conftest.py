"""What the tests of the front door share."""

from __future__ import annotations

import threading

import pytest

from tests.perdure import hosting


@pytest.fixture(autouse=True)
def know_earlier_threads() -> None:
    """A loop that an earlier test blocked for good is not this test's."""
    hosting.EARLIER[:] = threading.enumerate()
