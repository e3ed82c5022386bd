"""What the tests of the front door share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.actors.world import World
from tests.perdure import hosting


@pytest.fixture(autouse=True)
def know_earlier_threads() -> None:
    """A loop that an earlier test blocked for good is not this test's."""
    hosting.EARLIER[:] = threading.enumerate()


@pytest.fixture
def world() -> World:
    """What the effects of a test's tasks reach."""
    return World()


@pytest.fixture
def gate() -> Iterator[hosting.Gate]:
    """A gate that stands open at the end, so that nobody stays behind it."""
    found = hosting.Gate()
    yield found
    found.left.set()
