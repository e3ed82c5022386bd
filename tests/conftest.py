"""Settings shared by all tests."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import settings

from tests.proofs import pytest_configure

__all__ = ["pytest_configure"]

POSTGRES = "PERDURE_TEST_POSTGRES"  # the address of a server, see .ci/postgres

# A shell's background job is started with SIGINT ignored, and would hand that on to
# the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run, and no deadline: the machine may be busy.
settings.register_profile("perdure", deadline=None, derandomize=True)
settings.load_profile("perdure")


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of an empty store, in a schema of its own."""
    server = os.environ.get(POSTGRES)
    if not server:
        pytest.skip(f"{POSTGRES} names no server")
    name = f"s{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{server}?options=-csearch_path%3D{name}"
        connection.execute(f"DROP SCHEMA {name} CASCADE")
