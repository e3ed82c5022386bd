from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest

from perdure.actors.context.layers import Assembled, Block, Window, assemble
from perdure.actors.context.notice import notice, noticed
from perdure.actors.context.units import units
from perdure.context import ContextBudgetError, canonical, request_characters

from .histories import TOOL, calls, result, says, system, user

GOAL = "export May sales"
FIXED = [Block(id=0, layer="fixed", origin="agent", messages=(system("rules"),))]
STABLE = [Block(id=1, layer="task", origin="task", messages=(user(GOAL),))]


def moving(text: str = "go on") -> Block:
    return Block(id=10**6, layer="task", origin="task", messages=(user(text),))


def exchange(number: int, size: int = 100) -> Block:
    call_id = f"c{number}"
    return Block(
        id=number,
        layer="scratch",
        origin="model",
        evidence=f"effect-{number}",
        messages=(calls(call_id), result(call_id, "x" * size)),
    )


def assembled(
    scratch: list[Block],
    limit: int,
    *,
    window: Window | None = None,
    now: Block | None = None,
    tools: Any = (),
) -> Assembled:
    return assemble(
        FIXED,
        STABLE,
        scratch,
        now or moving(),
        list(tools),
        limit=limit,
        window=window or Window(),
    )


def rounds(count: int, limit: int, size: int) -> list[Assembled]:
    """Assemble round after round, one exchange longer each time."""
    found: list[Assembled] = []
    scratch: list[Block] = []
    window = Window()
    for number in range(count):
        found.append(
            assembled(scratch, limit, window=window, now=moving(f"round {number}"))
        )
        window = found[-1].window
        scratch.append(exchange(number + 2, size))
    return found


def test_a_request_is_fixed_then_stable_then_scratch_then_moving() -> None:  # B9
    request = assembled([exchange(2)], 16000)
    assert request.messages == [
        system("rules"),
        user(GOAL),
        *exchange(2).messages,
        user("go on"),
    ]
    assert request.kept == ((2, 2),)
    assert request.window == Window()


