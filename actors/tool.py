"""Tools: plain functions with a declared effect class and a schema."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import msgspec

from .anchors import collect
from .declaration import check, check_anchors, check_importable, check_undo
from .errors import Misuse
from .events import Kind
from .model import ToolSchema
from .outcomes import Declared, declared
from .parameters import parameters_of

__all__ = [
    "UNDO",
    "CannotTell",
    "DidNotHappen",
    "Effect",
    "EffectClass",
    "Happened",
    "Tool",
    "ToolContext",
    "Verdict",
    "tool",
]

EffectClass: TypeAlias = Literal["read", "idempotent", "once"]
Errors: TypeAlias = tuple[type[Exception], ...]
UNDO = ".undo"  # behind a tool's name: the call that takes an effect of it back
TAKES = "it takes effect: Effect, and result: str if it likes, or is a tool that does"
SETTLE = 2.0  # seconds
MAX_WAIT = 60.0  # seconds


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe is told of the effect that it asks the world about.

    And an undo of the effect that it takes back; `arguments` are JSON values there.
    """

    task: str
    op: int
    attempt: int
    tool: str
    arguments: dict[str, Any]
    request_id: str


class Happened(msgspec.Struct, frozen=True, tag=True):
    """The effect is out in the world; `result` is what the call would have given."""

    result: Any = None


class DidNotHappen(msgspec.Struct, frozen=True, tag=True):
    """The effect is surely not out in the world."""


class CannotTell(msgspec.Struct, frozen=True, tag=True):
    """The world did not say; the probe is asked again, a bounded number of times."""

    why: str = ""


Verdict: TypeAlias = Happened | DidNotHappen | CannotTell


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool that takes `ctx` knows of its own call.

    `request_id` is the idempotency key, `deadline` the wall-clock second after which
    the runtime no longer waits, `fence` the fencing token ``task:epoch:op``.
    """

    request_id: str
    deadline: float
    fence: str
    log: Callable[..., None]
    anchors: dict[str, str]

    def anchor(self, name: str, value: str) -> None:
        """Keep a variable visible to the model until the task ends (B14).

        Short ones only: 64 characters of name, 1,000 of value, 32 of one call. What
        is beyond that, or the task's own limit, is refused: the model is told.
        """
        collect(self.anchors, name, value)


class Tool:
    """A declared tool. Calling it calls the function, so that it stays testable."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        effect: EffectClass,
        timeout: float | None,
        probe: Callable[[Effect], Verdict] | None,
        settle: float | None,
        probe_after: float,
        name: str | None,
        repeat: bool,
        approval: bool | Callable[[dict[str, Any]], bool],
        expires: float | None,
        isolate: Literal["process"] | None,
        memory: int | None,
        kind: Kind | None,
        key: Callable[[dict[str, Any]], str] | None,
        max_result: int | None,
        service: str | None,
        undo: Tool | Callable[..., Any] | None,
        failed: Errors,
        unknown: Errors,
        anchors: Sequence[str],
        poll: bool,
        max_wait: float,
        loop_key: Sequence[str],
        volatile: Sequence[str],
        counts_as: str | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        self.effect: EffectClass = effect
        self.timeout = timeout
        self.probe = probe
        self.settle = SETTLE if settle is None else settle
        self.probe_after = probe_after
        self.kind: Kind = kind or ("query" if effect == "read" else "downstream")
        self.key = key
        self.max_result = max_result
        self.service = service
        self.counts_as = counts_as
        self.repeat = repeat
        self.patience = max_wait if poll else 0.0
        self.loop_key = tuple(loop_key)
        self.volatile = tuple(volatile)
        self.approval = approval
        self.expires = expires
        self.rests: Callable[[dict[str, Any]], float] | None = None
        self.delegates = False
        self.asks = False  # a person's answer is its result
        self.claims = False  # what it anchors is the model's word
        self.inside = False  # answered by the memory service, not by its function
        self.isolate = isolate
        self.memory = memory
        self.description = inspect.getdoc(function) or ""
        if isolate is not None:
            check_importable(self.name, function)
        self.injected, self.parameters = parameters_of(self.name, function)
        self._decode = msgspec.json.Decoder(self.parameters).decode
        self.is_async = inspect.iscoroutinefunction(function)
        self.undo = None if undo is None else _undo(self.name, undo)
        check(self, settles=settle is not None, failed=failed, unknown=unknown)
        self.anchors = check_anchors(self.name, anchors)
        self.declared: Declared = declared(failed, unknown)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name} effect={self.effect}>"

    def schema(self) -> ToolSchema:
        """The tool as chat models are told of it (JSON Schema of the arguments)."""
        parameters = msgspec.json.schema(self.parameters)
        definitions = parameters.get("$defs", {})
        own = dict(definitions.pop(self.parameters.__name__))
        own.pop("title", None)
        if definitions:
            own["$defs"] = definitions
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": own,
        }
        return {"type": "function", "function": function}

    def parse(self, arguments: str) -> dict[str, Any]:
        """Validate the JSON text a model wrote; raise ValueError that names the field.

        Returns the values by parameter name, defaults filled in.
        """
        try:
            values = self._decode(arguments or "{}")
        except msgspec.ValidationError as error:
            raise ValueError(f"arguments of {self.name}: {error}") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(
                f"arguments of {self.name} are not JSON: {error}"
            ) from None
        return msgspec.structs.asdict(values)

    def invoke(self, values: dict[str, Any], context: ToolContext) -> Any:
        """Call the function with parsed values and what it asked to be given."""
        if not self.injected:
            return self.function(**values)
        extra: dict[str, Any] = {}
        if "ctx" in self.injected:
            extra["ctx"] = context
        if "request_id" in self.injected:
            extra["request_id"] = context.request_id
        return self.function(**values, **extra)


