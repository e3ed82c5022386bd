"""Old, bulky results are shown by reference before whole exchanges are dropped."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest

from perdure.actors.context.known import Known
from perdure.actors.context.layers import Assembled, Block, Window, assemble
from perdure.actors.context.measure import CHARACTERS
from perdure.actors.context.references import by_reference, reference
from perdure.actors.context.shrink import assemble_shrinking
from perdure.actors.evidence import named_op, source_of
from perdure.context import ContextBudgetError, canonical, request_characters

from .histories import TOOL, calls, result, system, user
from .test_layers import FIXED, STABLE, moving

OPENER = {"type": "function", "function": {"name": "read_evidence", "parameters": {}}}


def bulky(number: int, size: int = 1_000) -> Block:
    call_id = f"c{number}"
    return Block(
        id=number,
        layer="scratch",
        origin="model",
        evidence=f"op{number}",
        messages=(calls(call_id), result(call_id, f"{number}".ljust(size, "x"))),
        sources=(f"op{number + 1}",),
    )


def assembled(
    scratch: list[Block],
    limit: int,
    *,
    window: Window | None = None,
    now: str = "go on",
    known: Known | None = None,
) -> Assembled:
    return assemble(
        FIXED,
        STABLE,
        scratch,
        moving(now),
        [OPENER],
        limit=limit,
        window=window or Window(),
        known=known or Known([OPENER]),
    )


def run(rounds: int, limit: int, size: int) -> list[Assembled]:
    found: list[Assembled] = []
    scratch: list[Block] = []
    window, known = Window(), Known([OPENER])
    for number in range(rounds):
        made = assembled(
            scratch, limit, window=window, now=f"round {number}", known=known
        )
        found.append(made)
        window = made.window
        scratch.append(bulky(2 * number + 2, size))
    return found


def results(made: Assembled) -> list[str]:
    return [one["content"] for one in made.messages if one["role"] == "tool"]


SCRATCH = [bulky(number) for number in range(2, 42, 2)]
WHOLE = assembled(SCRATCH, 10**6).report.after


def test_the_oldest_bulky_results_become_references_and_nothing_is_dropped() -> None:
    made = assembled(SCRATCH, WHOLE - 1)  # A19
    texts = results(made)
    short = [len(text) < 600 for text in texts]
    assert short == sorted(short, reverse=True)
    assert 0 < sum(short) < len(SCRATCH)
    assert made.kept == ((2, 40),)
    assert made.window.omitted == made.report.dropped_messages == 0


def test_a_cut_shrinks_down_to_the_low_water_mark_and_no_further() -> None:
    made = assembled(SCRATCH, WHOLE - 1)
    mark = int((WHOLE - 1) * 0.7)
    saved = 1_000 - len(results(made)[0])
    assert mark - saved < made.report.after <= mark
    assert made.report.after == request_characters(made.messages, made.tools)


def test_whole_blocks_go_only_where_references_are_not_enough() -> None:
    made = assembled(SCRATCH, 8_000)
    *old, newest = results(made)
    assert made.report.dropped_exchanges > 0
    assert all(len(text) < 600 for text in old)
    assert newest == SCRATCH[-1].messages[1]["content"]
    assert made.kept[0][1] == 40


def test_a_reference_says_what_it_is_of_and_how_to_open_it() -> None:  # A40
    text = results(assembled(SCRATCH, WHOLE - 1))[0]
    assert text.startswith("2xxx")
    assert text.endswith("x" * 100)
    assert "1000 characters" in text
    assert "SHA-256 " in text
    assert 'read_evidence(id="op3")' in text


def test_a_reference_names_no_tool_that_the_model_does_not_have() -> None:
    made = assemble(
        FIXED,
        STABLE,
        SCRATCH,
        moving(),
        [TOOL],
        limit=WHOLE - 1,
        window=Window(),
        known=Known([TOOL]),
    )
    assert "read_evidence" not in results(made)[0]


def test_a_result_that_a_reference_hardly_shortens_stays_whole() -> None:
    block = bulky(2, 700)
    assert by_reference(block, opens=True) is block
    assert by_reference(bulky(2, 2_000), opens=True) != bulky(2, 2_000)


def test_what_a_blob_holds_keeps_its_size_in_the_reference_of_its_preview() -> None:
    seen = "y" * 1_000 + "\n(cut: the whole result has 70000 characters, SHA-256 ab)"
    assert "70000 characters" in reference(seen, 300)
    assert reference(seen, 300).count("whole result has") == 1


def test_blocks_are_not_changed_by_being_shown_by_reference() -> None:
    before = copy.deepcopy(SCRATCH)
    assembled(SCRATCH, 8_000)
    assert before == SCRATCH


@pytest.mark.parametrize("size", [150, 1_000])
def test_the_prefix_stays_between_cuts_and_cuts_are_rare(size: int) -> None:  # K17
    made = run(100, 64_000 if size > 150 else 16_000, size)
    cuts = 0
    for earlier, later in pairwise(made):
        if earlier.window == later.window:
            prefix = earlier.messages[:-1]
            assert canonical(later.messages[: len(prefix)]) == canonical(prefix)
        else:
            cuts += 1
    assert 1 <= cuts <= 10


def test_every_request_renders_again_from_its_window() -> None:
    scratch: list[Block] = []
    for number, made in enumerate(run(100, 16_000, 1_500)):
        again = assembled(scratch, 16_000, window=made.window, now=f"round {number}")
        assert (again.digest, again.window) == (made.digest, made.window)
        kept = [fate for fate in again.fates if fate.fate != "dropped"]
        assert kept == [fate for fate in made.fates if fate.fate != "dropped"]
        scratch.append(bulky(2 * number + 2, 1_500))


def test_each_block_says_what_became_of_it_and_why() -> None:  # A2
    made = assembled(SCRATCH, 9_000)
    fates = [(one.layer, one.fate) for one in made.fates]
    dropped = made.report.dropped_exchanges
    assert fates == [
        ("fixed", "kept"),
        ("task", "kept"),
        *[("scratch", "dropped")] * dropped,
        *[("scratch", "shrunk")] * (19 - dropped),
        ("scratch", "kept"),
        ("task", "kept"),
    ]
    assert all(one.why for one in made.fates)
    assert "9000 characters" in made.fates[2].why
    whole = sum(CHARACTERS.part(one) for one in SCRATCH[0].messages)
    assert (made.fates[2].block, made.fates[2].before, made.fates[2].after) == (
        2,
        whole,
        0,
    )
    shrunk = made.fates[2 + dropped]
    assert shrunk.before == whole + 2 > shrunk.after > 0  # its id has a digit more
    kept = sum(one.after for one in made.fates)
    assert kept < made.report.after < kept + 400


def test_a_newest_exchange_that_alone_is_too_much_is_referenced() -> None:
    huge = bulky(2, 20_000)
    rules: dict[str, Any] = {"limit": 16_000, "window": Window()}
    made = assemble_shrinking(
        FIXED, STABLE, [huge], moving(), [OPENER], known=Known([OPENER]), **rules
    )
    (fate,) = [one for one in made.fates if one.layer == "scratch"]
    assert (fate.fate, fate.evidence) == ("referenced", "op2")
    assert fate.before > 20_000 > fate.after
    assert 'read_evidence(id="op3")' in results(made)[0]
    with pytest.raises(ContextBudgetError, match="newest exchange do not fit"):
        assemble(FIXED, STABLE, [huge], moving(), [OPENER], **rules)


def test_an_appended_exchange_costs_only_its_own_measuring() -> None:
    class Counting:
        name = "characters"
        parts: list[Any] = []  # noqa: RUF012 - one instance

        def part(self, value: Any) -> int:
            self.parts.append(value)
            return CHARACTERS.part(value)

        def total(self, messages: int, content: int, schemas: int) -> int:
            return CHARACTERS.total(messages, content, schemas)

    measure = Counting()
    known = Known([OPENER], measure)
    scratch = [bulky(number) for number in range(2, 42, 2)]
    assembled(scratch, 10**6, known=known)
    measure.parts.clear()
    scratch.append(bulky(42))
    assembled(scratch, 10**6, known=known, now="later")
    new = [*scratch[-1].messages, user("later"), [OPENER]]
    assert sorted(map(canonical, measure.parts)) == sorted(map(canonical, new))


def test_a_block_that_changed_under_its_id_is_measured_again() -> None:
    known = Known()
    (before,) = known.sized([bulky(2, 100)])
    (after,) = known.sized([bulky(2, 200)])
    assert after[0].size == before[0].size + 100


def test_a_malformed_block_is_named() -> None:
    bad = Block(id=7, layer="scratch", origin="model", evidence="op7", messages=({},))
    with pytest.raises(ContextBudgetError, match=r"block 7 \(scratch, op7\)"):
        Known().sized([bad])
    with pytest.raises(ContextBudgetError, match="block 0"):
        Known().sized(
            [Block(id=0, layer="fixed", origin="a", messages=(system(""), {}))]
        )


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("op12", 12),
        ("12", 12),
        ("t-1:12", 12),
        (" op12#2 ", 12),
        ("t-2:12", None),
        ("op", None),
        ("op-1", None),
        ("", None),
        ("op" + "9" * 400, None),
    ],
)
def test_an_operation_is_named_as_requests_name_it(name: str, op: int | None) -> None:
    assert named_op(name, "t-1") == op


def test_what_was_read_again_is_referenced_to_its_first_evidence() -> None:
    assert source_of("read_evidence", '{"id": "op12", "start": 4000}', 30) == "op12"
    assert source_of("read_evidence", '{"id": "?"}', 30) == "op30"
    assert source_of("read_evidence", "[", 30) == "op30"
    assert source_of("look", '{"id": "op12"}', 30) == "op30"
