"""An agent as data: who it is, what it may use, and how its work is judged."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

import msgspec

from .acceptance import Accept, check_accept
from .accepting.combine import asks_a_model
from .builtin import INSIDE
from .context.measure import canonical
from .context.measures import counts_tokens, named
from .definition import Definition, define
from .errors import Misuse
from .model import Model, ModelReply, ModelRequest, ToolSchema
from .naming import NAME
from .outcomes import NotSent
from .plan.planner import Planner
from .plan.step import Plan, Step
from .policy import Policy, is_async, refuse_with_policy
from .price import Price
from .rules import Rule, check_rules
from .storable import is_storable
from .tool import UNDO, Tool
from .windows.limit import is_service

__all__ = ["Agent", "FixedLayer", "absent"]


class FixedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at the head of every request of an agent; kept once in the store."""

    instructions: str
    tools: list[ToolSchema]

    def body(self) -> bytes:
        """Canonical JSON; its SHA-256 names the layer."""
        return canonical(msgspec.to_builtins(self)).encode()


class NoModel:
    """Stands in for a model: the agent is not registered, or has a policy instead."""

    name = "none"

    async def complete(self, request: ModelRequest) -> ModelReply:
        raise NotSent("the agent has no model")


class Agent:
    """A named agent: a model with instructions, or a policy; tools; what judges it.

    Args:
        name: registered under this name; tasks refer to it.
        instructions: the fixed layer of every request.
        tools: what `@tool` declared.
        model: anything with ``name`` and ``async complete(request)``; one that has a
            ``service`` is called as often as a `RateLimit` of that name allows.
        policy: a function of a `PolicyView`, sync or async, that returns a `Call`,
            `Calls`, `Finish` or `Stop`; in place of a model and its instructions. It
            must have no side effects: a decision that was lost is asked for again.
        plan: a `Plan`, a sequence of `Step`, or None for one free step.
        planner: has the model write the plan where there is none, and look at it again
            at checkpoints; None keeps the plan as it is given.
        accept: judges the output of the whole task; like `Step.accept`. What it
            refuses is repaired: its last step runs again with the reason, three times
            at most, then the task pauses.
        output: a msgspec Struct that the last step's result must fit; the task's
            output is then an instance of it.
        recovery: ``declare`` asks the model for a declaration after a crash, and for
            a word on where it stands before a pause for money; ``rules`` declares from
            the record, and asks for neither; so does ``person``, and the task pauses
            until somebody who read that declaration resumes it. None is ``declare``
            with a model, and ``rules`` with a policy.
        recall: add the tools `read_evidence` and `recall` to those given, so that the
            model can open again what left its requests. An agent without tools has
            nothing to open.
        rules: what its tasks must not do; kept by the door for each of them, and
            stored with it.
        max_rounds: model replies a task without a plan may take; None takes the
            baseline's 50.
        summaries: have the model sum up exchanges before they leave a request, in one
            more call; without, they are left out by rule.
        price: what the model's tokens cost; None is unknown, never zero.
        measure: what `request_limit` counts: ``characters`` of canonical JSON;
            ``estimate``, tokens estimated from above by script and moved towards what
            the provider reports; ``tokens``, exactly those of ``o200k_base``, or
            ``tokens:ENCODING`` of another encoding (extra ``tokens``). By name only:
            a function of yours would run where the runtime's own code does.
        request_limit: how long a request may be, schemas of the tools included. None
            takes the baseline's 16,000 characters. With a measure of tokens it is the
            model's window, must be given, and holds the reply as well.
        adopt: have tasks in progress go on with this agent that began with another
            definition of it, whatever has changed: True for all of them, or the
            digests of those that may. Without, they go on where only texts changed
            or tools were added, and are parked with the difference where more did.

    Raises:
        Misuse: naming the field, the value and the fix.
    """

    def __init__(
        self,
        *,
        name: str,
        instructions: str | None = None,
        model: Model | None = None,
        policy: Policy | None = None,
        tools: Sequence[Tool] = (),
        plan: Plan | Sequence[Step] | None = None,
        planner: Planner | None = None,
        accept: Accept | None = None,
        output: type[msgspec.Struct] | None = None,
        recovery: Literal["declare", "rules", "person"] | None = None,
        max_rounds: int | None = None,
        price: Price | None = None,
        recall: bool = True,
        rules: Sequence[Rule] = (),
        measure: str = "characters",
        request_limit: int | None = None,
        summaries: bool = False,
        adopt: bool | Sequence[str] = False,
    ) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise Misuse(f"agent name {name!r}: use 1-64 letters, digits, . _ or -")
        self.name = name
        self.policy = policy
        self.policy_is_async = is_async(policy)
        if policy is not None:
            refuse_with_policy(
                name,
                policy,
                instructions=instructions,
                model=model,
                price=price,
                max_rounds=max_rounds,
                request_limit=request_limit,
                planner=planner,
                summaries=summaries or None,
                measure=None if measure == "characters" else measure,
                recovery="declare" if recovery == "declare" else None,
            )
            instructions, model, recovery = "", NoModel(), recovery or "rules"
        if model is None:
            raise Misuse(
                f"agent {name!r}: model=None and policy=None; give one of the two, to "
                "decide what is done"
            )
        self.instructions: str = instructions  # type: ignore[assignment]  # by _check
        self.model = model
        self.tools = _by_name(name, tools)
        if not isinstance(recall, bool):
            raise Misuse(f"agent {name!r}: recall={recall!r} must be True or False")
        if recall and self.tools:
            for one in INSIDE:
                self.tools.setdefault(one.name, one)
        self.plan = _plan(name, plan)
        self.planner = planner
        self.accept = accept
        self.output = output
        self.recovery: Literal["declare", "rules", "person"] = recovery or "declare"
        self.max_rounds = max_rounds
        self.price = price
        self.rules = check_rules(rules, f"agent {name!r}")
        self.measure = measure
        self.request_limit = request_limit
        self.summaries = summaries
        self.adopt = _adopt(name, adopt)
        self.service: str = getattr(model, "service", "")
        self._check()
        self.fixed = FixedLayer(instructions=self.instructions, tools=self.schemas())

    def _check(self) -> None:
        if not isinstance(self.instructions, str) or not is_storable(self.instructions):
            raise Misuse(
                f"agent {self.name!r}: instructions={self.instructions!r} must be "
                "text, without lone surrogates"
            )
        if not isinstance(self.model, Model):
            raise Misuse(
                f"agent {self.name!r}: model={self.model!r} is no model; it needs a "
                "`name` and `async complete(request)`"
            )
        if self.service != "" and not is_service(self.service):
            raise Misuse(
                f"agent {self.name!r}: its model's service={self.service!r} must be a "
                "name, the one that a RateLimit gives"
            )
        if self.accept is not None:
            check_accept(self.accept, f"agent {self.name!r}: accept")
        steps = self.plan.steps if self.plan is not None else ()
        judges = [self.accept, *(step.accept for step in steps)]
        if self.policy is not None and any(map(asks_a_model, judges)):
            raise Misuse(
                f"agent {self.name!r}: accept= asks a model to judge, and a policy has "
                "none; judge with a function"
            )
        if self.planner is not None:
            self._check_planner(self.planner)
        if self.recovery not in ("declare", "rules", "person"):
            raise Misuse(
                f"agent {self.name!r}: recovery={self.recovery!r} is not 'declare', "
                "'rules' or 'person'; choose one of them"
            )
        if self.output is not None and not (
            isinstance(self.output, type) and issubclass(self.output, msgspec.Struct)
        ):
            raise Misuse(
                f"agent {self.name!r}: output={self.output!r} is no msgspec Struct "
                "class; define one with the fields the result must have"
            )
        if self.max_rounds is not None and (
            type(self.max_rounds) is not int or self.max_rounds < 1
        ):
            raise Misuse(
                f"agent {self.name!r}: max_rounds={self.max_rounds!r} must be a whole "
                "number of at least 1"
            )
        self._check_request()
        if not isinstance(self.summaries, bool):
            raise Misuse(
                f"agent {self.name!r}: summaries={self.summaries!r} must be True or "
                "False"
            )
        if self.price is not None and not isinstance(self.price, Price):
            raise Misuse(
                f"agent {self.name!r}: price={self.price!r} is no Price; give "
                "Price(input='2.50', output='10'), for a million tokens each"
            )

    def _check_planner(self, planner: object) -> None:
        if not isinstance(planner, Planner):
            raise Misuse(
                f"agent {self.name!r}: planner={planner!r} is no Planner; give "
                "Planner(max_steps=12)"
            )
        steps = len(self.plan.steps) if self.plan is not None else 0
        if steps > planner.max_steps:
            raise Misuse(
                f"agent {self.name!r}: its plan has {steps} steps, and its planner "
                f"allows max_steps={planner.max_steps}: give that at least {steps}"
            )

    def _check_request(self) -> None:
        limit = self.request_limit
        try:
            named(self.measure)
        except Misuse as error:
            raise Misuse(f"agent {self.name!r}: {error}") from error
        if limit is None and counts_tokens(self.measure):
            raise Misuse(
                f"agent {self.name!r}: measure={self.measure!r} needs request_limit=, "
                "the tokens of the model's window"
            )
        if limit is not None and (type(limit) is not int or limit < 1):
            raise Misuse(
                f"agent {self.name!r}: request_limit={limit!r} must be a whole number "
                f"of at least 1, counted in {self.measure}"
            )

    def tool_of(self, name: str, *, undo: bool = False) -> Tool | None:
        """The tool of that name; with `undo` what takes effects of another back."""
        if not undo:
            return self.tools.get(name)
        tool = self.tools.get(name.removesuffix(UNDO))
        return None if tool is None else tool.undo

    def schemas(self) -> list[ToolSchema]:
        """The tools as models are told of them, in the order they were given."""
        return [one.schema() for one in self.tools.values()]

    def digest(self) -> str:
        """The name of what it is: texts, plan, judges, and its tools."""
        return self._digest

    def adopts(self, digest: str) -> bool:
        """Whether tasks of that other definition are to go on with this one."""
        return self.adopt is True or (self.adopt is not False and digest in self.adopt)

    @functools.cached_property
    def definition(self) -> Definition:
        """What its tasks rest on, as of the first time that it is asked for."""
        return define(self)

    @functools.cached_property
    def _digest(self) -> str:
        return self.definition.digest


