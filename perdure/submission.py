"""What a caller hands to a runtime, checked when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from .actors.agent import Agent
from .actors.baseline import Baseline
from .actors.budget.account import Budget
from .actors.context.measures import counts_tokens
from .actors.windows.limit import RateLimit, seconds_of
from .errors import Misuse

__all__ = [
    "agents_by_name",
    "baseline_with",
    "limits_by_service",
    "retention_of",
    "unpriced",
]


def baseline_with(baseline: Baseline | None, active: int | None) -> Baseline:
    """The rules in force. Raises Misuse for a bad `active`."""
    found = Baseline() if baseline is None else baseline
    if not isinstance(found, Baseline):
        raise Misuse(f"baseline={baseline!r} is no Baseline; give Baseline(id=…)")
    if active is None:
        return found
    if type(active) is not int or active < 1:
        raise Misuse(f"active={active!r} must be a whole number of at least 1")
    return msgspec.structs.replace(found, active_tasks=active)


def retention_of(span: float | str | None) -> float | None:
    """The seconds that ended tasks keep their scratch; None: for good.

    Raises Misuse for what says no span.
    """
    if span is None or span == "forever":
        return None
    seconds = seconds_of(span)
    if seconds is None:
        raise Misuse(
            f"retention={span!r} must be seconds, over 0 and up to a year, or a text "
            "such as '12h' or '30d'; None or 'forever' keeps all"
        )
    return seconds


def unpriced(agent: Agent, budget: Budget | None, pool: Budget) -> str:
    """Why a limit of cost cannot be kept for an agent, or nothing where it can."""
    if agent.price is not None or agent.policy is not None:
        return ""
    own = budget.cost if isinstance(budget, Budget) else None
    name, limit = ("budget", own) if own is not None else ("pool", pool.cost)
    if limit is None:
        return ""
    return (
        f"{name}.cost={limit!r}: no price is known for model {agent.model.name!r} of "
        f"agent {agent.name!r}; give Agent(price=Price(…)), or limit tokens instead"
    )


def limits_by_service(limits: Sequence[RateLimit]) -> dict[str, RateLimit]:
    """The limits by service. Raises Misuse for what is none, and for two of one."""
    if isinstance(limits, RateLimit) or not isinstance(limits, Iterable):
        raise Misuse(f"limits={limits!r} is no list; give limits=[RateLimit(…)]")
    found: dict[str, RateLimit] = {}
    for limit in limits:
        if not isinstance(limit, RateLimit):
            raise Misuse(
                f"limits= holds {limit!r}, which is no RateLimit; give "
                "RateLimit('smtp', 30, per='1m')"
            )
        if limit.service in found:
            raise Misuse(
                f"limits= holds two of service {limit.service!r}; give one for each"
            )
        found[limit.service] = limit
    return found


def agents_by_name(agents: Sequence[Agent], rules: Baseline) -> dict[str, Agent]:
    """The agents by name.

    Raises Misuse for what is none, for a name used twice, and for a window of tokens
    that a reply fills alone.
    """
    if isinstance(agents, Agent) or not isinstance(agents, Iterable):
        raise Misuse(f"agents={agents!r} is no list; give agents=[agent]")
    found: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise Misuse(
                f"agents= holds {agent!r}, which is no Agent; give Agent(name=…)"
            )
        if agent.name in found:
            raise Misuse(
                f"two agents are called {agent.name!r}: give one of them another name"
            )
        _refuse_without_room(agent, rules)
        found[agent.name] = agent
    return found


def _refuse_without_room(agent: Agent, rules: Baseline) -> None:
    reply = max(rules.output_tokens, rules.closing_tokens)
    limit = agent.request_limit
    if limit is not None and counts_tokens(agent.measure) and limit <= reply:
        raise Misuse(
            f"agent {agent.name!r}: request_limit={limit} tokens leave no room beside "
            f"a reply of {reply}; raise it, or lower the baseline's output_tokens"
        )
