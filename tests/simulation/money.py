"""The books, added up by hand: what was granted, set aside, used and given back."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.simulation.findings import Findings
from tests.simulation.outside import Outside
from tests.simulation.witness import Entry, Witness

__all__ = ["check_accounts", "check_pool"]

FLOOR = 0.1  # share of a grant that is kept for winding up
ENDING = ("cancel", "compensate")  # orders
CALL = {"tool_calls": 1, "tool:delegate": 1}  # what handing on uses itself
FLOORED = ("tokens", "input_tokens", "output_tokens", "cost", "model_calls")


class Account:
    """One task's money as the records tell it."""

    def __init__(self) -> None:
        self.granted: Counter[str] = Counter()
        self.grants: set[str] = set()
        self.aside: dict[tuple[int, int], dict[str, int]] = {}
        self.settled: dict[tuple[int, int], dict[str, Any]] = {}
        self.books: dict[str, Counter[str]] = defaultdict(Counter)
        self.used: Counter[str] = Counter()
        self.closing: set[int] = set()  # the operations that the floor pays for
        self.returned: dict[str, int] | None = None

    def use(self, book: str, amounts: dict[str, int]) -> None:
        """Book what was used."""
        self.books[book].update(amounts)
        self.used.update(amounts)

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
    passed: dict[str, dict[str, int]] = {}  # grant of a sub-task, out of its parent's
    handed: dict[tuple[str, int], Entry] = {}
    recorded: dict[tuple[str, int, int], Entry] = {}
    for one in entries:
        if one.type == "Granted":
            granted[one.body["grant"]] = one.body["amounts"]
            if one.body["parent"]:
                passed[one.task] = one.body["amounts"]
                held = f"{one.task}/first" == one.body["grant"]
                held = held and one.body["parent"] == witness.parents[one.task]
                findings.check("money_conserved", held, one.__repr__)
        elif one.type == "SubtaskStarted":
            handed[one.task, one.body["op"]] = one
            _check_handed(findings, accounts[one.task], one)
        elif one.type == "DecisionMade":
            if one.body["action"].get("purpose") == "closing":
                accounts[one.task].closing.add(one.body["op"])
        elif one.type == "EffectRecorded":
            recorded[one.task, one.body["op"], one.body["attempt"]] = one
        elif one.record.stream.endswith("/account"):
            _follow(findings, accounts[one.task], one, granted)
            if one.type == "Settled" and (one.task, one.body["op"]) in handed:
                part = handed[one.task, one.body["op"]].body
                _check_paid(findings, accounts[part["child"]], one, part["amounts"])
        elif one.type == "GrantReturned":
            account = accounts[one.task]
            mine = Counter(account.returned or {})
            if one.task in passed:  # only what came from the pool goes back to it
                for name, amount in account.granted.items():
                    own = amount - passed[one.task].get(name, 0)
                    mine[name] = min(mine[name], own)
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

    _check_all_back(findings, entries, accounts, witness, passed)


def _check_all_back(
    findings: Findings,
    entries: list[Entry],
    accounts: dict[str, Account],
    witness: Witness,
    passed: dict[str, dict[str, int]],
) -> None:
    """What ended tasks did not use is back in the pool, to the last unit."""
    out: dict[str, Counter[str]] = defaultdict(Counter)
    for one in entries:
        if one.type == "Granted" and not one.body["parent"]:
            out[one.task].update(one.body["amounts"])
        elif one.type == "GrantReturned":
            out[one.task].subtract(one.body["amounts"])
    for task in witness.ended:
        for name, amount in out[task].items():
            used = accounts[task].used[name]
            if task in passed:  # what it used of its parent's is on its parent's books
                used = max(0, used - passed[task].get(name, 0))
            findings.check(
                "money_conserved",
                amount == used,
                lambda t=task, n=name: (
                    f"{t}: {n} out {out[t]}, used {accounts[t].used}"
                ),
            )


def _check_handed(findings: Findings, parent: Account, one: Entry) -> None:
    """What a sub-task gets is set aside for it, with what the call itself uses."""
    aside = [
        Counter(amounts)
        for (op, _), amounts in parent.aside.items()
        if op == one.body["op"]
    ]
    wanted = Counter(one.body["amounts"]) + Counter(CALL)
    findings.check(
        "money_conserved", [+have for have in aside] == [wanted], one.__repr__
    )


def _check_paid(
    findings: Findings, child: Account, one: Entry, handed: dict[str, int]
) -> None:
    """A parent pays what its sub-task used, up to what it handed on."""
    paid: Counter[str] = Counter(one.body["amounts"])
    for amounts in one.body["beside"].values():
        paid.update(amounts)
    paid.subtract(CALL)
    wanted = {
        name: min(used, handed.get(name, used)) for name, used in child.used.items()
    }
    first = Counter(one.body["amounts"])
    first.subtract(CALL)
    spent = child.books["spent"]
    held = paid == Counter(wanted) and all(
        n == min(spent[name], handed.get(name, n)) for name, n in first.items()
    )
    findings.check(
        "money_conserved", held, lambda: f"{one}; used {child.used} of {handed}"
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
                if not body["amounts"].get(name):
                    continue
                keep = int(account.granted[name] * FLOOR) if name in FLOORED else 0
                keep = 0 if body["op"] in account.closing else keep
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
                account.use(body["book"], body["amounts"])
            for book, amounts in body["beside"].items():
                account.use(book, amounts)
        case "AccountClosed":
            left = {name: account.available(name) for name in account.granted}
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
    ending: set[str] = set()  # told to end
    winding_up: set[str] = set()  # they need no free slot
    parents: dict[str, str] = {}
    for one in entries:
        body = one.body
        match one.type:
            case "PoolOpened":
                limits = body["limits"]
            case "Granted":
                if not body["parent"]:
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
            case "TaskQueued":
                parents[one.task] = body["parent"]
            case "TaskWoken" if body["order"] in ENDING:
                ending.add(one.task)
            case "TaskActivated":
                running.add(one.task)
                if body["order"] in ENDING or parents[one.task] in ending & running:
                    winding_up.add(one.task)
                held = len(running - winding_up) <= active
                findings.check("no_grant_over_limit", held, one.__repr__)
            case "TaskPassivated" | "TaskParked" | "TaskLeft":
                running.discard(one.task)
