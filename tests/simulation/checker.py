"""What must hold of a store after any run: read by hand, named by invariant."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from perdure.storage.memory import MemoryStore
from tests.actors.runs import not_reproduced
from tests.simulation.findings import Findings
from tests.simulation.money import check_accounts, check_pool
from tests.simulation.outside import GOAL, LIMIT, PART, Outside
from tests.simulation.parts import HANDS_ON, check_parts
from tests.simulation.schedule import JumpClock, Schedule
from tests.simulation.waits import check_approvals, check_commands, check_timers
from tests.simulation.witness import Entry, Witness

__all__ = ["check_all"]


def check_all(
    findings: Findings,
    witness: Witness,
    outside: Outside,
    store: MemoryStore,
    schedule: Schedule,
) -> None:
    """Check every invariant that the journal and the world can show."""
    entries = witness.look()
    witness.compare()
    findings.check(
        "acked_durable", not witness.changed, lambda: f"lost: {witness.changed}"
    )
    check_order(findings, entries)
    check_epochs(findings, entries)
    check_snapshots(findings, store)
    check_effects(findings, entries, outside, witness)
    check_accounts(findings, entries, outside, witness)
    check_pool(findings, entries, schedule.active)
    check_requests(findings, entries, outside)
    check_completion(findings, entries, outside)
    check_approvals(findings, entries, outside)
    check_commands(findings, entries, store)
    check_parts(findings, entries, witness)
    jumps = (one.seconds for one in schedule.faults if isinstance(one, JumpClock))
    check_timers(findings, entries, -sum(min(0.0, jump) for jump in jumps))


def check_snapshots(findings: Findings, store: MemoryStore) -> None:
    """The one check that folds as the runtime does: each snapshot, and its tail."""
    try:
        wrong = not_reproduced(store)
    except Exception as error:
        wrong = [f"it cannot be folded: {error!r}"]
    findings.checks["snapshot_is_fold"] += sum(map(len, store.snapshots.values()))
    findings.check("snapshot_is_fold", not wrong, lambda: str(wrong))


def check_order(findings: Findings, entries: list[Entry]) -> None:
    """Versions go 1, 2, 3 in every stream; seq only grows."""
    heads: Counter[str] = Counter()
    last = 0
    for one in entries:
        record = one.record
        heads[record.stream] += 1
        held = record.version == heads[record.stream] and record.seq > last
        last = record.seq
        findings.check("versions_contiguous", held, one.__repr__)


def check_epochs(findings: Findings, entries: list[Entry]) -> None:
    """Nobody writes to a stream after somebody newer has; nor to a task's family."""
    written: dict[str, tuple[int, int]] = {}
    active: dict[str, int] = {}
    for one in entries:
        record = one.record
        place = record.epoch, record.incarnation
        before = written.get(record.stream, (0, 0))
        held = place[0] >= before[0] and place[1] >= before[1]
        if record.stream.startswith("task/"):
            held = held and record.epoch >= active.get(one.task, 0)
        written[record.stream] = place
        if one.type == "TaskActivated":
            held = held and one.body["epoch"] > active.get(one.task, 0)
            active[one.task] = one.body["epoch"]
        findings.check("epochs_grow", held, one.__repr__)


