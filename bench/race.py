"""Let many tasks race for one pool in every dimension, and kill what they run in.

    python bench/race.py --tasks 200 --json

Four groups of very different sizes share one runtime and one pool that is too small for
all of them. Half of the tasks bring limits of their own, the others take shares.
Processes are killed and actors crash at seeded hits of fault points; once the money is
gone the store is opened with a bigger pool, and those that paused go on.

The parent counts from the rows of the journal, by rules of its own:

- `over_limit`: reservations that left less than the floor of a grant, or for a closing
  turn less than nothing, and grants that left less than nothing of the pool;
- `conserved`: at every event each unit is where an event has put it: in the pool, on
  its way, free, set aside or used. At the end all is back but what was used, and the
  runtime's own books say the same;
- `fairness`: of the group that got the fewest slots, its slots over the whole slots due
  to it, counted while all groups wait, then while all but the smallest do, and so on.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perdure.demo.audit import Event, Journal
from perdure.supervision.faults import Fault
from tests.crash.children import SPAWN
from tests.crash.racers import TIMEOUT, host

SHORT_TASKS = 120
KILLS, SHORT_KILLS = 12, 3
CRASHES = 6  # actors, in each process
STARTS = 40  # of processes, the killed ones included
FLOORED = ("tokens", "input_tokens", "output_tokens", "cost", "model_calls")
FLOOR = 0.1  # of a grant; the rest of a grant has none
LEAST_FAIR = 0.9


class Books:
    """Where all money is, by the journal's rows; `wrong` is what cannot be."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.over: list[str] = []
        self.reservations = 0
        self.limits: Counter[str] = Counter()
        self.pool: Counter[str] = Counter()  # free in the pool
        self.way: dict[str, dict[str, Counter[str]]] = defaultdict(dict)  # to a task
        self.back: dict[str, Counter[str]] = {}  # from a task
        self.granted: dict[str, Counter[str]] = defaultdict(Counter)
        self.free: dict[str, Counter[str]] = defaultdict(Counter)
        self.aside: dict[str, dict[tuple[int, int], Counter[str]]] = defaultdict(dict)
        self.used: dict[str, dict[str, Counter[str]]] = {}
        self.mine: dict[str, Counter[str]] = defaultdict(Counter)  # all with a task
        self.out: Counter[str] = Counter()  # all with tasks
        self.closing: set[tuple[str, int]] = set()  # turns that may use the floor
        self.usage: dict[tuple[str, int, int], dict[str, int]] = {}
        self.settled: set[tuple[str, int, int]] = set()

    def follow(self, event: Event) -> None:
        """Move what an event moves; note what it may not."""
        body, task = event.body, ""
        if event.stream.startswith("task/"):
            task = event.stream.split("/")[1]
        match event.type:
            case "DecisionMade" if body["action"].get("purpose") == "closing":
                self.closing.add((task, body["op"]))
            case "PoolOpened":
                self.pool.update(body["limits"])
                self.pool.subtract(self.limits)
                self.limits = Counter(body["limits"])
            case "Granted":
                amounts = Counter(body["amounts"])
                short = [n for n in self.limits if amounts[n] > max(0, self.pool[n])]
                self.count_over(event, short)
                self.pool.subtract(amounts)
                task = body["task"]
                self.way[task][body["grant"]] = amounts
            case "GrantTaken":
                sent = self.way[task].pop(body["grant"], None)
                self.expect(event, sent == Counter(body["amounts"]))
                self.granted[task].update(body["amounts"])
                self.free[task].update(body["amounts"])
            case "Reserved":
                self._reserved(event, task)
            case "EffectRecorded":
                self.usage[task, body["op"], body["attempt"]] = body["usage"]
            case "Settled":
                self._settled(event, task)
            case "AccountClosed":
                left = {name: self.free[task][name] for name in self.granted[task]}
                self.expect(event, body["returned"] == left and not self.aside[task])
                self.back[task] = Counter(left)
                self.free[task].clear()
            case "GrantReturned":
                task = body["task"]
                coming = self.back.pop(task, Counter())
                for unused in self.way.pop(task, {}).values():
                    coming.update(unused)
                amounts = Counter(body["amounts"])
                self.expect(event, coming == amounts)
                self.pool.update(amounts)
            case _:
                return
        self._balance(event, task)

    def _reserved(self, event: Event, task: str) -> None:
        body = event.body
        key, amounts = (body["op"], body["attempt"]), Counter(body["amounts"])
        self.expect(event, key not in self.aside[task])
        self.expect(event, (task, *key) not in self.settled)
        self.reservations += 1
        short = []
        for name, granted in self.granted[task].items():
            wanted = max(amounts[name], name == "milliseconds")
            floored = name in FLOORED and (task, key[0]) not in self.closing
            keep = int(granted * FLOOR) if floored else 0
            if wanted and self.free[task][name] - wanted < keep:
                short.append(name)
        self.count_over(event, short)
        self.free[task].subtract(amounts)
        self.aside[task][key] = amounts

    def _settled(self, event: Event, task: str) -> None:
        body = event.body
        key, paid = (body["op"], body["attempt"]), Counter(body["amounts"])
        aside = self.aside[task].pop(key, None)
        self.expect(event, aside is not None and (task, *key) not in self.settled)
        self.settled.add((task, *key))
        right: Any = {"none": {}, "unknown": aside}
        usage = right.get(body["book"], self.usage.get((task, *key)))
        self.expect(event, usage is not None and paid == Counter(usage))
        self.free[task].update(aside or {})
        self.free[task].subtract(paid)
        if body["book"] != "none":
            books = self.used.setdefault(task, defaultdict(Counter))
            books[body["book"]].update(paid)

    def count_over(self, event: Event, short: list[str]) -> None:
        """Count what was given where too little was left."""
        if short:
            self.over.append(f"{event.seq} {event.type}: {', '.join(short)}")

    def expect(self, event: Event, holds: bool) -> None:
        """Note an event that moves what is not there."""
        if not holds:
            self.wrong.append(f"{event.seq} {event.stream} {event.type}: {event.body}")

    def _balance(self, event: Event, task: str) -> None:
        """All that the pool ever had is somewhere, in every dimension it limits."""
        places = [self.free[task], self.back.get(task, Counter())]
        places += self.way[task].values()
        places += self.aside[task].values()
        places += self.used.get(task, {}).values()
        for name, limit in self.limits.items():
            mine = sum(place[name] for place in places)
            self.out[name] += mine - self.mine[task][name]
            self.mine[task][name] = mine
            self.expect(event, self.pool[name] + self.out[name] == limit)

    def close(self, told: dict[str, Any]) -> None:
        """At the end nothing is under way, and the runtime's own books are the same."""
        for what in (self.back, self.aside, self.way):
            if any(what.values()):
                self.wrong.append(f"at the end: {what}")
        for task, spent in told.items():
            mine = self.used.get(task, {}).get("spent", Counter[str]())
            for name in ("model_calls", "tokens", "input_tokens", "output_tokens"):
                if spent is None or spent.get(name, 0) != mine[name]:
                    self.wrong.append(f"{task} was told {spent}, used {mine}")


