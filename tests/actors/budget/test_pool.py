from __future__ import annotations

import msgspec
import pytest

from perdure.actors.budget.pool import Given, PoolState, apply_pool, share
from perdure.actors.events import Granted, GrantReturned, PoolOpened, TaskClosed


def pool(**limits: int) -> PoolState:
    return apply_pool(PoolState(), PoolOpened(limits=limits))


def granted(state: PoolState, task: str, **amounts: int) -> PoolState:
    return apply_pool(state, Granted(grant=f"{task}/0", task=task, amounts=amounts))


def test_what_the_task_limits_is_granted_whole_and_the_rest_shared() -> None:
    # B61
    wanted = {"tool_calls": 3}
    assert share(pool(tokens=100), wanted, active=8) == {"tool_calls": 3, "tokens": 12}


def test_a_pool_without_limits_grants_what_is_wanted() -> None:
    assert share(pool(), {"tokens": 5}, active=8) == {"tokens": 5}


def test_the_pool_refuses_more_than_it_has_left_and_says_how_much() -> None:
    # R13
    state = granted(pool(tokens=1000), "a", tokens=600)
    refused = share(state, {"tokens": 600}, active=8)
    assert refused == (
        "the pool has 400 tokens left, and the task's budget asks for 600"
    )
    assert share(state, {"tokens": 400}, active=8) == {"tokens": 400}


def test_what_comes_back_can_be_granted_again_and_what_was_used_cannot() -> None:
    state = granted(pool(tokens=100), "a", tokens=60)
    state = apply_pool(state, GrantReturned(task="a", amounts={"tokens": 25}))
    assert share(state, {"tokens": 65}, active=1) == {"tokens": 65}
    assert isinstance(share(state, {"tokens": 66}, active=1), str)


def test_what_a_task_used_beyond_its_grants_is_not_given_away_again() -> None:
    # P3
    state = granted(pool(tokens=100), "a", tokens=60)
    state = apply_pool(state, GrantReturned(task="a", amounts={"tokens": -15}))
    assert share(state, {"tokens": 25}, active=1) == {"tokens": 25}
    assert isinstance(share(state, {"tokens": 26}, active=1), str)


def test_several_grants_of_a_task_are_kept_by_id() -> None:
    first = Granted(grant="a/0", task="a", amounts={"tokens": 1}, parent="b")
    more = Granted(grant="a/1", task="a", amounts={"tokens": 2})
    given = Given().plus(first).plus(more)
    assert given.grants == {"a/0": {"tokens": 1}, "a/1": {"tokens": 2}}
    assert [grant for grant in given.grants if given.own(grant)] == ["a/1"]
    state = apply_pool(apply_pool(pool(), first), more)
    assert (state.out, state.version) == ({"tokens": 2}, 3)


def test_the_state_of_a_pool_does_not_grow_with_its_tasks() -> None:
    one, many = pool(tokens=10**9), pool(tokens=10**9)
    one = granted(one, "t-000", tokens=1)
    for n in range(100):
        many = granted(many, f"t-{n:03}", tokens=1)
    sizes = [len(msgspec.json.encode(state)) for state in (one, many)]
    assert sizes[1] - sizes[0] < 10  # the digits of what is out, and of the version


def test_an_overdrawn_pool_shares_nothing() -> None:
    state = apply_pool(
        granted(pool(tokens=10), "a", tokens=10), PoolOpened(limits={"tokens": 5})
    )
    assert share(state, {}, active=2) == {"tokens": 0}


def test_events_of_other_streams_are_refused() -> None:
    with pytest.raises(TypeError, match="TaskClosed"):
        apply_pool(PoolState(), TaskClosed(status="completed"))
