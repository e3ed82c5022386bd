"""`perdure upgrade`: bring a store at rest to this perdure's versions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from .cli import DONE, UNDONE, say, say_json
from .upgrading import Upgrade, upgrade

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The options of `upgrade`, but for those that all commands share."""
    about = "say what would be done, and write nothing"
    parser.add_argument("--dry-run", dest="dry", action="store_true", help=about)


def run(arguments: argparse.Namespace) -> int:
    """Upgrade the store, and say what became of each live task."""
    made = upgrade(arguments.store, dry=arguments.dry)
    if arguments.json:
        say_json({**msgspec.to_builtins(made), "held": made.held})
    else:
        say(_text(made))
    return UNDONE if made.held else DONE


def _text(made: Upgrade) -> Iterator[str]:
    for one in (*made.services, *made.tasks):
        if one.how != "current":
            yield f"{one.name}: {one.how}{f', {one.why}' if one.why else ''}"
    counts = [
        f"{sum(one.how == how for one in made.tasks)} {how}"
        for how in ("current", "to upgrade" if made.dry else "upgraded", "held back")
    ]
    yield f"{made.store}: {len(made.tasks)} live tasks, {', '.join(counts)}"
