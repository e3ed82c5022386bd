from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.budget.estimates import LEAST, RATIOS, THOUSAND
from perdure.actors.task.calibration import Seen, scale_of, seen_after

counts = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6))


def after(*calls: tuple[int, int]) -> Seen:
    seen = Seen()
    for estimated, reported in calls:
        seen = seen_after(seen, estimated=estimated, reported=reported)
    return seen


@given(st.lists(counts, min_size=1, max_size=9))
def test_the_scale_is_never_below_what_was_seen_and_bounded(
    calls: list[tuple[int, int]],
) -> None:
    low, high = RATIOS
    scale = scale_of(after(*calls))
    assert low <= scale <= high
    for estimated, reported in calls:
        assert scale == high or scale * estimated >= reported * THOUSAND


@given(st.lists(counts, min_size=1, max_size=6), counts)
def test_what_was_seen_is_not_forgotten(
    calls: list[tuple[int, int]], more: tuple[int, int]
) -> None:
    if len(calls) >= LEAST:
        assert scale_of(after(*calls, more)) >= scale_of(after(*calls))


def test_one_call_raises_the_estimate() -> None:
    assert scale_of(after((100, 150))) == 1_500


def test_three_calls_lower_it_and_leave_a_tenth() -> None:
    low = (100, 60)
    assert scale_of(after(*[low] * (LEAST - 1))) == THOUSAND
    assert scale_of(after(*[low] * LEAST)) == 660


def test_figures_that_say_nothing_change_nothing() -> None:
    assert after((0, 9), (9, 0), (-1, 3)) == Seen()
    assert scale_of(Seen()) == THOUSAND
