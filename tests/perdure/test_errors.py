"""Errors: few, told apart by whose fault they are, with the fix in the message."""

from __future__ import annotations

import pytest

from perdure import errors
from perdure.errors import ContextBudgetError, PerdureError, StoreBusy, UseAsync

LEAVES = [
    value
    for name in errors.__all__
    if isinstance(value := getattr(errors, name), type) and value is not PerdureError
]


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_error_is_a_perdure_error(leaf: type[Exception]) -> None:
    assert issubclass(leaf, PerdureError)


def test_there_are_at_most_a_dozen() -> None:
    assert 1 < len(LEAVES) <= 12


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_error_says_whose_fault_it_is(leaf: type[PerdureError]) -> None:
    assert getattr(leaf, "fault", None) in {"yours", "world", "ours"}


@pytest.mark.parametrize("leaf", LEAVES)
def test_the_table_lists_every_error_with_its_fault(leaf: type[PerdureError]) -> None:
    assert f"| `{leaf.__name__}` | {getattr(leaf, 'fault', None)} |" in errors.__doc__


def test_a_context_budget_error_is_a_value_error() -> None:  # A52
    assert issubclass(ContextBudgetError, ValueError)


def test_the_docstring_is_the_default_message() -> None:
    assert str(StoreBusy()).startswith("Another process owns the store: end it or wait")
    assert "\n" not in str(errors.StoreRefused())


def test_a_message_given_stands_alone() -> None:
    assert str(StoreBusy("a.db is owned by pid 7")) == "a.db is owned by pid 7"


def test_a_blocking_call_in_a_loop_names_its_twin() -> None:
    message = str(UseAsync("runtime.submit()", "await runtime.asubmit()"))
    assert message.endswith("use await runtime.asubmit()")
