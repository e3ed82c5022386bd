from __future__ import annotations

import pytest

from perdure.supervision.clock import VirtualClock


def test_advance_moves_both_readings() -> None:
    clock = VirtualClock(wall=100.0)
    clock.advance(2.5)
    assert (clock.time(), clock.monotonic()) == (102.5, 2.5)


def test_setting_the_wall_clock_back_leaves_monotonic_time_alone() -> None:
    clock = VirtualClock(wall=100.0)
    clock.advance(5.0)
    clock.set_time(1.0)
    assert (clock.time(), clock.monotonic()) == (1.0, 5.0)


def test_time_does_not_run_backwards() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="set_time"):
        clock.advance(-1.0)
    assert clock.monotonic() == 0.0
