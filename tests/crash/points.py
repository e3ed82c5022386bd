"""The fault points that the code names, read from its source.

A point is the first argument of a call of `hit`, as text; those of the base of all
durable actors stand once for each label.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["named_points"]

ROOMS = ("perdure", "actors", "supervision", "storage")
HITS = ("hit", "_hit")


def named_points(root: Path) -> set[str]:
    """Every point of the rooms under `root`. Raises ValueError for one that varies."""
    trees = {
        path: ast.parse(path.read_text())
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
    }
    labels = {label for tree in trees.values() for label in _labels(tree)}
    found: set[str] = set()
    for path, tree in trees.items():
        for argument in _arguments(tree):
            match argument:
                case ast.Constant(value=str(point)):
                    found.add(point)
                case ast.JoinedStr(
                    values=[
                        ast.FormattedValue(value=ast.Attribute(attr="label")),
                        ast.Constant(value=str(rest)),
                    ]
                ):
                    found |= {f"{label}{rest}" for label in labels}
                case ast.Name(id="point"):
                    continue  # handed on to the plan
                case _:
                    place = f"{path}:{argument.lineno}"
                    raise ValueError(f"{place}: a fault point must be plain text")
    return found


def _arguments(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in HITS:
                yield node.args[0]


def _labels(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body) if name != "Durable":
                for line in body:
                    match line:
                        case ast.Assign(
                            targets=[ast.Name(id="label")],
                            value=ast.Constant(value=str(label)),
                        ):
                            yield label
