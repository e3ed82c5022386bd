"""Ready-made acceptance: a schema, a pattern, a file, a number of rows.

Each is a plain function of result and view with a name, so that a function of the host
can call one: ``accept.regex("ok")(result, view)`` is a `Verdict`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..acceptance import Verdict, View
from ..context.measure import canonical
from ..errors import Misuse
from .matching import matched, pattern_of

__all__ = ["Check", "at", "regex", "schema", "text_of"]

SHOWN = 200  # characters of a value in evidence


class Check(msgspec.Struct, frozen=True):
    """A ready-made acceptance; `name` says which, and with what arguments."""

    name: str
    call: Callable[[Any, View], Verdict]

    def __call__(self, result: Any, view: View) -> Verdict:
        """Judge a result."""
        return self.call(result, view)


def schema(of: Any) -> Check:
    """Accept a result that fits a type: a msgspec Struct, or what msgspec can check.

    Nothing is coerced: a number in quotes is no number. Constraints stand in the type,
    as ``Annotated[int, msgspec.Meta(ge=1)]``; a `pattern` in it is matched in this
    process, so it must be one that cannot take for ever.

    Raises Misuse for what msgspec cannot check, a JSON Schema in a dict among it.
    """
    if isinstance(of, dict):
        raise Misuse(
            "schema: a JSON Schema as a dict is not read; give a type, a msgspec "
            "Struct with the same fields, say"
        )
    try:
        msgspec.json.Decoder(of)
    except Exception as error:
        raise Misuse(f"schema: of={of!r} is no type to check: {error}") from error
    named = getattr(of, "__name__", None) or str(of)

    def call(result: Any, view: View) -> Verdict:
        try:
            msgspec.convert(msgspec.to_builtins(result), of)
        except msgspec.ValidationError as error:
            return Verdict(ok=False, why=f"it is not a {named}: {error}")
        return Verdict(ok=True)

    return Check(f"schema({named})", call)


def regex(pattern: str, *, field: str | None = None) -> Check:
    """Accept a result in which a pattern is found.

    The pattern is Python's. It is matched in a process of its own that is ended after
    10 s (`timed_out`): within this one, a pattern that backtracks for ever would hold
    up every thread, and no deadline could end it.

    Args:
        pattern: searched for in the text; anchor it to match the whole.
        field: path of the field that is looked at, as ``report.title`` or ``rows.0``;
            None is the whole result. What is no text is looked at as JSON.

    Raises Misuse for what is no pattern or no path.
    """
    pattern_of(pattern)
    check_field("regex", field)

    def call(result: Any, view: View) -> Verdict:
        found, value = at(result, field)
        if not found:
            return missing(field)
        text = text_of(value)
        return matched(pattern, text, {"pattern": pattern, "text": text[:SHOWN]})

    where = "" if field is None else f", field={field!r}"
    return Check(f"regex({pattern!r}{where})", call)


def at(result: Any, field: str | None) -> tuple[bool, Any]:
    """Whether the result has the field, and its value; None is the whole result."""
    value = msgspec.to_builtins(result)
    if field is None:
        return True, value
    for part in field.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return True, value


def missing(field: str | None) -> Verdict:
    """The refusal of a result that has no such field."""
    return Verdict(ok=False, why=f"the result has no field {field!r}")


def text_of(value: Any) -> str:
    """A value as text: what is none, as JSON."""
    return value if isinstance(value, str) else canonical(value)


def check_field(where: str, field: str | None, name: str = "field") -> None:
    """Refuse what is no path of a field."""
    if field is None:
        return
    if not isinstance(field, str) or not all(field.split(".")):
        raise Misuse(
            f"{where}: {name}={field!r} must be the path of a field, as 'rows.0.name'"
        )
