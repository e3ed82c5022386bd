"""Tests that prove a promise must run where it counts: `@pytest.mark.proof("kills")`.

In `.ci/run`, and wherever the environment has CI=true, a run fails that skipped, left
out or expected to fail a marked test. `PERDURE_PROOFS` (names, separated by spaces)
further says which proofs must be there: a run fails in which no test of that name has
passed. Tests without the mark may be skipped, where a platform lacks something.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["pytest_configure"]

MARK = "proof"
WANTED = "PERDURE_PROOFS"


def pytest_configure(config: pytest.Config) -> None:
    """Watch the proofs where they count."""
    wanted = os.environ.get(WANTED, "").split()
    if wanted or os.environ.get("CI", "").lower() == "true":
        config.pluginmanager.register(Proofs(wanted), "proofs")


class Proofs:
    """Says which proofs are missing from a run, and fails it."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._missing = dict.fromkeys(wanted)
        self._faults: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[Any]:
        """Note what became of each phase of a marked test."""
        report: pytest.TestReport = yield
        marker = item.get_closest_marker(MARK)
        if marker is not None:
            if report.skipped or hasattr(report, "wasxfail"):
                self._fault(item.nodeid, marker, "was skipped or expected to fail")
            elif report.when == "call" and report.passed:
                for name in marker.args:
                    self._missing.pop(name, None)
        return report

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note what was left out."""
        for item in items:
            marker = item.get_closest_marker(MARK)
            if marker is not None:
                self._fault(item.nodeid, marker, "was left out")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that skips itself as a whole, if it has proofs."""
        path = Path(report.nodeid)
        if report.skipped and path.is_file() and f"mark.{MARK}" in path.read_text():
            self._faults.append(f"{report.nodeid} was skipped whole, and has proofs")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that would have passed."""
        if (self._faults or self._missing) and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name what is missing."""
        for fault in self._faults:
            terminalreporter.write_line(f"NO PROOF: {fault}", red=True)
        for name in self._missing:
            text = f"NO PROOF: no test marked {MARK}({name!r}) has passed"
            terminalreporter.write_line(text, red=True)

    def _fault(self, test: str, marker: pytest.Mark, what: str) -> None:
        named = ", ".join(map(str, marker.args))
        self._faults.append(f"{test} {what}, and proves: {named}")
