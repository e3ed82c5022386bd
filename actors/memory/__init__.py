"""What is known beyond one request: the record, searched, and facts that last."""

from __future__ import annotations
