"""A policy as its host writes it: a function of a view that says what to do next.

The function is plain Python and free of side effects: what acts are tools. It is asked
again whenever an answer of it was lost, and never once its answer is on disk.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Container
from typing import Any, Literal, TypeAlias

import msgspec

from .context.measure import canonical
from .errors import Misuse
from .task.values import is_storable, parsed

__all__ = [
    "CALLS",
    "Action",
    "Call",
    "Calls",
    "Chosen",
    "Done",
    "Finish",
    "Policy",
    "PolicyStep",
    "PolicyView",
    "Stop",
    "is_async",
    "read_action",
    "refuse_with_policy",
]

CALLS = 64  # of one decision, at most
MEMO = 16_384  # characters of JSON; it stands in the task's state
VALUE = 262_144  # characters of JSON that a call's arguments, or a result, may take
WHY = 500  # characters of a reason that are kept

UNSET: Any = msgspec.UNSET


class Call(msgspec.Struct, frozen=True):
    """Call one tool, by name.

    Args:
        tool: its name.
        arguments: JSON values by parameter.
        why: the reason, for the decision log.
        memo: a JSON value that the next views carry; left out, the one before stays.
    """

    tool: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    why: str = ""
    memo: Any = UNSET


class Calls(msgspec.Struct, frozen=True):
    """Call up to 64 tools at once; the policy is asked again when all have ended."""

    calls: list[Call]
    why: str = ""
    memo: Any = UNSET


class Finish(msgspec.Struct, frozen=True):
    """The step is done, with this result (a JSON value), if its acceptance agrees.

    If not, the policy is asked again, with the refusal among the notes.
    """

    result: Any = None
    why: str = ""
    memo: Any = UNSET


class Stop(msgspec.Struct, frozen=True):
    """Pause the task until somebody resumes it; `why` says what they are to look at."""

    why: str
    memo: Any = UNSET


Action: TypeAlias = Call | Calls | Finish | Stop


class PolicyStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step as a policy sees it; `iteration` counts the decisions of this attempt."""

    id: str
    goal: str
    done: str
    status: str
    attempt: int
    iteration: int


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended.

    `arguments` are those that the tool was called with. `status` ``unknown`` means
    that it may have happened. `by` says who knows: ``run``, ``record`` (the same call
    was made before and is not made twice), ``door`` (it was refused), ``probe``,
    ``person``, ``recovery`` or ``subtask``.
    """

    tool: str
    arguments: dict[str, Any]
    status: Literal["completed", "failed", "unknown"]
    result: str = ""
    error: str = ""
    by: str = "run"

    @property
    def value(self) -> Any:
        """The result as JSON where it is JSON, else its text."""
        return parsed(self.result)


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy decides from; it has nothing else to look at.

    Args:
        task, goal, constraints, inputs: as the task was submitted.
        step, steps: the running step, and all of them.
        facts: the accepted result of each completed step, by its id.
        last: the calls of the newest decision in this step, in its order.
        recent: the newest 16 calls of this step that have ended, oldest first.
        count: how many calls of this step have ended.
        notes: the newest refusals of acceptance and failures, then what people told
            the task (`handle.steer`).
        memo: the JSON value that the newest action with one carried; None at first,
            and when somebody has a step done again.
    """

    task: str
    goal: str
    step: PolicyStep
    constraints: tuple[str, ...] = ()
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    steps: tuple[PolicyStep, ...] = ()
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    last: tuple[Done, ...] = ()
    recent: tuple[Done, ...] = ()
    count: int = 0
    notes: tuple[str, ...] = ()
    memo: Any = None


Policy: TypeAlias = Callable[[PolicyView], Action | Awaitable[Action]]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """An action as it is written down: JSON texts; `calls` are tool, arguments, why.

    With neither calls nor a `result` it is a stop.
    """

    why: str
    calls: tuple[tuple[str, str, str], ...] = ()
    result: str | None = None
    memo: str | None = None


def is_async(policy: object) -> bool:
    """Whether calling it gives an awaitable, as far as that can be told."""
    call = getattr(type(policy), "__call__", None)  # noqa: B004 - it is looked at
    return inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(call)


