"""The same durable work under LangGraph, under DBOS and under perdure.

    python bench/peers/run.py --json
    python bench/peers/run.py --url postgresql://HOST/DATABASE --json

An operation is one step that does nothing and returns 500 characters, durable before
the next begins: a node of a graph, a step of a workflow, a `once` tool of a policy with
a budget, a log file and snapshots on. Each peer runs in a process and a virtual
environment of its own, made under ``.venvs/peers``; one that cannot be installed
is said so and left out. All take turns, a window each, beside a loop that commits one
row of 500 characters a flush; rates count from the first operation to the last, and
every figure is a median of the windows with their range.

    ratio_to_raw        of each peer, for one task and for a hundred at once
    perdure_to_peer     how many times a peer's rate perdure has, window by window
    resume_s            killed half-way through a task of `--steps` steps: from opening
                        the store to the first new operation, imports not counted
    store_bytes         of that task's store at its end
    lengths             steps, both figures, for a fifth of the steps and for all
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from child import Child
from common import finish, heading, options
from environment import CACHE, environment, versions
from raw import (
    PostgresLoop,
    SqliteLoop,
    in_schema,
    schema_bytes,
    schema_in,
    spread,
)

LANGGRAPH = ("langgraph>=1.1", "langgraph-checkpoint-sqlite>=3.0")
DBOS = ("dbos>=2.0", "psycopg[binary]>=3.2.4")
WINDOWS = 5
OPERATIONS, SHORT_OPERATIONS = 300, 60  # of one task in a window, and of ten together
STEPS, SHORT_STEPS = 1_000, 200
ROWS, SHORT_ROWS = 1_000, 300  # of one window of the raw loop
WARM = 20  # operations before the first window
WANTED = {  # how many times a peer's rate, with a hundred tasks
    "langgraph": 10.0,
    "langgraph_delta": 10.0,
    "dbos": 10.0,
    "dbos_postgres": 8.0,
}


class Peer(NamedTuple):
    """What is run: `ways` are tried, and the fastest takes the windows.

    A short run tries none and takes the first, which was the fastest in full runs.
    """

    name: str
    script: str
    requirements: tuple[str, ...]
    ways: tuple[str, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    postgres: bool = False


PEERS = (
    Peer("perdure", "on_perdure.py", (), ("",)),
    Peer(
        "langgraph",
        "on_langgraph.py",
        LANGGRAPH,
        ("threads", "async"),
        {"delta": False},
    ),
    Peer(
        "langgraph_delta",
        "on_langgraph.py",
        LANGGRAPH,
        ("threads", "async"),
        {"delta": True},
    ),
    Peer(
        "dbos",
        "on_dbos.py",
        DBOS,
        ("async wal", "threads wal", "async", "threads"),
    ),
    Peer("perdure_postgres", "on_perdure.py", (), ("",), postgres=True),
    Peer("dbos_postgres", "on_dbos.py", DBOS, ("threads", "async"), postgres=True),
)


class Place(NamedTuple):
    """Where one run of a peer keeps things; `schema` on a server."""

    folder: Path
    url: str = ""
    schema: str = ""

    def options(self, peer: Peer, way: str) -> dict[str, Any]:
        """What its process is told."""
        found = {"way": way, "folder": str(self.folder), **peer.options}
        file = self.folder / "store" / "tasks.db"
        if peer.script == "on_dbos.py":
            store = self.url or f"sqlite:///{file}"
            return {**found, "store": store, "schema": self.schema}
        store = in_schema(self.url, self.schema) if self.url else str(file)
        return {**found, "store": store}

    def size(self) -> int:
        """Bytes of the store."""
        if self.url:
            return schema_bytes(self.url, self.schema)
        return sum(file.stat().st_size for file in (self.folder / "store").iterdir())


@contextmanager
def place_for(peer: Peer, url: str | None) -> Iterator[Place]:
    """A fresh place, which goes when it is done."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="perdure-peers-")
        folder = Path(stack.enter_context(made))
        (folder / "store").mkdir()
        if not peer.postgres:
            yield Place(folder)
        else:
            assert url is not None
            yield Place(folder, url, stack.enter_context(schema_in(url)))


