"""Few rows lead to every outcome of a ledger, in a bounded stretch of its stream."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.events import EVENTS, EffectRecorded, EffectRegistered, Event
from perdure.actors.ledger.entry import LedgerState, apply
from perdure.actors.ledger.places import (
    BLOCK,
    PAGE,
    newest_recorded,
    outcome_of,
    place_rows,
)
from perdure.actors.ledger.trimmed import emptied
from perdure.actors.names import ledger
from perdure.storage.codec import Codec
from perdure.storage.records import Record

CODEC = Codec(EVENTS)
TASK = "t-1"


class Ledger:
    """A ledger's stream with its rows, and a reader of both that counts."""

    def __init__(self) -> None:
        self.state = LedgerState()
        self.rows: dict[str, bytes] = {}
        self.records: list[Record] = []
        self.read = 0

    def append(self, *events: Event) -> None:
        for row in place_rows(TASK, self.state, events):
            assert row.value is not None
            self.rows[row.key] = row.value
        for event in events:
            name, version, body = CODEC.encode(event)
            self.records.append(
                Record(
                    seq=3 * len(self.records) + 10,
                    stream=ledger(TASK),
                    version=len(self.records) + 1,
                    type=name,
                    schema_version=version,
                    codec="json",
                    at=0.0,
                    epoch=1,
                    incarnation=1,
                    body=body,
                    checksum=0,
                )
            )
            self.state = apply(self.state, event)

    def row(self, space: str, key: str) -> bytes | None:
        return self.rows.get(key)

    def head(self, stream: str) -> int:
        return len(self.records)

    def stretch(self, stream: str, after: int, limit: int) -> list[Record]:
        page = self.records[after : after + limit]
        self.read += len(page)
        return page

    def outcome(self, op: int) -> Any:
        found = outcome_of(self, CODEC.decode, TASK, op)  # type: ignore[arg-type]  # as a reader
        return None if found is None else (found.name, found.event.result)


def began(op: int, attempt: int = 1, **more: Any) -> EffectRegistered:
    fields = {"step": "s", "name": f"tool-{op}", "key": str(op), "not_after": 9.0}
    return EffectRegistered(op=op, attempt=attempt, **{**fields, **more})


def ended(op: int, attempt: int = 1, **more: Any) -> EffectRecorded:
    return EffectRecorded(op=op, attempt=attempt, result=f"{op}/{attempt}", **more)


def test_operations_one_after_the_other_have_one_row_in_many() -> None:
    kept = Ledger()
    for op in range(1, 1_001):
        kept.append(began(op))
        kept.append(ended(op))
    assert len(kept.rows) == 1_000 // BLOCK
    for op in range(1, 1_001):
        kept.read = 0
        assert kept.outcome(op) == (f"tool-{op}", f"{op}/1")
        assert kept.read <= 2 * PAGE
    assert kept.outcome(1_001) is None
    assert newest_recorded(kept, TASK) == 1_000  # type: ignore[arg-type]  # as a reader


def test_an_outcome_that_came_far_behind_is_found_at_once() -> None:
    kept = Ledger()
    kept.append(began(1))
    for op in range(2, 2_000):
        kept.append(began(op), ended(op))
    assert kept.outcome(1) is None
    kept.append(ended(1))
    kept.read = 0
    assert kept.outcome(1) == ("tool-1", "1/1")
    assert kept.read == 1


def test_a_call_that_waited_for_its_approval_is_found_behind_others() -> None:
    kept = Ledger()
    for op in [*range(1, 70), *range(71, 200)]:
        kept.append(began(op), ended(op))
    kept.append(began(70))
    assert kept.outcome(70) is None
    kept.append(ended(70))
    assert kept.outcome(70) == ("tool-70", "70/1")


def test_what_a_person_said_later_takes_the_place_of_an_unknown_outcome() -> None:
    kept = Ledger()
    kept.append(began(1), ended(1, status="unknown"), began(2), ended(2))
    kept.append(EffectRecorded(op=1, result="it did", by="person"))
    assert kept.outcome(1) == ("tool-1", "it did")


def test_the_outcome_of_the_last_attempt_counts() -> None:
    kept = Ledger()
    kept.append(began(1), ended(1, status="failed"))
    kept.append(began(1, attempt=2), ended(1, attempt=2))
    assert kept.outcome(1) == ("tool-1", "1/2")


def test_a_ledger_that_begins_late_finds_its_own() -> None:
    """A fork's operations go on behind its source's."""
    kept = Ledger()
    for op in range(301, 400):
        kept.append(began(op), ended(op))
    assert kept.outcome(350) == ("tool-350", "350/1")
    assert kept.outcome(300) is None


def test_an_outcome_without_its_words_is_none_any_more() -> None:
    kept = Ledger()
    kept.append(began(1, kind="model"), ended(1))
    assert kept.outcome(1) == ("tool-1", "1/1")
    bare = Ledger()
    bare.append(emptied(began(1, kind="model")), emptied(ended(1)))
    assert bare.outcome(1) is None


def test_nothing_is_recorded_while_all_is_open() -> None:
    kept = Ledger()
    kept.append(*(began(op) for op in range(1, 3 * PAGE)))
    assert newest_recorded(kept, TASK) == 0  # type: ignore[arg-type]  # as a reader


@given(seed=st.integers(0, 2**32), many=st.sampled_from([5, 80, 400]))
def test_every_newest_outcome_is_found_in_whatever_order_they_came(
    seed: int, many: int
) -> None:
    chance, kept = random.Random(seed), Ledger()
    expected: dict[int, str] = {}
    attempts: dict[int, int] = {}
    waiting = [op for op in range(1, many) if chance.random() < 0.9]
    running: list[int] = []
    while waiting or running:
        if waiting and (not running or chance.random() < 0.5):
            late = chance.random() < 0.05
            op = waiting.pop(chance.randrange(len(waiting)) if late else 0)
            attempts[op] = attempts.get(op, 0) + 1
            kept.append(began(op, attempt=attempts[op]))
            running.append(op)
            continue
        op = running.pop(chance.randrange(len(running)))
        again = chance.random() < 0.1
        done = ended(op, attempts[op], status="failed" if again else "completed")
        kept.append(done)
        expected[op] = done.result
        if again:
            waiting.insert(chance.randrange(3), op)
    for op in range(1, many + 1):
        found = kept.outcome(op)
        assert (found and found[1]) == expected.get(op)


@pytest.mark.parametrize("together", [True, False])
def test_a_call_answered_by_the_record_is_found(together: bool) -> None:
    kept = Ledger()
    events = [began(1, reused=1), ended(1, by="record")]
    if together:
        kept.append(*events)
    else:
        for event in events:
            kept.append(event)
    assert not kept.rows
    assert kept.outcome(1) == ("tool-1", "1/1")