def test_only_scratch_is_cut_and_the_notice_stands_before_it() -> None:  # B8, B12
    scratch = [exchange(number) for number in range(2, 12)]
    request = assembled(scratch, 2000)
    kept = len(request.messages) - 4
    assert request.messages == [
        system("rules"),
        user(GOAL),
        notice(20 - kept),
        *[message for block in scratch for message in block.messages][-kept:],
        user("go on"),
    ]
    assert request.report.after <= 1400
    assert request.window == Window(start=12 - kept // 2, omitted=20 - kept)
    assert request.kept == ((12 - kept // 2, 11),)
    assert request.report.dropped_exchanges == (20 - kept) // 2


def test_the_count_of_omitted_messages_is_that_of_the_whole_task() -> None:
    last = rounds(100, 4000, 150)[-1]
    (said,) = filter(None, map(noticed, last.messages))
    shown = len(last.messages) - 4
    assert said == last.window.omitted == 2 * 99 - shown


def test_blocks_cut_before_need_not_be_handed_in_again() -> None:
    scratch = [exchange(number) for number in range(2, 12)]
    first = assembled(scratch, 2000)
    rest = [block for block in scratch if block.id >= first.window.start]
    for given in (scratch, rest):
        again = assembled(given, 2000, window=first.window)
        assert again.digest == first.digest
        assert again.report.dropped_messages == 0


def test_the_task_survives_a_long_last_message_of_the_user() -> None:  # K9, D2
    turns = [
        Block(
            id=number + 2,
            layer="scratch",
            origin="user",
            messages=(user(f"turn {number}"), says("y" * 300)),
        )
        for number in range(40)
    ]
    request = assembled(turns, 8000, now=moving("ok, continue" + " " * 1988))
    assert canonical(request.messages).count(GOAL) == 1
    assert request.messages[1] == user(GOAL)
    assert request.report.dropped_turns > 0


def test_the_request_fits_validates_and_can_be_told_by_its_digest() -> None:  # A109
    for request in rounds(60, 4000, 150):
        units(request.messages)
        size = request_characters(request.messages, request.tools)
        assert request.report.after == size <= 4000
        text = canonical({"messages": request.messages, "tools": request.tools})
        assert request.digest == hashlib.sha256(text.encode()).hexdigest()


def test_the_newest_exchange_stays_though_it_is_over_the_mark() -> None:  # A43
    request = assembled([exchange(2, 500), exchange(3, 3200)], 4000)
    assert request.kept == ((3, 3),)


def test_the_notice_is_left_out_where_only_it_would_not_fit() -> None:  # D7
    newest = [exchange(3, 3200)]
    limit = assembled(newest, 16000).report.after
    request = assembled([exchange(2, 500), *newest], limit)
    assert request.report.notice == "left out"
    assert request.report.after == limit
    assert request.window == Window(start=3, omitted=2)


def test_schemas_count_toward_the_limit() -> None:  # A14
    scratch = [exchange(number) for number in range(2, 12)]
    whole = assembled(scratch, 16000).report.after
    assert assembled(scratch, whole).window.omitted == 0
    assert assembled(scratch, whole, tools=[TOOL]).window.omitted > 0


@pytest.mark.parametrize(
    ("culprit", "parts"),
    [
        ("schemas of the tools", {"tools": [{**TOOL, "x": "y" * 17000}]}),
        ("progress of the task", {"now": moving("z" * 17000)}),
        ("newest exchange", {"scratch": [exchange(2), exchange(3, 20000)]}),
    ],
)
def test_what_does_not_fit_is_named(
    culprit: str, parts: dict[str, Any]
) -> None:  # A38, A71, K14
    scratch = parts.pop("scratch", [exchange(2)])
    with pytest.raises(ContextBudgetError, match=f"the {culprit} do not fit"):
        assembled(scratch, 16000, **parts)


def test_a_goal_that_does_not_fit_is_named_not_cut() -> None:  # A38
    long = Block(id=1, layer="task", origin="task", messages=(user("g" * 17000),))
    with pytest.raises(ContextBudgetError, match="goal and constraints do not fit"):
        assemble(FIXED, [long], [], moving(), [], limit=16000, window=Window())


def test_the_sizes_an_error_names_add_up() -> None:
    with pytest.raises(ContextBudgetError) as caught:
        assembled([exchange(3, 900)], 600)
    needed = assembled([exchange(3, 900)], 16000).report.after
    assert f"may have 600 characters and needs {needed} (" in str(caught.value)


def test_one_character_decides() -> None:  # A63
    needed = assembled([exchange(3, 900)], 16000).report.after
    assert assembled([exchange(3, 900)], needed).report.after == needed
    with pytest.raises(ContextBudgetError):
        assembled([exchange(3, 900)], needed - 1)


def test_a_block_that_splits_an_exchange_is_refused() -> None:  # A62
    whole = exchange(2)
    halves = [
        Block(id=2, layer="scratch", origin="model", messages=whole.messages[:1]),
        Block(id=3, layer="scratch", origin="model", messages=whole.messages[1:]),
    ]
    with pytest.raises(ContextBudgetError, match="missing results"):
        assembled(halves, 16000)


def test_a_call_id_used_twice_in_a_request_is_refused() -> None:  # K6
    twin = Block(id=3, layer="scratch", origin="model", messages=exchange(2).messages)
    with pytest.raises(ContextBudgetError, match="'c2' is used before"):
        assembled([exchange(2), twin], 16000)


def test_a_request_must_end_with_the_users_task() -> None:  # A65
    for messages in ((), (says("done"),), (user("  "),)):
        last = Block(id=9, layer="task", origin="task", messages=messages)
        with pytest.raises(ContextBudgetError, match="current user task"):
            assembled([], 16000, now=last)


def test_blocks_are_never_changed() -> None:  # A72
    scratch = [exchange(number) for number in range(2, 12)]
    before = copy.deepcopy(scratch)
    assembled(scratch, 2000)
    assert scratch == before


def test_a_schema_that_has_no_digest_is_refused() -> None:
    with pytest.raises(ContextBudgetError, match=r"lone surrogate in tools\[0\].x"):
        assembled([], 16000, tools=[{"x": "\ud800"}])