def check_effects(
    findings: Findings, entries: list[Entry], outside: Outside, witness: Witness
) -> None:
    """Each effect happened as often as its class allows, and is on record."""
    once_acts = [*outside.sent, *outside.erased]
    happened = Counter(request for request, _ in once_acts)
    for request, times in happened.items():
        findings.check(
            "once_at_most_once", times == 1, lambda r=request: f"{r}: {happened[r]}"
        )
    meant: dict[tuple[str, str], str] = {}
    for request, name, text in outside.writes:
        task = witness.task_of_request(request) or "?"
        key = meant.setdefault((task, f"{name} {text}"), request)
        findings.check(
            "idempotent_one_key",
            key == request,
            lambda r=request, k=key: f"sent with {r} and with {k}",
        )
    acts: dict[tuple[str, str], str] = {}
    for request, text in once_acts:  # no two steps of a script do the same
        task = witness.task_of_request(request) or "?"
        key = acts.setdefault((task, text), request)
        findings.check(
            "once_at_most_once",
            key == request,
            lambda r=request, k=key: f"done as {r} and as {k}",
        )
    happened.update(request for request, _, _ in outside.writes)
    registered: dict[tuple[str, int], dict[str, Any]] = {}
    status: dict[str, str] = {}
    once: set[str] = set()
    for one in entries:
        body = one.body
        if one.type == "EffectRegistered":
            registered[one.task, body["op"]] = body
        if one.type != "EffectRecorded":
            continue
        made = registered[one.task, body["op"]]
        if (
            made["name"] == HANDS_ON
            or made["kind"] != "tool"
            or made["effect"] == "read"
            or made.get("reused")
        ):
            continue
        request = f"perdure-{made['key']}"
        status[request] = body["status"]
        if made["effect"] == "once":
            once.add(request)
        if body["status"] == "completed":
            findings.check(
                "no_effect_lost",
                happened[request] > 0,
                lambda o=one: f"recorded, did not happen: {o}",
            )
    for request in happened:
        found = status.get(request, "missing")
        task = witness.task_of_request(request) or "?"
        held = found == "completed" or witness.ended.get(task) != "completed"
        if request in once:
            held = held and found != "failed"
        findings.check(
            "no_effect_lost", held, lambda r=request, f=found: f"{r} is on record: {f}"
        )


def check_requests(findings: Findings, entries: list[Entry], outside: Outside) -> None:
    """Every request that a model saw fits, is well formed, and holds the goal."""
    for one in entries:
        if one.type == "RequestBuilt":
            held = 0 < one.body["characters"] <= LIMIT == one.body["limit"]
            findings.check("requests_fit", held, one.__repr__)
    goals = [GOAL.format(number=number) for number in range(8)]
    parts = [PART.format(number=number) for number in range(8)]
    for request in outside.requests:
        whole = {"messages": request.messages, "tools": request.tools}
        text = json.dumps(
            whole, ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )
        contents = "\n".join(m.get("content") or "" for m in request.messages)
        # A task that hands parts on sees their goals too, in its calls; one that is
        # adrift sees its own once more.
        found = [goal for goal in goals if goal in contents]
        adrift = "Back to the goal" in request.messages[-1]["content"]
        times = sum(map(contents.count, found))
        held = len(text) <= LIMIT and (
            (len(found) == 1 and times == 1 + adrift)
            or (not found and any(part in contents for part in parts))
        )
        findings.check(
            "requests_fit",
            held and paired(request.messages),
            lambda t=text: f"{len(t)} characters: {t[:300]}",
        )


def paired(messages: list[dict[str, Any]]) -> bool:
    """Whether each call is followed by its result, and each result has its call."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return False
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            return False
        else:
            open_calls = {call["id"] for call in message.get("tool_calls", ())}
    return not open_calls


def check_completion(
    findings: Findings, entries: list[Entry], outside: Outside
) -> None:
    """A step is complete after acceptance, a task after its steps, and for good."""
    done: dict[str, set[str]] = defaultdict(set)
    steps: dict[str, list[str]] = {}
    for one in entries:
        body = one.body
        match one.type:
            case "TaskSubmitted":
                steps[one.task] = [step["id"] for step in body["steps"]]
            case "StepEnded" if body["status"] == "completed":
                findings.check(
                    "complete_after_acceptance",
                    (one.task, body["step"]) in outside.accepted,
                    lambda o=one: f"nobody accepted it: {o}",
                )
                done[one.task].add(body["step"])
            case "DecisionMade" | "StepStarted":
                findings.check(
                    "complete_after_acceptance",
                    body["step"] not in done[one.task],
                    lambda o=one: f"it was complete before: {o}",
                )
            case "TaskClosing" if body["status"] == "completed":
                findings.check(
                    "complete_after_acceptance",
                    done[one.task] == set(steps[one.task]),
                    lambda o=one: f"steps are missing: {o}",
                )
