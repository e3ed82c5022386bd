"""What a tool's declaration may not say: refused where it is made."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .anchors import ANCHOR_NAME, ANCHORS
from .errors import Misuse
from .naming import NAME
from .storable import is_storable
from .windows.limit import is_service

if TYPE_CHECKING:
    from .tool import Tool

__all__ = [
    "MEMORY_AT_LEAST",
    "RESULT_AT_MOST",
    "check",
    "check_anchors",
    "check_importable",
    "check_undo",
]

MEMORY_AT_LEAST = 256 * 1024 * 1024  # bytes of address space
RESULT_AT_MOST = 16_384  # characters that a record may show
CLASSES = ("read", "idempotent", "once")
KINDS = ("query", "generate", "downstream")


def check(tool: Tool, *, settles: bool, failed: object, unknown: object) -> None:
    """Raise Misuse, naming the field, the value and the fix, where fields contradict.

    `settles` says that the declaration gave `settle` itself.
    """
    rules = (
        _words(tool),
        _seconds(tool),
        _functions(tool),
        _of_reads(tool, settles),
        _of_probes(tool, settles),
        _of_processes(tool),
        _result(tool),
        _service(tool),
        _counts(tool),
        _identity(tool),
        _errors(failed, unknown),
    )
    for wrong in (one for rule in rules for one in rule):
        raise Misuse(f"tool {tool.name!r}: {wrong}")


def _words(tool: Tool) -> Iterator[str]:
    if tool.effect not in CLASSES:
        yield (
            f"effect={tool.effect!r} is not one of 'read', 'idempotent', 'once'; "
            "choose one of them"
        )
    if tool.kind not in KINDS:
        yield (
            f"kind={tool.kind!r} is not one of 'query', 'generate', 'downstream'; "
            "choose one of them"
        )
    if tool.isolate not in (None, "process"):
        yield (f"isolate={tool.isolate!r} is not 'process'; drop it, or give 'process'")


def _seconds(tool: Tool) -> Iterator[str]:
    for field, value in (
        ("timeout", tool.timeout),
        ("settle", tool.settle),
        ("probe_after", tool.probe_after),
        ("expires", tool.expires),
    ):
        if value is None:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        above = field in ("timeout", "expires")
        least = "above 0" if above else "0 or more"
        if not number or not (value > 0 if above else value >= 0):
            yield f"{field}={value!r} must be {least} seconds"
        elif field == "probe_after" and value == math.inf:
            yield f"{field}={value!r} would never ask the probe; give seconds"
        elif field == "expires" and value == math.inf:
            yield f"{field}={value!r} never comes; drop it, or give seconds"


def _functions(tool: Tool) -> Iterator[str]:
    if tool.probe is not None and not callable(tool.probe):
        yield f"probe={tool.probe!r} is no function; give one that takes an Effect"
    if tool.key is not None and not callable(tool.key):
        yield f"key={tool.key!r} is no function; give one that takes the arguments"
    if not (isinstance(tool.approval, bool) or callable(tool.approval)):
        yield (
            f"approval={tool.approval!r} is neither True, False nor a function of the "
            "arguments"
        )
    elif tool.expires is not None and tool.approval is False:
        yield f"expires={tool.expires!r} has no approval to end; add approval="
    if tool.key is not None and tool.repeat:
        yield (
            "key= makes equal calls one effect, and repeat=True makes each of them a "
            "new one; drop one of the two"
        )


def _of_reads(tool: Tool, settles: bool) -> Iterator[str]:
    if tool.effect != "read":
        return
    if tool.probe is not None:
        yield (
            "a read changes nothing, so a probe has nothing to find; drop probe= or "
            "declare another effect"
        )
    if settles:
        yield f"a read leaves nothing to settle; drop settle={tool.settle!r}"
    if tool.repeat:
        yield "a read runs each time anyway; drop repeat=True"
    if tool.key is not None:
        yield "a read runs each time, so that no key names it; drop key="
    if tool.undo is not None:
        yield (
            "a read changes nothing, so nothing is to be taken back; drop undo= or "
            "declare another effect"
        )


def _of_probes(tool: Tool, settles: bool) -> Iterator[str]:
    if tool.probe is not None:
        return
    if settles:
        yield f"settle={tool.settle!r} is for what a probe finds; add probe= or drop it"
    if tool.probe_after:
        yield f"probe_after={tool.probe_after!r} has no probe to wait for; add probe="


def _of_processes(tool: Tool) -> Iterator[str]:
    if tool.memory is None:
        return
    if tool.isolate is None:
        yield "memory= limits a process; add isolate='process'"
    if not _whole(tool.memory) or tool.memory < MEMORY_AT_LEAST:
        yield (
            f"memory={tool.memory!r} must be a whole number of bytes, "
            f"{MEMORY_AT_LEAST} at least: an interpreter takes as much"
        )


def _result(tool: Tool) -> Iterator[str]:
    limit = tool.max_result
    if limit is not None and not (_whole(limit) and 1 <= limit <= RESULT_AT_MOST):
        yield (
            f"max_result={limit!r} must be a whole number of characters, from 1 to "
            f"{RESULT_AT_MOST}: a longer result stands in the store, not in a record"
        )


def _service(tool: Tool) -> Iterator[str]:
    if tool.service is not None and not is_service(tool.service):
        yield (
            f"service={tool.service!r} must be a name such as 'smtp', the one that a "
            "RateLimit gives"
        )


def _counts(tool: Tool) -> Iterator[str]:
    name = tool.counts_as
    if name is None:
        return
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"counts_as={name!r} must be a name such as 'emails_sent'"
    elif tool.effect == "read":
        yield f"counts_as={name!r} is of a read, which has no effect; drop it"


def _identity(tool: Tool) -> Iterator[str]:
    known = tool.parameters.__struct_fields__
    for field in ("loop_key", "volatile"):
        for name in getattr(tool, field):
            if name not in known:
                yield (
                    f"{field}={getattr(tool, field)!r}: it has no parameter {name!r}; "
                    f"its parameters: {', '.join(known) or 'none'}"
                )
    if tool.loop_key and tool.volatile:
        yield "loop_key= and volatile= say the same thing twice; give one of them"
    if not 0 <= tool.patience < float("inf"):
        yield f"max_wait={tool.patience!r} must be seconds, 0 or more"


def _errors(failed: object, unknown: object) -> Iterator[str]:
    for field, classes in (("failed", failed), ("unknown", unknown)):
        if not isinstance(classes, tuple) or not all(map(_is_error, classes)):
            yield (
                f"{field}={classes!r} must be a tuple of Exception classes, such as "
                "(ConnectionError,)"
            )
            return
    assert isinstance(failed, tuple)
    assert isinstance(unknown, tuple)
    for one in failed:
        if one in unknown:
            yield f"{one.__name__} stands in failed= and in unknown=; drop it in one"


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_anchors(name: str, paths: object) -> tuple[str, ...]:
    """The paths that a declaration gives. Raises Misuse for what can be none."""
    if isinstance(paths, str) or not isinstance(paths, Sequence):
        raise Misuse(
            f"tool {name!r}: anchors={paths!r} is no list; give paths of fields, such "
            "as ['table_id', 'rows.0.id']"
        )
    for path in paths:
        if not isinstance(path, str) or not all(map(str.strip, path.split("."))):
            raise Misuse(
                f"tool {name!r}: anchors= holds {path!r}, which is no path; give names "
                "with dots between, such as 'rows.0.id'"
            )
        if not is_storable(path):
            raise Misuse(
                f"tool {name!r}: anchors= holds {path!r}, in which a surrogate "
                "stands alone; name a field of text that can be stored"
            )
        if len(path) > ANCHOR_NAME:
            raise Misuse(
                f"tool {name!r}: anchors= holds {path!r}, of {len(path)} characters; "
                f"{ANCHOR_NAME} are allowed: return the field nearer to the top"
            )
    if len(paths) > ANCHORS or len(set(paths)) < len(paths):
        raise Misuse(
            f"tool {name!r}: anchors={list(paths)!r} must be different paths, "
            f"{ANCHORS} at most"
        )
    return tuple(paths)


def check_undo(name: str, undo: Tool) -> None:
    """Raise Misuse for a tool that cannot take effects of tool `name` back."""
    taken = undo.parameters.__struct_fields__
    if not taken or set(taken) - {"effect", "result"}:
        wrong = (
            f"takes {', '.join(taken) or 'nothing'}; it is called with "
            "effect: Effect, with result: str, or with both"
        )
    elif undo.effect == "read":
        wrong = "is a read, which changes nothing; declare it idempotent or once"
    elif undo.undo is not None:
        wrong = "has an undo= itself, which nobody would call; drop it"
    elif undo.repeat or undo.key is not None:
        wrong = "is made once for each effect; drop its repeat= or key="
    else:
        return
    raise Misuse(f"tool {name!r}: undo={undo.function.__name__} {wrong}")


def check_importable(name: str, function: Callable[..., Any]) -> None:
    """Refuse what another process cannot find by module and name."""
    where = getattr(function, "__qualname__", "<unnamed>")
    module = getattr(function, "__module__", None)
    if not inspect.isfunction(function) or "<" in where:
        raise Misuse(
            f"tool {name!r}: isolate='process' finds the function by module and name, "
            f"and {where} has none (a lambda, a closure, a nested function or an "
            "object); make it a function at the top of a module"
        )
    if module in (None, "__main__"):
        raise Misuse(
            f"tool {name!r}: isolate='process' imports the function's module, and "
            "__main__ cannot be imported; move the function to a module of its own"
        )
