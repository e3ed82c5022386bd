"""Turning any comparison of the account's arithmetic is caught by its tests."""

from __future__ import annotations

import ast
import copy
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import perdure
from perdure.actors.budget import account

SOURCE = Path(account.__file__)
TESTS = Path(__file__).with_name("test_account.py")
TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
QUICK = settings(max_examples=15, stateful_step_count=15, database=None, deadline=None)


def mutants() -> Iterator[tuple[str, ast.Module]]:
    """Each comparison turned each way, named by its line."""
    tree = ast.parse(SOURCE.read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    for place, node in enumerate(found):
        for which, operator in enumerate(node.ops):
            for turned in TURNED[type(operator)]:
                made = copy.deepcopy(tree)
                compares = [n for n in ast.walk(made) if isinstance(n, ast.Compare)]
                compares[place].ops[which] = turned()
                name = f"{node.lineno}: {ast.unparse(compares[place])}"
                yield name, made


MUTANTS = dict(mutants())


def loaded(name: str, code: Any, file: Path) -> types.ModuleType:
    """A module of this code, which other modules do not see."""
    module = types.ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    module.__file__ = str(file)
    sys.modules[name] = module
    exec(compile(code, str(file), "exec"), module.__dict__)  # the mutant
    return module


def runs(tests: types.ModuleType) -> Iterator[Callable[[], None]]:
    """Every test of a module, once for each of its parameters."""
    for name, test in vars(tests).items():
        if name.startswith("test_"):
            marks = [
                m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"
            ]
            for chosen in product(*(mark.args[1] for mark in marks)):
                given: dict[str, Any] = {}
                for mark, values in zip(marks, chosen, strict=True):
                    names = mark.args[0]
                    if isinstance(names, str) and "," not in names:
                        given[names] = values
                    else:
                        given |= dict(zip(names, values, strict=True))
                yield lambda test=test, given=given: test(**given)
        elif name.startswith("Test"):
            case = test("runTest")
            case.settings = QUICK
            yield case.runTest


def caught(tree: ast.Module, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether any test of the account fails on this code."""
    for name in (account.__name__, "mutated_tests"):
        monkeypatch.setitem(sys.modules, name, account)  # taken back afterwards
    try:
        mutant = loaded(account.__name__, tree, SOURCE)
        monkeypatch.setattr(perdure, "Budget", mutant.Budget)
        tests = loaded("mutated_tests", TESTS.read_text(), TESTS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for run in runs(tests):
                run()
    except (Exception, pytest.fail.Exception):
        return True
    return False


def test_the_account_itself_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not caught(ast.parse(SOURCE.read_text()), monkeypatch)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_turned_comparison_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert caught(MUTANTS[name], monkeypatch)
