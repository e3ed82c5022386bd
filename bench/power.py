"""Cut the power under a store at syncs that seeds pick, and check what is left.

    python bench/power.py --cuts 500 --json
    python bench/power.py --seed 260 --cuts 1 --trace

Each seed is one cut (in one of three a second one hits the recovery). Writes that were
not synced are dropped, torn or garbled by sectors of 512 bytes. It fails where a store
does not open again, lacks what it had acknowledged, holds an append in part, or does
not go on.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.storage.cuts import cut

SHORT_CUTS = 50


def main() -> None:
    """Cut once for each seed."""
    parser = options(__doc__ or "")
    parser.add_argument("--cuts", type=int, default=500, help="how many seeds (500)")
    parser.add_argument("--trace", action="store_true", help="tell what the disk did")
    arguments = parser.parse_args()
    cuts = min(SHORT_CUTS, arguments.cuts) if arguments.short else arguments.cuts
    heading(
        arguments,
        "a simulated disk: it keeps single bytes outside a write as they were",
        "syncs cost nothing here; this is no measure of speed",
    )
    torn = failures = 0
    for seed in range(arguments.seed, arguments.seed + cuts):
        done = cut(seed, trace=print if arguments.trace else None)
        torn += done.damage.any
        if done.wrong:
            failures += 1
            print(f"seed {seed}: {done.wrong}", flush=True)
    finish(arguments, {"cuts": cuts, "torn": torn, "failures": failures})


if __name__ == "__main__":
    main()
