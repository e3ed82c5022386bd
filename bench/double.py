"""Count at a real HTTP service and a real mail server what killed work sends twice.

    python bench/double.py --kills 300 --json
    python bench/double.py --kills 300 --no-probe --json

Three tasks charge, mail, put and look; one of them is cancelled and takes its effects
back. Their process is SIGKILLed at random moments and started again; the service, in
another process, cuts connections before and after it has processed a request. It alone
says what reached it.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.crash.children import SPAWN, Wrong
from tests.double.kills import KILLS_A_RUN, Found, killed_run
from tests.double.service import Service, asked

SHORT_KILLS = 12
AT_A_TIME = 2


def main() -> None:
    """Run until there were enough kills, two runs at a time."""
    parser = options(__doc__ or "")
    parser.add_argument("--kills", type=int, default=300, help="at least so many (300)")
    parser.add_argument("--no-probe", action="store_true", help="a person decides")
    arguments = parser.parse_args()
    wanted = SHORT_KILLS if arguments.short else arguments.kills
    heading(
        arguments,
        "scripted, no LLM; SIGKILL of a real process; fork server",
        "effects counts those that change something, each once",
    )
    SPAWN.set_forkserver_preload(["tests.double.worker", "tests.double.service"])
    began = time.monotonic()
    total, failures, runs = Found(), 0, 0
    with Service(arguments.seed) as service, ThreadPoolExecutor(AT_A_TIME) as pool:

        def attempt(number: int) -> Found | str:
            try:
                return killed_run(
                    service,
                    f"run{number}",
                    seed=arguments.seed,
                    kills=KILLS_A_RUN,
                    probes=not arguments.no_probe,
                )
            except Wrong as error:
                return str(error)

        while total.kills < wanted:
            numbers = range(runs, runs + AT_A_TIME)
            for number, found in zip(numbers, pool.map(attempt, numbers), strict=True):
                runs += 1
                if isinstance(found, Found):
                    total += found
                    if not (
                        found.once_twice or found.idempotent_other_key or found.lost
                    ):
                        continue
                failures += 1
                print(f"run {number}: {found}", flush=True)
            if failures and not total.kills:
                break
        cuts = asked(service.web, "GET", "/reached/none")["cuts"]
    if arguments.no_probe and not total.waiting:
        failures += 1
        print("nothing waited for a person: the bench shows nothing", flush=True)
    result = {
        **msgspec.structs.asdict(total),
        "cuts": cuts,
        "runs": runs,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }
    finish(arguments, result)


if __name__ == "__main__":
    main()
