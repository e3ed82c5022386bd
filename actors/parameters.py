"""What a tool's function takes: the schema of its parameters, and what is injected."""

from __future__ import annotations

import contextlib
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from .errors import Misuse

__all__ = ["parameters_of"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
INJECTED = ("ctx", "request_id")


def parameters_of(
    name: str, function: Callable[..., Any]
) -> tuple[frozenset[str], type[msgspec.Struct]]:
    """The parameters that a model fills in, and those that the runtime does.

    Raises:
        Misuse: when a name or a parameter has no schema.
    """
    if not NAME.fullmatch(name):
        raise Misuse(
            f"tool name {name!r}: use 1-64 letters, digits, _ or -, beginning with a "
            "letter or _ (name= gives a lambda one)"
        )
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise Misuse(
            f"tool {name!r}: its type hints cannot be read ({error}); "
            "name types that its module knows"
        ) from None
    injected: set[str] = set()
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in INJECTED:
            injected.add(parameter.name)
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Misuse(
                f"tool {name!r}: parameter *{parameter.name} has no schema; "
                "name each parameter"
            )
        if parameter.name not in hints:
            raise Misuse(
                f"tool {name!r}: parameter {parameter.name!r} has no type hint; "
                "add one, the schema is made from it"
            )
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hints[parameter.name]))
        else:
            hint, default = hints[parameter.name], parameter.default
            with contextlib.suppress(msgspec.ValidationError, TypeError):
                # As if a model had written it: `x: float = 2` is 2.0 either way.
                default = msgspec.convert(default, hint)
            fields.append((parameter.name, hint, default))
    struct = msgspec.defstruct(
        name.replace("-", "_"),
        fields,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
    )
    try:
        msgspec.json.schema(struct)
    except TypeError as error:
        raise Misuse(f"tool {name!r}: no schema for a parameter: {error}") from None
    return frozenset(injected), struct
