"""Ready-made acceptance: what each passes, refuses, records, and what builds none."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Misuse, View
from perdure.accept import Verdict, all_of, any_of, file, judge, regex, rows, schema
from perdure.actors.acceptance import Accept, AllOf, AnyOf, ModelJudge
from perdure.actors.accepting import matching
from perdure.actors.accepting.combine import part_at, settled
from perdure.actors.accepting.hung import Hung
from perdure.actors.accepting.ruling import verdict_of

VIEW = View(task="t", step="s", goal="g", inputs={}, facts={})


class Report(msgspec.Struct):
    title: str
    rows: Annotated[int, msgspec.Meta(ge=1)]


# ── schema ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"title": "a", "rows": 2}, ""),
        ({"title": "a", "rows": "2"}, "Expected `int`, got `str`"),
        ({"title": "a", "rows": 0}, "Expected `int` >= 1"),
        ({"title": "a"}, "missing required field `rows`"),
        ("words", "Expected `object`, got `str`"),
    ],
)
def test_a_schema_takes_what_fits_and_coerces_nothing(result: Any, why: str) -> None:
    verdict = schema(Report)(result, VIEW)
    assert verdict.ok is not bool(why)
    assert why in verdict.why


def test_a_schema_takes_an_instance_too() -> None:
    assert schema(Report)(Report(title="a", rows=2), VIEW).ok


@pytest.mark.parametrize("of", [{"type": "object"}, 3, int | Report | dict])
def test_what_is_no_type_is_refused(of: Any) -> None:
    with pytest.raises(Misuse, match="schema"):
        schema(of)


# ── regex ──────────────────────────────────────────────────────────────────────


def test_a_pattern_is_searched_for_and_what_was_found_is_evidence() -> None:
    verdict = regex(r"(\d+) rows", field="report.title")(
        {"report": {"title": "all 12 rows"}}, VIEW
    )
    assert verdict == Verdict(
        ok=True, evidence={"pattern": r"(\d+) rows", "found": "12 rows"}
    )
    assert not regex("^x$")("y", VIEW).ok
    assert regex('"a": ?3')({"a": 3}, VIEW).ok


def test_a_field_that_is_not_there_is_no_pass() -> None:
    for field in ("b", "a.b", "c.1", "c.x"):
        verdict = regex(".", field=field)({"a": 1, "c": ["x"]}, VIEW)
        assert verdict.why == f"the result has no field {field!r}"


def test_a_pattern_that_never_ends_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Within this process it would hold every thread up, this test's own too.
    monkeypatch.setattr(matching, "SECONDS", 0.3)
    turns = 0
    over = threading.Event()

    def other() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        verdict = regex("^(a+)+$")("a" * 40 + "b", VIEW)
    finally:
        over.set()
        thread.join()
    assert isinstance(verdict, Hung) and not verdict.ok
    assert turns > 20


def test_a_search_ends_by_itself_once_we_are_gone() -> None:
    # Nobody is left to end it: an alarm does, and no handler of ours stands in its way.
    search = matching.SEARCH.replace("signal.alarm(", "signal.setitimer(0, 0.2 + 0 * (")
    search = search.replace("+ 1)", "+ 1))")
    asked = json.dumps({"pattern": "^(a+)+$", "text": "a" * 40 + "b", "shown": 1})
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", search],
        input=asked.encode(),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == -14


@pytest.mark.parametrize("pattern", ["(", 3, b"x", None])
def test_what_is_no_pattern_is_refused(pattern: Any) -> None:
    with pytest.raises(Misuse, match="pattern="):
        regex(pattern)


@pytest.mark.parametrize("field", ["", "a..b", 3])
def test_what_is_no_path_of_a_field_is_refused(field: Any) -> None:
    with pytest.raises(Misuse, match="field="):
        regex("x", field=field)


# ── file ───────────────────────────────────────────────────────────────────────


def test_a_file_is_there_with_the_digest_that_is_stated(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("hello")
    has = hashlib.sha256(b"hello").hexdigest()
    check = file(field="path", root=tmp_path, digest_field="sha")
    verdict = check({"path": "r.txt", "sha": has.upper()}, VIEW)
    assert verdict.ok
    assert verdict.evidence == {"path": "r.txt", "size": 5, "sha256": has}
    refused = check({"path": "r.txt", "sha": "0" * 64}, VIEW)
    assert not refused.ok and has in refused.why
    assert not check({"path": "r.txt"}, VIEW).ok
    assert not file("r.txt", root=tmp_path, digest="0" * 64)("x", VIEW).ok
    assert file("r.txt", root=tmp_path, digest=has)("x", VIEW).ok


def test_a_file_outside_its_folder_is_not_looked_at(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "s").write_text("secret")
    (inside / "link").symlink_to(outside / "s")
    (inside / "folder").symlink_to(outside)
    check = file(field="path", root=inside)
    for named in ("../out/s", str(outside / "s"), "link", "folder/s", "/etc/passwd"):
        verdict = check({"path": named}, VIEW)
        assert not verdict.ok and "outside" in verdict.why
        assert "sha256" not in verdict.evidence


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "r")
    assert file("link", root=tmp_path)("", VIEW).ok


@pytest.mark.parametrize("named", ["", "no", ".", "pipe", 3, "a\0b", "\ud800", "loop"])
def test_what_is_no_regular_file_is_refused_without_waiting(
    tmp_path: Path, named: Any
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    verdict = verdict_of(file(field="path", root=tmp_path)({"path": named}, VIEW))
    assert not verdict.ok
    msgspec.json.encode(verdict)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"path": None}, "one of them"),
        ({"path": "a", "field": "b"}, "one of them"),
        ({"path": ""}, "path="),
        ({"path": "a", "digest": "abc"}, "digest="),
        ({"path": "a", "digest": "0" * 64, "digest_field": "x"}, "leave one out"),
        ({"path": "a", "digest_field": ""}, "digest_field="),
        ({"path": "a", "root": ""}, "root="),
    ],
)
def test_what_names_no_file_is_refused_when_built(
    given_: dict[str, Any], message: str
) -> None:
    with pytest.raises(Misuse, match=message):
        file(**{"root": "/tmp", **given_})


# ── rows ───────────────────────────────────────────────────────────────────────


def test_rows_of_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('x,y\n1,"two\nlines"\n\n3,4\n')
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n[2]\n3\n')
    check = rows("a.csv", root=tmp_path, exactly=2)
    assert check("", VIEW) == Verdict(ok=True, evidence={"path": "a.csv", "rows": 2})
    assert rows("a.jsonl", root=tmp_path, at_least=3, at_most=3)("", VIEW).ok
    few = rows("a.csv", root=tmp_path, at_least=3)("", VIEW)
    assert few.why == "there are 2 rows, fewer than 3"
    many = rows(field="path", root=tmp_path, at_most=2)({"path": "a.jsonl"}, VIEW)
    assert many.why == "there are 3 rows, more than 2"
    assert many.evidence == {"path": "a.jsonl", "rows": 3}


def test_what_the_result_says_of_its_rows_must_be_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    check = rows("a.csv", root=tmp_path, stated="n")
    assert check({"n": 2}, VIEW).ok
    for said in (3, "2", True, None):
        assert not check({"n": said}, VIEW).ok
    assert not check({}, VIEW).ok


def test_a_function_of_the_host_counts(tmp_path: Path) -> None:
    check = rows(lambda result, view: len(result), exactly=2)
    assert check([1, 2], VIEW).evidence == {"rows": 2}
    assert not check([1], VIEW).ok
    broken: Any = rows(lambda result, view: "2", exactly=2)
    with pytest.raises(TypeError, match="answered str"):
        broken([1, 2], VIEW)


@pytest.mark.parametrize(
    "name",
    ["no.csv", "a.txt", "bad.jsonl", "bad.csv", "../a.csv"],
)
def test_what_cannot_be_counted_is_no_pass(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n{\n")
    (tmp_path / "bad.csv").write_bytes(b"a\n\xff\xfe\n")
    (tmp_path / "a.txt").write_text("a\nb\n")
    check = rows(field="path", root=tmp_path, at_least=0)
    assert not check({"path": name}, VIEW).ok


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"source": "a.csv", "root": "/tmp"}, "give at_least="),
        ({"source": "a.csv", "exactly": 1}, "root="),
        ({"source": "a.txt", "root": "/tmp", "exactly": 1}, "must end with"),
        ({"source": "a.csv", "root": "/tmp", "exactly": True}, "exactly="),
        ({"source": "a.csv", "root": "/tmp", "at_least": -1}, "at_least="),
        ({"source": len, "root": "/tmp", "exactly": 1}, "a function counts"),
        ({"root": "/tmp", "exactly": 1}, "one of them"),
    ],
)
def test_rows_that_are_not_clear_are_refused(
    given_: dict[str, Any], message: str
) -> None:
    with pytest.raises(Misuse, match=message):
        rows(**given_)


# ── together ───────────────────────────────────────────────────────────────────

LEAVES = st.one_of(
    st.integers(0, 9).map(lambda n: schema(Annotated[int, msgspec.Meta(ge=n)])),
    st.text("ab", min_size=1).map(judge),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda make, parts: make(*parts),
        st.sampled_from([all_of, any_of]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


def plainly(accept: Accept, says: dict[int, bool]) -> bool:
    match accept:
        case AllOf(parts):
            return all(plainly(part, says) for part in parts)
        case AnyOf(parts):
            return any(plainly(part, says) for part in parts)
    return says[id(accept)]


def leaves(accept: Accept) -> list[Accept]:
    if isinstance(accept, AllOf | AnyOf):
        return [leaf for part in accept.parts for leaf in leaves(part)]
    return [accept]


@given(TREES, st.data())
def test_parts_decide_as_all_and_any_do(tree: Accept, data: st.DataObject) -> None:
    says = {id(one): data.draw(st.booleans()) for one in leaves(tree)}
    said: dict[tuple[int, ...], Verdict] = {}
    order: list[Accept] = []
    while not isinstance(found := settled(tree, said), Verdict):
        assert found not in said  # nobody is asked twice
        order.append(part_at(tree, found))
        said[found] = Verdict(ok=says[id(order[-1])], why="no")
    assert found.ok == plainly(tree, says)


@given(st.lists(LEAVES, min_size=1, max_size=6))
def test_models_are_asked_last(parts: list[Accept]) -> None:
    tree, said = all_of(*parts), {}
    asked = []
    while not isinstance(found := settled(tree, said), Verdict):
        asked.append(isinstance(part_at(tree, found), ModelJudge))
        said[found] = Verdict(ok=True)
    assert asked == sorted(asked)
    assert len(asked) == len(parts)


@pytest.mark.parametrize("parts", [(), (None,), (3,), ("x",)])
@pytest.mark.parametrize("make", [all_of, any_of])
def test_parts_that_cannot_judge_are_refused(make: Any, parts: Any) -> None:
    with pytest.raises(Misuse, match=make.__name__):
        make(*parts)


def test_too_many_levels_are_refused() -> None:
    tree: Any = schema(int)
    for _ in range(8):
        tree = all_of(tree)
    with pytest.raises(Misuse, match="levels"):
        all_of(tree)


# ── what goes on record ────────────────────────────────────────────────────────


class Odd:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "evidence",
    [{"a": Odd()}, {"a": float("nan")}, {"a": "\ud800"}, [1], {"a": {1, 2}}, {1: 2}],
)
def test_evidence_is_always_storable(evidence: Any) -> None:
    verdict = verdict_of(Verdict(ok=True, evidence=evidence))
    assert verdict.ok
    assert isinstance(verdict.evidence, dict)
    msgspec.json.encode(verdict)


@pytest.mark.parametrize("why", ["\ud800", "x" * 5_000, 3, None])
def test_a_reason_is_always_storable(why: Any) -> None:
    verdict = verdict_of(Verdict(ok=False, why=why))
    assert verdict.why and len(verdict.why) <= 1_000
    msgspec.json.encode(verdict)
