"""A whole runtime in one thread: simulated time, a store in memory, a scripted agent.

No test library is imported here, so that benches may use it too.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure import (
    Agent,
    Baseline,
    Budget,
    Handle,
    Plan,
    Result,
    Runtime,
    Step,
    delegate,
    tool,
)
from perdure.actors.budget.account import AccountState, conserved
from perdure.actors.budget.account import apply as apply_account
from perdure.actors.context.render import moving_data
from perdure.actors.events import EVENTS, Event, task_of
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.logs import check
from perdure.models import Scripted
from perdure.storage.codec import Codec
from perdure.storage.memory import MemoryBackend, MemoryStore
from perdure.storage.records import Record
from perdure.supervision import SimulatedDispatcher
from perdure.supervision.threads import Job, run_job

CODEC = Codec(EVENTS)
PLENTY = Budget(  # enough for any run here, so that every dimension has a law to keep
    tokens=10_000_000,
    input_tokens=10_000_000,
    output_tokens=10_000_000,
    model_calls=10_000,
    tool_calls=10_000,
    tools={"look": 10_000, "write": 10_000, "send": 10_000},
)
Calls = Sequence[tuple[str, Mapping[str, Any]]]


class World:
    """What the effects of a task reach: it outlives every process.

    `sent` has a line for each time that a `once` effect really happened.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []  # request id, text
        self.files: dict[str, str] = {}
        self.writes: list[tuple[str, str]] = []  # request id, name
        self.looks = 0


class Line:
    """One log line, as the runtime emitted it."""

    def __init__(self, event: str, fields: Mapping[str, Any]) -> None:
        self.event = event
        self.fields = dict(fields)

    def __repr__(self) -> str:
        return f"{self.event} {self.fields}"


class Log:
    """Stands in for a structlog logger; keeps lines and what the catalogue lacks."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.strangers: list[str] = []

    def bind(self, **fields: Any) -> Log:
        return self

    def log(self, level: int, event: str, **fields: Any) -> None:
        self.lines.append(Line(event, fields))
        try:
            check(event, fields)
        except ValueError as error:
            self.strangers.append(str(error))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line.fields for line in self.lines if line.event == event]

    def crashes(self) -> list[str]:
        """Tracebacks of the crashes that no test asked for."""
        return [
            f"{fields['name']}: {fields['traceback'] or fields['error']}"
            for fields in self.of("actor.crashed")
            if "simulated crash" not in fields["error"]
            and "its supervisor" not in fields["error"]
        ]


class House:
    """A store that runtimes open one after another, each killed or closed.

    Agents without plan and acceptance have every answer taken, one after a failed call
    too; with `words` the runtime's own rule for them holds.
    """

    def __init__(
        self,
        *agents: Agent,
        seed: int = 0,
        store: MemoryStore | None = None,
        dispatcher: Callable[..., SimulatedDispatcher] = SimulatedDispatcher,
        words: bool = False,
        **options: Any,
    ) -> None:
        self.agents = agents
        self.words = words
        self.seed = seed
        self.dispatcher = dispatcher
        self.options = options
        self.store = store or MemoryStore()
        self.log = Log()
        self.sim = dispatcher(seed)
        self.runtime = self._open()

    def _open(self) -> Runtime:
        for agent in () if self.words else self.agents:
            if agent.plan is None and agent.policy is None and agent.planner is None:
                agent.accept = agent.accept or taken
        return Runtime(
            MemoryBackend(self.store),
            agents=self.agents,
            log=self.log,
            dispatcher=self.sim,
            **self.options,
        )

    def reopen(self, *agents: Agent, **options: Any) -> None:
        """Open the store again, as the next process would."""
        self.agents = agents or self.agents
        self.options = {**self.options, **options}
        self.seed += 1
        self.sim = self.dispatcher(self.seed, clock=self.sim.clock)
        self.runtime = self._open()

    def kill(self) -> None:
        """The process dies: what was not flushed is lost."""
        self.sim.halt()
        self.store.cut()

    def until(self, condition: Callable[[], bool], seconds: float = 3600.0) -> bool:
        """Take steps until the condition holds; False where it never does."""
        end = self.sim.clock.monotonic() + seconds
        held = False

        def over() -> bool:
            nonlocal held
            held = condition()
            return held or self.sim.clock.monotonic() > end

        self.sim.run(over)
        return held

    def until_hit(self, event: str, **fields: Any) -> bool:
        """Take steps until a line of `event` with these fields is logged."""
        have = len(self.log.lines)

        def logged() -> bool:
            return any(
                line.event == event and fields.items() <= line.fields.items()
                for line in self.log.lines[have:]
            )

        return self.until(logged)

    def finish(self, task: str) -> Result:
        """The result of a task at its next stop."""
        return self.runtime.wait(task, timeout=24 * 3600.0)

    def run(self, agent: str = "agent", goal: str = "do it", **options: Any) -> Result:
        return self.finish(self.submit(agent, goal, **options).id)

    def submit(
        self, agent: str = "agent", goal: str = "do it", **options: Any
    ) -> Handle:
        options.setdefault("budget", PLENTY)
        return self.runtime.submit(agent, goal, **options)

    def events(self, stream: str) -> list[Event]:
        """The flushed events of one stream."""
        return [decode(record) for record in self.store.streams.get(stream, [])]

    def of(self, stream: str, kind: type[Event]) -> list[Any]:
        return [one for one in self.events(stream) if isinstance(one, kind)]

    def kinds(self, stream: str) -> list[str]:
        return [record.type for record in self.store.streams.get(stream, [])]


class Stuck:
    """A simulation in which a tool can hang: its job is then on a thread of its own.

    Give the instance as `dispatcher`. The simulation goes on once the tool has called
    `hang`; the tool goes on once `let_go` is called, which returns when it has ended.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._hanging = threading.Event()
        self._released = threading.Event()
        self._threads: list[threading.Thread] = []

    def __call__(self, seed: int, **options: Any) -> SimulatedDispatcher:
        sim = SimulatedDispatcher(seed, **options)
        start = sim.start_job

        def start_job(name: str, job: Job) -> None:
            start(name, job if name != self.name else lambda: self._run(job))

        sim.start_job = start_job  # type: ignore[method-assign]
        return sim

    def _run(self, job: Job) -> None:
        def whole() -> None:
            run_job(job)
            self._hanging.set()

        self._hanging.clear()
        thread = threading.Thread(target=whole, daemon=True)
        self._threads.append(thread)
        thread.start()
        assert self._hanging.wait(30.0)

    def hang(self) -> None:
        """Called by the tool: stay here until the test says otherwise."""
        self._hanging.set()
        assert self._released.wait(30.0)

    def let_go(self) -> None:
        """Let every hanging call go on, to its end."""
        self._released.set()
        for thread in self._threads:
            thread.join(30.0)


