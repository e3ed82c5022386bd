"""Searching for a pattern where it cannot hold anybody up: in a process of its own.

Python's `re` keeps the interpreter to itself while it searches, and some patterns take
longer than the universe on thirty characters. A deadline on a thread would never come
to its turn; a process can be ended. Starting one takes 20 ms, far less than the model
call that the answer came from. A linear-time library (re2) would need no process, but
knows neither back-references nor look-around, and would be one more dependency.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from ..acceptance import Verdict
from ..errors import Misuse
from .hung import Hung

__all__ = ["SECONDS", "matched", "pattern_of"]

SECONDS = 10  # until the search is ended
# Should we be killed, the alarm ends it: a search that never ends hears nothing else.
SEARCH = f"""
import json, re, signal, sys
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm({SECONDS} + 1)
asked = json.load(sys.stdin)
found = re.search(asked["pattern"], asked["text"])
json.dump(None if found is None else found.group()[:asked["shown"]], sys.stdout)
"""
SHOWN = 200  # characters of what was found


def pattern_of(pattern: Any) -> None:
    """Refuse what is no pattern."""
    try:
        re.compile(pattern)
    except (TypeError, re.error) as error:
        raise Misuse(f"regex: pattern={pattern!r} is no pattern: {error}") from error
    if not isinstance(pattern, str):
        raise Misuse(f"regex: pattern={pattern!r} must be text")


def matched(pattern: str, text: str, evidence: dict[str, Any]) -> Verdict:
    """Search for the pattern; what takes too long is no answer."""
    asked = json.dumps({"pattern": pattern, "text": text, "shown": SHOWN})
    try:
        done = subprocess.run(  # noqa: S603 - our own words, the rest is data on stdin
            [sys.executable, "-I", "-S", "-c", SEARCH],
            input=asked.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        why = f"the pattern {pattern!r} was searched for longer than {SECONDS} s"
        return Hung(ok=False, why=why, evidence=evidence)
    found = json.loads(done.stdout)
    if found is None:
        why = f"the pattern {pattern!r} is not found"
        return Verdict(ok=False, why=why, evidence=evidence)
    return Verdict(ok=True, evidence={"pattern": pattern, "found": found})
