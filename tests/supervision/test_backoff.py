from __future__ import annotations

from typing import Any

import pytest

from perdure.supervision.backoff import Backoff


def middle() -> float:
    return 0.5


def test_delays_double_up_to_the_limit() -> None:
    delays = [Backoff().delay(attempt, middle) for attempt in range(1, 9)]
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_jitter_spreads_by_a_fifth_both_ways() -> None:
    assert Backoff().delay(1, lambda: 0.0) == pytest.approx(0.8)
    assert Backoff().delay(1, lambda: 1.0) == pytest.approx(1.2)


def test_delays_at_the_limit_still_spread() -> None:
    assert Backoff().delay(50, lambda: 0.0) != Backoff().delay(50, lambda: 0.9)


def test_very_many_crashes_wait_for_the_limit() -> None:
    assert Backoff(factor=10.0).delay(10_000, middle) == 60.0


def test_a_long_run_resets_the_count() -> None:
    assert Backoff().count(crashes=7, up_for=600.0) == 1


def test_a_short_run_carries_the_count_on() -> None:
    assert Backoff().count(crashes=7, up_for=599.9) == 8


def test_two_short_runs_do_not_add_up_to_a_reset() -> None:
    backoff = Backoff()
    crashes = backoff.count(backoff.count(1, up_for=400.0), up_for=400.0)
    assert crashes == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("first", -1.0),
        ("factor", 0.5),
        ("limit", 0.5),
        ("jitter", 1.0),
        ("reset_after", float("nan")),
    ],
)
def test_senseless_numbers_are_refused_by_name(field: str, value: float) -> None:
    options: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=rf"Backoff\.{field} = {value}: give"):
        Backoff(**options)