def decode(record: Record) -> Event:
    found: Event = CODEC.decode(record)
    return found


# ── a scripted agent ─────────────────────────────────────────────────────────────


def standing(request: ModelRequest) -> dict[str, Any]:
    """The data at the end of a request."""
    return moving_data(request.messages[-1]["content"])


def outcomes(request: ModelRequest) -> list[str]:
    """Results of the step's calls so far, from facts and scratch alike, in order."""
    found = [one["result"] for one in standing(request)["operations"]]
    told = (one["content"] for one in request.messages if one["role"] == "tool")
    return [*found, *told]


def declaration(request: ModelRequest) -> str:
    """What a careful model declares after a crash."""
    text = request.messages[-1]["content"]
    line = text[text.index("Steps: ") :].partition("\n")[0]
    steps = dict(re.findall(r"([\w-]+): (\w+)[,.]", line))
    done = [name for name, status in steps.items() if status == "completed"]
    left = [
        name
        for which in ("running", "pending", "failed", "limited", "timed_out")
        for name, status in steps.items()
        if status == which
    ]
    said = {
        "done": done,
        "next": left[0] if left else None,
        "uncertain": standing(request)["uncertain"],
    }
    return json.dumps(said)


def follow(script: Mapping[str, Sequence[Calls]]) -> Callable[..., ModelReply]:
    """A model that makes each step's groups of calls in turn, then answers.

    A pure function of the request: it counts results, in facts or in scratch.
    """

    def reply(request: ModelRequest) -> ModelReply:
        data = standing(request)
        if data["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        step = data["step"]["id"]
        made = len(outcomes(request))
        for group in script.get(step, ()):
            if made < len(group):
                return ModelReply(tool_calls=as_calls(group[made:], made))
            made -= len(group)
        return ModelReply(content=json.dumps({"step": step, "ok": True}))

    return reply


def as_calls(group: Calls, first: int = 0) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=f"c{first + place}", name=name, arguments=json.dumps(arguments))
        for place, (name, arguments) in enumerate(group)
    )


def tools_of(world: World) -> list[Any]:
    """One tool of each effect class, all of them acting on `world`."""

    def was_sent(effect: Any) -> Any:
        from perdure import DidNotHappen, Happened

        found = [text for key, text in world.sent if key == effect.request_id]
        return Happened(f"sent {found[0]}") if found else DidNotHappen()

    @tool(effect="read")
    def look(what: str) -> str:
        """Look at something."""
        world.looks += 1
        return f"saw {what}"

    @tool(effect="idempotent")
    def write(name: str, text: str, *, request_id: str) -> str:
        """Write a file."""
        world.files[name] = text
        world.writes.append((request_id, name))
        return f"wrote {name}"

    @tool(effect="once", probe=was_sent)
    def send(text: str, *, request_id: str) -> str:
        """Send a mail."""
        world.sent.append((request_id, text))
        return f"sent {text}"

    return [look, write, send]