class Contest:
    """All peers that can run here, in windows that take turns."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._url: str | None = arguments.url
        self._short: bool = arguments.short
        short = arguments.short
        one = arguments.operations or (SHORT_OPERATIONS if short else OPERATIONS)
        self._loads = {"one": (1, one), "hundred": (100, max(2, one // 10))}
        self._windows: int = arguments.windows
        self._steps = arguments.steps or (SHORT_STEPS if short else STEPS)
        self._rows = SHORT_ROWS if short else ROWS
        self._chance = random.Random(arguments.seed)
        self._pythons: dict[str, Path] = {}
        self.not_run: dict[str, str] = {}
        self.peers = [peer for peer in PEERS if self._can_run(peer, arguments)]
        self.found: dict[str, dict[str, Any]] = {peer.name: {} for peer in self.peers}
        self.rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.cpu: dict[tuple[str, str], list[float]] = defaultdict(list)

    def _can_run(self, peer: Peer, arguments: argparse.Namespace) -> bool:
        if arguments.only and peer.name not in arguments.only:
            self.not_run[peer.name] = "not asked for"
        elif peer.postgres and self._url is None:
            self.not_run[peer.name] = "no --url"
        elif not peer.requirements:
            self._pythons[peer.name] = Path(sys.executable)
        else:
            name = peer.script.removeprefix("on_").removesuffix(".py")
            python = environment(arguments.cache / name, peer.requirements)
            if python is None:
                self.not_run[peer.name] = "it could not be installed"
            else:
                self._pythons[peer.name] = python
        return peer.name in self._pythons

    def child(self, peer: Peer, way: str, place: Place) -> Child:
        """A process of this peer."""
        return Child(self._pythons[peer.name], peer.script, place.options(peer, way))

    def run(self) -> None:
        """Try the ways, then take the windows, then kill and resume."""
        for peer in list(self.peers):
            print(f"trying {peer.name}", flush=True)
            try:
                self._try_ways(peer)
            except RuntimeError as error:
                if not peer.requirements:  # it is ours
                    raise
                self.not_run[peer.name] = str(error)
                self.peers.remove(peer)
                del self.found[peer.name]
        with ExitStack() as stack:
            self._take_windows(stack)
        for peer in self.peers:
            print(f"killing {peer.name}", flush=True)
            self._kill(peer)

    def _try_ways(self, peer: Peer) -> None:
        """One window of each way and load; the fastest way is kept for each load."""
        tried: dict[str, dict[str, float]] = {load: {} for load in self._loads}
        found = self.found[peer.name]
        for way in peer.ways[:1] if self._short else peer.ways:
            with (
                place_for(peer, self._url) as place,
                self.child(peer, way, place) as child,
            ):
                child.ask("window", tasks=1, operations=WARM)
                for load, (tasks, operations) in self._loads.items():
                    said = child.ask("window", tasks=tasks, operations=operations)
                    tried[load][way] = round(said["rate"])
                found.setdefault("facts", child.ask("facts"))
        found["way"] = {load: max(t, key=t.__getitem__) for load, t in tried.items()}
        if len(tried["one"]) > 1:
            found["tried"] = tried
        if peer.requirements:
            names = [one.split(">=")[0].split("[")[0] for one in peer.requirements]
            found["versions"] = versions(self._pythons[peer.name], tuple(names))

    def _take_windows(self, stack: ExitStack) -> None:
        loops: dict[str, SqliteLoop | PostgresLoop] = {}
        folder = tempfile.TemporaryDirectory(prefix="perdure-raw-")
        file = Path(stack.enter_context(folder)) / "raw.db"
        loops["raw"] = stack.enter_context(closing(SqliteLoop(file)))
        if self._url is not None:
            schema = stack.enter_context(schema_in(self._url))
            loop = PostgresLoop(in_schema(self._url, schema))
            loops["raw_postgres"] = stack.enter_context(closing(loop))
        children: dict[tuple[str, str], Child] = {}
        for peer in self.peers:
            for way in set(self.found[peer.name]["way"].values()):
                place = stack.enter_context(place_for(peer, self._url))
                child = stack.enter_context(self.child(peer, way, place))
                child.ask("window", tasks=1, operations=WARM)
                children[peer.name, way] = child
        for window in range(self._windows):
            print(f"window {window + 1} of {self._windows}", flush=True)
            for load in self._loads:
                for name, one in loops.items():
                    self.rates[name, load].append(one.rate(self._rows))
                for peer in self._chance.sample(self.peers, len(self.peers)):
                    way = self.found[peer.name]["way"][load]
                    self._window(peer, load, children[peer.name, way])

    def _window(self, peer: Peer, load: str, child: Child) -> None:
        tasks, operations = self._loads[load]
        said = child.ask("window", tasks=tasks, operations=operations)
        self.rates[peer.name, load].append(said["rate"])
        self.cpu[peer.name, load].append(said["cpu_us"])

    def _kill(self, peer: Peer) -> None:
        """Kill tasks half-way and have them resumed: a short one, and one in full."""
        found = self.found[peer.name]
        found["lengths"] = []
        for steps in (max(2, self._steps // 5), self._steps):
            said, size = self._killed(peer, steps)
            found["lengths"].append([steps, round(said["seconds"], 4), size])
            found["resume_s"], found["store_bytes"] = found["lengths"][-1][1:]
            found["repeated"] = said["made"] - (steps - steps // 2)

    def _killed(self, peer: Peer, steps: int) -> tuple[dict[str, Any], int]:
        """What was said when it was resumed, and the bytes of its store at the end."""
        way = next(way for way in peer.ways if "async" not in way)
        with place_for(peer, self._url) as place:
            with self.child(peer, way, place) as child:
                child.die(steps)
            with self.child(peer, way, place) as child:
                said = child.ask("resume")
            return said, place.size()

    def result(self) -> dict[str, Any]:
        """All figures."""
        for (name, load), rates in self.rates.items():
            if name in self.found:
                own = next(peer for peer in self.peers if peer.name == name)
                raw = self.rates["raw_postgres" if own.postgres else "raw", load]
                found = self.found[name]
                found[f"{load}_ops_per_s"] = spread(rates, 0)
                found[f"{load}_ratio_to_raw"] = spread(quotients(rates, raw), 3)
                found[f"{load}_cpu_us_per_op"] = spread(self.cpu[name, load], 0)
        times = {
            peer.name: {
                load: spread(quotients(self._ours(peer, load), rates))
                for load in self._loads
                if (rates := self.rates[peer.name, load])
            }
            for peer in self.peers
            if not peer.name.startswith("perdure") and self._ours(peer, "one")
        }
        raw = {
            f"{name}_commits_per_s": spread(rates, 0)
            for (name, load), rates in self.rates.items()
            if name.startswith("raw") and load == "one"
        }
        missed = [
            name
            for name, least in WANTED.items()
            if name in times and times[name]["hundred"][0] < least
        ]
        return {
            **raw,
            "perdure_to_peer": times,
            "peers": self.found,
            "not_run": self.not_run,
            "missed": missed,
            "failures": 0 if self._short else len(missed),
        }

    def _ours(self, peer: Peer, load: str) -> list[float]:
        own = "perdure_postgres" if peer.postgres else "perdure"
        return self.rates[own, load]


def quotients(some: list[float], others: list[float]) -> list[float]:
    """Window by window."""
    return [one / other for one, other in zip(some, others, strict=True)]


def main() -> None:
    """Run the contest once."""
    parser = options(__doc__ or "")
    parser.add_argument("--url", help="a PostgreSQL database, for DBOS and perdure")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME")
    parser.add_argument("--windows", type=int, default=WINDOWS, help="of each peer")
    parser.add_argument("--operations", type=int, help="of one task in a window")
    parser.add_argument("--steps", type=int, help="of the task that is killed")
    parser.add_argument("--cache", type=Path, default=CACHE, help="for environments")
    arguments = parser.parse_args()
    heading(
        arguments,
        "no model is called: what is measured is keeping each step",
        "the other libraries do more than this, and other things",
    )
    contest = Contest(arguments)
    for name, reason in contest.not_run.items():
        print(f"not run: {name}: {reason}", flush=True)
    contest.run()
    finish(arguments, contest.result())


if __name__ == "__main__":
    main()
