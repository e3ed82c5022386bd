"""Settings shared by all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

from tests.proofs import pytest_configure

__all__ = ["pytest_configure"]

# A shell's background job is started with SIGINT ignored, and would hand that on to
# the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run, and no deadline: the machine may be busy.
settings.register_profile("perdure", deadline=None, derandomize=True)
settings.load_profile("perdure")
