"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import settings

# The same examples on every run, and no deadline: the machine may be busy.
settings.register_profile("perdure", deadline=None, derandomize=True)
settings.load_profile("perdure")
