"""The names of recorded operations, as a model reads and writes them: ``op12``."""

from __future__ import annotations

import re

import msgspec

__all__ = ["READ", "evidence_id", "named_op", "opener", "source_of"]

READ = "read_evidence"  # the tool that opens them
_NAME = re.compile(r"(?:(?P<task>.+):)?(?:op)?(?P<op>[0-9]{1,9})(?:#[0-9]+)?")


def evidence_id(op: int) -> str:
    """How an operation's record is named in a request."""
    return f"op{op}"


def opener(op: int) -> str:
    """The call that opens an operation's result, as a model is told of it."""
    return f'{READ}(id="{evidence_id(op)}")'


def named_op(name: str, task: str = "") -> int | None:
    """The operation that `op12`, `12` or `task:12` names; None where none of `task`."""
    found = _NAME.fullmatch(name.strip())
    if found is None or found["task"] not in (None, task):
        return None
    return int(found["op"])


def source_of(tool: str, arguments: str, op: int) -> str:
    """The evidence id of a call's result; what was read again keeps its first one."""
    if tool != READ:
        return evidence_id(op)
    try:
        name = msgspec.json.decode(arguments, type=dict[str, object])["id"]
    except (msgspec.DecodeError, KeyError, RecursionError):
        return evidence_id(op)
    first = named_op(name) if isinstance(name, str) else None
    return evidence_id(op if first is None else first)
