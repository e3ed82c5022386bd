"""The books, added up by hand: what was granted, set aside, used and given back."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.simulation.findings import Findings
from tests.simulation.outside import Outside
from tests.simulation.witness import Entry, Witness

__all__ = ["check_accounts", "check_pool"]

FLOOR = 0.1  # share of a grant that is kept for winding up
FLOORED = ("tokens", "input_tokens", "output_tokens", "cost", "model_calls")


class Account:
    """One task's money as the records tell it."""

    def __init__(self) -> None:
        self.granted: Counter[str] = Counter()
        self.grants: set[str] = set()
        self.aside: dict[tuple[int, int], dict[str, int]] = {}
        self.settled: dict[tuple[int, int], dict[str, Any]] = {}
        self.used: Counter[str] = Counter()
        self.returned: dict[str, int] | None = None

    def available(self, name: str) -> int:
        """What is left to set aside in one dimension."""
        aside = sum(amounts.get(name, 0) for amounts in self.aside.values())
        return self.granted[name] - aside - self.used[name]


def check_accounts(
    findings: Findings, entries: list[Entry], outside: Outside, witness: Witness
) -> None:
    """Follow every account from grant to return."""
    accounts: dict[str, Account] = defaultdict(Account)
    granted: dict[str, dict[str, int]] = {}
    recorded: dict[tuple[str, int, int], Entry] = {}
    for one in entries:
        if one.type == "Granted":
            granted[one.body["grant"]] = one.body["amounts"]
        elif one.type == "EffectRecorded":
            recorded[one.task, one.body["op"], one.body["attempt"]] = one
        elif one.record.stream.endswith("/account"):
            _follow(findings, accounts[one.task], one, granted)
        elif one.type == "GrantReturned":
            account = accounts[one.task]
            mine = Counter(account.returned or {})
            for grant, amounts in granted.items():
                if grant.startswith(f"{one.task}/") and grant not in account.grants:
                    mine.update(amounts)  # in transit when the account closed
            held = account.returned is not None and mine == Counter(one.body["amounts"])
            findings.check("money_conserved", held, one.__repr__)
    for (task, op, attempt), one in recorded.items():
        if task not in witness.ended or one.body["status"] == "unknown":
            continue
        if not (usage := one.body["usage"]):
            continue
        settled = accounts[task].settled.get((op, attempt))
        findings.check(
            "money_conserved",
            settled is not None and settled["amounts"] == usage,
            lambda o=one, s=settled: f"used {o}, settled {s}",
        )
    for task in witness.ended:
        used = accounts[task].used
        tools = outside.tool_calls[task]
        findings.check(
            "money_conserved",
            used["tool_calls"] >= tools,
            lambda t=task, n=tools: (
                f"{t}: {n} tool calls, on the books {accounts[t].used}"
            ),
        )
        findings.check(
            "money_conserved",
            not accounts[task].aside,
            lambda t=task: f"{t}: never settled {accounts[t].aside}",
        )

    _check_all_back(findings, entries, accounts, witness)


def _check_all_back(
    findings: Findings,
    entries: list[Entry],
    accounts: dict[str, Account],
    witness: Witness,
) -> None:
    """What ended tasks did not use is back in the pool, to the last unit."""
    out: dict[str, Counter[str]] = defaultdict(Counter)
    for one in entries:
        if one.type == "Granted":
            out[one.task].update(one.body["amounts"])
        elif one.type == "GrantReturned":
            out[one.task].subtract(one.body["amounts"])
    for task in witness.ended:
        for name, amount in out[task].items():
            used = accounts[task].used[name]
            findings.check(
                "money_conserved",
                amount == used
                or (amount < used and accounts[task].available(name) < 0),
                lambda t=task, n=name: (
                    f"{t}: {n} out {out[t]}, used {accounts[t].used}"
                ),
            )


def _follow(
    findings: Findings, account: Account, one: Entry, granted: dict[str, Any]
) -> None:
    body = one.body
    held = account.returned is None
    match one.type:
        case "GrantTaken":
            new = body["grant"] not in account.grants
            held = held and new and granted.get(body["grant"]) == body["amounts"]
            account.grants.add(body["grant"])
            account.granted.update(body["amounts"])
        case "Reserved":
            for name in account.granted:
                if name == "milliseconds" or not body["amounts"].get(name):
                    continue
                keep = int(account.granted[name] * FLOOR) if name in FLOORED else 0
                left = account.available(name) - body["amounts"][name]
                findings.check("no_grant_over_limit", left >= keep, one.__repr__)
            key = body["op"], body["attempt"]
            held = held and key not in account.settled and key not in account.aside
            account.aside[key] = body["amounts"]
        case "Held":
            held = held and (body["op"], body["attempt"]) in account.aside
        case "Settled":
            key = body["op"], body["attempt"]
            held = held and account.aside.pop(key, None) is not None
            account.settled[key] = body
            if body["book"] != "none":
                account.used.update(body["amounts"])
        case "AccountClosed":
            left = {name: max(0, account.available(name)) for name in account.granted}
            held = held and body["returned"] == left and not account.aside
            account.returned = body["returned"]
    findings.check("money_conserved", held, one.__repr__)


def check_pool(findings: Findings, entries: list[Entry], active: int) -> None:
    """What is out is within the limits; no more tasks are active than may be."""
    limits: dict[str, int] = {}
    out: Counter[str] = Counter()
    seen: set[str] = set()
    back: set[str] = set()
    running: set[str] = set()
    winding_up: set[str] = set()
    for one in entries:
        body = one.body
        match one.type:
            case "PoolOpened":
                limits = body["limits"]
            case "Granted":
                out.update(body["amounts"])
                held = all(out[name] <= limit for name, limit in limits.items())
                new = body["grant"] not in seen
                seen.add(body["grant"])
                findings.check("no_grant_over_limit", held and new, one.__repr__)
            case "GrantReturned":
                out.subtract(body["amounts"])
                new = one.task not in back
                back.add(one.task)
                findings.check("money_conserved", new, one.__repr__)
            case "TaskActivated":
                running.add(one.task)
                if body["order"] == "cancel":
                    winding_up.add(one.task)
                held = len(running - winding_up) <= active
                findings.check("no_grant_over_limit", held, one.__repr__)
            case "TaskPassivated" | "TaskParked" | "TaskLeft":
                running.discard(one.task)