def fairness(events: list[Event]) -> float:
    """The least share of slots over the whole slots due, by who still waits.

    Tasks are chosen in turn and may start in another order: one slot more counts.
    """
    group: dict[str, str] = {}
    fresh: dict[str, set[str]] = defaultdict(set)  # of a group, never started
    active: set[str] = set()
    got: dict[frozenset[str], Counter[str]] = defaultdict(Counter)
    for event in events:
        task = event.body.get("task", "")
        match event.type:
            case "TaskQueued":
                group[task] = event.body["group"]
                fresh[group[task]].add(task)
            case "TaskActivated":
                wait = frozenset(name for name, those in fresh.items() if those)
                if task not in active and event.body["order"] != "cancel":
                    got[wait][group[task]] += group[task] in wait
                active.add(task)
                fresh[group[task]].discard(task)
            case "TaskPassivated" | "TaskParked" | "TaskLeft":
                active.discard(task)
                if event.type != "TaskPassivated":
                    fresh[group[task]].discard(task)
    shares = [1.0]
    for wait, starts in got.items():
        due = starts.total() // len(wait) if wait else 0
        if len(wait) > 1 and due:
            shares.append((min(starts[name] for name in wait) + 1) / due)
    return min(shares)


def plan(chance: random.Random, *, kill: bool) -> tuple[Fault, ...]:
    """The crashes of one process, and where it is killed."""
    points = ("account.append.after", "account.apply.after", "pool.append.after")
    points += ("pool.apply.after", "admission.apply.after", "ledger.apply.after")
    points += ("admission.activated", "task.reserved", "task.decided")
    faults = [
        Fault(point=chance.choice(points), nth=chance.randint(5, 120), action="crash")
        for _ in range(CRASHES)
    ]
    if kill:
        nth = chance.randint(300, 6_000)
        faults.append(Fault(point=None, nth=nth, action="kill"))
    return tuple(faults)


def race(folder: Path, tasks: int, kills: int, chance: random.Random) -> dict[str, Any]:
    """Run it to its end; return what was counted."""
    killed, money = 0, 1
    for _ in range(STARTS):
        faults = plan(chance, kill=killed < kills)
        child = SPAWN.Process(target=host, args=(str(folder), tasks, faults, money))
        child.start()
        child.join(TIMEOUT)
        if child.exitcode == -signal.SIGKILL:
            killed += 1
        elif child.exitcode != 0:
            child.kill()
            raise SystemExit(f"a process ended with {child.exitcode}")
        elif money > 1:
            break
        else:
            money = 3
    events = Journal(folder / "tasks.db").events()
    books = Books()
    for event in events:
        books.follow(event)
    books.close(json.loads((folder / "told").read_text()))
    for said in (*books.wrong[:5], *books.over[:5]):
        print(said, flush=True)
    count = Counter(event.type for event in events)
    status = Counter(e.body["status"] for e in events if e.type == "TaskLeft")
    found: dict[str, Any] = {
        "tasks": tasks,
        "over_limit": len(books.over),
        "conserved": not books.wrong and status.total() == tasks,
        "fairness": round(fairness(events), 3),
        "ended": dict(status),
        "kills": killed,
        "recoveries": count["RecoveryBegan"],
        "refused": count["TaskParked"] + count["TaskPaused"],
        "reservations": books.reservations,
    }
    fair = found["fairness"] >= LEAST_FAIR
    found["failures"] = len(books.over) + (not found["conserved"]) + (not fair)
    return found


def main() -> None:
    """Race once."""
    parser = options(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=200, help="how many (200)")
    arguments = parser.parse_args()
    heading(arguments, "scripted, no LLM; SIGKILL of real processes; prices made up")
    SPAWN.set_forkserver_preload(["tests.crash.racers"])
    tasks = SHORT_TASKS if arguments.short else arguments.tasks
    kills = SHORT_KILLS if arguments.short else KILLS
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-race-") as folder:
        found = race(Path(folder), tasks, kills, random.Random(arguments.seed))
    finish(arguments, {**found, "seconds": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
