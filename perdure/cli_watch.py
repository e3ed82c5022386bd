"""`perdure watch`: the events of a task, and those that come, from another process.

It holds the store only while it looks, so that its owner can be killed, closed and
opened again meanwhile. What a model says before its reply is of the owner's process
only, and is not shown.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from . import views
from .cli import DONE, INTERRUPTED, complain, say, say_json, text, whole
from .feed import Place, TaskEvent, Wanted, read_page
from .storage.errors import StorageError, Undecodable
from .storage.reader import open_reader
from .views_text import log_line

if TYPE_CHECKING:
    from .feed import Page

__all__ = ["add_arguments", "run"]

LOOK_EVERY = 0.2  # seconds
COPY_EVERY = 5.0  # seconds, where each look makes a copy
PATIENCE = 30.0  # seconds that a store may be away: moved, locked, or put right


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """What this command takes, but for what all commands share."""
    add = parser.add_argument
    add("task", metavar="ID", type=text, help="a task, see perdure ps")
    after = "go on behind this event, the last one seen"
    add("--after", metavar="SEQ", type=whole, default=0, help=after)
    until = "stopped: end where the task is paused or parked, too"
    add("--until", choices=("ended", "stopped"), default="ended", help=until)
    about = "the events of its sub-tasks, too"
    add("--subtasks", action="store_true", help=about)


def run(arguments: argparse.Namespace) -> int:
    """Print events until the task has ended, or somebody interrupts it."""
    try:
        return _watch(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _watch(arguments: argparse.Namespace) -> int:
    with closing(open_reader(arguments.store)) as reader:
        task = views.find(reader, arguments.task)
        copied, told = reader.copied, False
    wanted = Wanted(task=task, until=arguments.until, subtasks=bool(arguments.subtasks))
    place, seen = Place(seq=arguments.after), -1
    heard = time.monotonic()
    while True:
        try:
            page, seen = _look(arguments.store, wanted, place, seen)
        except Undecodable:
            raise
        except StorageError:
            if time.monotonic() - heard > PATIENCE:
                raise
            time.sleep(LOOK_EVERY)
            continue
        heard = time.monotonic()
        if page is not None:
            for event in page.events:
                _tell(arguments, event)
            place = page.place
            if page.more:
                continue
            if page.stand == "there":
                return DONE
        if copied and not told:
            told = True
            complain(
                "the store cannot be read where it stands: a copy of it is looked at "
                f"every {COPY_EVERY:g} s"
            )
        time.sleep(COPY_EVERY if copied else LOOK_EVERY)


def _look(
    store: str, wanted: Wanted, place: Place, seen: int
) -> tuple[Page | None, int]:
    """What follows, and the last seq of the store; nothing where that was `seen`."""
    with closing(open_reader(store)) as reader:
        last = reader.durable_seq
        if last == seen:
            return None, seen
        page = read_page(reader, wanted, place)
        return page, -1 if page.more else last


def _tell(arguments: argparse.Namespace, event: TaskEvent) -> None:
    line: dict[str, Any] = {
        "event": event.type,
        "at": event.at,
        "seq": event.seq,
        "task": event.task,
        "stream": event.stream,
        **event.fields,
    }
    if arguments.json:
        say_json(line)
    else:
        del line["stream"]
        if arguments.subtasks:
            line = {**line, "event": f"{event.task} {event.type}"}
        say([log_line(line)])
    if sys.stdout is not None:
        sys.stdout.flush()
