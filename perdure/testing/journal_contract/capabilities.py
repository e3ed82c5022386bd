"""What a back end may leave out, and the tests that are skipped then."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

__all__ = ["ALL", "Capability", "all_need", "needs"]

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., None])

Capability: TypeAlias = Literal["erase", "inbox", "snapshots", "spoil"]
ALL: frozenset[Capability] = frozenset({"erase", "inbox", "snapshots", "spoil"})


def needs(*wanted: Capability) -> Callable[[F], F]:
    """Skip a test where its class lacks one of these capabilities."""

    def wrap(test: F) -> F:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **options: Any) -> None:
            missing = sorted(set(wanted) - getattr(self, "capabilities", ALL))
            if missing:
                raise unittest.SkipTest(f"the back end lacks {', '.join(missing)}")
            test(self, *args, **options)

        return run  # type: ignore[return-value] # the same to whoever calls it

    return wrap


def all_need(*wanted: Capability) -> Callable[[T], T]:
    """`needs` for every test of a class."""

    def wrap(kind: T) -> T:
        for name, test in list(vars(kind).items()):
            if name.startswith("test_"):
                setattr(kind, name, needs(*wanted)(test))
        return kind

    return wrap