def _undo(name: str, undo: Tool | Callable[..., Any]) -> Tool:
    """What takes effects of tool `name` back, under a name that no model can call."""
    if isinstance(undo, Tool):
        found = copy.copy(undo)
    elif callable(undo):
        try:
            found = tool(effect="idempotent", name=f"undo_{name}"[:64])(undo)
        except Misuse as error:
            raise Misuse(f"tool {name!r}: undo={undo!r}: {error}; {TAKES}") from None
    else:
        raise Misuse(f"tool {name!r}: undo={undo!r} is no function; {TAKES}")
    check_undo(name, found)
    found.name = f"{name}{UNDO}"
    return found


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    effect: EffectClass = ...,
    timeout: float | None = ...,
    probe: Callable[[Effect], Verdict] | None = ...,
    settle: float | None = ...,
    probe_after: float = ...,
    name: str | None = ...,
    repeat: bool = ...,
    approval: bool | Callable[[dict[str, Any]], bool] = ...,
    expires: float | None = ...,
    isolate: Literal["process"] | None = ...,
    memory: int | None = ...,
    kind: Kind | None = ...,
    key: Callable[[dict[str, Any]], str] | None = ...,
    max_result: int | None = ...,
    service: str | None = ...,
    undo: Tool | Callable[..., Any] | None = ...,
    failed: Errors = ...,
    unknown: Errors = ...,
    anchors: Sequence[str] = ...,
    poll: bool = ...,
    max_wait: float = ...,
    loop_key: Sequence[str] = ...,
    volatile: Sequence[str] = ...,
    counts_as: str | None = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectClass = "once",
    timeout: float | None = None,
    probe: Callable[[Effect], Verdict] | None = None,
    settle: float | None = None,
    probe_after: float = 0.0,
    name: str | None = None,
    repeat: bool = False,
    approval: bool | Callable[[dict[str, Any]], bool] = False,
    expires: float | None = None,
    isolate: Literal["process"] | None = None,
    memory: int | None = None,
    kind: Kind | None = None,
    key: Callable[[dict[str, Any]], str] | None = None,
    max_result: int | None = None,
    service: str | None = None,
    undo: Tool | Callable[..., Any] | None = None,
    failed: Errors = (),
    unknown: Errors = (),
    anchors: Sequence[str] = (),
    poll: bool = False,
    max_wait: float = MAX_WAIT,
    loop_key: Sequence[str] = (),
    volatile: Sequence[str] = (),
    counts_as: str | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Declare a function as a tool; say what its repetition would do.

    Args:
        effect: ``read`` changes nothing and runs each time; ``idempotent`` may be
            repeated with the same `request_id`; ``once`` (the default) is never
            repeated on a guess.
        timeout: seconds the call may take; None takes the baseline's 60.
        probe: asks the world whether an effect happened; called with an `Effect`,
            off the dispatcher, only when an outcome is unknown.
        settle: seconds after the end of a worker before an absence that the probe
            found is believed; None takes 2.
        probe_after: seconds to wait before the probe is first asked, for a service
            that shows what it did only after a while.
        name: the name models see; the function's own by default.
        repeat: each equal call within a step is a new occurrence (a build, a test
            run), not the same effect.
        approval: True if each call waits until a person approves it, or a function of
            its arguments that says so. The function runs off the dispatcher; only
            False lets a call through, and one that raises or hangs does not.
        expires: seconds from being asked for until an approval is of no use; a call
            that was not made by then is asked for anew. None: an approval has no end.
        isolate: ``"process"`` runs each call in a process of its own, which imports
            the function by module and name. It may crash, hang or hoard there: it is
            killed at its deadline, and dies with the runtime's process.
        memory: bytes of address space that process may take, its interpreter's
            included; what goes over it is a MemoryError there. None sets no limit.
        kind: how often a failed call with equal arguments may be made again within a
            step: ``query`` 3 times, ``generate`` 5, ``downstream`` once (B82; the
            baseline has the figures). By default a read is a query, all else goes
            downstream.
        key: names the effect by its arguments (an order's number): one effect of this
            name in the whole task, whatever the step. The same name with other
            arguments is refused. Runs off the dispatcher.
        max_result: characters of a result that the record and the model show; a
            longer one is cut there and stands whole in the store. None keeps up to
            16 KiB whole, and cuts a longer one to 1,000 characters.
        service: what it calls, for ``Runtime(limits=[RateLimit(...)])``. Where that
            service is limited, or asked to be left alone (a `retry_after` of what was
            raised), the task waits for its turn as a row, without thread or slot.
        undo: takes a completed effect back when its task is cancelled with
            ``compensate=True``; called with ``effect: Effect`` and ``result: str``, or
            one of the two. It is a call of its own, with its own record and
            `request_id`. A plain function is an ``idempotent`` one; a tool has the
            class, probe and approval that it declares.
        failed: exceptions that prove the effect did not happen; like `NotSent`, such a
            call costs nothing and may be made again.
        unknown: exceptions after which it may have happened. Of classes in both, the
            one that is closer to the error's own decides.
        anchors: fields of its JSON result that stay visible to the model until the
            task ends, by path: ``"table_id"``, ``"rows.0.id"``. One that is not there
            is no error.
        poll: it waits for something: that its result stays the same is no circle.
        max_wait: seconds for which a poll may say the same; then the model is told
            (``poll_timeout``), and the task pauses if it goes on.
        loop_key: arguments that alone say what is done: two calls with the same ones
            are the same action, whatever the rest is.
        volatile: arguments that say nothing of what is done (a nonce, a thought).
        counts_as: what its effects are counted as in a checkpoint document:
            ``"emails_sent"``; its name by default.

    Raises:
        Misuse: when the declaration contradicts itself or has no schema.
    """

    def declare(target: Callable[..., Any]) -> Tool:
        if not callable(target):
            raise Misuse(f"tool({target!r}) is no function; put @tool above one")
        return Tool(
            target,
            effect=effect,
            timeout=timeout,
            probe=probe,
            settle=settle,
            probe_after=probe_after,
            name=name,
            repeat=repeat,
            approval=approval,
            expires=expires,
            isolate=isolate,
            memory=memory,
            kind=kind,
            key=key,
            max_result=max_result,
            service=service,
            undo=undo,
            failed=failed,
            unknown=unknown,
            anchors=anchors,
            poll=poll,
            max_wait=max_wait,
            loop_key=loop_key,
            volatile=volatile,
            counts_as=counts_as,
        )

    return declare if function is None else declare(function)
