from __future__ import annotations

from perdure import Baseline
from perdure.actors.admission.strikes import why_park
from perdure.storage.records import Record

NOW = 1_700_000_000.0
RULES = Baseline()


def records(*kinds: str, at: float = NOW) -> list[Record]:
    return [
        Record(
            seq=version,
            stream="task/t/recovery",
            version=version,
            type=kind,
            schema_version=1,
            codec="json",
            at=at,
            epoch=1,
            incarnation=1,
            body=b"{}",
            checksum=0,
        )
        for version, kind in enumerate(kinds, 1)
    ]


def test_a_sixth_recovery_in_vain_is_one_too_many() -> None:
    # R24
    assert why_park(records(*["RecoveryBegan"] * 4), now=NOW, rules=RULES) == ""
    assert why_park(records(*["RecoveryBegan"] * 5), now=NOW, rules=RULES) == (
        "crash loop: 5 recoveries without progress"
    )


def test_progress_begins_the_count_anew() -> None:
    kinds = [*["RecoveryBegan"] * 5, "ProgressMade", *["RecoveryBegan"] * 4]
    assert why_park(records(*kinds), now=NOW, rules=RULES) == ""


def test_a_twenty_first_recovery_within_an_hour_is_one_too_many() -> None:
    kinds = ["RecoveryBegan", "ProgressMade"] * 20
    assert why_park(records(*kinds), now=NOW, rules=RULES) == (
        "crash loop: 20 recoveries within an hour"
    )
    later = NOW + 3600.0
    assert why_park(records(*kinds), now=later, rules=RULES) == ""
    assert why_park(records(*kinds[2:]), now=NOW, rules=RULES) == ""


def test_whoever_has_it_go_on_gives_both_counts_back() -> None:
    in_vain = [*["RecoveryBegan"] * 5, "RecoveriesForgiven"]
    often = [*["RecoveryBegan", "ProgressMade"] * 20, "RecoveriesForgiven"]
    for kinds in (in_vain, often):
        assert why_park(records(*kinds), now=NOW, rules=RULES) == ""
