"""Run every bench there is, and write what they said to RESULTS.md, with a plot.

    python bench/all.py --short
    python bench/all.py --only steps postgres --url postgresql://HOST/DATABASE

A bench is a script beside this one that can be run by itself, and `peers/run.py`. Those
that need a PostgreSQL server get `--url`, or the address in PERDURE_TEST_POSTGRES, and
are named as not run where there is neither. With `--only` the file goes into `build/`.
It fails where a bench failed, or did not say a figure that the table wants.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from common import facts, finish, heading, options
from figures import FIGURES, Figure, met, panels, shown
from plot import svg

HERE = Path(__file__).resolve().parent
PART = HERE.parent / "build"  # for what `--only` says: it is not the document
SERVER = "PERDURE_TEST_POSTGRES"
NEEDS_SERVER, TAKES_SERVER = ("postgres",), ("postgres", "peers")


class Ran(NamedTuple):
    """What one bench said; `result` is None where it said nothing at its end."""

    result: dict[str, Any] | None
    code: int
    seconds: float


def benches() -> dict[str, Path]:
    """Every script by name: those that can be run, but for this one."""
    found = {
        path.stem: path
        for path in sorted(HERE.glob("*.py"))
        if path != Path(__file__).resolve() and "__main__" in path.read_text("utf-8")
    }
    return {**found, "peers": HERE / "peers" / "run.py"}


def run(path: Path, words: list[str]) -> Ran:
    """Run one; what it prints is shown as it comes."""
    began = time.monotonic()
    last = ""
    with subprocess.Popen(
        [sys.executable, str(path), *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if line.strip() else last
    try:
        result = json.loads(last)
    except ValueError:
        result = None
    took = time.monotonic() - began
    return Ran(result if isinstance(result, dict) else None, process.returncode, took)


def rows(name: str, result: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The bench's rows of the table, and the figures that it did not say."""
    figures = FIGURES.get(name) or tuple(
        Figure(path)
        for path, value in result.items()
        if isinstance(value, int | float) and path not in ("failures", "seconds")
    )
    table, missing = [], []
    for figure in figures:
        wanted = figure.wanted
        try:
            said = shown(result, figure.path)
            verdict = ("yes" if met(result, figure) else "no") if wanted else ""
        except KeyError:
            peer = next(
                (one for one in result.get("not_run", {}) if one in figure.path), None
            )
            if peer is not None:
                continue
            missing.append(figure.path)
            said, verdict = "missing", "no" if wanted else ""
        table.append(f"| {name} | `{figure.path}` | {said} | {wanted} | {verdict} |")
    if "failures" in result:
        good = "no" if result["failures"] else "yes"
        table.append(f"| {name} | `failures` | {result['failures']} | 0 | {good} |")
    return table, missing


def report(
    arguments: argparse.Namespace,
    ran: dict[str, Ran],
    table: list[str],
    not_run: dict[str, str],
    picture: str | None,
) -> str:
    """RESULTS.md."""
    form = "short form" if arguments.short else "full form"
    today = dt.datetime.now(dt.UTC).date()
    about = ", ".join(f"{name} {value}" for name, value in facts().items())
    lines = [
        "# Results",
        "",
        f"Written by `bench/all.py` on {today}, {form}, seed {arguments.seed}.",
        f"Machine: {about}.",
        "",
        "What each bench does stands in [README.md](README.md). A figure with a range",
        "is the median of windows that take turns. Rates belong to this machine and",
        "this hour; the ratios are between things measured in the same run.",
    ]
    if arguments.short:
        lines += [
            "The short form is coarse: what is wanted is meant for the full form.",
        ]
    if picture is not None:
        lines += ["", f"![cost against size]({picture})"]
    lines += ["", "| bench | figure | is | wanted | met |"]
    lines += ["| --- | --- | --- | --- | --- |", *table]
    if not_run:
        lines += ["", "Not run:", ""]
        lines += [f"- {name}: {reason}" for name, reason in sorted(not_run.items())]
    took = ", ".join(f"{name} {one.seconds:.0f}" for name, one in ran.items())
    return "\n".join([*lines, "", f"Seconds that they took: {took}.", ""])


def main() -> None:
    """Run them one after another."""
    parser = options(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=benches(), metavar="NAME")
    parser.add_argument("--url", default=os.environ.get(SERVER), help="a PostgreSQL")
    parser.add_argument("--results", type=Path, help="instead of RESULTS.md")
    arguments = parser.parse_args()
    if arguments.results is None:
        arguments.results = (PART if arguments.only else HERE) / "RESULTS.md"
    arguments.results.parent.mkdir(exist_ok=True)
    heading(arguments)
    not_run: dict[str, str] = {}
    ran: dict[str, Ran] = {}
    for name, path in benches().items():
        if arguments.only and name not in arguments.only:
            continue
        if name in NEEDS_SERVER and not arguments.url:
            not_run[name] = f"there is no server: give --url or set {SERVER}"
            continue
        words = ["--seed", str(arguments.seed), "--json"]
        words += ["--short"] if arguments.short else []
        words += (
            ["--url", arguments.url] if name in TAKES_SERVER and arguments.url else []
        )
        print(f"== {path.relative_to(HERE.parent)} {' '.join(words)}", flush=True)
        ran[name] = run(path, words)
        not_run |= (ran[name].result or {}).get("not_run", {})
    table: list[str] = []
    failed: list[str] = []
    for name, one in ran.items():
        if one.result is None:
            failed.append(f"{name}: it ended with {one.code}, and said nothing")
            continue
        own, missing = rows(name, one.result)
        table += own
        failed += [f"{name}: {path} is missing" for path in missing]
        if one.code:
            failed.append(f"{name}: it ended with {one.code}")
    drawn = panels({name: one.result for name, one in ran.items() if one.result})
    picture = arguments.results.with_suffix(".svg").name.lower() if drawn else None
    if picture is not None:
        arguments.results.with_name(picture).write_text(svg(drawn), "utf-8")
    text = report(arguments, ran, table, not_run, picture)
    arguments.results.write_text(text, "utf-8")
    for said in failed:
        print(f"failed: {said}")
    results = {"ran": len(ran), "not_run": not_run, "results": str(arguments.results)}
    finish(arguments, {**results, "failures": len(failed)})


if __name__ == "__main__":
    main()
