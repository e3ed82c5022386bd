"""The pytest fixture `perdure_runtime`; this module alone needs pytest.

Ask for it in the conftest.py at the root of your tests:

    pytest_plugins = ["perdure.testing.fixtures"]

It is no entry point on purpose: pytest would then import perdure in each run of each
project beside it, before coverage can measure anything, used or not.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .harness import Harness

__all__ = ["perdure_runtime"]


@pytest.fixture
def perdure_runtime() -> Iterator[Harness]:
    """A `Harness`: runtimes on one store in memory, in virtual time, on one thread.

    It is closed after the test, which fails where an actor crashed unnoticed.
    """
    harness = Harness()
    yield harness
    harness.close()