def refuse_with_policy(agent: str, policy: object, **given: object) -> None:
    """Refuse what concerns a model only, and what is no function."""
    if not callable(policy):
        raise Misuse(
            f"agent {agent!r}: policy={policy!r} is no function; give one of a "
            "PolicyView that returns a Call, Calls, Finish or Stop"
        )
    for name, value in given.items():
        if value is not None:
            raise Misuse(
                f"agent {agent!r}: {name}={_shown(value)} is for an agent with a "
                "model, and this one has policy=; leave one of the two out"
            )


def read_action(action: object, tools: Container[str]) -> Chosen:
    """Check what a policy returned, whole, before anything of it is done.

    Raises Misuse, naming the field, the value and the fix.
    """
    if not isinstance(action, Action):
        raise Misuse(
            f"the policy returned {_shown(action)}, a {type(action).__name__}; return "
            "a Call, Calls, Finish or Stop"
        )
    kind = type(action).__name__
    why = _text(f"{kind}.why", action.why)
    memo = None
    if action.memo is not msgspec.UNSET:
        memo = _json(f"{kind}.memo", action.memo, MEMO)
    match action:
        case Call():
            return Chosen(why=why, calls=(_call(action, tools, "Call"),), memo=memo)
        case Calls(calls=calls):
            return Chosen(why=why, calls=_calls(calls, tools), memo=memo)
        case Finish(result=result):
            text = _json("Finish.result", result, VALUE)
            return Chosen(why=why, result=text, memo=memo)
    if not why:
        raise Misuse("Stop.why='' is empty; say what somebody is to look at")
    return Chosen(why=why, memo=memo)


def _calls(calls: object, tools: Container[str]) -> tuple[tuple[str, str, str], ...]:
    if not isinstance(calls, list | tuple) or not 1 <= len(calls) <= CALLS:
        raise Misuse(
            f"Calls.calls={_shown(calls)} must be a list of 1 to {CALLS} Calls; make "
            "the others in a later decision"
        )
    for place, one in enumerate(calls):
        if not isinstance(one, Call):
            raise Misuse(f"Calls.calls[{place}]={_shown(one)} is no Call")
        if one.memo is not msgspec.UNSET:
            raise Misuse(
                f"Calls.calls[{place}].memo={_shown(one.memo)}: a decision has one "
                "memo; give it to Calls"
            )
    return tuple(
        _call(one, tools, f"Calls.calls[{place}]") for place, one in enumerate(calls)
    )


def _call(call: Call, tools: Container[str], where: str) -> tuple[str, str, str]:
    if not isinstance(call.tool, str) or call.tool not in tools:
        known = ", ".join(sorted(tools)) if isinstance(tools, dict) else ""
        raise Misuse(
            f"{where}.tool={_shown(call.tool)} is no tool of the agent; its tools are: "
            f"{known or 'none'}"
        )
    if not isinstance(call.arguments, dict):
        raise Misuse(
            f"{where}.arguments={_shown(call.arguments)} must be a dict of the tool's "
            "parameters"
        )
    arguments = _json(f"{where}.arguments", call.arguments, VALUE)
    return call.tool, arguments, _text(f"{where}.why", call.why)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise Misuse(f"{name}={_shown(value)} must be text")
    if value.isascii():
        return value[:WHY]
    return value[:WHY].encode("utf-8", "replace").decode()


def _json(name: str, value: object, most: int) -> str:
    try:
        text = canonical(msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Misuse(
            f"{name}={_shown(value)} is no JSON value: {error.__cause__ or error}"
        ) from error
    if len(text) > most:
        raise Misuse(
            f"{name} has {len(text)} characters of JSON, {most} are the most; keep "
            "what is bulky outside, and pass its name"
        )
    if not is_storable(text):
        raise Misuse(
            f"{name}={_shown(value)} is no JSON that can be stored: it nests too deep, "
            "or holds a lone surrogate"
        )
    return text


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "(it cannot be shown)"
    return text[:200]
