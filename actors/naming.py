"""What agents, tools of them and steps may be called."""

from __future__ import annotations

import re

__all__ = ["NAME"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