JOB: dict[str, Sequence[Calls]] = {
    "find": [[("look", {"what": "a"})], [("look", {"what": "b"})]],
    "write": [[("write", {"name": "f", "text": "1"}), ("look", {"what": "c"})]],
    "send": [[("send", {"text": "hello"})]],
}


def job(world: World, **options: Any) -> Agent:
    """An agent with a plan of three steps: find, write, send."""
    steps = [Step(id=name, goal=f"{name} it") for name in JOB]
    options.setdefault("tools", tools_of(world))
    options.setdefault("plan", Plan(steps=tuple(steps)))
    options.setdefault("model", Scripted(follow(JOB)))
    options.setdefault("name", "agent")
    return Agent(instructions="Do the job.", **options)


HAND: dict[str, Any] = {"agent": "agent", "goal": "the part"}


def handing_on(*tools: Any, also: Calls = ()) -> Agent:
    """An agent `boss` that has agent `agent` do a part, and makes calls beside it."""
    return Agent(
        name="boss",
        instructions="Hand on.",
        model=Scripted(follow({"task": [[("delegate", HAND), *also]]})),
        tools=[delegate, *tools],
        recovery="rules",
        accept=taken,
    )


# ── what must hold of every store ────────────────────────────────────────────────


def accounts(store: MemoryStore) -> Iterator[tuple[str, list[Record]]]:
    for stream, records in store.streams.items():
        if stream.endswith("/account"):
            yield stream, records


def unbalanced(store: MemoryStore) -> list[str]:
    """Every event of every account after which the law of accounts does not hold."""
    wrong: list[str] = []
    for stream, records in accounts(store):
        state = AccountState()
        for record in records:
            state = apply_account(state, decode(record))
            if off := conserved(state):
                wrong.append(f"{stream} after {record.version} {record.type}: {off}")
    return wrong


def comparable(result: Result) -> dict[str, Any]:
    """The figures of a run that kills do not change (design 5)."""
    return {
        "output": result.output,
        "model_calls": result.spent.get("model_calls"),
        "output_tokens": result.spent.get("output_tokens"),
        "tool_calls": result.spent.get("tool_calls"),
    }


def disturbed(store: MemoryStore) -> list[str]:
    """Records of a task that stand inside a recovery and are not of it."""
    found: list[str] = []
    inside: set[str] = set()
    for record in store.log:
        match record.type:
            case "RecoveryLoaded":
                inside.add(record.stream)
            case "RecoveryDeclared" if msgspec.json.decode(record.body)["accepted"]:
                inside.discard(record.stream)
            case "StepStarted" | "StepEnded" | "AnswerRefused":
                if record.stream in inside:
                    found.append(f"{record.type} at {record.seq}")
    return found


def redone(store: MemoryStore) -> list[str]:
    """Steps that were started again after they had passed acceptance."""
    done: set[tuple[str, str]] = set()
    again: list[str] = []
    for record in store.log:
        event = msgspec.json.decode(record.body)
        key = task_of(record.stream), event.get("step", "")
        if record.type == "StepEnded" and event["status"] == "completed":
            done.add(key)
        if record.type == "StepRetried":  # somebody said that they do not count
            done -= {(key[0], step) for step in event["steps"]}
        if record.type in ("StepStarted", "DecisionMade") and key in done:
            again.append(f"{key[1]} by {record.type}")
    return again


def taken(result: Any, view: Any) -> bool:
    """Acceptance that takes every answer, one after a failed call too."""
    return True


def quick(**options: Any) -> Baseline:
    """The defaults with some changed."""
    return Baseline(id="test", **options)


# A script that makes one call again and again, for what is not about circles.
ROUND_AND_ROUND: dict[str, Any] = {
    "loop_repeats": 1_000,
    "loop_period": 1,
    "loop_errors": 1_000,
    "loop_near": 1_000,
}


__all__ = [
    "HAND",
    "JOB",
    "ROUND_AND_ROUND",
    "Budget",
    "House",
    "Line",
    "Log",
    "Stuck",
    "World",
    "accounts",
    "as_calls",
    "comparable",
    "declaration",
    "decode",
    "disturbed",
    "follow",
    "handing_on",
    "job",
    "outcomes",
    "quick",
    "redone",
    "standing",
    "taken",
    "tools_of",
    "unbalanced",
]