def absent(name: str) -> Agent:
    """An agent that can only wind up: for a task to be cancelled without its own."""
    return Agent(name=name, instructions="", model=NoModel(), recovery="rules")


def _adopt(agent: str, adopt: object) -> bool | tuple[str, ...]:
    if isinstance(adopt, bool):
        return adopt
    if isinstance(adopt, Sequence) and not isinstance(adopt, str):
        digests = tuple(adopt)
        if all(isinstance(one, str) for one in digests):
            return digests
    raise Misuse(
        f"agent {agent!r}: adopt={adopt!r} must be True, or a list of the digests that "
        "parked tasks are shown with"
    )


def _by_name(agent: str, tools: Sequence[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for one in tools:
        if not isinstance(one, Tool):
            raise Misuse(
                f"agent {agent!r}: tools= holds {one!r}, which is no tool; put @tool "
                "above the function"
            )
        if one.name in found:
            raise Misuse(
                f"agent {agent!r}: two tools are called {one.name!r}; give one of them "
                "name="
            )
        found[one.name] = one
    return found


def _plan(agent: str, plan: Plan | Sequence[Step] | None) -> Plan | None:
    if plan is None or isinstance(plan, Plan):
        return plan
    for step in plan:
        if not isinstance(step, Step):
            raise Misuse(f"agent {agent!r}: plan= holds {step!r}, which is no Step")
    return Plan(steps=tuple(plan))
