"""`python -m perdure` is the command `perdure`."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
