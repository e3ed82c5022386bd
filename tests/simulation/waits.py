"""What must hold of approvals, commands and timers, read from the journal by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from perdure.storage.memory import MemoryStore
from tests.simulation.findings import Findings
from tests.simulation.outside import Outside
from tests.simulation.witness import Entry

__all__ = ["GATED", "check_approvals", "check_commands", "check_timers"]

GATED = "erase"  # the tool that needs an approval
ONCE = "once_at_most_once"
ROUNDING = 0.001  # seconds


def check_approvals(findings: Findings, entries: list[Entry], outside: Outside) -> None:
    """Asked and answered once; cited by one effect, of exactly its arguments.

    A yes may be followed by a no, which takes it back; the task then takes both.
    """
    asked: dict[str, Entry] = {}
    verdicts: dict[str, bool] = {}
    taken: dict[str, bool] = {}
    used: dict[str, tuple[str, int]] = {}
    bare: set[tuple[str, int]] = set()  # operations that may not have run
    yes = 0
    for one in entries:
        body = one.body
        held = True
        match one.type:
            case "ApprovalAsked":
                held = body["approval"] not in asked
                asked[body["approval"]] = one
            case "ApprovalAnswered":
                held = body["approval"] in asked
                if body["approval"] in verdicts:
                    held = held and verdicts[body["approval"]]
                    held = held and not body["approved"]
                verdicts[body["approval"]] = body["approved"]
                yes += body["approved"]
            case "ApprovalTaken":
                held = taken.get(body["approval"], True)
                if body["approved"]:  # it may have been taken back since it was read
                    held = body["approval"] not in taken
                    held = held and body["approval"] in verdicts
                else:
                    held = held and verdicts.get(body["approval"]) is False
                taken[body["approval"]] = body["approved"]
            case "EffectRegistered" if body["name"] == GATED:
                if body.get("reused") is not None:
                    continue
                place = one.task, body["op"]
                if body.get("approval"):
                    approval = body["approval"]
                    bare.discard(place)
                    held = _is_of(asked.get(approval), one)
                    held = held and taken.get(approval) is True
                    held = held and used.setdefault(approval, place) == place
                else:
                    bare.add(place)
            case "EffectRecorded" if (one.task, body["op"]) in bare:
                held = body["status"] == "failed"
            case _:
                continue
        findings.check(ONCE, held, one.__repr__)
    acts = Counter(request for request, _ in outside.erased)
    findings.check(
        ONCE,
        sum(acts.values()) <= yes,
        lambda: f"{acts} by {verdicts}",
    )


def _is_of(asked: Entry | None, registered: Entry) -> bool:
    """Whether what was asked is what was registered, with the same arguments."""
    if asked is None:
        return False
    was, made = asked.body, registered.body
    same = json.loads(was["arguments"]) == json.loads(made["arguments"])
    place = asked.task, was["op"], was["tool"]
    return same and place == (registered.task, made["op"], made["name"])


def check_commands(
    findings: Findings, entries: list[Entry], store: MemoryStore
) -> None:
    """Each command of the inbox is applied once, and its answer is what was done."""
    applied = Counter(
        one.body["command"] for one in entries if one.type == "CommandApplied"
    )
    verdicts = {
        one.body["by"]: one.body for one in entries if one.type == "ApprovalAnswered"
    }
    answers = store.rows.get("answer", {})
    for command in store.inbox:
        times = applied[command.id]
        findings.check(
            ONCE, times <= 1, lambda c=command, n=times: f"{c} was applied {n} times"
        )
        answer: dict[str, Any] = json.loads(answers.get(command.id, b"{}"))
        verdict = verdicts.get(command.id)
        held = (verdict is not None) == bool(answer.get("done"))
        if verdict is not None:
            held = held and verdict["approval"] == command.subject
            held = held and verdict["approved"] == (command.kind == "approve")
        findings.check(
            "acked_durable",
            held and bool(answer) == bool(times),
            lambda c=command, a=answer: f"{c} is answered {a}",
        )


def check_timers(findings: Findings, entries: list[Entry], back: float) -> None:
    """Nothing goes on before its time; `back` is how far the clock was set back.

    Who is woken too late, or never, is not alive.
    """
    due: dict[tuple[str, int], float] = {}
    begins: dict[str, float] = {}
    fired: set[tuple[str, int]] = set()
    wanted: dict[tuple[str, int], float] = {}  # seconds
    for one in entries:
        body, at = one.body, one.record.at
        match one.type:
            case "DecisionMade" if body["action"].get("tool") == "sleep":
                arguments = json.loads(body["action"]["arguments"])
                wanted[one.task, body["op"]] = arguments["seconds"]
                continue
            case "TaskQueued" if body["not_before"] is not None:
                begins[one.task] = body["not_before"]
                continue
            case "TaskActivated" if body["order"] != "cancel":
                held = at + back >= begins.get(one.task, 0.0)
            case "TimerSet":
                place = one.task, body["op"]
                seconds = body["at"] - at
                held = place not in due and abs(seconds - wanted[place]) < ROUNDING
                due[place] = body["at"]
            case "TimerFired":
                place = one.task, body["op"]
                held = place not in fired and at + back >= due[place]
                fired.add(place)
            case "EffectRegistered" if body["name"] == "sleep":
                held = (one.task, body["op"]) in fired or body.get("reused") is not None
            case _:
                continue
        findings.check("live_after_faults", held, one.__repr__)
