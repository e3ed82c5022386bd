"""Ready-made acceptance, to be given as `Step(accept=…)` or `Agent(accept=…)`.

Each judges a result and says on what it rests; all of them, and functions of yours,
sync or async, go together with `all_of` and `any_of`.
"""

from __future__ import annotations

from .actors.acceptance import Verdict
from .actors.accepting.checks import regex, schema
from .actors.accepting.combine import all_of, any_of, judge
from .actors.accepting.files import file, rows

__all__ = ["Verdict", "all_of", "any_of", "file", "judge", "regex", "rows", "schema"]
