"""What a model sees of its task, fitted to a limit before every call."""

from __future__ import annotations
